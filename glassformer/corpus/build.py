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

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import files
from glassformer.corpus import EXTRA, in_columns, near_duplicates, quality, size_and_hash
from glassformer.corpus.executors import Executor, check_packages
from glassformer.corpus.extractor import OPTIONS
from glassformer.corpus.http import has_brotli
from glassformer.corpus.links import LINKS, check_free, check_links, write_linked
from glassformer.corpus.near_duplicates import KEPT_TEXT, VERDICT_ROW, Array, read_index
from glassformer.corpus.pages import KEPT, RULES, STEPS, ListRecords, Outcomes, ReadPages, tasks_for
from glassformer.corpus.quality import NUM_BUCKETS, BuildSettings
from glassformer.corpus.warc import check_warc, warc_files
from glassformer.data.folders import FORMAT, corpus_manifest
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.page import corpus_page
from glassformer.wording import counted, install, shortened

# --- the working folder of a build, beside its output ---
#
# corpus/               the corpus, when it is finished
# .corpus.partial/      what was done so far; deleted at the end
#   request.json        what is being built: a build of something else starts over
#   ready/              the files of the corpus as they are finished
# .corpus.lock          held by the process that builds

_REQUEST = "request.json"
_READY = "ready"


class Workspace:
    """The working folder for one output."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out.with_name(f".{out.name}.partial")

    @property
    def ready(self) -> Path:
        return self.folder / _READY

    def part(self, name: str) -> Path:
        """A folder of its own for a step."""
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def begin(self, request: dict[str, Any]) -> bool:
        """Prepare the folder for a build. Whether it continues an earlier one."""
        try:
            before = json.loads((self.folder / _REQUEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = None
        if before == request and self.ready.is_dir():
            return True
        with files.explained(self.folder):
            files.discard(self.folder)
            self.ready.mkdir(parents=True)
            files.write_json(self.folder / _REQUEST, request)
        return False

    def publish(self) -> None:
        """Move the finished corpus to its place, and delete the rest."""
        with files.explained(self.out):
            for file in self.ready.iterdir():
                files.sync(file)
            files.sync(self.ready)
            files.take_place(self.ready, self.out)
            files.sync(self.out.parent)
            files.discard(self.folder)


# --- shards: the files of a corpus, compressed, with one document on each line ---
#
#     corpus-00000.jsonl.gz     {"text": …, "metadata": {"url": …, "title": …, "language": …}}
#
# A shard takes the documents of whole tasks, so that shards can be written in parallel. The same
# documents give the same bytes: the compressed files contain no date and no name.

LENGTHS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)  # characters


def shard_name(number: int) -> str:
    return f"corpus-{number:05}.jsonl.gz"


def planned_shards(pages: Path, verdicts: Path, num_tasks: int, size: int) -> list[range]:
    """The tasks of each shard: as many as give so many bytes of text."""
    is_kept = np.fromfile(verdicts, dtype=VERDICT_ROW)["verdict"] == KEPT_TEXT
    shards, first, filled, start = list[range](), 0, 0, 0
    for task in range(num_tasks):
        sizes = read_index(pages, task)["num_bytes"]
        filled += int(sizes[is_kept[start : start + len(sizes)]].sum())
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
        files.write_json_line(self.about / f"{rank:05}.json", about)

    def _is_kept(self, document: dict[str, Any], row: Array, outcomes: Outcomes) -> bool:
        about = document["metadata"]
        if row["verdict"] == KEPT_TEXT:
            if self.scrub_pii:
                document["text"] = quality.scrubbed(document["text"])
                about["title"] = quality.scrubbed(about["title"])
            outcomes.add(KEPT, about["url"], document["text"], title=about["title"])
            return True
        rule = "duplicates/exact" if row["verdict"] == near_duplicates.EXACT else "duplicates/near"
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


# --- the largest groups of texts of which only one was kept, for the report ---

_CLUSTERS, _MEMBERS = 12, 5  # that are shown
_SHOWN = 300  # characters of a text


def largest_clusters(pages: Path, verdicts: Path, num_tasks: int) -> list[dict[str, Any]]:
    """The documents that were kept in place of most others, with some of these."""
    rows = np.fromfile(verdicts, dtype=VERDICT_ROW)
    lengths = [len(read_index(pages, task)) for task in range(num_tasks)]
    starts = np.cumsum([0, *lengths])
    dropped = np.flatnonzero(rows["verdict"] != KEPT_TEXT)
    sizes = Counter(rows["of"][dropped].tolist())
    largest = sorted(sizes, key=lambda number: (-sizes[number], number))[:_CLUSTERS]
    clusters = []
    for number in largest:
        members = dropped[rows["of"][dropped] == number]
        shown = [
            _shown(document_at(pages, starts, int(member)))
            | {"similarity": round(float(rows["similarity"][member]), 4)}
            for member in members[:_MEMBERS]
        ]
        kept = _shown(document_at(pages, starts, int(number)))
        clusters.append({"size": sizes[number] + 1, "kept": kept, "dropped": shown})
    return clusters


def _shown(document: dict[str, Any]) -> dict[str, Any]:
    about, text = document["metadata"], document["text"]
    return {"url": about["url"], "title": about["title"], "text": shortened(text, _SHOWN)}


# --- the report: what was kept and dropped by each step, with examples ---

DETAILS = "details.json"
PAGE = "report.html"


@dataclass(frozen=True)
class CorpusReport:
    """The numbers of a report, and where the page is, if one was written."""

    values: dict[str, Any]
    path: Path | None

    def as_json(self) -> dict[str, Any]:
        return self.values


def report(corpus: Path, out: Path | None = None, write: bool = True) -> CorpusReport:
    """Read the report of a corpus and write it as one HTML page."""
    manifest = corpus_manifest(corpus)
    if manifest is None:
        raise GlassformerError(
            f"{corpus} is not a corpus. Pass a folder that glassformer corpus build wrote."
        )
    if not (corpus / DETAILS).is_file():
        raise GlassformerError(f"{corpus / DETAILS} is missing. Copy the whole folder.")
    path = out or corpus / PAGE
    if path.suffix.lower() != ".html":
        raise UsageError(f"{path}: the name must end in .html.")
    try:
        values = report_values(manifest, files.read_json(corpus / DETAILS))
    except (KeyError, TypeError, AttributeError):
        raise GlassformerError(
            f"{corpus / DETAILS} does not belong to this corpus, or is damaged. Build it again."
        ) from None
    if write:
        files.write_file(path, corpus_page(values))
    return CorpusReport(values, path if write else None)


def report_values(manifest: dict[str, Any], details: dict[str, Any]) -> dict[str, Any]:
    """All that the page shows, as plain data."""
    meanings = RULES | {f"quality/{name}": about for name, about in quality.RULES.values()}
    dropped = manifest["dropped"]
    left, steps = manifest["read"], []
    for step, about in STEPS.items():
        rules = [
            {"rule": rule, "about": meanings.get(rule, ""), "count": count}
            for rule, count in sorted(dropped.items(), key=lambda pair: (-pair[1], pair[0]))
            if rule.startswith(f"{step}/")
        ]
        num_dropped = sum(rule["count"] for rule in rules)
        left -= num_dropped
        steps.append({"step": step, "about": about, "dropped": num_dropped, "left": left})
        steps[-1]["rules"] = rules
    names = ("read", "kept", "num_bytes", "num_characters", "recipe", "inputs")
    shown = ("examples", "languages", "kept_languages", "domains", "num_domains", "clusters")
    return {
        **{name: manifest[name] for name in names},
        "num_shards": len(manifest["shards"]),
        "steps": steps,
        **{name: details[name] for name in shown},
        "lengths": {"up_to": list(LENGTHS), "counts": details["lengths"]},
    }


# --- the build: its steps are datatrove's tasks, and are marked as they are finished ---

_PACKAGES = ("glassformer", "trafilatura", "py3langid", "datatrove")
_MOST_DOMAINS = 50
_ABOUT_INPUTS = ("name", "bytes", "sha256", "num_records", "num_pages")


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
    quality.check_languages(settings.language)
    check_free(out, force, FORMAT)
    if links is not None:
        check_links(links)
    paths = tuple(path.resolve() for path in warc_files(warc))
    for path in paths:
        check_warc(path)
    with files.locked(out, "built"):
        check_free(out, force, FORMAT)  # another build may just have finished
        work = Workspace(out)
        work.begin(_request(paths, links, settings))
        with files.explained(out), executor or Executor() as running:
            corpus = _Build(paths, links, settings, running, work).run()
        work.publish()
    return corpus


def _request(
    paths: tuple[Path, ...], links: Path | None, settings: BuildSettings
) -> dict[str, Any]:
    """What identifies a build, so that only the same one is continued."""
    inputs = [*paths, *([links.resolve() / LINKS] if links is not None else [])]
    about = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in inputs]
    return {"inputs": about, "settings": settings.model_dump(mode="json"), "versions": _versions()}


def _versions() -> dict[str, str]:
    optional = ("brotli",) if has_brotli() else ()
    return {name: version(name) for name in (*_PACKAGES, *optional)}


class _Build:
    """The steps of one build."""

    def __init__(
        self,
        paths: tuple[Path, ...],
        links: Path | None,
        settings: BuildSettings,
        executor: Executor,
        work: Workspace,
    ) -> None:
        self._paths, self._links, self._settings = paths, links, settings
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
        self._step("records", ListRecords(self._paths, out), len(self._paths))
        return [files.read_json(out / f"{number:05}.json") for number in range(len(self._paths))]

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
        step = ReadPages(self._paths, tasks, self._settings, linked, self._pages, signatures)
        self._step("pages", step, len(tasks))

    def _find_duplicates(self, num_tasks: int) -> None:
        from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets

        signatures, pairs = self._work.part("signatures"), self._work.part("pairs")
        find = MinhashDedupBuckets(
            str(signatures),
            str(pairs),
            config=near_duplicates.minhash_config(),
            lines_to_buffer=1000,
        )
        self._step("candidates", find, NUM_BUCKETS)
        threshold = self._settings.similarity
        drop = near_duplicates.DropDuplicates(
            self._pages, pairs, num_tasks, threshold, self._verdicts
        )
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
                name: {"num_documents": count} | size_and_hash(ready / name)
                for name, count in zip(names, statistics["documents"], strict=True)
            },
            "recipe": self._recipe(),
            "inputs": [{name: listing[name] for name in _ABOUT_INPUTS} for listing in listings],
        }
        clusters = largest_clusters(self._pages, self._verdicts, num_tasks)
        details = statistics | outcomes.as_json() | {"clusters": clusters}
        if self._settings.scrub_pii:  # also in the examples of what was dropped
            details = quality.scrubbed_in(details)
        files.write_json(ready / DETAILS, details)
        values = report_values(manifest, files.read_json(ready / DETAILS))
        files.write_file(ready / PAGE, corpus_page(values))
        # Last: without it, the folder is not a corpus.
        files.write_json(ready / files.MANIFEST, manifest)
        notes = [note for listing in listings for note in listing["notes"]]
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
            outcomes.merge(files.read_json(self._pages / f"{number:05}.json"))
        about = self._work.part("shards")
        parts = [files.read_json(about / f"{number:05}.json") for number in range(num_shards)]
        for part in parts:
            outcomes.merge(part)
        return outcomes, _summed(parts)

    def _recipe(self) -> dict[str, Any]:
        links = None if self._links is None else files.file_digest(self._links / LINKS)
        minhash = {"shingle_words": quality.SHINGLE_WORDS, "num_buckets": NUM_BUCKETS}
        return {
            **self._settings.model_dump(mode="json"),
            "links_sha256": links,
            "trafilatura": OPTIONS,
            "minhash": minhash | {"hashes_per_bucket": quality.HASHES_PER_BUCKET},
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
