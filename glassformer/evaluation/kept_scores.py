"""Scores that took long to compute, kept in a small JSON file by a digest of what they depend on.

The file is a convenience: a damaged one is computed over, and a folder that cannot be written is
done without.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from glassformer.atomic_files import write_json
from glassformer.errors import GlassformerError
from glassformer.evaluation.result import Result

MOST = 20  # results in a file; the oldest are forgotten


@dataclass(frozen=True)
class Scores(Result):
    """The scores of a result, without its details."""

    loss: float
    values: dict[str, float]
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, found: Result) -> "Scores":
        return cls(found.loss, found.scores(), found.interval)

    def scores(self) -> dict[str, float]:
        return dict(self.values)

    def parts(self) -> list[str]:
        return [f"{name} {value:.4f}" for name, value in self.values.items()]


_FILE = TypeAdapter(dict[str, Scores])


def recall(path: Path, digest: str) -> Scores | None:
    return _read(path).get(digest)


def keep(path: Path, digest: str, scores: Scores) -> None:
    kept = list((_read(path) | {digest: scores}).items())[-MOST:]
    with suppress(GlassformerError):
        write_json(path, {key: asdict(each) for key, each in kept})


def _read(path: Path) -> dict[str, Scores]:
    try:
        return _FILE.validate_python(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError, ValidationError):
        return {}
