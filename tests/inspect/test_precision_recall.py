import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.inspect.chapters import wilson


def test_wilson_intervals_are_those_of_the_tables():
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)  # Newcombe 1998, by formula
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 10**6), st.data())
def test_a_wilson_interval_holds_the_share_within_0_and_1(total, data):
    successes = data.draw(st.integers(0, total))
    low, high = wilson(successes, total)
    assert 0 <= low <= successes / total <= high <= 1
    mirrored = wilson(total - successes, total)
    assert (1 - high, 1 - low) == pytest.approx(mirrored)
