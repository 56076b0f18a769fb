"""Translation memories (.tmx): units of the same sentence in several languages.

    <tu><tuv xml:lang="en-US"><seg>Good day</seg></tuv>
        <tuv xml:lang="de"><seg>Guten Tag</seg></tuv></tu>  →  (1, "Good day", "Guten Tag")

Languages are told apart by their first part, whatever its case: "en" is also "en-US" and "EN_gb".
Only the words of a segment are kept; the formatting codes of the program it came from are dropped.
The file is read piece by piece, and no tree of it is built. Entities that it declares of its own
are refused: a few lines of them can unfold to gigabytes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from glassformer.data.splits import listed
from glassformer.data.tables import EmptyError, open_bytes
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

_PIECE = 1 << 16  # bytes that are parsed at a time
_CODES = ("bpt", "ept", "ph", "it", "ut")  # of formatting; <hi> is none: it only marks words
_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass(frozen=True, slots=True)
class Memory:
    """The units that have both languages, each with its line, and what is worth a remark."""

    units: list[tuple[int, str, str]]
    languages: tuple[str, str]
    notes: list[str]


def read_tmx(path: Path, source: str | None, target: str | None) -> Memory:
    """The units of a translation memory in two languages: those named, else those there are."""
    found = _parsed(path, [_primary(name) for name in (source, target) if name])
    if not found.languages:
        raise EmptyError(f"{path} has no units in it.")
    notes: list[str] = []
    sources, targets = _sides(path, found, source, target, notes)
    units, lacking = [], []
    for line, texts in found.units:
        first = next((text for language, text in texts.items() if language in sources), None)
        second = next((text for language, text in texts.items() if language in targets), None)
        if first is None or second is None:
            lacking.append(line)
        else:
            units.append((line, first, second))
    languages = found.languages[sources[0]], found.languages[targets[0]]
    both = " and ".join(languages)
    if not units:
        raise EmptyError(f"{path} has no unit in both {both}.")
    if lacking:
        missing = f"{counted(len(lacking), 'unit')} without one of {both}"
        notes.append(f"left out: {missing} (first: {path}:{lacking[0]})")
    return Memory(units, languages, notes)


# --- languages ---


def _tag(language: str) -> str:
    return language.strip().replace("_", "-").lower()


def _primary(language: str) -> str:
    return _tag(language).split("-")[0]


def _sides(
    path: Path, found: "_Units", source: str | None, target: str | None, notes: list[str]
) -> tuple[list[str], list[str]]:
    """The languages of either side. One side may be spelt in several ways: en-us, en-gb."""
    sources = _meant(path, found, source, "source")
    targets = _meant(path, found, target, "target")
    if set(sources) & set(targets):
        raise UsageError(f"{path}: {source} and {target} are the same language. Name two.")
    if sources and targets:
        return sources, targets
    groups: dict[str, list[str]] = {}
    for language in found.languages:
        groups.setdefault(_primary(language), []).append(language)
    if len(groups) == 1:  # from American to British, perhaps
        groups = {language: [language] for language in found.languages}
    if len(groups) < 2:
        raise GlassformerError(f"{path} has only one language: {_listed(found)}. Give two.")
    if len(groups) > 2:
        raise GlassformerError(
            f"{path} has more than two languages: {_listed(found)}. "
            "Say --source-column and --target-column."
        )
    one, other = groups.values()
    if not sources and not targets:
        declared = _declared(found, [one, other])
        sources = declared or one
        if declared is None:
            order = f"{found.languages[one[0]]}, then {found.languages[other[0]]}"
            notes.append(f"{path} does not say which language is the source; taken are {order}")
    rest = other if set(sources or targets) & set(one) else one
    return (sources, rest) if sources else (rest, targets)


def _meant(path: Path, found: "_Units", wanted: str | None, role: str) -> list[str]:
    """The languages that `wanted` means: the very one, else all with the same first part."""
    if wanted is None:
        return []
    if _tag(wanted) in found.languages:
        return [_tag(wanted)]
    alike = [language for language in found.languages if _primary(language) == _primary(wanted)]
    if not alike:
        raise GlassformerError(
            f'{path} has no language "{wanted}". It has: {_listed(found)}. '
            f"Say another --{role}-column."
        )
    return alike


def _declared(found: "_Units", groups: list[list[str]]) -> list[str] | None:
    """The languages that the header calls the source, if it names one of those there are."""
    named = _tag(found.source_language)
    exact = [group for group in groups if named in group]
    alike = [group for group in groups if _primary(named) == _primary(group[0])]
    fitting = exact or alike
    return fitting[0] if len(fitting) == 1 else None


def _listed(found: "_Units") -> str:
    return listed(found.languages.values(), most=20)


# --- parsing ---


class _Units:
    """What the parser reports to: gathers the units of a file as their parts go by."""

    def __init__(self, path: Path, wanted: list[str]) -> None:
        self.root = ""
        self.source_language = ""
        self.languages: dict[str, str] = {}
        """All there are, in order, and how each was first written."""
        self.units: list[tuple[int, dict[str, str]]] = []
        """The line of each, and its text in each language that may be wanted."""
        self._path = path
        self._parser = DefusedXMLParser(target=self)
        self._primaries: set[str] = set()
        self._wanted = wanted if len(wanted) == 2 else []
        self._language = ""
        self._words: list[str] | None = None  # of the segment that is being read
        self._depth_of_codes = 0

    def read(self, raw: BinaryIO) -> None:
        while piece := raw.read(_PIECE):
            self._parser.feed(piece)
        self._parser.close()

    @property
    def line(self) -> int:
        return int(self._parser.parser.CurrentLineNumber)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        tag = _without_namespace(name)
        self.root = self.root or tag
        if tag == "header":
            self.source_language = attributes.get("srclang", "")
        elif tag == "tu":
            self.units.append((self.line, {}))
        elif tag == "tuv":
            self._open_variant(attributes.get(_XML_LANGUAGE, attributes.get("lang", "")))
        elif tag == "seg":
            self._words = []
        elif tag in _CODES:
            self._depth_of_codes += 1

    def data(self, text: str) -> None:
        if self._words is not None and not self._depth_of_codes:
            self._words.append(text)

    def end(self, name: str) -> None:
        tag = _without_namespace(name)
        if tag in _CODES:
            self._depth_of_codes -= 1
        elif tag == "seg":
            if self.units and self._may_be_wanted():
                self.units[-1][1].setdefault(self._language, "".join(self._words or []))
            self._words = None

    def close(self) -> None:
        """The parser asks for a result; this one is in the attributes."""

    def _open_variant(self, language: str) -> None:
        if not language.strip():
            raise GlassformerError(
                f"{self._path}:{self.line}: a <tuv> does not say its language. "
                'Write it as <tuv xml:lang="en">.'
            )
        self._language = _tag(language)
        self._primaries.add(_primary(language))
        self.languages.setdefault(self._language, language)

    def _may_be_wanted(self) -> bool:
        """With three languages and none named, all that is left to do is to list them."""
        if self._wanted:
            return _primary(self._language) in self._wanted
        return len(self._primaries) <= 2


def _parsed(path: Path, wanted: list[str]) -> _Units:
    with open_bytes(path) as raw:
        found = _Units(path, wanted)
        try:
            found.read(raw)
        except ParseError as error:
            line, _ = error.position
            reason = str(error).partition(":")[0]
            raise GlassformerError(
                f"{path}:{line}: damaged XML ({reason}). Mend it there, or export the file again."
            ) from None
        except DefusedXmlException:
            raise GlassformerError(
                f"{path}:{found.line} declares an entity of its own, which can be a trap and is "
                "not read. Export the file without."
            ) from None
        except (LookupError, ValueError) as error:  # in an encoding that the parser cannot read
            raise GlassformerError(f"{path}: {error}. Save it as UTF-8.") from None
    if found.root != "tmx":
        raise GlassformerError(
            f"{path} is XML, but no translation memory: it begins with <{found.root}>, not <tmx>."
        )
    return found


def _without_namespace(name: str) -> str:
    return name.rpartition("}")[2]
