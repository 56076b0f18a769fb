"""What every kind of preprocessing has: its settings as JSON, its tokenizers as files."""

from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field

from glassformer.atomic_files import new_file, write_json
from glassformer.config import Config, parse
from glassformer.errors import GlassformerError
from glassformer.preprocessing.text_input import TextInput
from glassformer.text.tokenizers import Tokenizer

SETTINGS = "preprocessor_config.json"


def tokenizer_field(**options: Any) -> Any:
    """A field that holds a tokenizer, saved in a file named after the field."""
    return Field(exclude=True, **options)


class Preprocessing(Config):
    """How the user's data becomes what a model reads. This kind leaves it as it is."""

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
        found = ((name, getattr(self, name)) for name in self._tokenizer_fields())
        return {name: tokenizer for name, tokenizer in found if tokenizer is not None}

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
            known: Any = getattr(config, key, None)
            if size is None or known is None or not key.endswith("vocab_size"):
                fits = size == known
            else:
                fits = size <= known  # a model may have room for more tokens than there are
            if not fits:
                ours, models = ("missing" if n is None else _number(n) for n in (size, known))
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
        found: dict[str, Any] = {}
        for name, tokenizer in self.tokenizers.items():
            found |= {name: tokenizer.kind, _size_key(name): tokenizer.vocab_size}
        return found


def _number(size: Any) -> str:
    return f"{size:,}" if isinstance(size, int) else "×".join(map(str, size))


def _size_key(field: str) -> str:
    """tokenizer → vocab_size, target_tokenizer → target_vocab_size"""
    return field.replace("tokenizer", "vocab_size")
