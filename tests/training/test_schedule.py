import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.training.schedule import rate

KINDS = ["cosine", "linear", "wsd", "noam", "constant"]


def rates(kind, warmup=4, steps=25, lowest=0.1):
    return [
        rate(step, kind=kind, warmup_steps=warmup, max_steps=steps, min_rate=lowest)
        for step in range(steps)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_rate_rises_in_a_line_and_never_starts_at_zero(kind):
    assert rates(kind)[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


@pytest.mark.parametrize("kind", KINDS)
def test_without_warm_up_the_first_step_has_the_full_rate(kind):
    assert rates(kind, warmup=0)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_the_rate_falls_so_that_the_step_after_the_last_would_have_the_lowest(kind):
    falling = rates(kind, steps=24)[4:]
    assert falling == sorted(falling, reverse=True)
    assert (falling[0], falling[10]) == pytest.approx((1.0, 0.55))
    assert falling[19] > 0.1
    assert rate(24, kind=kind, warmup_steps=4, max_steps=24, min_rate=0.1) == pytest.approx(0.1)


def test_a_cosine_stays_high_longer_than_a_line_and_low_longer_too():
    cosine, line = rates("cosine", steps=24), rates("linear", steps=24)
    assert cosine[9] == pytest.approx(0.1 + 0.9 * (1 + 0.5**0.5) / 2)
    assert cosine[9] > line[9]
    assert cosine[19] < line[19]


def test_wsd_stays_and_then_falls_in_a_line():
    falling = rates("wsd", steps=24)[4:]
    assert falling[:13] == pytest.approx([1.0] * 13)
    assert (falling[16], falling[18]) == pytest.approx((0.55, 0.325))


def test_noam_falls_with_the_root_of_the_step():
    assert rates("noam", warmup=4)[4:] == pytest.approx(
        [(5 / step) ** 0.5 for step in range(5, 26)]
    )


def test_a_constant_rate_stays():
    assert rates("constant")[4:] == pytest.approx([1.0] * 21)


def test_after_the_last_step_the_rate_stays_the_lowest():
    options = {"warmup_steps": 4, "max_steps": 25, "min_rate": 0.1}
    assert rate(1000, kind="cosine", **options) == pytest.approx(0.1)


@given(
    st.sampled_from(KINDS),
    st.integers(0, 9),
    st.integers(1, 12),
    st.floats(0, 1),
    st.integers(0, 30),
)
def test_every_rate_is_above_zero_and_at_most_one(kind, warmup, steps, lowest, step):
    found = rate(step, kind=kind, warmup_steps=warmup, max_steps=steps, min_rate=lowest)
    assert 0 <= found <= 1 + 1e-12
    if step < steps:
        assert found > 0
