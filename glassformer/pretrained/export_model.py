"""From a model to the files of another tool, loaded again and compared: a format is a row."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.atomic_files import discard, explained, take_place, write_json
from glassformer.checkpoint.model_folder import (
    CARD,
    GENERATION,
    Saved,
    check_replaceable,
    load_model,
    save_model,
)
from glassformer.errors import GlassformerError, UsageError
from glassformer.pretrained.export_hub import check_hub, write_hub
from glassformer.pretrained.open_model import Source, located, open_model

TOLERANCE = 1e-3  # a larger difference in logits means that something is wrong


@dataclass(frozen=True)
class ExportFormat:
    """A row of the table."""

    about: str
    write: Callable[[Saved, Path, str], tuple[str, list[str]]]
    """Write a model into a folder, with the model card that it has. Returns what was written, in
    a word, and notes."""
    check: Callable[[Saved, Path], dict[str, float]]
    """The largest difference in logits after loading it again, by the tool that loaded it."""


def write_own(saved: Saved, folder: Path, card: str) -> tuple[str, list[str]]:
    save_model(folder, saved.model, saved.preprocessing, card)
    if saved.generation:
        write_json(folder / GENERATION, saved.generation)
    return saved.name, []


def check_own(saved: Saved, folder: Path) -> dict[str, float]:
    again = load_model(folder).model.state_dict()
    pairs = [(tensor.cpu(), again[name]) for name, tensor in saved.model.state_dict().items()]
    most = max(float((one - other).abs().max()) for one, other in pairs if one.numel())
    return {"glassformer": most}


FORMATS = {
    "hf": ExportFormat("a folder that transformers loads", write_hub, check_hub),
    "safetensors": ExportFormat("weights and configs with our names", write_own, check_own),
}


@dataclass(frozen=True)
class ExportedModel:
    """What was written. It is a path: pass it wherever one is expected."""

    folder: Path
    format: str
    architecture: str
    differences: dict[str, float]
    """The largest difference in logits after loading it again, by the tool that loaded it."""
    notes: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        return str(self.folder)

    def summary(self) -> str:
        parts = (f"{value:.2g} ({tool})" for tool, value in self.differences.items())
        return (
            f"{self.folder}: {self.architecture}. Largest difference in logits after loading it "
            f"back: {', '.join(parts)}."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "format": self.format,
            "architecture": self.architecture,
            "differences": self.differences,
            "notes": list(self.notes),
        }


def export_model(
    source: Source, format: str, out: Path | None = None, force: bool = False
) -> ExportedModel:
    """Write the model of a source to `out` in a format of the table."""
    if format not in FORMATS:
        raise UsageError(
            f'there is no format "{format}" to export to. These are known: {", ".join(FORMATS)}.'
        )
    path = located(source)
    folder = out or Path("exports") / f"{path.name}-{format}"
    check_replaceable(folder, force)
    saved = open_model(source)
    chosen = FORMATS[format]
    partial = folder.with_name(f".{folder.name}.partial")
    with explained(folder):
        discard(partial)
        try:
            partial.mkdir(parents=True)
            architecture, notes = chosen.write(saved, partial, _card_of(path))
            differences = chosen.check(saved, partial)
            for tool, difference in differences.items():
                if not difference <= TOLERANCE:
                    raise GlassformerError(
                        f"the exported model differs from the original: its logits, computed by "
                        f"{tool}, differ by up to {difference:.3g}. Nothing was written."
                    )
            take_place(partial, folder)
        finally:
            discard(partial)
    return ExportedModel(folder, format, architecture, differences, tuple(notes))


def _card_of(path: Any) -> str:
    card = Path(str(path)) / CARD
    return card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
