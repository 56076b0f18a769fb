"""Translation memories (.tmx): units of one sentence in several languages.

    <tu><tuv xml:lang="en-US"><seg>Good day</seg></tuv>
        <tuv xml:lang="de"><seg>Guten Tag</seg></tuv></tu>  →  (1, "Good day", "Guten Tag")

Languages are compared by their first part, ignoring case: "en" also matches "en-US" and "EN_gb".
Only the text of a segment is kept; formatting codes are dropped. The file is parsed in chunks
without building a tree, once for the languages and once for the units. Custom entities are refused:
a few lines can expand to gigabytes.
"""

from collections.abc import Collection, Iterator
from xml.parsers import expat

from glassformer.data.labels import listed
from glassformer.data.text_files import DataPath, EmptyError, open_bytes
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause, counted

_PIECE = 1 << 16  # bytes parsed at a time
_CODES = ("bpt", "ept", "ph", "it", "ut")  # formatting codes; <hi> is not one: it only marks words
_XML_LANGUAGE = "http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(
    path: DataPath, source: str | None, target: str | None, notes: list[str]
) -> tuple[tuple[str, str], Iterator[tuple[int, str, str]]]:
    """Two languages of a translation memory, those named or else the only two, and the line and
    both texts of each unit that has them; what is left out is added to `notes`."""
    found = _Units(path, ())
    for _ in _parsed(found):
        pass
    if not found.languages:
        raise EmptyError(f"{path} contains no translation units.")
    sources, targets = _sides(path, found, source, target, notes)
    languages = found.languages[sources[0]], found.languages[targets[0]]

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
            missing = f"{counted(num_lacking, 'unit')} without {' or '.join(languages)}"
            notes.append(f"left out: {missing} (first: {path}:{first_lacking})")

    return languages, pairs()


# --- languages ---


def _tag(language: str) -> str:
    return language.strip().replace("_", "-").lower()


def _primary(language: str) -> str:
    return _tag(language).split("-")[0]


def _sides(
    path: DataPath, found: "_Units", source: str | None, target: str | None, notes: list[str]
) -> tuple[list[str], list[str]]:
    """The languages of both sides. One side can have several variants: en-us, en-gb."""
    sources, targets = found.matching(source), found.matching(target)
    known = listed(found.languages.values(), most=20)
    for role, wanted, matching in (("source", source, sources), ("target", target, targets)):
        if wanted and not matching:
            raise GlassformerError(
                f'{path} has no language "{wanted}" (languages: {known}). '
                f"Pass another --{role}-column."
            )
    if set(sources) & set(targets):
        raise UsageError(
            f"{path}: {source} and {target} are the same language. Pass two languages."
        )
    if sources and targets:
        return sources, targets
    groups: dict[str, list[str]] = {}
    for language in found.languages:
        groups.setdefault(_primary(language), []).append(language)
    if len(groups) == 1:  # e.g. American to British English
        groups = {language: [language] for language in found.languages}
    if len(groups) < 2:
        raise GlassformerError(f"{path} has only one language: {known}. Pass a file with two.")
    if len(groups) > 2:
        raise GlassformerError(
            f"{path} has more than two languages: {known}. "
            "Pass --source-column and --target-column."
        )
    one, other = groups.values()
    if not sources and not targets:
        matching = found.matching(found.source_language)
        declared = [group for group in (one, other) if set(group) & set(matching)]
        sources = declared[0] if len(declared) == 1 else one
        if len(declared) != 1:
            order = f"{found.languages[one[0]]} to {found.languages[other[0]]}"
            notes.append(f"{path} does not declare its source language; read as {order}")
    rest = other if set(sources or targets) & set(one) else one
    return (sources, rest) if sources else (rest, targets)


# --- parsing ---


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
        place = len(self.units) if is_last else max(0, len(self.units) - 1)
        done, self.units = self.units[:place], self.units[place:]
        return done


def _parsed(found: _Units) -> Iterator[tuple[int, dict[str, str]]]:
    """The units of a file, as they are read."""
    path = found.path
    with open_bytes(path) as raw:
        try:
            while piece := raw.read(_PIECE):
                found.parser.Parse(piece, False)
                yield from found.complete(is_last=False)
            found.parser.Parse(b"", True)
            yield from found.complete(is_last=True)
        except expat.ExpatError as error:
            raise _invalid(path, error.lineno, expat.ErrorString(error.code)) from None
        except (LookupError, ValueError) as error:  # an encoding that the parser cannot read
            raise GlassformerError(f"{path}: {cause(error)}. Save it as UTF-8.") from None
    if found.root != "tmx":
        raise GlassformerError(
            f"{path} is not a translation memory: it begins with <{found.root}>, not <tmx>."
        )


def _invalid(path: DataPath, line: int, reason: str) -> GlassformerError:
    return GlassformerError(
        f"{path}:{line}: invalid XML ({reason}). Correct it, or export the file again."
    )
