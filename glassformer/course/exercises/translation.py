"""The notebook on translation: pieces of words, cross-attention, beam search, BLEU."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.course.checking import (
    Solution,
    Wrong,
    exercise,
    expect,
    is_close,
)

# --- byte-pair encoding ---

Pieces = tuple[str, ...]


@exercise
def bpe_merge(function: Solution) -> None:
    """One merge of byte-pair encoding: the most frequent pair becomes one piece"""
    for words in _word_counts():
        best, merged = _pair_and_words(function, words)
        counts: Counter[Pieces] = Counter()
        for pieces, count in words.items():
            for pair in _neighbours(pieces):
                counts[pair] += count
        _check_most_frequent(best, counts, words)
        for pieces, count in words.items():
            _check_merged(pieces, count, best, merged)
        if len(merged) > len(words):
            raise Wrong(
                f"it returned {len(merged)} words for {len(words)}",
                "a word is replaced by its new pieces.",
            )


def _neighbours(pieces: Pieces) -> list[Pieces]:
    return [*itertools.pairwise(pieces)]


def _word_counts() -> Iterator[dict[Pieces, int]]:
    yield {("l", "o", "w"): 5, ("l", "o", "t"): 2, ("n", "e", "w"): 4}
    # Once each, “ab” is in more words; by frequency, “cd” is more common.
    yield {("a", "b", "x"): 1, ("y", "a", "b"): 1, ("z", "a", "b"): 1, ("c", "d"): 9}
    yield {("a", "b", "a", "b", "c", "a", "b"): 3, ("b", "a"): 2, ("x", "y"): 1}
    yield {("a", "a", "a"): 4, ("b", "a", "a", "a", "a"): 1, ("c", "d"): 3}
    yield {("xa", "b"): 1, ("a", "b"): 5, ("b", "a"): 1, ("a", "bc"): 2}
    drawn = random.Random(0)
    for _ in range(5):
        words = ("".join(drawn.choices("abcd", k=drawn.randint(1, 8))) for _ in range(12))
        yield {tuple(word): drawn.randint(1, 9) for word in words}


def _pair_and_words(function: Solution, words: dict[Pieces, int]) -> tuple[Pieces, Any]:
    given = dict(words)
    found = function(given)
    if given != words:
        raise Wrong("it changed its input in place", "make a new dictionary instead.")
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Wrong("it does not return a pair and words", "return pair, words.")
    best, merged = found
    if not isinstance(best, tuple | list) or len(best) != 2:
        raise Wrong(f"the pair is {best!r}, not two pieces")
    if not isinstance(merged, dict):
        raise Wrong(f"the words are a {type(merged).__name__}, not a dictionary")
    for pieces in merged:
        if not isinstance(pieces, tuple):
            raise Wrong(f"the word {pieces!r} is not a tuple of pieces")
    return tuple(best), merged


def _check_most_frequent(best: Pieces, counts: Counter[Pieces], words: dict[Pieces, int]) -> None:
    most, highest = counts.most_common(1)[0]
    if counts[best] == highest:
        return
    if best not in counts:
        raise Wrong(f"{best} is not a pair of neighbours in {words}")
    once: Counter[Pieces] = Counter()
    for pieces in words:
        once.update(_neighbours(pieces))
    hint = "add up the pair over all words."
    if once[best] == max(once.values()):
        hint = "a word that occurs nine times counts nine times."
    raise Wrong(f"{best} occurs {counts[best]} times, but {most} {highest} times", hint)


def _check_merged(pieces: Pieces, count: int, best: Pieces, merged: dict[Pieces, int]) -> None:
    wanted = _merged(pieces, best)
    if wanted in merged:
        if merged[wanted] != count:
            raise Wrong(f"the word {wanted} has the count {merged[wanted]}, not {count}")
        return
    given = f"after merging {best}, {pieces}"
    same = [word for word in merged if "".join(word) == "".join(pieces)]
    if not same:
        hint = "words without the pair stay, and merging loses or doubles no characters."
        if best[0] == best[1] and best in _neighbours(pieces):
            hint = "go from left to right, and after a merge go on behind it."
        raise Wrong(f"{given} is not {wanted}: no word has its characters", hint)
    hint = "compare whole pieces, from left to right."
    if pieces in merged:
        hint = "replace the pair wherever it occurs."
    elif best[0] == best[1]:
        hint = "go from left to right, and after a merge go on behind it."
    elif any("".join(best) in word for word in same) and best in _neighbours(same[0]):
        hint = "a word may have the pair more than once."
    raise Wrong(f"{given} is {same[0]}, not {wanted}", hint)


def _merged(pieces: Pieces, pair: Pieces) -> Pieces:
    new: list[str] = []
    at = 0
    while at < len(pieces):
        size = 2 if pieces[at : at + 2] == pair else 1
        new.append("".join(pieces[at : at + size]))
        at += size
    return tuple(new)


# --- attention from one sequence to another ---


@exercise
def cross_attention(function: Solution) -> None:
    """Queries from the decoder; keys and values from the encoder"""
    # First as many targets as sources: a mix-up has numbers, not an error.
    for targets, sources, width in ((4, 4, 4), (3, 5, 6), (5, 2, 3)):
        decoder, encoder = torch.randn(2, targets, 6), torch.randn(2, sources, 6)
        query, key, value = nn.Linear(6, width), nn.Linear(6, width), nn.Linear(6, width)
        mask = torch.ones(2, 1, sources, dtype=torch.bool)
        mask[1, 0, -1] = False
        layers = query, key, value
        shapes = (2, targets, width), (2, targets, sources)
        output, weights = _two(function, (decoder, encoder, *layers, mask), shapes)
        with torch.no_grad():
            _check_weights(weights, decoder, encoder, layers, mask)
            wanted = weights @ value(encoder)
            if not is_close(output, wanted) and targets == sources:
                if is_close(output, weights @ value(decoder)):
                    raise Wrong("the values come from the decoder", "what is taken up where?")
                if is_close(output, weights @ encoder[..., :width]):
                    raise Wrong("the vectors of the encoder are taken up as they are")
            expect(output, wanted, "it is weights @ values.", what="what is taken up")


def _two(
    function: Solution, inputs: Sequence[Any], shapes: Sequence[tuple[int, ...]]
) -> tuple[Tensor, Tensor]:
    found = function(*inputs)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Wrong("it does not return two tensors", "return output, weights.")
    names = ("what is taken up", "its weights")
    for name, each, shape in zip(names, found, shapes, strict=True):
        if not isinstance(each, Tensor):
            raise Wrong(f"{name} is a {type(each).__name__}, not a tensor")
        if tuple(each.shape) != shape:
            raise Wrong(
                f"the shape of {name} is {tuple(each.shape)}, not {shape}",
                "there is a row for each word that is written, a weight for each source word.",
            )
    return found[0].detach(), found[1].detach()


def _check_weights(
    weights: Tensor,
    decoder: Tensor,
    encoder: Tensor,
    layers: tuple[nn.Linear, nn.Linear, nn.Linear],
    mask: Tensor,
) -> None:
    if weights.isnan().any():
        raise Wrong("some weights are NaN", "0 · ∞ is NaN: replace scores, do not multiply them.")

    def expected(asks: Tensor, answers: Tensor, scale: float, dim: int = -1) -> Tensor:
        scores = layers[0](asks) @ layers[1](answers).mT / scale
        return scores.masked_fill(~mask, -math.inf).softmax(dim)

    root = math.sqrt(layers[0].out_features)
    wanted = expected(decoder, encoder, root)
    if is_close(weights, wanted):
        return
    if decoder.size(1) == encoder.size(1):
        if is_close(weights, expected(encoder, decoder, root)):
            raise Wrong(
                "the queries come from the encoder, and the keys from the decoder",
                "who asks? The one that writes.",
            )
        for asks in (decoder, encoder):
            if is_close(weights, expected(asks, asks, root)):
                raise Wrong(
                    "queries and keys come from the same sequence",
                    "that is self-attention: who asks, and who is asked?",
                )
    if is_close(weights, expected(decoder, encoder, 1.0)):
        raise Wrong("the scores are not divided by √d", "d is the width of a query.")
    hidden = (weights != 0) & ~mask
    if hidden.any():
        row, query, key = hidden.nonzero()[0].tolist()
        raise Wrong(
            f"in sentence {row}, word {query} gives position {key}, which is padding, a weight "
            "above 0",
            "mask the scores before the softmax; True in the mask means: may attend.",
        )
    if not is_close(weights.sum(-1), torch.ones(weights.shape[:-1])):
        raise Wrong(
            f"the weights of a query sum to {weights[-1, 0].sum():.3f}, not to 1",
            "softmax runs along the source words, over those that the mask leaves.",
        )
    expect(weights, wanted, "compare with the equation, factor by factor.", what="the weight")


# --- beam search ---

Tokens = tuple[int, ...]
NextLogprobs = Callable[[Tokens], Tensor]
END = 0
# Greedily: 1, 1, end, with p = 0.6 · 0.4 · 0.5. Two beams find 2, end, with p = 0.4 · 0.9.
GARDEN_PATH: dict[Tokens, list[float]] = {
    (): [0.0, 0.6, 0.4],
    (1,): [0.3, 0.4, 0.3],
    (2,): [0.9, 0.05, 0.05],
    (1, 1): [0.5, 0.3, 0.2],
}
# The end is never likelier than another token, and yet each token costs less than the end does.
SHORT_OR_LONG: dict[Tokens, list[float]] = {
    (): [0.4, 0.6, 0.0],
    (1,): [0.05, 0.9, 0.05],
    (1, 1): [0.95, 0.05, 0.0],
}


@exercise
def beam_search(function: Solution) -> None:
    """The best sequence that a search with a few beginnings finds"""
    garden, lengths = (_Table(3, rows) for rows in (GARDEN_PATH, SHORT_OR_LONG))
    _check_search(function, garden, 1, 3, "one beam is greedy decoding.")
    _check_search(
        function, garden, 2, 3, "the likeliest first token is not the beginning of the best."
    )
    _check_search(function, lengths, 2, 3, "divide each sum by the number of its tokens.")
    for seed in range(12):
        table = _Table(4, seed=seed)
        _check_search(function, table, 1, 5, "one beam is greedy decoding, up to the end token.")
        for num_beams in (2, 3):
            hint = "in each step, the num_beams with the largest sums stay, complete ones included."
            _check_search(function, table, num_beams, 4, hint)
        wide = "with so many beams, nothing is left out: compare with a search of all sequences."
        _check_search(function, table, 4**3, 3, wide)
        _check_search(function, table, 3, 1, "at max_length, what runs is cut off and counts.")


class _Table:
    """Stands for a model: a random distribution after each beginning, or a given one."""

    def __init__(
        self, size: int, rows: dict[Tokens, list[float]] | None = None, seed: int = 0
    ) -> None:
        self.size, self.rows, self.seed = size, rows or {}, seed

    def __call__(self, tokens: Tokens) -> Tensor:
        if tokens in self.rows:
            return torch.tensor(self.rows[tokens]).log()
        drawn = random.Random(str((self.seed, tokens)))
        logits = [drawn.gauss(0, 1.5) for _ in range(self.size)]
        return torch.tensor(logits).log_softmax(0)

    def total(self, tokens: Tokens) -> float:
        return sum(float(self(tokens[:at])[token]) for at, token in enumerate(tokens))


class _Watched:
    """Refuses questions that no beam search would ask."""

    def __init__(self, table: _Table, num_beams: int, max_length: int) -> None:
        self.table, self.num_beams, self.max_length = table, num_beams, max_length
        self.asked: Counter[int] = Counter()

    def __call__(self, tokens: Any) -> Tensor:
        if isinstance(tokens, Tensor):
            tokens = tokens.tolist()
        tokens = tuple(tokens)
        if END in tokens:
            raise Wrong(
                f"it goes on after the end token: it asks what follows {tokens}, where {END} is "
                "the end",
                "a sequence with the end token is complete and does not run on.",
            )
        if len(tokens) >= self.max_length:
            raise Wrong(
                f"it asks what follows {len(tokens)} tokens, but max_length is {self.max_length}",
                "how many tokens has a sequence before and after a step?",
            )
        self.asked[len(tokens)] += 1
        if self.asked[len(tokens)] > self.num_beams:
            raise Wrong(
                f"it looks at more than {self.num_beams} beginnings of {len(tokens)} tokens, with "
                f"num_beams={self.num_beams}",
                "of all candidates of a step, of all beginnings together, only the best "
                "num_beams stay.",
            )
        return self.table(tokens)


def _check_search(
    function: Solution, table: _Table, num_beams: int, max_length: int, hint: str
) -> None:
    found = function(_Watched(table, num_beams, max_length), num_beams, END, max_length)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Wrong("it does not return tokens and a score", "return tokens, score.")
    tokens, score = _tokens(found[0]), _score(found[1])
    wanted, best = _search(table, num_beams, END, max_length)
    given = f"with num_beams={num_beams} and max_length={max_length}"
    if tokens == wanted[:-1] and wanted[-1] == END:
        raise Wrong(
            f"it returned {tokens} without the end token {END}", "the end token belongs to it."
        )
    if not tokens or len(tokens) > max_length:
        raise Wrong(f"{given}, it returned {len(tokens)} tokens")
    if tokens[-1] != END and len(tokens) < max_length:
        raise Wrong(
            f"{given}, it returned {tokens}, which has no end and could run on",
            "the search is over when no sequence is left to run on, not before.",
        )
    own = table.total(tokens)
    own_score = own / len(tokens)
    if own_score < best - 1e-5:
        if num_beams > 1 and own > table.total(wanted) + 1e-5:
            hint = (
                "the sum of its logarithms is larger, but is it so for each token? Divide by the "
                "number of tokens."
            )
        elif tokens[-1] != END and wanted[-1] == END:
            hint = "complete sequences count as well when the best is chosen."
        raise Wrong(
            f"{given}, it returned {tokens}, with the score {own_score:.4f}; {wanted} has "
            f"{best:.4f}",
            hint,
        )
    if own_score > best + 1e-5:
        raise Wrong(
            f"{given}, it returned {tokens}, but the search should find {wanted}",
            "in each step, the num_beams with the largest sums stay, complete ones included; only "
            "those without an end run on.",
        )
    if not is_close(score, own_score, 1e-4):
        _explain_score(score, own, tokens)


def _tokens(found: Any) -> Tokens:
    if isinstance(found, Tensor):
        found = found.tolist()
    if not isinstance(found, tuple | list) or not all(isinstance(each, int) for each in found):
        raise Wrong(f"its tokens are {found!r}, not a tuple of integers", "return tokens, score.")
    return tuple(found)


def _score(found: Any) -> float:
    if isinstance(found, Tensor) and found.numel() == 1:
        found = found.item()
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise Wrong(f"its score is a {type(found).__name__}, not a number")
    return float(found)


def _explain_score(score: float, total: float, tokens: Tokens) -> None:
    right = total / len(tokens)
    problem = f"the score of {tokens} is {right:.4f}, not {score:.4f}"
    if is_close(score, total):
        raise Wrong(problem, "divide the sum by the number of tokens.")
    if tokens[-1] == END and len(tokens) > 1 and is_close(score, total / (len(tokens) - 1)):
        raise Wrong(problem, "the end token is one of its tokens.")
    if is_close(score, math.exp(total)):
        raise Wrong(problem, "a score is a mean of logarithms, not a probability.")
    raise Wrong(problem, "it is the mean of the log-probabilities of its tokens.")


def _search(
    next_logprobs: NextLogprobs, num_beams: int, end: int, max_length: int
) -> tuple[Tokens, float]:
    running: list[tuple[Tokens, float]] = [((), 0.0)]
    over: list[tuple[Tokens, float]] = []
    for _ in range(max_length):
        candidates = [
            ((*tokens, token), total + logprob)
            for tokens, total in running
            for token, logprob in enumerate(next_logprobs(tokens).tolist())
        ]
        best = sorted(candidates, key=lambda each: -each[1])[:num_beams]
        over += [each for each in best if each[0][-1] == end]
        running = [each for each in best if each[0][-1] != end]
    tokens, total = max(over + running, key=lambda each: each[1] / len(each[0]))
    return tokens, total / len(tokens)


# --- BLEU ---


@exercise
def bleu_precision(function: Solution) -> None:
    """The share of n-grams that occur in the reference, too, clipped"""
    for translation, reference, n in _sentences():
        one, other = translation.split(), reference.split()
        found = function.number([*one], [*other], n)
        grams, wanted = _ngrams(one, n), _ngrams(other, n)
        hits, total = (grams & wanted).total(), grams.total()
        right = hits / total if total else 0.0
        if is_close(found, right):
            continue
        given = f"for {translation!r}, with the reference {reference!r} and n = {n}"
        problem = f"{given}, it is {found:.4f}, not {right:.4f}"
        unclipped = sum(count for gram, count in grams.items() if gram in wanted)
        if not total:
            raise Wrong(problem, "a translation of fewer than n words has no n-grams.")
        if wanted.total() and is_close(found, hits / wanted.total()):
            raise Wrong(problem, "divide by the number of n-grams in the translation.")
        if is_close(found, unclipped / total):
            raise Wrong(problem, "an n-gram counts at most as often as in the reference.")
        if is_close(found, hits / len(one)):
            raise Wrong(problem, "a sentence of five words has four pairs of neighbours.")
        if is_close(found, len(grams.keys() & wanted.keys()) / len(grams)):
            raise Wrong(problem, "an n-gram that occurs twice counts twice, in both numbers.")
        if is_close(found, 100 * right):
            raise Wrong(problem, "it is a share, not a percentage.")
        raise Wrong(problem, "n-grams are n words side by side, in their order.")


def _ngrams(words: Sequence[str], n: int) -> Counter[Tokens | Pieces]:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))


def _sentences() -> Iterator[tuple[str, str, int]]:
    yield "le chat noir", "le chat noir", 1
    yield "le chat voit le chat", "le chat dort bien", 1
    yield "le le le le", "le chat voit le chien", 1
    yield "le chat et le chat et le chien", "le chat et le chat", 2
    yield "le noir chat", "le chat noir voit", 2
    yield "le chat", "le chat noir voit une souris", 1
    yield "le chat", "le chat noir voit", 3
    yield "chat", "chat", 2
    drawn = random.Random(0)
    for n in (1, 2, 3, 4):
        for _ in range(3):
            one, other = (drawn.choices("abc", k=drawn.randint(4, 9)) for _ in range(2))
            yield " ".join(one), " ".join(other), n
