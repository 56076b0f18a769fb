"""How closely a head follows a rule, on attention made by hand."""

import numpy as np
import pytest

from glassformer.inspect.heads import head_patterns, rules_for

IDS = [7, 8, 9, 7, 8]  # position 3 repeats 0, position 4 repeats 1


def one_hot(keys: list[int]) -> np.ndarray:
    weights = np.zeros((1, 1, len(keys), len(keys)), dtype=np.float32)
    weights[0, 0, np.arange(len(keys)), keys] = 1
    return weights


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("previous token", [0, 0, 1, 2, 3]),
        ("itself", [0, 1, 2, 3, 4]),
        ("first token", [0, 0, 0, 0, 0]),
        ("after the same token", [0, 0, 0, 1, 2]),  # 8 followed 7, and 9 followed 8
    ],
)
def test_a_head_that_follows_a_rule_has_a_share_of_one(name: str, keys: list[int]) -> None:
    found = {each.name: each for each in head_patterns(one_hot(keys), IDS, is_causal=True)}
    assert found[name].shares.shape == (1, 1)
    assert found[name].shares.item() == 1
    assert found["previous token"].shares.item() == (
        1
        if name == "previous token"
        else pytest.approx(np.mean([keys[query] == query - 1 for query in range(1, 5)]))
    )


def test_a_head_that_attends_to_all_alike_has_the_share_of_even_attention() -> None:
    for is_causal in (True, False):
        seen = np.tri(5) if is_causal else np.ones((5, 5))
        weights = (seen / seen.sum(-1, keepdims=True)).astype(np.float32)[None, None]
        patterns = head_patterns(weights, IDS, is_causal)
        assert len(patterns) == (4 if is_causal else 5)
        for each in patterns:
            assert each.shares.item() == pytest.approx(each.evenly, rel=1e-6)


def test_rules_without_an_answer_are_left_out() -> None:
    assert "after the same token" not in rules_for([1, 2, 3], is_causal=True)
    assert "next token" not in rules_for([1, 2, 3], is_causal=True)
    assert "next token" in rules_for([1, 2, 3], is_causal=False)
    assert rules_for([1], is_causal=True) == {}
    assert head_patterns(one_hot([0]), [1], is_causal=True) == []


def test_a_token_twice_in_a_row_is_not_its_own_successor() -> None:
    places = rules_for([5, 5, 5], is_causal=True)["after the same token"]
    assert not np.diag(places).any()
    assert places[2].tolist() == [False, True, False]
