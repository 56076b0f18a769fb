"""From dumps of posts to a list of links: each page once, with the best score that it got.

    links/links.jsonl       {"url": …, "score": …, "title": …, "domain": …, "subreddit": …}
    links/manifest.json     how many posts were read and dropped, by which rules and settings

Posts are read once. Links that pass the rules are written to disk as they come; only 32 bytes of
each stay in memory, by which duplicates are found. The order of the list is that of a hash of the
URLs: it does not depend on the order of the files, spreads the pages of a site over the list, and
makes the first part of the list a sample of the whole.
"""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.atomic_files import MANIFEST, file_digest, new_folder, read_manifest, write_json
from glassformer.corpus.dump_files import dump_files
from glassformer.corpus.link_rules import RULES, LinkRules
from glassformer.corpus.outcomes import in_columns
from glassformer.corpus.posts import Post, read_posts
from glassformer.corpus.urls import Url
from glassformer.data.text_files import DataPath
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

LINKS = "links.jsonl"
FORMAT = "glassformer links"
MOST_BAD_LINES = 100
_REPORTED = 10  # bad lines that are reported one by one
_NOW_AND_THEN = 1_000_000  # posts after which the progress is reported
_CANDIDATES = ".candidates.jsonl"  # links that passed the rules, with duplicates

Report = Callable[[str], None]


@dataclass(frozen=True)
class Links:
    """What became of the posts: read = kept + all dropped."""

    read: int
    kept: int
    dropped: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def text(self) -> str:
        dropped = ((name, count, RULES[name]) for name, count in self.dropped.items() if count)
        return in_columns(("posts read", self.read, ""), *dropped, ("links kept", self.kept, ""))


def collect_links(
    posts: Sequence[str],
    out: Path,
    rules: LinkRules,
    max_bad_lines: int = MOST_BAD_LINES,
    force: bool = False,
    report: Report = lambda text: None,
) -> Links:
    """Read dumps of posts and write the links that pass the rules into the folder `out`."""
    check_free(out, force, FORMAT)
    files, others = dump_files(posts)
    if others:
        names = ", ".join(sorted(path.name for path in others)[:3])
        more = ", …" if len(others) > 3 else ""
        report(f"skipped {counted(len(others), 'file')} without posts: {names}{more}.")
    with new_folder(out, has_own_manifest=True) as folder:
        candidates = folder / _CANDIDATES
        with candidates.open("wb", buffering=2**20) as stream:
            reading = _Reading(stream, rules, max_bad_lines, report)
            sources = [{"file": path.name, "posts": reading.read(path)} for path in files]
        if not reading.num_read:
            raise GlassformerError(f"{', '.join(posts)} contains no posts. Pass other --posts.")
        with candidates.open("rb", buffering=2**12) as stream:  # lines here and there
            found = reading.write_best(stream, folder / LINKS)
        candidates.unlink()
        _write_manifest(folder, found, rules, sources)
    return found


def link_in(line: bytes | str, place: str) -> dict[str, Any]:
    """A link from a line of links.jsonl."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        link: dict[str, Any] = json.loads(line)
        if isinstance(link["url"], str):
            return link
    raise GlassformerError(f'{place}: not a link. Write each line as {{"url": "…"}}.')


def check_free(out: Path, force: bool, made: str) -> None:
    """Raise unless `out` can be written: with force, also if it is an earlier output."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not force:
        raise UsageError(f"{out} already exists. Pass --force to replace it, or another --out.")
    if read_manifest(out).get("format") != made:
        raise UsageError(
            f"{out} contains something else, so --force does not replace it. Pass another --out."
        )


class _Reading:
    """One pass over all posts."""

    def __init__(
        self, candidates: BinaryIO, rules: LinkRules, max_bad_lines: int, report: Report
    ) -> None:
        self._candidates, self._rules = candidates, rules
        self._max_bad_lines, self._report = max_bad_lines, report
        self.num_read = 0
        self._dropped: Counter[str] = Counter()
        self._keys, self._scores = array("Q"), array("d")
        self._ties, self._places = array("Q"), array("Q")
        self._end = 0  # of the candidates, in bytes

    def read(self, path: DataPath) -> int:
        """Read a file. Returns the number of its posts."""
        before = self.num_read
        for post in read_posts(path, self._malformed):
            self.num_read += 1
            url = self._rules.judge(post)
            if isinstance(url, str):
                self._dropped[url] += 1
            else:
                self._add(url, post)
            if self.num_read % _NOW_AND_THEN == 0:
                self._report(f"{self.num_read:,} posts read, {len(self._keys):,} links so far.")
        return self.num_read - before

    def _malformed(self, problem: str) -> None:
        self.num_read += 1
        self._dropped["malformed"] += 1
        count = self._dropped["malformed"]
        if count > self._max_bad_lines:
            raise GlassformerError(
                f"{problem}. {count:,} lines cannot be read: mend the file, or pass a larger "
                "--max-bad-lines."
            )
        if count <= _REPORTED:
            self._report(f"skipped {problem}.")

    def _add(self, url: Url, post: Post) -> None:
        score = post.score or 0.0
        values = {
            "url": str(url),
            "score": int(score) if score.is_integer() else score,
            "title": post.title,
            "domain": url.domain,
            "subreddit": post.subreddit,
        }
        line = json.dumps(values, ensure_ascii=False).encode() + b"\n"
        self._keys.append(_hash(url.key.encode()))
        self._scores.append(score)
        self._ties.append(_hash(line))
        self._places.append(self._end)
        self._end += self._candidates.write(line)

    def write_best(self, candidates: BinaryIO, path: Path) -> Links:
        """Write the best of each group of equal links."""
        import numpy as np

        keys, scores = np.asarray(self._keys), np.asarray(self._scores)
        order = np.lexsort((np.asarray(self._ties), -scores, keys))
        is_first = np.ones(len(keys), dtype=bool)
        is_first[1:] = keys[order][1:] != keys[order][:-1]
        kept = order[is_first]
        with path.open("wb") as target:
            for place in np.asarray(self._places)[kept].tolist():
                candidates.seek(place)
                target.write(candidates.readline())
        self._dropped["duplicate"] = len(keys) - len(kept)
        dropped = {rule: self._dropped[rule] for rule in RULES}
        return Links(self.num_read, len(kept), dropped)


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def _write_manifest(
    folder: Path, found: Links, rules: LinkRules, sources: list[dict[str, Any]]
) -> None:
    file = folder / LINKS
    settings = {
        "min_score": rules.min_score,
        "exclude_domains": sorted(rules.exclude),
        "include_domains": sorted(rules.include),
    }
    write_json(
        folder / MANIFEST,
        {
            "format": FORMAT,
            **found.as_json(),
            "settings": settings,
            "sources": sources,
            "files": {LINKS: {"bytes": file.stat().st_size, "sha256": file_digest(file)}},
        },
    )
