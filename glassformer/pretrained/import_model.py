"""From a model of another tool to a model folder, which is used like one that was trained here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer import __version__
from glassformer.atomic_files import new_folder, write_json
from glassformer.checkpoint.missing_folder import CONFIG, is_hub_name
from glassformer.checkpoint.model_folder import GENERATION, save_model
from glassformer.checkpoint.open import located, pinned
from glassformer.checkpoint.replaceable import check_replaceable
from glassformer.data.archives import COMPRESSIONS
from glassformer.data.text_files import missing
from glassformer.errors import GlassformerError, UsageError
from glassformer.pretrained.formats import format_of
from glassformer.pretrained.hugging_face import is_hugging_face, read_folder
from glassformer.pretrained.model_cards import own_card
from glassformer.pretrained.open_model import read_adapter
from glassformer.pretrained.peft_adapter import is_adapter
from glassformer.wording import command

WHAT = (
    "Pass a folder of a Hugging Face model or of a LoRA adapter, its name on the hub, a GGUF file, "
    "or a file of word vectors."
)
ENDINGS = (".gguf", ".txt", ".vec", ".bin", *COMPRESSIONS)  # of files; other dots belong to names


@dataclass(frozen=True)
class ImportedModel:
    """A model folder that was written. It is a path: pass it wherever one is expected."""

    folder: Path
    format: str
    model: str
    about: str
    trial: tuple[str, ...]
    source: str = ""
    """The name of the folder or file, or the name on the hub with its commit."""
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
            "source": self.source,
            "notes": list(self.notes),
        }


def import_model(
    path: str | Path,
    out: Path | None = None,
    force: bool = False,
    base: str | Path | None = None,
) -> ImportedModel:
    """Read a folder, a file or a model of the hub, and write its model to `out`. `base` is the
    base model of an adapter, instead of the one that it names."""
    source = located(path)
    if not source.exists():
        raise missing(source, WHAT)
    folder = out or Path("runs") / default_name(path, is_file=not source.is_dir())
    sources = [source] if base is None else [source, located(base)]
    check_replaceable(folder, force, *(Path(str(each)) for each in sources))
    if isinstance(source, Path) and is_adapter(source):
        format, imported = "LoRA adapter", read_adapter(source, base)
    elif base is not None:
        raise UsageError(f"{path} is not an adapter, so it has no base model. Leave out --base.")
    elif source.is_dir():
        if not isinstance(source, Path) or not (source / CONFIG).is_file():
            raise GlassformerError(f"{path} is a folder without a {CONFIG}. {WHAT}")
        if not is_hugging_face(source):
            raise UsageError(f"{path} is a model of glassformer already. Use it as it is.")
        format, imported = "Hugging Face", read_folder(source)
    else:
        file_format = format_of(source)
        format, imported = file_format.name, file_format.read(source)
    verb, *arguments = imported.command
    origin = origin_of(path)
    about = f"Imported with glassformer {__version__} from `{origin}`: {imported.about}"
    card = own_card(imported.name, about, imported.command)
    with new_folder(folder, has_own_manifest=True) as partial:
        save_model(partial, imported.model, imported.preprocessing, card)
        if imported.generation:
            write_json(partial / GENERATION, imported.generation)
    trial = (verb, str(folder), *arguments)
    return ImportedModel(
        folder, format, imported.name, imported.about, trial, origin, imported.notes
    )


def origin_of(path: str | Path) -> str:
    """Where a model came from, for its card: its name on the hub with the commit, or the name of
    its folder or file."""
    name = str(path)
    return pinned(name) if is_hub_name(name) else source_name(name)


def source_name(path: str | Path) -> str:
    """The last part of a path or of a name on the hub."""
    return Path(str(path).partition("@")[0] if is_hub_name(str(path)) else path).name


def default_name(path: str | Path, is_file: bool) -> str:
    """Qwen2.5-0.5B of a folder; glove.6B.50d of glove.6B.50d.txt.gz."""
    name = Path(source_name(path))
    while is_file and name.suffix.lower() in ENDINGS:
        name = name.with_suffix("")
    return str(name).strip(".") or "imported"
