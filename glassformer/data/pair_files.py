"""Files of sentence pairs in many formats.

    Go.<TAB>Va !             →  Pair("Go.", "Va !", "fra.tsv:1")
    train.en:7, train.fr:7   →  Pair("Go.", "Va !", "train.en:7")

Tables (.csv, .jsonl, .parquet, the hub), tab-separated lines, two parallel files, gettext (.po) and
translation memories (.tmx) are read; text may be gzipped. Sentences have no line breaks: any run of
whitespace becomes one space. Notes count what was left out.
"""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from xml.parsers import expat

import polib

from glassformer.data import text_files
from glassformer.data.archives import DataPath, ending, local_path
from glassformer.data.documents import cell
from glassformer.data.encodings import NotTextError
from glassformer.data.folders import read_all
from glassformer.data.label_columns import HEADED_ENDINGS
from glassformer.data.labels import listed
from glassformer.data.tables import Row, Table, column, open_table, used_twice
from glassformer.data.text_files import EmptyError, read_lines
from glassformer.errors import GlassformerError, UsageError
from glassformer.text.tokenizers import has_single_blanks
from glassformer.wording import cause, counted

# --- files of any of the formats ---

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
    columns: tuple[str, str] | None = None
    """The columns, or languages, of the last file."""

    def read(self, name: str) -> Iterator[Pair]:
        """The pairs of a file or hub dataset that contains both sides."""
        pairs = read_all([name], self._pairs_of, self._why_skipped, _CURE)
        yield from text_files.at_least_one(pairs, f"{name} contains no sentence pairs.")

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
            self.columns, units = read_tmx(path, self.source_column, self.target_column, self.notes)
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
        positions: tuple[int, int] | None = None
        for number, line in enumerate(read_lines(path, self.encoding), 1):
            if line.isspace() and "\t" not in line:
                continue
            fields = [one_line(field) for field in line.split("\t")]
            if positions is None:
                if positions := self._positions_in_header(path, number, fields):
                    continue
                positions = (0, 1)
            if len(fields) <= max(positions):
                raise GlassformerError(
                    f"{path}:{number}: expected at least {max(positions) + 1} fields, found "
                    f"{len(fields):,}. Write each line as source, tab, target, or pass a file for "
                    "each side (--source and --target)."
                )
            yield Pair(fields[positions[0]], fields[positions[1]], f"{path}:{number}")

    def _positions_in_header(
        self, path: DataPath, number: int, fields: list[str]
    ) -> tuple[int, int] | None:
        """The positions of source and target if the line is a header; None if it is a pair."""
        names = [field.casefold() for field in fields]
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
        self.columns = source, target = self._columns(header)
        if is_coded and not self._asks_for(fields):
            # "it" and "es" are words as well as language codes
            self.notes.append(f"{path}:{number} is read as a header: {source}, {target}")
        return fields.index(source), fields.index(target)

    def _table_pairs(self, name: str) -> Iterator[Pair]:
        table = _unpacked(open_table(name, self.encoding), [self.source_column, self.target_column])
        self.columns = source, target = self._columns(table)
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
                column(table, source, SOURCE_COLUMNS, "source", used=self._asked),
                column(table, target, TARGET_COLUMNS, "target", used=self._asked),
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
    with text_files.reading(name):
        if path.is_dir():
            raise GlassformerError(f"{name} is a folder. Pass a file with one sentence per line.")
        if not path.exists():
            raise text_files.missing(path, "Pass a file with one sentence per line.")
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


# --- gettext (.po) ---
#
#     msgid "Go."
#     msgstr "Va !"   →  (7, "Go.", "Va !")
#
# Obsolete, fuzzy and untranslated messages are left out, and counted in the notes.

_LINES_AT_ONCE = 10_000
_KEYWORD = re.compile(r"(?:#~\s*)?(msgid|msgctxt|msgstr)")
_LATER = re.compile(r"(?:#~\s*)?(?:msgid_plural|msgstr|\")")  # never the first line of a message
_STRING = re.compile(r'".*"\s*$')
# polib breaks lines wherever str.splitlines does, even inside a string.
_BREAKS = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


def read_gettext(path: DataPath, encoding: str, notes: list[str]) -> Iterator[tuple[int, str, str]]:
    """The line, source and translation of each message; what is left out is added to `notes`."""
    left_out: dict[str, list[int]] = {"obsolete": [], "fuzzy": [], "untranslated": []}
    forms: list[int] = []
    for line, entry in _entries(path, encoding):
        plural = entry.msgstr_plural or {}
        sides = [
            (entry.msgid, plural.get(0, entry.msgstr)),
            (entry.msgid_plural, plural.get(1, "")),
        ]
        translated = [side for side in sides if all(map(str.strip, side))]
        if entry.obsolete or entry.fuzzy or not translated:
            kind = "obsolete" if entry.obsolete else "fuzzy" if entry.fuzzy else "untranslated"
            left_out[kind].append(line)
        else:
            forms += [line] * max(0, len(plural) - 2)
            yield from ((line, source, target) for source, target in translated)
    notes += [
        f"left out: {counted(len(lines), what)} (first: {path}:{lines[0]})"
        for what, lines in (
            *((f"{kind} message", lines) for kind, lines in left_out.items()),
            ("plural form", forms),
        )
        if lines
    ]


def _entries(path: DataPath, encoding: str) -> Iterator[tuple[int, Any]]:
    """The messages of a file, parsed some at a time, each with its line."""
    for offset, lines in _blocks(path, encoding):
        try:
            entries = polib.pofile("".join(lines).translate(_BREAKS))
        except (OSError, ValueError, LookupError) as error:  # polib reports bad syntax as OSError
            match = re.search(r"line (\d+)", str(error))
            place = f"{path}:{offset + int(match[1])}" if match else str(path)
            raise _not_gettext(place) from None
        first = next((n for n, line in enumerate(lines, 1) if not line.isspace()), 1)
        for entry in entries:
            yield offset + (entry.linenum or first), entry  # polib does not number the first


def _blocks(path: DataPath, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file in parts that end after a message, and the number of lines before."""
    block, offset, is_translated = list[str](), 0, False
    for number, line in enumerate(read_lines(path, encoding), 1):
        # If the closing quote is missing, polib drops a letter instead of complaining.
        if line.startswith(("msg", '"')) and not _STRING.search(line):
            raise _not_gettext(f"{path}:{number}")
        begins = line.startswith(("#", "msgid", "msgctxt")) and not _LATER.match(line)
        if is_translated and begins:
            if len(block) >= _LINES_AT_ONCE:
                yield offset, block
                block, offset = [], number - 1
            is_translated = False
        if keyword := _KEYWORD.match(line):
            is_translated = keyword[1] == "msgstr"
        block.append(line)
    yield offset, block


def _not_gettext(place: str) -> GlassformerError:
    return GlassformerError(
        f"{place}: invalid gettext. Correct it; msgfmt --check reports the problem."
    )


# --- translation memories (.tmx): units of one sentence in several languages ---
#
#     <tu><tuv xml:lang="en-US"><seg>Good day</seg></tuv>
#         <tuv xml:lang="de"><seg>Guten Tag</seg></tuv></tu>  →  (1, "Good day", "Guten Tag")
#
# Languages are compared by their first part, ignoring case: "en" also matches "en-US" and "EN_gb".
# Only the text of a segment is kept; formatting codes are dropped. The file is parsed in chunks
# without building a tree, once for the languages and once for the units. Custom entities are
# refused: a few lines can expand to gigabytes.

_PIECE = 1 << 16  # bytes parsed at a time
_CODES = ("bpt", "ept", "ph", "it", "ut")  # formatting codes; <hi> is not one: it only marks words
_XML_LANGUAGE = "http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(
    path: DataPath, source: str | None, target: str | None, notes: list[str]
) -> tuple[tuple[str, str], Iterator[tuple[int, str, str]]]:
    """Two languages of a translation memory, those named or else the only two, and the line and
    both texts of each unit that has them; what is left out is added to `notes`."""
    units = _Units(path, ())
    for _ in _parsed(units):
        pass
    if not units.languages:
        raise EmptyError(f"{path} contains no translation units.")
    sources, targets = _sides(path, units, source, target, notes)
    languages = units.languages[sources[0]], units.languages[targets[0]]

    def pairs() -> Iterator[tuple[int, str, str]]:
        num_pairs, num_lacking, first_lacking = 0, 0, 0
        for line, texts in _parsed(_Units(path, {*sources, *targets})):
            first = next((text for language, text in texts.items() if language in sources), None)
            second = next((text for language, text in texts.items() if language in targets), None)
            if first is None or second is None:
                num_lacking, first_lacking = num_lacking + 1, first_lacking or line
            else:
                num_pairs += 1
                yield line, first, second
        if not num_pairs:
            raise EmptyError(f"{path} contains no unit with both {' and '.join(languages)}.")
        if num_lacking:
            lacking = f"{counted(num_lacking, 'unit')} without {' or '.join(languages)}"
            notes.append(f"left out: {lacking} (first: {path}:{first_lacking})")

    return languages, pairs()


def _tag(language: str) -> str:
    return language.strip().replace("_", "-").lower()


def _primary(language: str) -> str:
    return _tag(language).split("-")[0]


def _sides(
    path: DataPath, units: "_Units", source: str | None, target: str | None, notes: list[str]
) -> tuple[list[str], list[str]]:
    """The languages of both sides. One side can have several variants: en-us, en-gb."""
    sources, targets = units.matching(source), units.matching(target)
    languages = listed(units.languages.values(), most=20)
    for role, wanted, matching in (("source", source, sources), ("target", target, targets)):
        if wanted and not matching:
            raise GlassformerError(
                f'{path} has no language "{wanted}" (languages: {languages}). '
                f"Pass another --{role}-column."
            )
    if set(sources) & set(targets):
        raise UsageError(
            f"{path}: {source} and {target} are the same language. Pass two languages."
        )
    if sources and targets:
        return sources, targets
    groups: dict[str, list[str]] = {}
    for language in units.languages:
        groups.setdefault(_primary(language), []).append(language)
    if len(groups) == 1:  # e.g. American to British English
        groups = {language: [language] for language in units.languages}
    if len(groups) < 2:
        raise GlassformerError(f"{path} has only one language: {languages}. Pass a file with two.")
    if len(groups) > 2:
        raise GlassformerError(
            f"{path} has more than two languages: {languages}. "
            "Pass --source-column and --target-column."
        )
    one, other = groups.values()
    if not sources and not targets:
        matching = units.matching(units.source_language)
        declared = [group for group in (one, other) if set(group) & set(matching)]
        sources = declared[0] if len(declared) == 1 else one
        if len(declared) != 1:
            order = f"{units.languages[one[0]]} to {units.languages[other[0]]}"
            notes.append(f"{path} does not declare its source language; read as {order}")
    rest = other if set(sources or targets) & set(one) else one
    return (sources, rest) if sources else (rest, targets)


class _Units:
    """Collects the units of a file as it is parsed, with their texts in some languages."""

    def __init__(self, path: DataPath, wanted: Collection[str]) -> None:
        self.root = ""
        self.source_language = ""
        self.languages: dict[str, str] = {}
        """All languages, in order, and how each was first written."""
        self.units: list[tuple[int, dict[str, str]]] = []
        """The line of each unit since the last time, and its text in each wanted language."""
        self.path = path
        self.parser = expat.ParserCreate(namespace_separator="}")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.SkippedEntityHandler = self._refuse_unknown_entity
        self._wanted = wanted
        self._language = ""
        self._words: list[str] | None = None  # of the current segment
        self._depth_of_codes = 0

    @property
    def line(self) -> int:
        return self.parser.CurrentLineNumber

    def matching(self, wanted: str | None) -> list[str]:
        """The languages that match `wanted`: exactly, else all with the same first part."""
        tag = _tag(wanted or "")
        if tag in self.languages:
            return [tag]
        return [language for language in self.languages if _primary(language) == _primary(tag)]

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        _, _, tag = name.rpartition("}")  # without its namespace
        self.root = self.root or tag
        if tag == "header":
            self.source_language = attributes.get("srclang", "")
        elif tag == "tu":
            self.units.append((self.line, {}))
        elif tag == "tuv":
            language = attributes.get(_XML_LANGUAGE, attributes.get("lang", ""))
            if not language.strip():
                raise GlassformerError(
                    f"{self.path}:{self.line}: a <tuv> has no language. "
                    'Write it as <tuv xml:lang="en">.'
                )
            self._language = _tag(language)
            self.languages.setdefault(self._language, language)
        elif tag == "seg":
            self._words = []
        elif tag in _CODES:
            self._depth_of_codes += 1

    def _data(self, text: str) -> None:
        if self._words is not None and not self._depth_of_codes:
            self._words.append(text)

    def _end(self, name: str) -> None:
        _, _, tag = name.rpartition("}")  # without its namespace
        if tag in _CODES:
            self._depth_of_codes -= 1
        elif tag == "seg":
            if self.units and self._language in self._wanted:
                self.units[-1][1].setdefault(self._language, "".join(self._words or []))
            self._words = None

    def _refuse_entity(self, *declaration: object) -> None:
        raise GlassformerError(
            f"{self.path}:{self.line} declares a custom entity, which is refused because it can "
            "expand to gigabytes. Export the file without entities."
        )

    def _refuse_unknown_entity(self, name: str, is_parameter: bool) -> None:
        """With a reference to a DTD, which is not read, expat would leave out the entity."""
        if not is_parameter:
            raise _invalid(self.path, self.line, f"undefined entity &{name};")

    def complete(self, is_last: bool) -> list[tuple[int, dict[str, str]]]:
        """The units that are complete: all but the last, which may go on."""
        end = len(self.units) if is_last else max(0, len(self.units) - 1)
        done, self.units = self.units[:end], self.units[end:]
        return done


def _parsed(units: _Units) -> Iterator[tuple[int, dict[str, str]]]:
    """The units of a file, as they are read."""
    path = units.path
    with text_files.open_bytes(path) as raw:
        try:
            while piece := raw.read(_PIECE):
                units.parser.Parse(piece, False)
                yield from units.complete(is_last=False)
            units.parser.Parse(b"", True)
            yield from units.complete(is_last=True)
        except expat.ExpatError as error:
            raise _invalid(path, error.lineno, expat.ErrorString(error.code)) from None
        except (LookupError, ValueError) as error:  # an encoding that the parser cannot read
            raise GlassformerError(f"{path}: {cause(error)}. Save it as UTF-8.") from None
    if units.root != "tmx":
        raise GlassformerError(
            f"{path} is not a translation memory: it begins with <{units.root}>, not <tmx>."
        )


def _invalid(path: DataPath, line: int, reason: str) -> GlassformerError:
    return GlassformerError(
        f"{path}:{line}: invalid XML ({reason}). Correct it, or export the file again."
    )
