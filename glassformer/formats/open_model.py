"""Models of other tools: recognised, opened where they are stored, and imported.

    a file                       a format of the table: word vectors, GGUF
    a folder                     as Hugging Face's tools write it
    a folder of an adapter       merged into its base model

Opening converts a model in memory, so that every verb takes it. Importing writes a model folder.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from glassformer import __version__
from glassformer.checkpoint.model_folder import GENERATION, Saved, check_replaceable, save_model
from glassformer.checkpoint.model_names import CONFIG, is_hub_name
from glassformer.checkpoint.open import ModelPath, StoredModel, located, open_model, pinned, stored
from glassformer.config import Config, Values
from glassformer.data.archives import COMPRESSIONS, DataPath
from glassformer.data.text_files import EmptyError, missing, open_bytes
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import file_digest, new_folder, write_json
from glassformer.formats import gguf, hugging_face, peft_adapter, word_vectors
from glassformer.formats.conversion import ForeignModel
from glassformer.formats.export_hub import write_hub
from glassformer.formats.exporting import own_card
from glassformer.formats.hugging_face import is_hugging_face, read_folder
from glassformer.formats.peft_adapter import Adapter, is_adapter, open_adapter
from glassformer.preprocessing import Preprocessing
from glassformer.wording import command

# --- the formats of single files, recognised by their first bytes: a file and a row each ---

BEGINNING = 2**16  # bytes by which a format is recognised


@dataclass(frozen=True)
class Format:
    """A row of the table."""

    name: str
    recognises: Callable[[bytes], bool]
    """Whether the first bytes of a file are those of this format."""
    read: Callable[[DataPath], ForeignModel]
    describe: Callable[[DataPath], tuple[str, Config]] | None = None
    """Which model it contains, and its config, without reading the weights."""

    def description(self, path: DataPath) -> tuple[str, Config]:
        if self.describe is not None:
            return self.describe(path)
        model = self.read(path)
        config: Config = model.model.config  # type: ignore[assignment]
        return model.name, config


FORMATS = (
    Format("word vectors as text", word_vectors.is_text, word_vectors.read_text),
    Format("word2vec binary", word_vectors.is_binary, word_vectors.read_binary),
    Format("GGUF", gguf.is_gguf, gguf.read_gguf, gguf.describe_gguf),
)


def format_of(path: DataPath) -> Format:
    try:
        with open_bytes(path) as file:
            start = file.read(BEGINNING)
    except EmptyError:
        raise GlassformerError(f"{path} is empty. Copy it again.") from None
    for format in FORMATS:
        if format.recognises(start):
            return format
    names = ", ".join(format.name for format in FORMATS)
    raise GlassformerError(
        f"{path} has no format that can be imported. These can: {names}, and folders of "
        "Hugging Face models. If it is data, pass a model before it."
    )


# --- opening ---


def foreign_model(path: DataPath) -> StoredModel | None:
    """The model of another tool; None: there is none."""
    if path.is_file():
        return ModelFile(path)
    folder = Path(str(path))
    is_theirs = is_adapter(folder) or is_hugging_face(folder)
    return ForeignFolder(folder) if is_theirs else None


class ModelFile(StoredModel):
    """A model in a file, perhaps in an archive."""

    def __init__(self, file: DataPath) -> None:
        super().__init__(Path(str(file)))
        self._file = file

    def model(self) -> Saved:
        return format_of(self._file).read(self._file)

    def config(self) -> tuple[str, Config]:
        return format_of(self._file).description(self._file)

    def preprocessing(self) -> Preprocessing:
        return format_of(self._file).read(self._file).preprocessing

    def generation(self) -> Values:
        return {}  # no format of single files has any

    def files(self) -> list[Path]:
        return [self.path]


class ForeignFolder(StoredModel):
    """A model as transformers saves it, or a LoRA adapter, which is merged into its base model."""

    def model(self) -> Saved:
        with self._parts() as parts:
            return read_folder(*parts)

    def config(self) -> tuple[str, Config]:
        with self._parts() as parts:
            description = hugging_face.describe(*parts)
        return description.layout.model, description.config

    def preprocessing(self) -> Preprocessing:
        with self._parts() as parts:
            return hugging_face.read_preprocessing(*parts)

    def generation(self) -> Values:
        with self._parts() as parts:
            return hugging_face.read_generation(*parts)

    def digest(self) -> str:
        if not is_adapter(self.path):
            return super().digest()
        digest = file_digest(self.path / peft_adapter.WEIGHTS)
        base = _base_of(open_adapter(self.path), None)
        return f"{digest[:32]}+{stored(str(base)).digest()}"

    @contextmanager
    def _parts(self) -> Iterator[tuple[Path, Adapter | None]]:
        """The folder of the model, and what is merged into it."""
        if not is_adapter(self.path):
            yield self.path, None
            return
        adapter = open_adapter(self.path)
        with _base_folder(adapter) as base:
            yield base, adapter


def read_adapter(folder: Path, base: ModelPath | None = None) -> ForeignModel:
    """A LoRA adapter merged into its base model: `base`, or the one that it names."""
    adapter = open_adapter(folder)
    with _base_folder(adapter, base) as base_folder:
        merged = read_folder(base_folder, adapter)
    if base is None or adapter.base is None or _is_same(os.fspath(base), adapter.base):
        return merged
    note = f"the adapter names {adapter.base} as its base model, but was merged into {base}"
    return replace(merged, notes=(*merged.notes, note))


def _is_same(one: str, other: str) -> bool:
    """Whether two sources are the same folder or file, or the same name on the hub."""
    if is_hub_name(one) and is_hub_name(other):
        return one.partition("@")[0] == other.partition("@")[0]
    return Path(one).resolve() == Path(other).resolve()


@contextmanager
def _base_folder(adapter: Adapter, base: ModelPath | None = None) -> Iterator[Path]:
    """The base model of an adapter in Hugging Face's format; one of ours is converted."""
    path = _base_of(adapter, base)
    folder = Path(str(path))
    if path.is_dir() and is_adapter(folder):
        raise GlassformerError(
            f"{path}, the base model of {adapter.folder}, is an adapter itself. Merge it first: "
            "glassformer import ADAPTER."
        )
    if path.is_dir() and is_hugging_face(folder):
        yield folder
        return
    with TemporaryDirectory(prefix="glassformer-") as scratch:
        write_hub(open_model(str(path)), Path(scratch), "")
        yield Path(scratch)


def _base_of(adapter: Adapter, base: ModelPath | None) -> DataPath:
    name = base if base is not None else adapter.base
    cure = f"Merge the adapter with glassformer import {adapter.folder} --base MODEL."
    if name is None:
        raise GlassformerError(f"{adapter.folder} does not name its base model. {cure}")
    try:
        path = located(name)
    except GlassformerError as error:  # what looks like a name on the hub may have been a folder
        if base is not None:
            raise
        raise GlassformerError(
            f"the base model of {adapter.folder} cannot be opened: {error} If it is elsewhere: "
            f"{cure}"
        ) from None
    if not path.exists():
        raise GlassformerError(
            f"{name}, the base model of {adapter.folder}, does not exist. {cure}"
        )
    return path


# --- importing: to a model folder, which is used like one that was trained here ---

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
    path: str | Path, out: Path | None = None, force: bool = False, base: str | Path | None = None
) -> ImportedModel:
    """Read a folder, a file or a model of the hub, and write its model to `out`. `base` is the
    base model of an adapter, instead of the one that it names."""
    source = located(path)
    if not source.exists():
        raise missing(source, WHAT)
    folder = out or Path("runs") / default_name(path, is_file=not source.is_dir())
    sources = [source] if base is None else [source, located(base)]
    check_replaceable(folder, force, *(Path(str(source)) for source in sources))
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
