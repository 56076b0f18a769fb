"""Typical wrong solutions of the notebook on corpora, and words of what is said about each."""

from collections import Counter
from typing import Any


def page(post: Any) -> str:
    return str(post["url"]).partition("#")[0]


def unique(pages: Any) -> list[str]:
    return list(dict.fromkeys(pages))


def summed(posts: Any, least: int) -> list[str]:
    totals: Counter[str] = Counter()
    for post in posts:
        totals[page(post)] += max(0, post["score"])
    return unique(page(post) for post in posts if totals[page(post)] >= least)


def first_post_decides(posts: Any, least: int) -> list[str]:
    first: dict[str, int] = {}
    for post in posts:
        first.setdefault(page(post), post["score"])
    return [name for name, score in first.items() if score >= least]


def runs(text: str, n: int, last: int = 1, case: bool = False) -> list[tuple[str, ...]]:
    words = (text if case else text.lower()).split()
    size = min(n, len(words))
    return [tuple(words[at : at + size]) for at in range(len(words) - size + last)]


def similarity(a: Any, b: Any) -> float:
    return len(set(a) & set(b)) / max(1, len(set(a) | set(b)))


def repeated(a: str, b: str, n: int) -> float:
    one, other = runs(a, n), runs(b, n)
    shared = sum(run in other for run in one)
    return shared / (len(one) + len(other) - shared)


def dice(a: str, b: str, n: int) -> float:
    one, other = set(runs(a, n)), set(runs(b, n))
    return 2 * len(one & other) / (len(one) + len(other))


def counted(layers: int, d: int, v: int, t: int, block: int, ends: int) -> int:
    return v * d + layers * (12 * d * d + block * d) + ends


def price(factor: float) -> Any:
    def of(n: float, tokens: float, speed: float, dollars: float, share: float) -> float:
        return factor * 6 * n * tokens / (speed * share) / 3600 * dollars

    return of


WRONG: dict[str, list[tuple[str, Any]]] = {
    "keep_links": [
        ("more than once", lambda posts, k: [page(p) for p in posts if p["score"] >= k]),
        ("includes", lambda posts, k: unique(page(p) for p in posts if p["score"] > k)),
        ("is a place", lambda posts, k: unique(p["url"] for p in posts if p["score"] >= k)),
        ("do not add up", summed),
        ("whatever the others have", first_post_decides),
        ("in another order", lambda posts, k: sorted({page(p) for p in posts if p["score"] >= k})),
        ("not a list", lambda posts, k: {page(p) for p in posts if p["score"] >= k}),
    ],
    "jaccard": [
        ("case matters", lambda a, b, n: similarity(runs(a, n, case=True), runs(b, n, case=True))),
        ("single words", lambda a, b, n: similarity(a.lower().split(), b.lower().split())),
        ("Dice", dice),
        ("count several times", repeated),
        ("The last run", lambda a, b, n: similarity(runs(a, n, 0), runs(b, n, 0))),
        ("not a number", lambda a, b, n: set(runs(a, n)) & set(runs(b, n))),
    ],
    "candidate_probability": [
        ("all bands agree", lambda s, b, r: (s**r) ** b),
        ("no band agrees", lambda s, b, r: (1 - s**r) ** b),
        ("exchanged", lambda s, b, r: 1 - (1 - s**b) ** r),
        ("are added", lambda s, b, r: b * s**r),
        ("of one band", lambda s, b, r: s**r),
    ],
    "count_parameters": [
        ("same matrix", lambda n, d, v, t: counted(n, d, v, t, 13, (v + t) * d + 2 * d)),
        ("after the last layer", lambda n, d, v, t: counted(n, d, v, t, 13, t * d)),
        ("positions are missing", lambda n, d, v, t: counted(n, d, v, t, 13, 2 * d)),
        ("all biases", lambda n, d, v, t: counted(n, d, v, t, 4, t * d + 2 * d)),
        ("all norms", lambda n, d, v, t: counted(n, d, v, t, 9, t * d)),
        ("row by row", lambda n, d, v, t: 117_000_000),
    ],
    "training_price": [
        ("multiplied by seconds", price(3600)),
        ("backward pass", price(1 / 3)),
        ("promised speed", lambda n, t, s, p, u: 6 * n * t / s / 3600 * p),
        ("do not multiply", lambda n, t, s, p, u: 6 * n * t / s * u / 3600 * p),
        ("hours, not dollars", lambda n, t, s, p, u: 6 * n * t / (s * u) / 3600),
    ],
}
