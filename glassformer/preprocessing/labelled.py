"""What a classifier needs from the preprocessing of its inputs, whether texts or time series."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

from glassformer.config import Names
from glassformer.preprocessing.preprocessing import Preprocessing


class LabelledExample(Protocol):
    """An input, its labels (exactly one, unless there may be several), and where it came from."""

    @property
    def input(self) -> Any: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def source(self) -> str: ...


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

    text_column: Names = ()
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
