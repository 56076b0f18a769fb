"""Files of sentence pairs, in whatever format they come.

    Go.<TAB>Va !             →  Pair("Go.", "Va !", "fra.tsv:1")
    train.en:7, train.fr:7   →  Pair("Go.", "Va !", "train.en:7")

Tables (.csv, .jsonl, .parquet, the hub), lines with a tab, two files that run in parallel, gettext
(.po) and translation memories (.tmx) are read; text may be gzipped. A sentence has no line breaks:
all blanks in a row become one. What a file holds beside pairs is counted in the notes.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polib

from glassformer.data.corpus import cell
from glassformer.data.splits import listed
from glassformer.data.tables import (
    EmptyError,
    Row,
    Table,
    column,
    ending,
    local_path,
    missing,
    open_table,
    read_lines,
    reading,
)
from glassformer.data.tmx import read_tmx
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

SOURCE_COLUMNS = ("source", "src")
TARGET_COLUMNS = ("target", "tgt", "trg")
PACKED_COLUMN = "translation"  # {"en": "…", "fr": "…"}, as data sets of the hub have it
# ISO 639-1, and of the codes with three letters those that are met most
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
LANGUAGES = frozenset(_LANGUAGES.split())

_GETTEXT_STRING = re.compile(r'".*"\s*$')
# polib breaks lines wherever str.splitlines does, inside a string too; blanks are all alike to us.
_BREAKS = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence, its translation, and where they stand."""

    source: str
    target: str
    place: str


@dataclass(slots=True)
class PairReader:
    """Reads one file after the other, and notes what is left out of them."""

    source_column: str | None
    target_column: str | None
    encoding: str
    is_strict: bool = True
    """Must the columns be there? Else they are a preference, for files that have them."""
    notes: list[str] = field(default_factory=list)
    chosen: tuple[str, str] | None = None
    """The columns, or languages, of the file that was read last."""

    def read(self, name: str) -> Iterator[Pair]:
        """The pairs of a file or hub data set that holds both sides."""
        with reading(name):
            is_empty = True
            for pair in self._pairs_of(name):
                is_empty = False
                yield pair
            if is_empty:
                raise EmptyError(f"{name} has no sentence pairs in it.")

    def read_sides(self, source: str, target: str) -> Iterator[Pair]:
        """The pairs of two files: line 7 of one is the translation of line 7 of the other."""
        paths = _text_file(source), _text_file(target)
        lines = [read_lines(path, self.encoding) for path in paths]
        for number, (first, second) in enumerate(itertools.zip_longest(*lines)):
            if first is None or second is None:
                longer = 0 if second is None else 1
                more = 1 + sum(1 for _ in lines[longer])
                raise GlassformerError(
                    f"{paths[longer]} has {counted(more, 'line')} more than {paths[1 - longer]} "
                    f"({number + more:,} and {number:,}). Each line must be the translation of "
                    "the same line in the other file."
                )
            yield _pair(first, second, f"{paths[0]}:{number + 1}")

    def _pairs_of(self, name: str) -> Iterator[Pair]:
        path = local_path(name)
        if path.is_dir():
            raise GlassformerError(f"{name} is a folder. Give the files in it.")
        kind = ending(path)
        if not path.is_file() or kind in (".csv", ".jsonl", ".parquet"):  # no file: of the hub
            return self._table_pairs(name)
        if kind == ".po":
            return self._gettext_pairs(path)
        if kind == ".tmx":
            return self._memory_pairs(path)
        return self._tabbed_pairs(path)

    # --- lines with a tab ---

    def _tabbed_pairs(self, path: Path) -> Iterator[Pair]:
        places: tuple[int, int] | None = None
        for number, line in enumerate(read_lines(path, self.encoding), 1):
            if line.isspace() and "\t" not in line:
                continue
            fields = [one_line(each) for each in line.split("\t")]
            if places is None:
                places = self._places_in_header(path, number, fields)
                if places is not None:
                    continue
                places = (0, 1)
            if len(fields) <= max(places):
                raise GlassformerError(
                    f"{path}:{number} has {counted(len(fields), 'field')} instead of at least "
                    f"{max(places) + 1}. Write each line as source, tab, target; or give a file "
                    "for each side (--source and --target)."
                )
            yield Pair(fields[places[0]], fields[places[1]], f"{path}:{number}")

    def _places_in_header(
        self, path: Path, number: int, fields: list[str]
    ) -> tuple[int, int] | None:
        """Where source and target stand, if that line is a header; None if it is a pair."""
        names = [each.casefold() for each in fields]
        is_named = bool({*SOURCE_COLUMNS} & {*names} and {*TARGET_COLUMNS} & {*names})
        is_coded = len({*names[:2]}) == 2 and all(map(is_language, fields[:2]))
        if not (is_named or is_coded or self._asks_for(fields)):
            return None
        absent = [name for name in self._asked if name not in fields]
        if absent and not (is_named or is_coded):
            raise GlassformerError(
                f'{path}:{number} is no header with a column "{absent[0]}". Write the names of '
                "the columns there, with tabs between them; or leave out --source-column and "
                "--target-column, and the first two are taken."
            )
        header = Table(str(path), tuple(fields), tuple(fields), iter(()))
        source, target = self._columns(header)
        if is_coded and not self._asks_for(fields):
            # "it" and "es" are words as well as languages
            self.notes.append(f"{path}:{number} is taken as a header: {source}, {target}")
        return fields.index(source), fields.index(target)

    # --- tables ---

    def _table_pairs(self, name: str) -> Iterator[Pair]:
        table = _unpacked(open_table(name, self.encoding), [self.source_column, self.target_column])
        source, target = self._columns(table)
        for row in table.rows:
            yield _pair(cell(row, source, "source"), cell(row, target, "target"), row.place)

    def _asks_for(self, columns: Sequence[str]) -> bool:
        """Are there columns to look for in a file that has these?"""
        asked = self._asked
        return bool(asked) and (self.is_strict or set(asked) <= set(columns))

    @property
    def _asked(self) -> list[str]:
        return [name for name in (self.source_column, self.target_column) if name]

    def _columns(self, table: Table) -> tuple[str, str]:
        self.chosen = self._chosen_columns(table)
        return self.chosen

    def _chosen_columns(self, table: Table) -> tuple[str, str]:
        """The columns of source and target: as asked, else as their names and content say."""
        if self._asks_for(table.columns):
            return self._asked_columns(table)
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
            source, target = table.worded
            self.notes.append(
                f'{table.name}: column "{source}" is taken as the source, "{target}" as the target'
            )
            return source, target
        raise GlassformerError(
            f"{table.name} has no two columns that are plainly source and target. "
            f"It has: {listed(table.columns, most=20)}. Say --source-column and --target-column."
        )

    def _asked_columns(self, table: Table) -> tuple[str, str]:
        """One of the two may be left to tell from the rest."""
        source, target = self.source_column, self.target_column
        if source is not None:
            source = column(table, source, SOURCE_COLUMNS, "source")
        if target is not None:
            target = column(table, target, TARGET_COLUMNS, "target")
        if source == target:
            raise UsageError(f'column "{source}" cannot be both the source and the target.')
        return (
            source or column(table, None, SOURCE_COLUMNS, "source", taken=[str(target)]),
            target or column(table, None, TARGET_COLUMNS, "target", taken=[str(source)]),
        )

    # --- gettext and translation memories ---

    def _gettext_pairs(self, path: Path) -> Iterator[Pair]:
        left_out: dict[str, list[int]] = {"obsolete": [], "fuzzy": [], "untranslated": []}
        for entry in _gettext_entries(path, self.encoding):
            plural = entry.msgstr_plural or {}
            sides = [
                (entry.msgid, plural.get(0, entry.msgstr)),
                (entry.msgid_plural, plural.get(1, "")),
            ]
            translated = [side for side in sides if all(map(str.strip, side))]
            if entry.obsolete or entry.fuzzy or not translated:
                kinds = ("obsolete", entry.obsolete), ("fuzzy", entry.fuzzy)
                kind = next((kind for kind, is_so in kinds if is_so), "untranslated")
                left_out[kind].append(entry.linenum)
                continue
            for source, target in translated:
                yield _pair(source, target, f"{path}:{entry.linenum}")
        for kind, lines in left_out.items():
            if lines:
                number = counted(len(lines), f"{kind} message")
                self.notes.append(f"left out: {number} (first: {path}:{lines[0]})")

    def _memory_pairs(self, path: Path) -> Iterator[Pair]:
        memory = read_tmx(path, self.source_column, self.target_column)
        self.notes += memory.notes
        self.chosen = memory.languages
        for line, source, target in memory.units:
            yield _pair(source, target, f"{path}:{line}")


def one_line(text: str) -> str:
    """All blanks in a row, line breaks among them, become one."""
    return " ".join(text.split())


def is_language(name: str) -> bool:
    """en, ENG, pt-BR or zh_Hans; "It" with a capital is rather a word."""
    first = re.split("[-_]", name)[0]
    return first.lower() in LANGUAGES and first in (first.lower(), first.upper())


def _pair(source: str, target: str, place: str) -> Pair:
    return Pair(one_line(source), one_line(target), place)


def _text_file(name: str) -> Path:
    path = local_path(name)
    with reading(name):
        if path.is_dir():
            raise GlassformerError(f"{name} is a folder. Give a file with a sentence on each line.")
        if not path.exists():
            raise missing(path, "Give a file with a sentence on each line.")
    return path


def _gettext_entries(path: Path, encoding: str) -> list[Any]:
    lines = list(read_lines(path, encoding))
    for number, line in enumerate(lines, 1):
        # Where a quote is missing at the end, polib would drop a letter instead.
        if line.startswith(("msg", '"')) and not _GETTEXT_STRING.search(line):
            raise _no_gettext(f"{path}:{number}")
    try:
        return list(polib.pofile("".join(lines).translate(_BREAKS)))
    except (OSError, ValueError, LookupError) as error:  # OSError is what it says of bad syntax
        line_number = re.search(r"line (\d+)", str(error))
        raise _no_gettext(f"{path}:{line_number[1]}" if line_number else str(path)) from None


def _no_gettext(place: str) -> GlassformerError:
    return GlassformerError(f"{place}: not gettext. Mend it; msgfmt --check says what is wrong.")


def _unpacked(table: Table, wanted: list[str | None]) -> Table:
    """A table whose one column holds {"en": "…", "fr": "…"}, as a table of en and fr."""
    head = next(table.rows)  # there is one: an empty table has been refused
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
            f'{row.place}: column "{PACKED_COLUMN}" holds no {{"en": "…", "fr": "…"}}, unlike the '
            "rows before. Mend the row."
        )
    return replace(row, values=values or {})
