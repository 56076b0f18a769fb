"""Tables that show themselves: as aligned text, and as HTML in a notebook."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from glassformer.errors import GlassformerError

if TYPE_CHECKING:
    import pandas

Cell = int | float | str | None
Row = dict[str, Cell]

MOST_ROWS = 12  # of a table that shows itself: its first and last ones


class Table(list[Row]):
    """A list of rows. `table["val_loss"]` is a column, `table[-1]` a row."""

    @property
    def columns(self) -> list[str]:
        return list(self[0]) if self else []

    @overload
    def __getitem__(self, key: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> "Table": ...
    @overload
    def __getitem__(self, key: str) -> list[Cell]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Table(super().__getitem__(key))
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.columns:
            raise GlassformerError(f"there is no column {key}. Columns: {', '.join(self.columns)}.")
        return [row[key] for row in self]

    def to_pandas(self) -> "pandas.DataFrame":
        """The same as a DataFrame. Needs pandas, which glassformer does not install."""
        try:
            import pandas
        except ImportError:
            raise GlassformerError("to_pandas needs pandas. Run pip install pandas.") from None
        return pandas.DataFrame(list(self), columns=self.columns)

    def __repr__(self) -> str:
        return aligned(self.columns, self._shown()) if self else "no rows"

    def _repr_html_(self) -> str:
        return html_table(self.columns, self._shown())

    def _shown(self) -> list[list[str]]:
        cells = [[_shown(value) for value in row.values()] for row in self]
        half = MOST_ROWS // 2
        if len(cells) <= MOST_ROWS:
            return cells
        return [*cells[:half], ["…"] * len(self.columns), *cells[-half:]]


def aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of text, aligned on the right but for the first."""
    lines = [head, *rows]
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    return "\n".join(
        "  ".join([name.ljust(first), *map(str.rjust, cells, widths)]).rstrip()
        for name, *cells in lines
    )


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The same for a notebook. Nothing in a cell becomes markup."""
    lines = [_html_row("th", head), *(_html_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def html_notes(notes: Iterable[str]) -> str:
    """What the user should know, above a table."""
    return "".join(f"<p>Note: {escape(note)}.</p>" for note in notes)


def html_text(text: str) -> str:
    """Text as it is, with its line breaks."""
    return f"<pre>{escape(text)}</pre>"


def _html_row(kind: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"


def _shown(value: Cell) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
