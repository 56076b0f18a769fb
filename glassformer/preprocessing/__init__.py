"""How a model's data was read, saved with the model: so predicting cannot differ from training.

One class per kind of input. Each owns its encoding and decoding, the names of the user's columns,
and its files in a model folder: settings as JSON, tokenizers as files of their own.

`Preprocessing` is the base of all kinds, `LabelledInputs` of those whose inputs can be classified,
and `TextInput` describes to a page, as plain data, how a text becomes ids.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from pydantic import ConfigDict

from glassformer.config import Config, StringTuple, parse
from glassformer.data.labels import Labelled
from glassformer.errors import GlassformerError
from glassformer.files import new_file, read_json, write_json
from glassformer.text.tokenizers import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TextInput:
    """How a text becomes the tokens that a model reads, as plain data: what `readText` in
    `inspect/static/live/tokenizer.js` needs to know."""

    tokenizer: str
    """The name of the tokenizer among those of the preprocessing."""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    """Ids around the text."""
    mask: int | None = None
    """The id in place of each `mask_name` in the text."""
    mask_name: str | None = None
    if_empty: int | None = None
    """The id in place of an empty text."""
    is_read_as_a_whole: bool = False
    """As `text.tokenizers.readable` does it."""
    carries_blanks: bool = False
    end: int | None = None
    """The id that completes a text that the model writes."""
    forbidden: tuple[int, ...] = ()
    """Ids that are never written."""


SETTINGS = "preprocessor_config.json"


class Preprocessing(Config):
    """How the user's data becomes what a model reads. This kind leaves it as it is.

    A field with `exclude=True` holds a tokenizer, saved in a file named after the field.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True
    )
    kind: ClassVar[str] = "plain"

    @classmethod
    def file_names(cls) -> tuple[str, ...]:
        """The files that it may write into a model folder."""
        return SETTINGS, *(f"{name}.json" for name in cls._tokenizer_fields())

    @classmethod
    def _tokenizer_fields(cls) -> tuple[str, ...]:
        return tuple(name for name, field in cls.model_fields.items() if field.exclude)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Its tokenizers by the name of their field."""
        fields = ((name, getattr(self, name)) for name in self._tokenizer_fields())
        return {name: tokenizer for name, tokenizer in fields if tokenizer is not None}

    def changed(self, **values: Any) -> Self:
        """The same with other values of some fields."""
        return type(self)(
            **{name: getattr(self, name) for name in type(self).model_fields} | values
        )

    @property
    def text_inputs(self) -> tuple[TextInput, ...]:
        """How a text becomes what each part of the model reads; empty if it reads no text."""
        return ()

    @property
    def sizes(self) -> dict[str, Any]:
        """What a model must have room for, by the keys of the model's config: a size of vocabulary
        may be smaller than the model's, anything else must be equal."""
        return {
            _size_key(name): self.tokenizers[name].vocab_size if name in self.tokenizers else None
            for name in self._tokenizer_fields()
        }

    def save(self, folder: Path) -> list[str]:
        """Write its files. Returns their names."""
        write_json(folder / SETTINGS, {"kind": self.kind, **self.model_dump(mode="json")})
        for name, tokenizer in self.tokenizers.items():
            with new_file(folder / f"{name}.json") as partial:
                tokenizer.save(partial)
        return [SETTINGS, *(f"{name}.json" for name in self.tokenizers)]

    @classmethod
    def load(cls, folder: Path, settings: dict[str, Any]) -> Self:
        """Read its files in `folder`; `settings` is the content of its JSON file."""
        values = dict(settings)
        for name in cls._tokenizer_fields():
            path = folder / f"{name}.json"
            if cls.model_fields[name].is_required() or path.is_file():
                values[name] = Tokenizer.load(path)
        return parse(cls, values, where=str(folder / SETTINGS))

    def check_model(self, config: Config, where: str, cure: str) -> None:
        """Raise unless a model of this config can read all that this preprocessing returns."""
        for key, size in self.sizes.items():
            available: Any = getattr(config, key, None)
            if size is None or available is None or not key.endswith("vocab_size"):
                fits = size == available
            else:
                fits = size <= available  # a model may have room for more tokens than there are
            if not fits:
                ours, models = ("missing" if n is None else _number(n) for n in (size, available))
                raise GlassformerError(
                    f"{where} does not fit the model: {key} is {ours} here and {models} in "
                    f"the model. {cure}"
                )

    def summary(self) -> dict[str, str]:
        """Rows of a plan or a model card, for people."""
        return {
            name.replace("_", " "): f"{tokenizer.kind}, {tokenizer.vocab_size:,} tokens"
            for name, tokenizer in self.tokenizers.items()
        }

    def facts(self) -> dict[str, Any]:
        """Keys of a plan in JSON, for programs."""
        facts: dict[str, Any] = {}
        for name, tokenizer in self.tokenizers.items():
            facts |= {name: tokenizer.kind, _size_key(name): tokenizer.vocab_size}
        return facts


def _number(size: Any) -> str:
    return f"{size:,}" if isinstance(size, int) else "×".join(map(str, size))


def _size_key(field: str) -> str:
    """tokenizer → vocab_size, target_tokenizer → target_vocab_size"""
    return field.replace("tokenizer", "vocab_size")


# --- inputs of classifiers: texts, time series, images ---


class LabelledExample(Labelled, Protocol):
    """An input with its labels: exactly one, unless there may be several."""

    @property
    def input(self) -> Any: ...


class LabelledInputs(Preprocessing):
    """A kind of input that can be classified."""

    unit: ClassVar[str] = "token"
    """What an encoded input consists of."""
    reads_files: ClassVar[bool] = False
    """An argument of `classify` names a file that is one input, and is not a text itself."""
    input_name: ClassVar[str] = "text"
    """The key of an input in JSON."""
    what_is_kept: ClassVar[str]
    """Which part of an input that is too long is read, in words."""

    text_column: StringTuple = ()
    """The columns of the training data that held the input."""
    label_column: str | None = None
    """The column that held the label or the tags."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """Type of the items of a row."""

    @abstractmethod
    def encode(self, contents: Sequence[Any]) -> list[Any]:
        """Inputs as rows of items, whole."""

    def encode_many(self, contents: Sequence[Any]) -> list[Any]:
        """The same for many, each as an array if that is faster."""
        return self.encode(contents)

    @abstractmethod
    def rows(self, encoded: Sequence[Any], limit: int | None) -> tuple[list[Any], list[bool]]:
        """Rows for a model that sees at most `limit` items, and whether each was shortened."""

    @abstractmethod
    def cut(self, row: Any, limit: int) -> Any:
        """A row that was made without a limit, for a model that sees at most `limit` items."""

    @property
    def width(self) -> int | None:
        """How many numbers an item of a row consists of; None for tokens."""
        return None

    def from_line(self, line: str) -> Any:
        """The input that was given as an argument or as a line of stdin."""
        return line

    def is_one(self, content: Any) -> bool:
        """Whether this is a single input, not a list of them."""
        return isinstance(content, str)

    def shown(self, content: Any) -> str:
        """An input on a line; empty if there is nothing in it to classify."""
        return str(content)

    def shown_row(self, row: Any) -> str:
        """An encoded input on a line."""
        return self.shown(row)

    @abstractmethod
    def trial(self, row: Any) -> tuple[str, ...]:
        """The arguments of `classify RUN` that try an input such as this."""

    @abstractmethod
    def read_labelled(
        self,
        paths: Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> tuple[Sequence[LabelledExample], list[str]]:
        """The labelled inputs of files, from the training's columns unless others are named, and
        notes on what was left out."""

    @abstractmethod
    def read_inputs(
        self, paths: Sequence[str], text_column: Sequence[str], encoding: str
    ) -> Iterator[tuple[Any, str]]:
        """The inputs of files, each with its place."""


def begins_word(tokenizer: Tokenizer, id: int) -> bool | None:
    """True if a token begins a word, False if it continues one. None if it may do either: where
    tokens include the blank before a word, such as a comma, which has none."""
    token = tokenizer.token(id)
    if not tokenizer.carries_blanks:
        return not (tokenizer.kind == "wordpiece" and token.startswith("##"))
    if token.startswith(" "):
        return True
    return False if token[:1].isalnum() else None


# --- every kind ---


@cache
def kinds() -> dict[str, type[Preprocessing]]:
    """Every kind by its name. Their modules import this one, so they are imported when needed."""
    from glassformer.preprocessing import images, masking, series, skip_gram, text

    return {
        cls.kind: cls
        for cls in (
            Preprocessing,
            text.TextPreprocessing,
            masking.MaskedTextPreprocessing,
            text.PairPreprocessing,
            series.SeriesPreprocessing,
            images.CaptionPreprocessing,
            images.ImagePreprocessing,
            images.PalettePreprocessing,
            skip_gram.SkipGramPreprocessing,
        )
    }


def load_preprocessing(folder: Path) -> Preprocessing:
    """The preprocessing that is saved in a folder."""
    settings = read_json(folder / SETTINGS)
    kind, known = settings.pop("kind", None), kinds()
    if not isinstance(kind, str) or kind not in known:
        raise GlassformerError(
            f'{folder / SETTINGS}: unknown kind "{kind}". Known kinds: {", ".join(known)}.'
        )
    return known[kind].load(folder, settings)
