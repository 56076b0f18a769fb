"""Typical wrong solutions of the notebook on translation, and words of what is said about each."""

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import torch


def merge(words: Any, count_of: Any, replace: Any) -> Any:
    pairs: Counter[Any] = Counter()
    for pieces, count in words.items():
        for pair in pairwise(pieces):
            pairs[pair] += count_of(count)
    best = max(pairs, key=lambda pair: pairs[pair])
    return best, {tuple(replace(list(pieces), best)): n for pieces, n in words.items()}


def by_text(pieces: list[str], pair: Any) -> list[str]:
    return " ".join(pieces).replace(" ".join(pair), "".join(pair)).split()


def only_first(pieces: list[str], pair: Any) -> list[str]:
    for at, neighbours in enumerate(pairwise(pieces)):
        if neighbours == pair:
            return [*pieces[:at], "".join(pair), *pieces[at + 2 :]]
    return pieces


def from_left(pieces: list[str], pair: Any) -> list[str]:
    at, new = 0, []
    while at < len(pieces):
        size = 2 if tuple(pieces[at : at + 2]) == pair else 1
        new.append("".join(pieces[at : at + size]))
        at += size
    return new


def from_right(pieces: list[str], pair: Any) -> list[str]:
    return [each[::-1] for each in from_left([p[::-1] for p in pieces[::-1]], flipped(pair))][::-1]


def flipped(pair: Any) -> Any:
    return tuple(each[::-1] for each in pair[::-1])


def overlapping(pieces: list[str], pair: Any) -> list[str]:
    new = []
    for at, piece in enumerate(pieces):
        if tuple(pieces[at : at + 2]) == pair:
            new.append("".join(pair))
        elif at == 0 or tuple(pieces[at - 1 : at + 1]) != pair:
            new.append(piece)
    return new


def only_changed(words: Any) -> Any:
    best, merged = merge(words, int, from_left)
    return best, {pieces: count for pieces, count in merged.items() if "".join(best) in pieces}


def attend(ask: Any, answer: Any, take: Any, layers: Any, mask: Any, **change: Any) -> Any:
    query, key, value = layers
    scores = query(ask) @ key(answer).mT / change.get("scale", math.sqrt(query(ask).size(-1)))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(change.get("dim", -1))
    return weights @ value(take), weights


def masked_by_zero(d: Any, e: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q(d) @ k(e).mT / math.sqrt(q(d).size(-1))
    weights = (scores * mask).softmax(-1)
    return weights @ v(e), weights


def output_only(d: Any, e: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    return attend(d, e, e, (q, k, v), mask)[0]


def search(
    ask: Any,
    num_beams: int,
    end: int,
    limit: int,
    *,
    length: Any = len,
    stops: bool = True,
    per_beam: bool = False,
    cut_off: bool = True,
    stop_at_first: bool = False,
) -> Any:
    running: list[Any] = [((), 0.0)]
    complete: list[Any] = []
    for _ in range(limit):
        new = [
            [((*ids, id), total + p) for id, p in enumerate(ask(ids).tolist())]
            for ids, total in running
        ]
        if per_beam:
            new = [sorted(each, key=lambda one: -one[1])[:num_beams] for each in new]
        best = sorted([one for each in new for one in each], key=lambda one: -one[1])
        best = best if per_beam else best[:num_beams]
        complete += [one for one in best if one[0][-1] == end]
        running = [one for one in best if one[0][-1] != end or not stops]
        if not running or (stop_at_first and complete):
            break
    ids, total = max(
        complete + (running if cut_off or not complete else []),
        key=lambda one: one[1] / length(one[0]),
    )
    return ids, total / length(ids)


def greedy(ask: Any, num_beams: int, end: int, limit: int) -> Any:
    return search(ask, 1, end, limit)


def without_end(ask: Any, num_beams: int, end: int, limit: int) -> Any:
    ids, score = search(ask, num_beams, end, limit)
    return tuple(id for id in ids if id != end), score


def sum_as_score(ask: Any, num_beams: int, end: int, limit: int) -> Any:
    ids, score = search(ask, num_beams, end, limit)
    return ids, score * len(ids)


def one_too_many(ask: Any, num_beams: int, end: int, limit: int) -> Any:
    return search(ask, num_beams, end, limit + 1)


def grams(words: Any, n: int) -> Any:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))


def share(hits: float, total: float) -> float:
    return hits / total if total else 0.0


def unclipped(words: Any, reference: Any, n: int) -> float:
    known = grams(reference, n)
    found = grams(words, n)
    return share(sum(c for g, c in found.items() if g in known), found.total())


def recall(words: Any, reference: Any, n: int) -> float:
    return share((grams(words, n) & grams(reference, n)).total(), grams(reference, n).total())


def per_word(words: Any, reference: Any, n: int) -> float:
    return (grams(words, n) & grams(reference, n)).total() / len(words)


def as_sets(words: Any, reference: Any, n: int) -> float:
    found, known = set(grams(words, n)), set(grams(reference, n))
    return share(len(found & known), len(found))


def right(words: Any, reference: Any, n: int) -> float:
    found = grams(words, n)
    return share((found & grams(reference, n)).total(), found.total())


def unguarded(words: Any, reference: Any, n: int) -> float:
    return (grams(words, n) & grams(reference, n)).total() / grams(words, n).total()


def unordered(words: Any, reference: Any, n: int) -> float:
    found, known = (
        Counter(tuple(sorted(g)) for g in grams(each, n).elements()) for each in (words, reference)
    )
    return share((found & known).total(), found.total())


WRONG: dict[str, list[tuple[str, Any]]] = {
    "bpe_merge": [
        ("counts nine times", lambda words: merge(words, lambda count: 1, from_left)),
        ("compare whole pieces", lambda words: merge(words, int, by_text)),
        ("more than once", lambda words: merge(words, int, only_first)),
        ("go on behind it", lambda words: merge(words, int, overlapping)),
        ("go on behind it", lambda words: merge(words, int, from_right)),
        ("words without the pair stay", only_changed),
        ("return pair, words", lambda words: merge(words, int, from_left)[1]),
    ],
    "cross_attention": [
        ("who asks?", lambda d, e, q, k, v, m: attend(e, d, e, (q, k, v), m)),
        ("same sequence", lambda d, e, q, k, v, m: attend(d, d, d, (q, k, v), m)),
        ("values come from the decoder", lambda d, e, q, k, v, m: attend(d, e, d, (q, k, v), m)),
        ("not divided by √d", lambda d, e, q, k, v, m: attend(d, e, e, (q, k, v), m, scale=1)),
        ("which is padding", lambda d, e, q, k, v, m: attend(d, e, e, (q, k, v), None)),
        ("which is padding", masked_by_zero),
        ("sum to", lambda d, e, q, k, v, m: attend(d, e, e, (q, k, v), m, dim=0)),
        ("two tensors", output_only),
    ],
    "beam_search": [
        ("not the beginning of the best", greedy),
        ("divide", lambda *given: search(*given, length=lambda ids: 1)),
        ("divide the sum", sum_as_score),
        ("goes on after the end", lambda *given: search(*given, stops=False)),
        ("only the best num_beams stay", lambda *given: search(*given, per_beam=True)),
        ("but max_length is", one_too_many),
        ("without the end token", without_end),
        ("cut off", lambda *given: search(*given, cut_off=False)),
        ("not before", lambda *given: search(*given, stop_at_first=True)),
    ],
    "bleu_precision": [
        ("at most as often", unclipped),
        ("in the translation", recall),
        ("four pairs", per_word),
        ("occurs twice", as_sets),
        ("ZeroDivisionError", unguarded),
        ("in their order", unordered),
        ("not a percentage", lambda *given: 100 * right(*given)),
        ("not a number", lambda *given: torch.zeros(2)),
    ],
}
