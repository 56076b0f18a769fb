"""The notebook on bags of words: pooling, TF-IDF, intervals, and what a bag cannot see."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.course.checking import (
    Solution,
    Wrong,
    check_same_but,
    exercise,
    final_scores,
    finished_run,
    first_difference,
    is_close,
)
from glassformer.inspect.chapters import wilson
from glassformer.nn.pooling import pool


@exercise
def mean_pooling(function: Solution) -> None:
    """The mean of the vectors of a text, without its padding"""
    for lengths, width in (([5, 2, 3], 4), ([1, 4], 3)):
        longest = max(lengths)
        vectors = torch.randn(len(lengths), longest, width)
        is_text = torch.arange(longest) < torch.tensor(lengths)[:, None]
        found = function.tensor(vectors, is_text, shape=(len(lengths), width))
        real = vectors.masked_fill(~is_text[..., None], 0)
        if is_close(found, pool(vectors, is_text)):
            continue
        if is_close(found, vectors.mean(1)):
            raise Wrong(
                "padding has a share in the mean",
                "a text must have the same vector whatever its neighbours in the batch are.",
            )
        if is_close(found, real.mean(1)):
            raise Wrong(
                "the sum leaves out padding, but it is divided by the length with padding",
                "how many real tokens has each text?",
            )
        if is_close(found, real.sum(1)):
            raise Wrong("it is the sum, not the mean")
        if is_close(found, vectors.masked_fill(is_text[..., None], 0).sum(1)):
            raise Wrong("it adds the padding, not the text", "True means: here is a token.")
        row = first_difference(found, pool(vectors, is_text))[0]
        raise Wrong(
            f"the vector of text {row}, of {lengths[row]} tokens, is not their mean",
            "how many real tokens has each text?",
        )
    vectors, is_text = torch.randn(2, 3, 4), torch.tensor([[True] * 3, [False] * 3])
    found = function.tensor(vectors, is_text, shape=(2, 4))
    if found.isnan().any() or not is_close(found, pool(vectors, is_text)):
        raise Wrong("the mean of a text without tokens is not 0", "0 / 0 is NaN.")
    vectors[0, 2], is_text = torch.inf, torch.tensor([[True, True, False], [True] * 3])
    if function.tensor(vectors, is_text, shape=(2, 4)).isnan().any():
        raise Wrong(
            "a padding of ∞ spoils the mean",
            "0 · ∞ is NaN: replace the padding, do not multiply it.",
        )


@exercise
def accuracy_interval(function: Solution) -> None:
    """Wilson's 95% interval of an accuracy"""
    for right, total in ((240, 300), (9, 10), (1, 40)):
        found = function(right, total)
        if isinstance(found, Tensor):
            found = found.tolist()
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise Wrong("it does not return two numbers", "return low, high.")
        low, high = (float(each) for each in found)
        wanted = wilson(right, total)
        if _near((low, high), wanted):
            continue
        p = right / total
        wald, given = 1.96 * math.sqrt(p * (1 - p) / total), f"for {right} of {total}"
        if _near((low, high), (p - wald, p + wald)):
            raise Wrong(f"{given} it is the simpler interval, p ± z √(p (1 − p) / n)")
        if _near((high, low), wanted):
            raise Wrong("the lower end comes last")
        if not low <= p <= high:
            raise Wrong(
                f"{given} it is {low:.3f} to {high:.3f}, without the accuracy {p:.3f} itself",
                "compare with the formula, term by term.",
            )
        hint = "compare with the formula, term by term."
        middle = (p + 1.96**2 / (2 * total)) / (1 + 1.96**2 / total)
        if not math.isclose((low + high) / 2, middle, abs_tol=1e-4):
            hint = "look at what stands before ±, and at the denominator."
        elif high - low < (wanted[1] - wanted[0]) / 1.5:
            hint = "is z in front of the root?"
        raise Wrong(
            f"{given} it is {low:.4f} to {high:.4f}, not {wanted[0]:.4f} to {wanted[1]:.4f}", hint
        )
    for right in (0, 5):
        low, high = (float(each) for each in function(right, 5))
        if not (-1e-6 <= low <= high <= 1 + 1e-6) or low == high:
            raise Wrong(
                f"for {right} of 5 it is {low:.3f} to {high:.3f}", "five answers prove little."
            )


def _near(found: tuple[float, float], wanted: tuple[float, float]) -> bool:
    """Whatever digits z has."""
    return all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(found, wanted, strict=True))


@exercise
def idf(function: Solution) -> None:
    """Inverse document frequency: the fewer texts have a word, the more it says"""
    for texts, words in ((6, 5), (3, 4)):
        counts = torch.randint(0, 4, (texts, words)).float()
        counts[:, 0], counts[0, 1] = 0, 3
        found = function.tensor(counts, shape=(words,))
        having = (counts > 0).sum(0)
        wanted = _idf(texts, having)
        if is_close(found, wanted):
            continue
        if found.isinf().any() or found.isnan().any():
            raise Wrong("a word that no text has gives ∞", "what does the 1 + below the line do?")
        if is_close(found, _idf(texts, counts.sum(0))):
            raise Wrong(
                "it counts how often a word occurs, not how many texts have it",
                "a word that one text has three times is in one text.",
            )
        if is_close(found, wanted - 1):
            raise Wrong("the 1 + in front is missing", "a word that all texts have still counts.")
        if is_close(found, 2 - wanted):
            raise Wrong("rare words count less than frequent ones", "which of the two is above?")
        if is_close(found, 1 + (wanted - 1) / math.log(2)):
            raise Wrong("its logarithm has the base 2", "ln is the natural logarithm, torch.log.")
        if is_close(found, _idf(words, having)):
            raise Wrong("N is the number of words", "it is the number of texts, the rows.")
        place = first_difference(found, wanted)[0]
        raise Wrong(
            f"for a word in {int(having[place])} of {texts} texts it is {found[place]:.4f}, not "
            f"{wanted[place]:.4f}",
            "compare with the formula, term by term.",
        )


def _idf(texts: int, having: Tensor) -> Tensor:
    return 1 + ((1 + texts) / (1 + having)).log()


@exercise
def tf_idf(function: Solution) -> None:
    """TF-IDF: damped counts, weighted by how rare a word is, as vectors of length 1"""
    for texts, words in ((5, 7), (2, 3)):
        counts = torch.randint(0, 4, (texts, words)).float()
        counts[:, 0], counts[:, 1] = 2, 0
        rarity = 1 + torch.rand(words)
        found = function.tensor(counts, rarity, shape=(texts, words))
        damped = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0.0) * rarity
        wanted = F.normalize(damped, dim=1)
        if is_close(found, wanted):
            continue
        if found.isnan().any() or found.isinf().any():
            raise Wrong(
                "a word that a text does not have gives NaN or ∞",
                "ln 0 is −∞: such words have the value 0, without a logarithm.",
            )
        if is_close(found, damped):
            raise Wrong(
                f"text 0 has the length {found[0].norm():.3f}, not 1",
                "divide each row by its norm.",
            )
        if is_close(found, F.normalize(damped, p=1, dim=1)):
            raise Wrong(
                "the numbers of a text sum to 1, but its length is not 1",
                "the norm is the root of the sum of squares.",
            )
        if is_close(found, F.normalize(damped, dim=0)):
            raise Wrong("columns have the length 1, not rows", "a row is a text.")
        if is_close(found, F.normalize(counts * rarity, dim=1)):
            raise Wrong("the counts are not damped", "what about 1 + ln count?")
        if is_close(found, F.normalize((1 + counts).log() * rarity, dim=1)):
            raise Wrong("the counts are damped by ln(1 + count)", "it is 1 + ln count.")
        if is_close(found, F.normalize(damped / rarity, dim=1)):
            raise Wrong("rare words do not count more", "where is idf?")
        if (found[counts == 0] != 0).any():
            row, column = (int(each) for each in ((found != 0) & (counts == 0)).nonzero()[0])
            raise Wrong(
                f"text {row} does not have word {column}, but its value there is not 0",
                "1 + ln applies only to counts above 0.",
            )
        row, column = first_difference(found, wanted)
        raise Wrong(
            f"the number at [{row}, {column}] is {found[row, column]:.4f}, not "
            f"{wanted[row, column]:.4f}",
            "compare with the formula, factor by factor.",
        )
    counts = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    if function.tensor(counts, torch.ones(2), shape=(2, 2))[1].isnan().any():
        raise Wrong("a text without words gives NaN", "its norm is 0: do not divide by it.")


@exercise
def is_order_blind(function: Solution) -> None:
    """Find out whether a model is blind to the order of words"""
    vectors, place = torch.randn(30, 6), torch.rand(9, 1)
    ids = torch.stack([torch.randperm(30)[:9] for _ in range(4)])

    def near_the_limit(ids: Tensor) -> Tensor:  # the answer is the same, the logits are not
        return vectors[ids].mean(1) * 0.01 + 0.02 * vectors[ids[:, :1]].mean(1) + torch.arange(6.0)

    blind: dict[str, Callable[[Tensor], Tensor]] = {
        "the mean of word vectors": lambda ids: vectors[ids].mean(1),
        "their largest values": lambda ids: vectors[ids].amax(1),
        "a sum, with the errors of rounding": lambda ids: (1000 * vectors[ids]).sum(1) / 1000,
    }
    sighted: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
        "the vector of the last word": (lambda ids: vectors[ids[:, -1]], ""),
        "the vector of the word in the middle": (
            lambda ids: vectors[ids[:, 4]],
            "reversing a text leaves its middle where it is. Try several random orders.",
        ),
        "a mean that weighs words by their place": (
            lambda ids: (place * vectors[ids]).mean(1),
            "",
        ),
        "products of neighbours, around in a circle": (
            lambda ids: (vectors[ids] * vectors[ids.roll(1, 1)]).mean(1),
            "reversing or rotating a text leaves neighbours together. Try random orders.",
        ),
        "logits that change a little while the likeliest label stays": (
            near_the_limit,
            "compare logits, not answers.",
        ),
    }
    for about, model in blind.items():
        if not _answer(function, model, ids):
            raise Wrong(
                f"it returned False for {about}",
                "shuffle the words in each text, not the texts, and allow for rounding.",
            )
    for about, (model, hint) in sighted.items():
        if _answer(function, model, ids):
            hint = hint or "does it compare the logits of shuffled and unshuffled texts?"
            raise Wrong(f"it returned True for {about}", hint)


def _answer(function: Solution, model: Callable[[Tensor], Tensor], ids: Tensor) -> bool:
    found = function(model, ids)
    if isinstance(found, Tensor) and found.numel() == 1:
        found = found.item()
    if not isinstance(found, bool):
        raise Wrong(f"it returned a {type(found).__name__}, not True or False")
    return found


@exercise
def words_in_another_order(run: Any, shuffled_run: Any) -> None:
    """Experiment: a bag learns as much from shuffled words"""
    in_order, in_another = finished_run(run, "bag"), finished_run(shuffled_run, "bag")
    runs = [in_order, in_another]
    for each in runs:
        model = each.recipe().model
        if model.get("ngrams", 2) > 1:
            raise Wrong(
                f"the bag in {each.path} also reads pairs of words, which depend on the order",
                'train with preset="lecture".',
            )
    check_same_but(in_order, in_another, ("data.paths", "data.test_paths"))
    plain, shuffled = (_test_texts(each.path) for each in runs)
    if plain == shuffled:
        raise Wrong("both runs were tested on the same texts", "shuffle the words of one.")
    if [sorted(each.split()) for each in plain] != [sorted(each.split()) for each in shuffled]:
        raise Wrong("the test texts of the runs are not the same words in another order")
    scores = [final_scores(each) for each in runs]
    accuracies = [each["accuracy"] for each in scores]
    for accuracy, other in zip(accuracies, reversed(scores), strict=True):
        low, high = other["accuracy_interval"]
        if not low <= accuracy <= high:
            raise Wrong(
                f"an accuracy of {accuracies[0]:.3f} in order and of {accuracies[1]:.3f} shuffled "
                "are further apart than chance explains",
                "was the bag trained on shuffled texts, too?",
            )


def _test_texts(path: Any) -> list[str]:
    from glassformer.data.rows import JsonLines

    file = path / "data" / "test.jsonl"
    if not file.is_file():
        raise Wrong(f"the run in {path} was not tested", "pass test_data.")
    return [str(row["text"]) for row in JsonLines(file)]
