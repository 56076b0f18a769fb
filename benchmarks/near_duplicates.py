"""How many near-duplicates does corpus build find, and how many of those it drops are ones?

python -m benchmarks.near_duplicates

Originals are random texts of 60 to 1,500 words. Each has a copy in which words are replaced,
inserted and deleted, or a part is new, so that the Jaccard similarity of their 5-word shingles lies
between 0.5 and 1. It is computed from plain sets of words, without the code that is measured. All
texts go through a whole build; a copy counts as found if it was dropped as a duplicate.
"""

import gzip
import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.corpus.build import build
from glassformer.corpus.quality import BuildSettings

PAIRS = 3_000
THRESHOLD = 0.8
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def vocabulary(draw: random.Random, size: int = 8_000) -> list[str]:
    return ["".join(draw.choices(LETTERS, k=draw.randint(2, 9))) for _ in range(size)]


def edited(words: list[str], others: list[str], draw: random.Random) -> list[str]:
    """A copy with changes at random places, or with a new passage."""
    copy, share = list(words), draw.uniform(0, 0.5)
    if draw.random() < 0.3:  # a new passage at one end, such as a footer
        passage = draw.choices(others, k=round(share * len(words)))
        return copy + passage if draw.random() < 0.5 else passage + copy
    for _ in range(round(share * len(words) / 8)):
        place, kind = draw.randrange(len(copy)), draw.random()
        if kind < 0.6:
            copy[place] = draw.choice(others)
        elif kind < 0.8:
            copy.insert(place, draw.choice(others))
        elif len(copy) > 10:
            del copy[place]
    return copy


def jaccard(one: list[str], other: list[str]) -> float:
    a, b = ({tuple(each[at : at + 5]) for at in range(len(each) - 4)} for each in (one, other))
    return len(a & b) / len(a | b)


def record(url: str, words: list[str]) -> bytes:
    block = " ".join(words).encode()
    head = (
        f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://site.org/{url}\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def kept_urls(texts: dict[str, list[str]]) -> set[str]:
    """The texts that remain after a build without other rules."""
    with TemporaryDirectory() as folder:
        warc, out = Path(folder) / "texts.warc", Path(folder) / "corpus"
        warc.write_bytes(b"".join(record(url, words) for url, words in texts.items()))
        settings = BuildSettings(language=("any",), quality=("none",), similarity=THRESHOLD)
        build([str(warc)], out, settings)
        packed = [path.read_bytes() for path in out.glob("*.gz")]
        lines = [line for shard in packed for line in gzip.decompress(shard).splitlines()]
        return {json.loads(line)["metadata"]["url"].rpartition("/")[2] for line in lines}


def main() -> None:
    draw = random.Random(0)
    others = vocabulary(draw)
    texts, copies, truth = dict[str, list[str]](), dict[str, list[str]](), list[float]()
    for number in range(PAIRS):
        words = draw.choices(others, k=draw.randint(60, 1_500))
        texts[f"original-{number}"] = words
        copies[f"copy-{number}"] = edited(words, others, draw)
        truth.append(jaccard(words, copies[f"copy-{number}"]))
    kept = kept_urls(texts | copies)
    found = [f"copy-{number}" not in kept for number in range(PAIRS)]
    true = [value >= THRESHOLD for value in truth]
    both = sum(a and b for a, b in zip(found, true, strict=True))
    dropped = 2 * PAIRS - len(kept)
    near = sum(abs(value - THRESHOLD) < 0.05 for value in truth)
    print(
        f"{PAIRS:,} pairs, {sum(true):,} with similarity {THRESHOLD} or more, {near:,} close to it"
    )
    print(f"recall     {both / sum(true):.2%} ({both:,} of {sum(true):,} were dropped)")
    print(f"precision  {both / dropped:.2%} ({dropped - both:,} other texts were dropped)")


if __name__ == "__main__":
    main()
