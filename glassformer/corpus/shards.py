"""The files of a corpus: compressed tables, one document per row.

    corpus-00000.jsonl.gz     {"text": …, "metadata": {"url": …, "title": …, "language": …}}

A shard takes the documents of whole tasks, so that shards can be written in parallel. The same
documents give the same bytes: the compressed files contain no date and no name.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.atomic_files import write_json_line
from glassformer.corpus.fingerprints import Array
from glassformer.corpus.near_duplicates import EXACT, KEPT, VERDICT_ROW, read_index
from glassformer.corpus.page_outcomes import KEPT as KEPT_RULE
from glassformer.corpus.page_outcomes import Outcomes
from glassformer.corpus.personal_data import scrubbed

LENGTHS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)  # characters


def shard_name(number: int) -> str:
    return f"corpus-{number:05}.jsonl.gz"


def planned_shards(pages: Path, verdicts: Path, num_tasks: int, size: int) -> list[range]:
    """The tasks of each shard: as many as give so many bytes of text."""
    found = np.fromfile(verdicts, dtype=VERDICT_ROW)["verdict"] == KEPT
    shards, first, filled, start = list[range](), 0, 0, 0
    for task in range(num_tasks):
        sizes = read_index(pages, task)["num_bytes"]
        filled += int(sizes[found[start : start + len(sizes)]].sum())
        start += len(sizes)
        if filled >= size or task == num_tasks - 1:
            shards.append(range(first, task + 1))
            first, filled = task + 1, 0
    return shards


@dataclass(frozen=True)
class WriteShards:
    """A step for datatrove: the documents of some tasks that are kept."""

    pages: Path
    verdicts: Path
    shards: Sequence[range]
    scrub_pii: bool
    out: Path
    about: Path

    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        outcomes, statistics = Outcomes(), _Statistics()
        verdicts = np.fromfile(self.verdicts, dtype=VERDICT_ROW)
        start = sum(len(read_index(self.pages, task)) for task in range(self.shards[rank].start))
        with (
            (self.out / shard_name(rank)).open("wb") as raw,
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as shard,
        ):
            for task in self.shards[rank]:
                for document in _documents(self.pages, task):
                    if self._is_kept(document, verdicts[start], outcomes):
                        statistics.add(document)
                        shard.write(json.dumps(document, ensure_ascii=False).encode() + b"\n")
                    start += 1
        about = outcomes.as_json() | statistics.as_json()
        write_json_line(self.about / f"{rank:05}.json", about)

    def _is_kept(self, document: dict[str, Any], row: Array, outcomes: Outcomes) -> bool:
        about = document["metadata"]
        if row["verdict"] == KEPT:
            if self.scrub_pii:
                document["text"] = scrubbed(document["text"])
                about["title"] = scrubbed(about["title"])
            outcomes.add(KEPT_RULE, about["url"], document["text"], title=about["title"])
            return True
        rule = "duplicates/exact" if row["verdict"] == EXACT else "duplicates/near"
        detail = f"similarity {row['similarity']:.2f}"
        outcomes.add(rule, about["url"], document["text"], detail, about["title"])
        return False


def _documents(pages: Path, task: int) -> Iterator[dict[str, Any]]:
    with (pages / f"{task:05}.jsonl").open("rb") as file:
        yield from map(json.loads, file)


def document_at(pages: Path, starts: Array, number: int) -> dict[str, Any]:
    """A document by its number; `starts` are the numbers of the first ones of the tasks."""
    task = int(np.searchsorted(starts, number, side="right")) - 1
    index = read_index(pages, task)
    with (pages / f"{task:05}.jsonl").open("rb") as file:
        file.seek(int(index[number - starts[task]]["begin"]))
        return dict(json.loads(file.readline()))


class _Statistics:
    """Counts of the documents that are kept."""

    def __init__(self) -> None:
        self._num_bytes = self._num_characters = 0
        self._domains: Counter[str] = Counter()
        self._languages: Counter[str] = Counter()
        self._lengths = [0] * (len(LENGTHS) + 1)

    def add(self, document: dict[str, Any]) -> None:
        text, about = document["text"], document["metadata"]
        self._num_bytes += len(text.encode())
        self._num_characters += len(text)
        self._domains[about["domain"]] += 1
        self._languages[about["language"]] += 1
        self._lengths[int(np.searchsorted(LENGTHS, len(text), side="right"))] += 1

    def as_json(self) -> dict[str, Any]:
        return {
            "num_bytes": self._num_bytes,
            "num_characters": self._num_characters,
            "domains": dict(sorted(self._domains.items())),
            "kept_languages": dict(sorted(self._languages.items())),
            "lengths": self._lengths,
        }
