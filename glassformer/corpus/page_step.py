"""The step that does most of the work: from the records of a task to texts that pass all rules.

pages/00000.jsonl       the texts, one document per line
pages/00000.index       where each begins, its digest, and where its shingles are
pages/00000.shingles    the shingles of all texts
pages/00000.json        what became of the pages
signatures/bucket_…     the MinHash of all texts, sorted, as datatrove reads it
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.atomic_files import write_json_line
from glassformer.corpus.build_settings import NUM_BUCKETS, BuildSettings
from glassformer.corpus.extractor import shared_extractor
from glassformer.corpus.fingerprints import SIGNATURE_ROW, digest, shingles, signature
from glassformer.corpus.languages import ANY, language_of
from glassformer.corpus.linked_pages import read_linked
from glassformer.corpus.page_outcomes import Outcomes
from glassformer.corpus.pages import DroppedError, Page, page_of
from glassformer.corpus.quality import judge
from glassformer.corpus.record_listing import Slice
from glassformer.corpus.urls import BadUrlError, parse_url
from glassformer.corpus.warc_files import Record, read_records
from glassformer.corpus.warc_stream import BrokenWarcError

INDEX_ROW = np.dtype(
    [
        *(("begin", "<u8"), ("num_bytes", "<u8"), ("digest", "<u8", (2,))),
        *(("first_shingle", "<u8"), ("num_shingles", "<u8")),
    ]
)
SHINGLE = np.dtype("<u4")  # enough to compare two texts


@dataclass(frozen=True)
class ReadPages:
    """A step for datatrove: the pages of one task."""

    files: tuple[Path, ...]
    tasks: list[list[Slice]]
    settings: BuildSettings
    linked: Path | None
    out: Path
    signatures: Path

    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        outcomes = Outcomes()
        with _Writer(self.out / f"{rank:05}", self.signatures, rank) as writer:
            for record in self._records(self.tasks[rank]):
                outcomes.read += 1
                try:
                    writer.add(self._document(record, outcomes))
                except DroppedError as drop:
                    outcomes.add(drop.rule, record.url, drop.text, drop.detail, drop.title)
        write_json_line(self.out / f"{rank:05}.json", outcomes.as_json())

    def _records(self, slices: list[Slice]) -> Iterator[Record]:
        """The records that may be pages."""
        for each in slices:
            records = read_records(self.files[each.file], each.offset)  # damage was listed
            for record in islice(records, each.num_records):
                if record.may_be_page:
                    yield record

    def _document(self, record: Record, outcomes: Outcomes) -> dict[str, Any]:
        linked = None if self.linked is None else read_linked(self.linked)
        try:
            page = page_of(record, linked, self.settings.max_page_bytes)
        except BrokenWarcError as error:
            raise DroppedError(f"record/{error.rule}", str(error)) from None
        found = shared_extractor(self.settings.page_seconds).extract(
            page.body, page.content_type, page.is_html
        )
        if found.rule:
            raise DroppedError(f"extraction/{found.rule}", found.detail, title=found.title)
        language, probability = language_of(found.text)
        outcomes.languages[language] += 1
        self._check(found.text, found.title, language, probability)
        title = found.title or page.about.get("title", "")
        return {"text": found.text, "metadata": _about(page, title, language, probability)}

    def _check(self, text: str, title: str, language: str, probability: float) -> None:
        detail = f"{language}, probability {probability:.2f}"
        if self.settings.language != (ANY,):
            if language not in self.settings.language:
                raise DroppedError("language/other", detail, text, title)
            if probability < self.settings.language_threshold:
                raise DroppedError("language/unsure", detail, text, title)
        if rule := judge(self.settings.quality, language).rule_against(text):
            raise DroppedError(f"quality/{rule}", "", text, title)


def _about(page: Page, title: str, language: str, probability: float) -> dict[str, Any]:
    try:
        domain = parse_url(page.url).domain
    except BadUrlError:
        domain = ""
    about: dict[str, Any] = {"url": page.url, "title": title, "domain": domain, "date": page.date}
    about |= {"language": language, "language_probability": round(probability, 4)}
    return about | {name: value for name, value in page.about.items() if name != "title"}


class _Writer:
    """The files of a task. A task that is killed starts again and overwrites them."""

    def __init__(self, stem: Path, signatures: Path, rank: int) -> None:
        self._stem, self._signatures, self._rank = stem, signatures, rank
        self._index: list[tuple[Any, ...]] = []
        self._minima: list[list[list[int]]] = []
        self._place = self._num_shingles = 0

    def __enter__(self) -> "_Writer":
        self._texts = self._stem.with_suffix(".jsonl").open("wb")
        self._shingles = self._stem.with_suffix(".shingles").open("wb")
        return self

    def add(self, document: dict[str, Any]) -> None:
        text = document["text"]
        line = json.dumps(document, ensure_ascii=False).encode(errors="replace") + b"\n"
        hashed = shingles(text)
        stored = np.unique(hashed.astype(SHINGLE))
        self._texts.write(line)
        self._shingles.write(stored.tobytes())
        size = len(text.encode(errors="replace"))
        self._index.append((self._place, size, digest(text), self._num_shingles, len(stored)))
        self._minima.append(signature(hashed))
        self._place += len(line)
        self._num_shingles += len(stored)

    def __exit__(self, *error: Any) -> None:
        self._texts.close()
        self._shingles.close()
        if error[0] is None:
            index = np.array(self._index, dtype=INDEX_ROW)
            self._stem.with_suffix(".index").write_bytes(index.tobytes())
            self._write_signatures()

    def _write_signatures(self) -> None:
        for bucket in range(NUM_BUCKETS):
            rows = [(*minima[bucket], number) for number, minima in enumerate(self._minima)]
            found = np.sort(np.array(rows, dtype=SIGNATURE_ROW), order=SIGNATURE_ROW.names)
            folder = self._signatures / f"bucket_{bucket:03}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{self._rank:05}.minhash.sig").write_bytes(found.tobytes())
