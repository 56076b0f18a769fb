"""A corpus from the web: links that people recommended, their pages, and the text of these.

links.py, posts.py      dumps of posts → links.jsonl
fetch.py                links.jsonl → pages in WARC files
build.py                WARC files → texts without duplicates, in shards
"""

from pathlib import Path
from typing import Any

from glassformer.files import file_digest

EXTRA = "glassformer[corpus]"  # what installs all packages of a corpus


def size_and_hash(path: Path) -> dict[str, Any]:
    """A file as manifests list it, so that another version of it is noticed."""
    return {"bytes": path.stat().st_size, "sha256": file_digest(path)}


def in_columns(*rows: tuple[str, int, str]) -> str:
    """Names, numbers and what they count, below each other: the result of every step."""
    width = max(20, *(len(name) + 2 for name, _, _ in rows))
    lines = (f"{name.replace('_', ' '):<{width}}{n:>12,}  {about}" for name, n, about in rows)
    return "\n".join(map(str.rstrip, lines))
