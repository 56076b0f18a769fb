"""The notebook on the way from links to GPT-2: links, near duplicates, parameters and price."""

import random
from typing import Any

from glassformer.course.checking import Solution, Wrong, exercise, is_close


@exercise
def keep_links(function: Solution) -> None:
    """Pages that a post with enough karma links to, each once"""
    chance = random.Random(0)
    for least in (3, 5):
        pages = [f"https://example.org/{number}" for number in range(12)]
        posts = [
            {"url": chance.choice(pages), "score": chance.choice((-1, 0, 2, 3, 4, 5, 9))}
            for _ in range(40)
        ]
        posts += [{"url": "https://example.org/low", "score": least - 1} for _ in range(3)]
        posts += [{"url": "https://example.org/exact", "score": least}]
        _check_pages(function(posts, least), posts, least)
    posts = [
        {"url": "https://example.org/b#top", "score": 9},
        {"url": "https://example.org/a", "score": 9},
        {"url": "https://example.org/b", "score": 9},
        {"url": "https://example.org/a#end", "score": 9},
    ]
    _check_pages(function(posts, 3), posts, 3)
    if function([], 3) != []:
        raise Wrong("without posts, it does not return an empty list")


def _check_pages(found: Any, posts: list[dict[str, Any]], least: int) -> None:
    if not isinstance(found, list):
        raise Wrong(f"it returned a {type(found).__name__}, not a list")
    best: dict[str, int] = {}
    wanted: list[str] = []
    for post in posts:
        page = str(post["url"]).partition("#")[0]
        best[page] = max(post["score"], best.get(page, post["score"]))
        if post["score"] >= least and page not in wanted:
            wanted.append(page)
    if found == wanted:
        return
    if any("#" in str(page) for page in found):
        raise Wrong("an address with # is returned", "what follows # is a place on the page.")
    if len(set(found)) < len(found):
        twice = next(page for page in found if found.count(page) > 1)
        raise Wrong(f"{twice} is returned more than once", "remember which pages are kept.")
    for page in found:
        if best.get(page, least) < least:
            total = sum(post["score"] for post in posts if post["url"] == page)
            hint = f"at least {least} is asked for."
            if total >= least:
                hint = "the scores of several posts do not add up."
            raise Wrong(f"{page} is kept, but its best score is {best[page]}", hint)
    for page in wanted:
        if page not in found:
            hint = "a page is kept if any of its posts has enough, whatever the others have."
            if best[page] == least:
                hint = f"at least {least} includes {least}."
            raise Wrong(f"{page} is missing; its best score is {best[page]} of {least}", hint)
    if sorted(found) == sorted(wanted):
        raise Wrong(
            "the pages are in another order",
            "they come in the order in which they are first kept.",
        )
    raise Wrong(f"it returned {found[:3]}, not {wanted[:3]}")


@exercise
def jaccard(function: Solution) -> None:
    """The similarity of two texts: the shingles that they share, of all that either has"""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    cases = [
        (" ".join(words), " ".join([*words[:4], "other", *words[5:]]), 3),
        (" ".join(words), " ".join(words[::-1]), 2),
        (" ".join(words), " ".join([*words[:9], "TEN"]), 5),
        ("a b a b a b a b", "a b a b c", 2),
        (" ".join(words[:6]), " ".join(words[:9]), 5),
        ("too short", "too short", 5),
        ("too short", "too long", 5),
    ]
    for one, other, n in cases:
        found = function.number(one, other, n)
        first, second = _shingles(one, n), _shingles(other, n)
        both, either = len(first & second), len(first | second)
        wanted = both / either
        if is_close(found, wanted):
            continue
        case = f"for {one!r} and {other!r} with n={n}"
        plain, lists = _shingles(one, n, keep_case=True), _shingles(other, n, keep_case=True)
        own, others = set(one.lower().split()), set(other.lower().split())
        in_lists = [tuple(each) for each in _runs(one.lower().split(), n)]
        shared = sum(run in second for run in in_lists)
        total = len(in_lists) + len(_runs(other.lower().split(), n))
        typical = {
            "case matters to it": (len(plain & lists), len(plain | lists), "lower() helps."),
            "it compares single words": (
                len(own & others),
                len(own | others),
                "a shingle is a run of n words.",
            ),
            "it divides by the shingles of both texts together": (
                both,
                len(first) + len(second),
                "shingles that both have count once in the union.",
            ),
            "it is 2 · |A ∩ B| / (|A| + |B|)": (
                2 * both,
                len(first) + len(second),
                "that is another measure, Dice's: divide by the union.",
            ),
            "it divides by the smaller set": (
                both,
                min(len(first), len(second)),
                "divide by the union.",
            ),
            "it divides by the first set": (both, len(first), "divide by the union."),
            "repeated shingles count several times": (
                shared,
                total - shared,
                "make sets of them.",
            ),
        }
        for problem, (part, whole, hint) in typical.items():
            if whole and is_close(found, part / whole):
                raise Wrong(f"{problem} ({case})", hint)
        raise Wrong(
            f"it is {found:.4f}, not {wanted:.4f}, {case}",
            "print both sets. The last run of words counts, too; a short text is one shingle.",
        )


def _runs(words: list[str], n: int) -> list[tuple[str, ...]]:
    size = min(n, len(words))
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]


def _shingles(text: str, n: int, keep_case: bool = False) -> set[tuple[str, ...]]:
    return set(_runs((text if keep_case else text.lower()).split(), n))


@exercise
def candidate_probability(function: Solution) -> None:
    """The probability that two texts agree in at least one band of MinHash"""
    for s, bands, rows in ((0.8, 20, 5), (0.3, 4, 2), (0.5, 1, 3), (0.6, 7, 1)):
        found = function.number(s, bands, rows)
        wanted = 1 - (1 - s**rows) ** bands
        if is_close(found, wanted, 1e-7):
            continue
        typical = {
            "it is the probability that all bands agree": (
                (s**rows) ** bands,
                "at least one is asked for: first compute the probability of none.",
            ),
            "it is the probability that no band agrees": (
                (1 - s**rows) ** bands,
                "at least one is the opposite of none.",
            ),
            "bands and rows are exchanged": (
                1 - (1 - s**bands) ** rows,
                "the minima of one band must all agree: that is the power of rows.",
            ),
            "the probabilities of the bands are added": (
                bands * s**rows,
                "several bands may agree at once, and a sum may exceed 1.",
            ),
            "it is the probability of one band": (s**rows, "there are several bands."),
        }
        for problem, (value, hint) in typical.items():
            if is_close(found, value, 1e-7):
                raise Wrong(f"{problem} (s={s}, {bands} bands of {rows})", hint)
        raise Wrong(f"it is {found:.6f}, not {wanted:.6f}, for s={s}, {bands} bands of {rows}")


@exercise
def count_parameters(function: Solution) -> None:
    """The parameters of a GPT-2 of any shape"""
    for layers, d, v, t in ((12, 768, 50257, 1024), (24, 1024, 50257, 1024), (3, 8, 11, 5)):
        found = function.number(layers, d, v, t)
        block = 12 * d * d + 13 * d
        wanted = (v + t) * d + layers * block + 2 * d
        if found == wanted:
            continue
        missing = {
            "the norm after the last layer is missing": (2 * d, "a gain and a bias, of width D."),
            "the norms in the layers are missing": (layers * 4 * d, "two in each layer."),
            "all norms are missing": (layers * 4 * d + 2 * d, "two in each layer, one at the end."),
            "the norms have no biases": (
                layers * 2 * d + d,
                "each norm has a gain and a bias for each component.",
            ),
            "the positions are missing": (t * d, "each of T positions has a vector, too."),
            "the biases of attention are missing": (layers * 4 * d, "four in each layer."),
            "the biases of the feed-forward layers are missing": (
                layers * 5 * d,
                "4D and D in each layer.",
            ),
            "all biases of linear layers are missing": (
                layers * 9 * d,
                "4D in attention, 5D in the feed-forward layers.",
            ),
            "the output layer of attention is missing": (
                layers * (d * d + d),
                "after queries, keys and values, a fourth matrix mixes the heads.",
            ),
            "only one layer is counted": ((layers - 1) * block, "there are L of them."),
            "the feed-forward layers have one matrix only": (
                layers * (4 * d * d + d),
                "there is a way back from 4D to D.",
            ),
            "the output layer is counted for itself": (
                -v * d,
                "it is the same matrix as the token embeddings.",
            ),
            "the bias of the second feed-forward layer is of the wrong size": (
                -layers * 3 * d,
                "it has as many components as the layer has outputs.",
            ),
        }
        shape = f"{layers} layers of width {d}"
        for problem, (number, hint) in missing.items():
            if found == wanted - number:
                raise Wrong(f"{problem}: it is {found:,.0f} for {shape}", hint)
        raise Wrong(
            f"it is {found:,.0f} for {shape}, {abs(found - wanted):,.0f} too "
            f"{'many' if found > wanted else 'few'}",
            "go through the table row by row.",
        )


@exercise
def training_price(function: Solution) -> None:
    """The dollars that a training costs: 6 operations per parameter and token"""
    cases = ((124e6, 9e9, 312e12, 2.0, 0.4), (1.5e9, 3e10, 1e15, 3.5, 0.3))
    for parameters, tokens, speed, price, share in cases:
        found = function.number(parameters, tokens, speed, price, share)
        wanted = 6 * parameters * tokens / (speed * share) / 3600 * price
        if is_close(found / wanted, 1.0):
            continue
        typical = {
            "the price is per hour, but it is multiplied by seconds": (3600.0, "3600 of them."),
            "hours are counted as minutes": (60.0, "an hour has 3600 seconds."),
            "the backward pass is missing": (1 / 3, "6 operations, not 2."),
            "the forward pass is missing": (2 / 3, "6 operations, not 4."),
            "one operation per parameter and token is counted": (1 / 6, "there are 6."),
            "the device is taken at its promised speed": (
                share,
                "only a share of it is reached, so it takes longer.",
            ),
            "a lower utilization makes it cheaper": (
                share**2,
                "divide by the utilization, do not multiply.",
            ),
            "these are hours, not dollars": (1 / price, "multiply by the price of an hour."),
            "these are seconds, not dollars": (
                3600 / price,
                "turn them into hours, then into dollars.",
            ),
        }
        for problem, (factor, hint) in typical.items():
            if is_close(found / wanted, factor):
                raise Wrong(problem, hint)
        raise Wrong(
            f"it is {found:,.2f} $, not {wanted:,.2f} $",
            "operations, then seconds, then hours, then dollars.",
        )
