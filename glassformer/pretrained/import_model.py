"""From a file in another format to a model folder, which is used like one that was trained here."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer import __version__
from glassformer.atomic_files import discard, explained, take_place
from glassformer.checkpoint.model_folder import CONFIG, save_model
from glassformer.data.text_files import DataPath, local_path, missing, open_bytes
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import name_of
from glassformer.pretrained import word_vectors
from glassformer.pretrained.foreign_model import ForeignModel
from glassformer.wording import command

BEGINNING = 2**16  # bytes by which a format is recognised


@dataclass(frozen=True)
class Format:
    """A row of the table."""

    name: str
    recognises: Callable[[bytes], bool]
    """By the first bytes of a file."""
    read: Callable[[DataPath], ForeignModel]


FORMATS = (
    Format("word vectors as text", word_vectors.is_text, word_vectors.read_text),
    Format("word2vec binary", word_vectors.is_binary, word_vectors.read_binary),
)


@dataclass(frozen=True)
class ImportedModel:
    """A model folder that was written. It is a path: pass it wherever one is expected."""

    folder: Path
    format: str
    model: str
    about: str
    trial: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        return str(self.folder)

    def summary(self) -> str:
        return f"{self.folder}: {self.model}, {self.about}. Try: {command(*self.trial)}"

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "format": self.format,
            "model": self.model,
            "notes": list(self.notes),
        }


def import_model(path: str | Path, out: Path | None = None, force: bool = False) -> ImportedModel:
    """Read a file, recognise its format, and write its model to `out`."""
    source = local_path(path)
    if source.is_dir():
        raise UsageError(f"{path} is a folder. Pass a file of word vectors.")
    if not source.exists():
        raise missing(source, "Pass a file of word vectors.")
    folder = out or Path("runs") / (source.name.split(".")[0] or "imported")
    _check_place(folder, force)
    with open_bytes(source) as file:
        start = file.read(BEGINNING)
    known = next((each for each in FORMATS if each.recognises(start)), None)
    if known is None:
        names = ", ".join(each.name for each in FORMATS)
        raise GlassformerError(f"{path} has no format that can be imported. These can: {names}.")
    found = known.read(source)
    name = name_of(found.model)
    trial = (found.verb, str(folder), *found.arguments)
    partial = folder.with_name(f".{folder.name}.partial")
    with explained(folder):
        discard(partial)
        try:
            save_model(partial, found.model, found.preprocessing, _card(found, name, source.name))
            take_place(partial, folder)
        finally:
            discard(partial)
    return ImportedModel(folder, known.name, name, found.about, trial, found.notes)


def _check_place(folder: Path, force: bool) -> None:
    if folder.is_file():
        raise UsageError(f"{folder} is a file. Choose another --out.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not (folder / CONFIG).is_file():
        raise GlassformerError(f"{folder} contains other files. Choose another --out.")
    if not force:
        raise GlassformerError(
            f"{folder} already contains a model. Use --force to replace it, or choose another "
            "--out."
        )


def _card(found: ForeignModel, name: str, source: str) -> str:
    return (
        f"# {name}\n\nImported with glassformer {__version__} from `{source}`: {found.about}.\n\n"
        f"```\nglassformer {found.verb} THIS_FOLDER {' '.join(found.arguments)}\n```\n"
    )
