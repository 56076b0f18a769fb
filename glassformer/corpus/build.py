"""From WARC files to a corpus, in steps that can be divided among machines.

    records      list the records of each file, and divide them into tasks
    pages        extract, check language and quality, compute fingerprints
    candidates   find texts that agree in a band of their MinHash (datatrove)
    duplicates   decide which texts are dropped
    shards       write the texts that are kept
    manifest     hashes, counts and settings; the report; then the folder gets its name

The result depends on the files and the settings only: neither on the number of workers, nor on how
often the build was killed and continued.
"""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.atomic_files import MANIFEST, explained, file_digest, read_json, write_json
from glassformer.corpus.brotli_body import has_brotli
from glassformer.corpus.build_settings import (
    HASHES_PER_BUCKET,
    NUM_BUCKETS,
    SHINGLE_WORDS,
    BuildSettings,
)
from glassformer.corpus.clusters import largest_clusters
from glassformer.corpus.executors import Executor, check_packages
from glassformer.corpus.extractor_process import OPTIONS
from glassformer.corpus.fingerprints import minhash_config
from glassformer.corpus.languages import check_languages
from glassformer.corpus.linked_pages import check_links, write_linked
from glassformer.corpus.links import LINKS, check_free
from glassformer.corpus.near_duplicates import DropDuplicates
from glassformer.corpus.outcomes import EXTRA, in_columns
from glassformer.corpus.page_outcomes import KEPT, Outcomes
from glassformer.corpus.page_step import ReadPages
from glassformer.corpus.personal_data import scrubbed_in
from glassformer.corpus.record_listing import ListRecords, tasks_for
from glassformer.corpus.report import DETAILS, write_report
from glassformer.corpus.shards import WriteShards, planned_shards, shard_name
from glassformer.corpus.warc_files import check_warc, warc_files
from glassformer.corpus.workspace import Workspace
from glassformer.data.corpus_manifest import FORMAT
from glassformer.errors import GlassformerError
from glassformer.folder_lock import locked
from glassformer.wording import counted, install

_PACKAGES = ("glassformer", "trafilatura", "py3langid", "datatrove")
_MOST_DOMAINS = 50


@dataclass(frozen=True)
class Corpus:
    """What was built."""

    folder: Path
    manifest: dict[str, Any]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        names = ("read", "kept", "dropped", "num_documents", "num_bytes", "num_characters")
        counts = {name: self.manifest[name] for name in names}
        return {"corpus": str(self.folder)} | counts | {"shards": len(self.manifest["shards"])}

    def text(self) -> str:
        read, kept = self.manifest["read"], self.manifest["kept"]
        dropped = ((rule, count, "") for rule, count in self.manifest["dropped"].items())
        return in_columns(("pages read", read, ""), *dropped, ("documents kept", kept, ""))


def build(
    warc: list[str],
    out: Path,
    settings: BuildSettings | None = None,
    links: Path | None = None,
    executor: Executor | None = None,
    force: bool = False,
) -> Corpus:
    """Build a corpus from WARC files in the folder `out`, or continue a build that was killed."""
    settings = settings or BuildSettings()
    check_packages()
    check_languages(settings.language)
    check_free(out, force, FORMAT)
    if links is not None:
        check_links(links)
    files = tuple(path.resolve() for path in warc_files(warc))
    for path in files:
        check_warc(path)
    with locked(out, "built"):
        check_free(out, force, FORMAT)  # another build may just have finished
        work = Workspace(out)
        work.begin(_request(files, links, settings))
        with explained(out), executor or Executor() as running:
            found = _Build(files, links, settings, running, work).run()
        work.publish()
    return found


def _request(
    files: tuple[Path, ...], links: Path | None, settings: BuildSettings
) -> dict[str, Any]:
    """What identifies a build, so that only the same one is continued."""
    inputs = [*files, *([links.resolve() / LINKS] if links is not None else [])]
    about = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in inputs]
    return {"inputs": about, "settings": settings.model_dump(mode="json"), "versions": _versions()}


def _versions() -> dict[str, str]:
    optional = ("brotli",) if has_brotli() else ()
    return {name: version(name) for name in (*_PACKAGES, *optional)}


class _Build:
    """The steps of one build."""

    def __init__(
        self,
        files: tuple[Path, ...],
        links: Path | None,
        settings: BuildSettings,
        executor: Executor,
        work: Workspace,
    ) -> None:
        self._files, self._links, self._settings = files, links, settings
        self._executor, self._work = executor, work
        self._pages, self._verdicts = work.part("pages"), work.folder / "verdicts"

    def run(self) -> Corpus:
        listings = self._list_records()
        tasks = tasks_for(listings)
        self._read_pages(tasks, listings)
        self._find_duplicates(len(tasks))
        num_shards = self._write_shards(len(tasks))
        return self._write_manifest(listings, len(tasks), num_shards)

    def _step(self, name: str, step: Any, num_tasks: int) -> None:
        self._executor.run(name, step, num_tasks, self._work.part("logs"))

    def _list_records(self) -> list[dict[str, Any]]:
        out = self._work.part("records")
        self._step("records", ListRecords(self._files, out), len(self._files))
        return [read_json(out / f"{number:05}.json") for number in range(len(self._files))]

    def _read_pages(self, tasks: list[Any], listings: list[dict[str, Any]]) -> None:
        linked = None
        if self._links is not None:
            linked = self._work.folder / "linked.jsonl"
            redirects: dict[str, str] = {}
            for listing in listings:
                redirects = listing["redirects"] | redirects
            if not linked.exists():
                write_linked(self._links, redirects, linked)
        signatures = self._work.part("signatures")
        step = ReadPages(self._files, tasks, self._settings, linked, self._pages, signatures)
        self._step("pages", step, len(tasks))

    def _find_duplicates(self, num_tasks: int) -> None:
        from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets

        signatures, pairs = self._work.part("signatures"), self._work.part("pairs")
        find = MinhashDedupBuckets(
            str(signatures), str(pairs), config=minhash_config(), lines_to_buffer=1000
        )
        self._step("candidates", find, NUM_BUCKETS)
        threshold = self._settings.similarity
        drop = DropDuplicates(self._pages, pairs, num_tasks, threshold, self._verdicts)
        self._step("duplicates", drop, 1)

    def _write_shards(self, num_tasks: int) -> int:
        size = self._settings.shard_bytes
        shards = planned_shards(self._pages, self._verdicts, num_tasks, size)
        about, scrub = self._work.part("shards"), self._settings.scrub_pii
        step = WriteShards(self._pages, self._verdicts, shards, scrub, self._work.ready, about)
        self._step("shards", step, len(shards))
        return len(shards)

    def _write_manifest(
        self, listings: list[dict[str, Any]], num_tasks: int, num_shards: int
    ) -> Corpus:
        outcomes, statistics = self._collected(listings, num_tasks, num_shards)
        kept, dropped = _checked(outcomes)
        names = [shard_name(number) for number in range(num_shards)]
        ready = self._work.ready
        manifest = {
            "format": FORMAT,
            "read": outcomes.read,
            "kept": kept,
            "dropped": dropped,
            "num_documents": kept,
            **{name: statistics[name] for name in ("num_bytes", "num_characters")},
            "shards": {
                name: {
                    "num_documents": statistics["documents"][number],
                    "bytes": (ready / name).stat().st_size,
                    "sha256": file_digest(ready / name),
                }
                for number, name in enumerate(names)
            },
            "recipe": self._recipe(),
            "inputs": [
                {key: each[key] for key in ("name", "bytes", "sha256", "num_records", "num_pages")}
                for each in listings
            ],
        }
        clusters = largest_clusters(self._pages, self._verdicts, num_tasks)
        details = statistics | outcomes.as_json() | {"clusters": clusters}
        if self._settings.scrub_pii:  # also in the examples of what was dropped
            details = scrubbed_in(details)
        write_json(ready / DETAILS, details)
        write_report(ready, manifest)
        write_json(ready / MANIFEST, manifest)  # last: without it, the folder is not a corpus
        notes = [note for each in listings for note in each["notes"]]
        if number := outcomes.counts["page/brotli"]:
            notes.append(
                f"{counted(number, 'page')} could not be decompressed. Run "
                f"{install(EXTRA)}, which brings brotli, and build again."
            )
        if not kept:
            notes.append("no document was kept. The report shows which rules dropped the pages.")
        return Corpus(self._work.out, manifest, tuple(notes))

    def _collected(
        self, listings: list[dict[str, Any]], num_tasks: int, num_shards: int
    ) -> tuple[Outcomes, dict[str, Any]]:
        """What all tasks and shards report, together."""
        outcomes = Outcomes()
        for listing in listings:
            for rule, count in listing["hidden"].items():
                for _ in range(count):
                    outcomes.read += 1
                    outcomes.add(f"record/{rule}", listing["name"], detail=listing["notes"][0])
        for number in range(num_tasks):
            outcomes.merge(read_json(self._pages / f"{number:05}.json"))
        about = self._work.part("shards")
        parts = [read_json(about / f"{number:05}.json") for number in range(num_shards)]
        for part in parts:
            outcomes.merge(part)
        return outcomes, _summed(parts)

    def _recipe(self) -> dict[str, Any]:
        links = None if self._links is None else file_digest(self._links / LINKS)
        minhash = {"shingle_words": SHINGLE_WORDS, "num_buckets": NUM_BUCKETS}
        return {
            **self._settings.model_dump(mode="json"),
            "links_sha256": links,
            "trafilatura": OPTIONS,
            "minhash": minhash | {"hashes_per_bucket": HASHES_PER_BUCKET},
            "versions": _versions(),
        }


def _checked(outcomes: Outcomes) -> tuple[int, dict[str, int]]:
    """The number of documents that were kept, and of those dropped by each rule."""
    dropped = {rule: count for rule, count in outcomes.as_json()["counts"].items() if rule != KEPT}
    kept = outcomes.counts[KEPT]
    if outcomes.read != (total := kept + sum(dropped.values())):
        raise GlassformerError(
            f"{outcomes.read:,} pages were read, but {total:,} are accounted for. Delete the "
            "working folder and build again; if it happens again, report it."
        )
    return kept, dropped


def _summed(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The statistics of all shards."""
    domains: dict[str, int] = {}
    languages: dict[str, int] = {}
    for part in parts:
        for total, name in ((domains, "domains"), (languages, "kept_languages")):
            for key, count in part[name].items():
                total[key] = total.get(key, 0) + count
    common = sorted(domains.items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "num_bytes": sum(part["num_bytes"] for part in parts),
        "num_characters": sum(part["num_characters"] for part in parts),
        "documents": [part["counts"].get(KEPT, 0) for part in parts],
        "num_domains": len(domains),
        "domains": dict(common[:_MOST_DOMAINS]),
        "kept_languages": dict(sorted(languages.items())),
        "lengths": np.sum([part["lengths"] for part in parts], axis=0).tolist(),
    }
