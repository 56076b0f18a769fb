"""What is held out never leaks into training, and all of its labels can be learned."""

from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.splits import hold_out


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sets(st.sampled_from("abc"))), max_size=60),
    st.integers(0, 5),
)
def test_whatever_is_held_out_can_be_learnt(items: list[tuple[int, set[str]]], seed: int) -> None:
    contents = [str(content).encode() for content, _ in items]
    chosen = hold_out(contents, [labels for _, labels in items], 0.1, seed)
    rest = set(range(len(items))) - chosen
    assert not {contents[i] for i in chosen} & {contents[i] for i in rest}
    assert {label for i in chosen for label in items[i][1]} <= {
        label for i in rest for label in items[i][1]
    }
    assert not items or rest
