"""Files of sentence pairs in many formats.

    Go.<TAB>Va !             →  Pair("Go.", "Va !", "fra.tsv:1")
    train.en:7, train.fr:7   →  Pair("Go.", "Va !", "train.en:7")

Tables (.csv, .jsonl, .parquet, the hub), tab-separated lines, two parallel files, gettext (.po) and
translation memories (.tmx) are read; text may be gzipped. Sentences have no line breaks: any run of
whitespace becomes one space. Notes count what was left out.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from glassformer.data.corpus import cell
from glassformer.data.encodings import NotTextError
from glassformer.data.folders import read_all
from glassformer.data.gettext_files import read_gettext
from glassformer.data.headerless_files import HEADED_ENDINGS
from glassformer.data.labels import listed
from glassformer.data.tables import Row, Table, column, open_table, used_twice
from glassformer.data.text_files import (
    DataPath,
    EmptyError,
    at_least_one,
    ending,
    local_path,
    missing,
    read_lines,
    reading,
)
from glassformer.data.tmx import read_tmx
from glassformer.errors import GlassformerError
from glassformer.text.chunks import has_single_blanks
from glassformer.wording import counted

SOURCE_COLUMNS = ("source", "src")
TARGET_COLUMNS = ("target", "tgt", "trg")
PACKED_COLUMN = "translation"  # {"en": "…", "fr": "…"}, as in hub datasets
# ISO 639-1, and the most common codes with three letters
_LANGUAGES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da
de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz
ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln
lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi
pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti
tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
afr ara bel ben bul cat ces chi cmn cym dan deu dut ell eng epo est eus fas fin fra fre ger gle
glg heb hin hrv hun hye ind isl ita jpn kat kaz khm kor lao lat lav lit mal mar mkd mon msa mya
nld nno nob nor pan per pol por ron rum rus slk slv spa sqi srp swa swe tam tel tgl tha tur ukr
urd uzb vie yue zho
"""
_CURE = "Tables, tab-separated lines, .po and .tmx are read."
LANGUAGES = frozenset(_LANGUAGES.split())


class Pair(NamedTuple):
    """A sentence, its translation, and where they were read."""

    source: str
    target: str
    place: str


@dataclass(slots=True)
class PairReader:
    """Reads one file after the other, and notes what is left out."""

    source_column: str | None
    target_column: str | None
    encoding: str
    is_strict: bool = True
    """Whether the columns must exist; else they are used in files that have them."""
    notes: list[str] = field(default_factory=list)
    chosen: tuple[str, str] | None = None
    """The columns, or languages, of the last file."""

    def read(self, name: str) -> Iterator[Pair]:
        """The pairs of a file or hub dataset that contains both sides."""
        found = read_all([name], self._pairs_of, self._why_skipped, _CURE)
        yield from at_least_one(found, f"{name} contains no sentence pairs.")

    def read_sides(self, source: str, target: str) -> Iterator[Pair]:
        """The pairs of two files: line 7 of one is the translation of line 7 of the other."""
        paths = _text_file(source), _text_file(target)
        lines = [read_lines(path, self.encoding) for path in paths]
        for number, (first, second) in enumerate(itertools.zip_longest(*lines)):
            if first is None or second is None:
                longer = 0 if second is None else 1
                more = 1 + sum(1 for _ in lines[longer])
                raise GlassformerError(
                    f"{paths[longer]} has {counted(more, 'more line')} than {paths[1 - longer]} "
                    f"({number + more:,} and {number:,}). Each line must be the translation of "
                    "the same line in the other file."
                )
            yield _pair(first, second, f"{paths[0]}:{number + 1}")

    def _pairs_of(self, name: str) -> Iterator[Pair]:
        path = local_path(name)
        kind = ending(path)
        if not path.is_file() or kind in HEADED_ENDINGS:  # not a file: a hub dataset
            return self._table_pairs(name)
        if kind == ".po":
            units = read_gettext(path, self.encoding, self.notes)
        elif kind == ".tmx":
            self.chosen, units = read_tmx(path, self.source_column, self.target_column, self.notes)
        else:
            return self._tabbed_pairs(path)
        return (_pair(source, target, f"{path}:{line}") for line, source, target in units)

    def _why_skipped(self, path: DataPath) -> str | None:
        """Whether a file of a folder contains pairs."""
        if ending(path) in (*HEADED_ENDINGS, ".po", ".tmx"):
            return None
        try:
            lines = read_lines(path, self.encoding)
            first = next((line for line in lines if line.strip()), "\t")
        except (EmptyError, NotTextError):
            return None  # reported when it is read
        return None if "\t" in first else "no sentence pairs"

    def _tabbed_pairs(self, path: DataPath) -> Iterator[Pair]:
        places: tuple[int, int] | None = None
        for number, line in enumerate(read_lines(path, self.encoding), 1):
            if line.isspace() and "\t" not in line:
                continue
            fields = [one_line(each) for each in line.split("\t")]
            if places is None:
                if places := self._places_in_header(path, number, fields):
                    continue
                places = (0, 1)
            if len(fields) <= max(places):
                raise GlassformerError(
                    f"{path}:{number}: expected at least {max(places) + 1} fields, found "
                    f"{len(fields):,}. Write each line as source, tab, target, or pass a file for "
                    "each side (--source and --target)."
                )
            yield Pair(fields[places[0]], fields[places[1]], f"{path}:{number}")

    def _places_in_header(
        self, path: DataPath, number: int, fields: list[str]
    ) -> tuple[int, int] | None:
        """The positions of source and target if the line is a header; None if it is a pair."""
        names = [each.casefold() for each in fields]
        is_named = bool({*SOURCE_COLUMNS} & {*names} and {*TARGET_COLUMNS} & {*names})
        is_coded = len({*names[:2]}) == 2 and all(map(is_language, fields[:2]))
        if not (is_named or is_coded or self._asks_for(fields)):
            return None
        absent = [name for name in self._asked if name not in fields]
        if absent and not (is_named or is_coded):
            raise GlassformerError(
                f'{path}:{number} is not a header with a column "{absent[0]}". Write the column '
                "names there, separated by tabs, or omit --source-column and --target-column to "
                "use the first two columns."
            )
        header = Table(str(path), tuple(fields), tuple(fields), iter(()))
        self.chosen = source, target = self._columns(header)
        if is_coded and not self._asks_for(fields):
            # "it" and "es" are words as well as language codes
            self.notes.append(f"{path}:{number} is read as a header: {source}, {target}")
        return fields.index(source), fields.index(target)

    def _table_pairs(self, name: str) -> Iterator[Pair]:
        table = _unpacked(open_table(name, self.encoding), [self.source_column, self.target_column])
        self.chosen = source, target = self._columns(table)
        for row in table.rows:
            yield _pair(cell(row, source, "source"), cell(row, target, "target"), row.place)

    def _asks_for(self, columns: Sequence[str]) -> bool:
        """Whether there are columns to look for in a file with these columns."""
        return bool(self._asked) and (self.is_strict or set(self._asked) <= set(columns))

    @property
    def _asked(self) -> list[str]:
        return [name for name in (self.source_column, self.target_column) if name]

    def _columns(self, table: Table) -> tuple[str, str]:
        """The source and target columns: those asked for, else detected by name and content."""
        if self._asks_for(table.columns):
            source, target = self.source_column, self.target_column
            if source == target:
                raise used_twice(table, str(source), "source", "target")
            return (  # if only one was named, the other is detected
                column(table, source, SOURCE_COLUMNS, "source", taken=self._asked),
                column(table, target, TARGET_COLUMNS, "target", taken=self._asked),
            )
        sources = [name for name in table.columns if name.casefold() in SOURCE_COLUMNS]
        targets = [name for name in table.columns if name.casefold() in TARGET_COLUMNS]
        if len(sources) == len(targets) == 1:
            return sources[0], targets[0]
        languages = [name for name in table.worded if is_language(name)]
        if len(languages) > 2:
            languages = [name for name in languages if name.casefold() != "id"]  # or Indonesian
        if len(languages) == 2:
            return languages[0], languages[1]
        if len(table.worded) == 2:
            first, second = table.worded
            use = f'column "{first}" is used as the source, "{second}" as the target'
            self.notes.append(f"{table.name}: {use}")
            return first, second
        raise GlassformerError(
            f"{table.name} has no obvious source and target columns (columns: "
            f"{listed(table.columns, most=20)}). Pass --source-column and --target-column."
        )


def one_line(text: str) -> str:
    """Replace each run of whitespace, including line breaks, with one space."""
    return text if has_single_blanks(text) else " ".join(text.split())


def is_language(name: str) -> bool:
    """Whether it is a language code: en, ENG, pt-BR or zh_Hans, but not the word "It"."""
    first = re.split("[-_]", name)[0]
    return first.lower() in LANGUAGES and first in (first.lower(), first.upper())


def _pair(source: str, target: str, place: str) -> Pair:
    return Pair(one_line(source), one_line(target), place)


def _text_file(name: str) -> DataPath:
    path = local_path(name)
    with reading(name):
        if path.is_dir():
            raise GlassformerError(f"{name} is a folder. Pass a file with one sentence per line.")
        if not path.exists():
            raise missing(path, "Pass a file with one sentence per line.")
    return path


def _unpacked(table: Table, wanted: list[str | None]) -> Table:
    """Turn a column of {"en": "…", "fr": "…"} into the columns en and fr."""
    head = next(table.rows)  # never fails: empty tables are refused
    rows = itertools.chain([head], table.rows)
    packed = head.values.get(PACKED_COLUMN)
    if not isinstance(packed, dict) or set(wanted) & set(table.columns):
        return replace(table, rows=rows)
    names = tuple(map(str, packed))
    return Table(table.name, names, names, (_unpacked_row(row) for row in rows))


def _unpacked_row(row: Row) -> Row:
    values = row.values.get(PACKED_COLUMN)
    if not isinstance(values, dict | None):
        raise GlassformerError(
            f'{row.place}: column "{PACKED_COLUMN}" does not contain {{"en": "…", "fr": "…"}} like '
            "the rows before it. Correct the row."
        )
    return row._replace(values=values or {})
