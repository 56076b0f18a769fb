"""How scores depend on a number: each is drawn in its own unit, with what it was computed from."""

import numpy as np
import pytest

from glassformer.inspect.chapters import mean_interval, trend
from glassformer.tasks.translate.scores import ScoredTranslation, examine_translations


def test_shares_and_scores_up_to_a_hundred_have_the_same_intervals() -> None:
    lengths, shares = list(range(40)), np.linspace(0.1, 0.6, 40).tolist()
    names = ("length", "score")
    (share,) = trend("t", lengths, shares, names, "", "text")
    (score,) = trend("t", lengths, [100 * each for each in shares], names, "", "text", most=100)
    assert (share.data["is_share"], share.data["most"]) == (True, None)
    assert (score.data["is_share"], score.data["most"]) == (False, 100)
    for one, other in zip(share.data["points"], score.data["points"], strict=True):
        assert (one["x"], one["count"]) == (other["x"], other["count"])
        for key in ("y", "low", "high"):
            assert other[key] == pytest.approx(100 * one[key])


def test_a_mean_of_shares_stays_one() -> None:
    assert mean_interval([1.0, 1.0])[1] == 1


def test_chrf_by_length_is_from_0_to_100_and_counts_sentences() -> None:
    found = [
        ScoredTranslation(" ".join(["word"] * (n + 1)), ("a",), "b", 10.0 + n) for n in range(20)
    ]
    seen = examine_translations(found, len(found))
    (chapter,) = (each for each in seen.chapters if each.picture == "trend")
    assert (chapter.data["y"], chapter.data["what"]) == ("mean chrF", "sentence")
    assert all(10 <= point["y"] <= 30 for point in chapter.data["points"])
    assert [answer.score for answer in seen.answers] == [each.score / 100 for each in found]
