"""What a classifier needs from the preprocessing of its inputs, whether texts or time series."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

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

    text_column: Names = ()
    """The columns of the training data that held the input."""
    label_column: str | None = None
    """The column that held the label or the tags."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """Type of the items of a row."""

    @property
    @abstractmethod
    def what_is_kept(self) -> str:
        """Which part of an input that is too long is read, in words."""

    @abstractmethod
    def encode(self, contents: Sequence[Any]) -> list[Any]:
        """Inputs as rows of items, whole."""

    @abstractmethod
    def fit(self, encoded: Sequence[Any], limit: int | None) -> tuple[list[Any], list[bool]]:
        """Rows for a model that sees at most `limit` items, and whether each was shortened."""

    def from_line(self, line: str) -> Any:
        """The input that was given as an argument or as a line of stdin."""
        return line

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
