"""A folder that glassformer corpus build wrote: its manifest lists the files that are text."""

import json
from pathlib import Path
from typing import Any

from glassformer.data.archives import Member
from glassformer.errors import GlassformerError

MANIFEST = "manifest.json"
FORMAT = "glassformer corpus"
_LARGEST = 2**24  # bytes of a manifest


def corpus_manifest(folder: Path | Member) -> dict[str, Any] | None:
    """The manifest of a corpus; None if the folder is not one."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(_LARGEST))
        is_corpus = values["format"] == FORMAT and isinstance(values["shards"], dict)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return dict(values) if is_corpus else None


def shards_in(folder: Path | Member) -> list[Path | Member] | None:
    """The files of a corpus that contain its documents; None if the folder is not a corpus."""
    manifest = corpus_manifest(folder)
    if manifest is None:
        return None
    shards: list[Path | Member] = [folder / Path(name).name for name in manifest["shards"]]
    for shard in shards:
        if not shard.is_file():
            raise GlassformerError(f"{shard} is missing. Copy the whole folder of the corpus.")
    return shards
