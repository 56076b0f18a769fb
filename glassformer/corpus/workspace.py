"""The working folder of a build, beside its output.

corpus/               the corpus, when it is finished
.corpus.partial/      what was done so far; deleted at the end
  request.json        what is being built: a build of something else starts over
  ready/              the files of the corpus as they are finished
.corpus.lock          held by the process that builds
"""

import json
from pathlib import Path
from typing import Any

from glassformer.atomic_files import discard, explained, sync, take_place, write_json

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
        with explained(self.folder):
            discard(self.folder)
            self.ready.mkdir(parents=True)
            write_json(self.folder / _REQUEST, request)
        return False

    def publish(self) -> None:
        """Move the finished corpus to its place, and delete the rest."""
        with explained(self.out):
            for file in self.ready.iterdir():
                sync(file)
            sync(self.ready)
            take_place(self.ready, self.out)
            sync(self.out.parent)
            discard(self.folder)
