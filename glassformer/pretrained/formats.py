"""The formats of single files, recognised by their first bytes: a file and a row each."""

from collections.abc import Callable
from dataclasses import dataclass

from glassformer.config import Config
from glassformer.data.text_files import DataPath, EmptyError, open_bytes
from glassformer.errors import GlassformerError
from glassformer.pretrained import gguf, word_vectors
from glassformer.pretrained.foreign_model import ForeignModel

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
        found = self.read(path)
        config: Config = found.model.config  # type: ignore[assignment]
        return found.name, config


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
    known = next((each for each in FORMATS if each.recognises(start)), None)
    if known is None:
        names = ", ".join(each.name for each in FORMATS)
        raise GlassformerError(
            f"{path} has no format that can be imported. These can: {names}, and folders of "
            "Hugging Face models. If it is data, pass a model before it."
        )
    return known
