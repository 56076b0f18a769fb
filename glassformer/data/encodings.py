"""How the bytes of a file become text: decided for each file by itself.

1. A byte order mark of UTF-8, UTF-16 or UTF-32 decides.
2. A file that is valid UTF-8 is read as UTF-8.
3. Any other file is read in the encoding that was passed, if one was.
4. A file of UTF-8 with a few other bytes is read as UTF-8, and these bytes as windows-1252.
5. Else the encoding is detected (UTF-16 without a mark, too), or the file is refused.

The decision is made in a pass over the bytes, in bounded memory, before a line is read: a decision
halfway through a stream could not be taken back.
"""

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, NamedTuple

from glassformer.errors import GlassformerError

# --- the decision for a file ---

UTF8 = "utf-8"
_AT_ONCE = 2**20  # bytes that are read together
HEAD = 2**16  # bytes in which binary files are recognised
_SAMPLE, _NEAR = 2**16, 2**11  # bytes to detect an encoding from, and those around a fault
_BYTE_ORDER_MARKS = (  # that of UTF-16 is the beginning of that of UTF-32
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# All bytes of these are ASCII, so that a text is valid UTF-8, too.
_SEVEN_BIT = ("utf-7", "hz", "iso2022")
_BINARY = bytes({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b\x1a"})  # not in texts
_LEADS = bytes(range(0xC0, 0x100))  # first bytes of characters
_INVALID, _VALID = re.compile("[\udc80-\udcff]+"), re.compile("[^\\x00-\\x7f\udc80-\udcff]+")
STRAY = "stray-windows-1252"  # how errors in UTF-8 are handled

Open = Callable[[], AbstractContextManager[BinaryIO]]


class NotTextError(GlassformerError):
    """A file is binary, or in an encoding that is not recognised."""


class Decoding(NamedTuple):
    """A codec, and how it handles errors."""

    codec: str
    errors: str = "strict"
    described: str | None = None
    """The encoding as a note shows it, if it was detected and is not UTF-8."""


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are not text in any encoding."""
    head = head[:HEAD]
    if any(head.startswith(mark) for mark, _ in _BYTE_ORDER_MARKS):
        return False
    if head.startswith(b"%PDF-"):
        return True
    if b"\0" in head:
        return unmarked_utf16(head) is None
    return 50 * len(head.translate(None, _BINARY)) < 49 * len(head)


def decide(open_bytes: Open, codec: str, name: str) -> Decoding:
    """How to decode a file; `codec` is the one that was passed, or UTF-8."""
    with open_bytes() as raw:
        head = raw.read(4)
    for mark, marked in _BYTE_ORDER_MARKS:
        if head.startswith(mark) and _is_valid(open_bytes, marked):
            return Decoding(marked)
    is_passed = codec not in (UTF8, "utf-8-sig")
    if is_passed and codec.startswith(_SEVEN_BIT):
        return Decoding(codec)
    faults = _faults(open_bytes)
    if faults.is_utf8 and not faults.has_nul:
        return Decoding(UTF8)
    if is_passed:
        return Decoding(codec)
    if faults.has_nul and (unmarked := _unmarked(open_bytes)):
        return Decoding(unmarked, described=unmarked)
    if faults.is_utf8:  # with a zero byte, whose line is named later
        return Decoding(UTF8)
    if faults.has_nul:
        raise NotTextError(f"{name} is a binary file, not text. Pass a text file or a table.")
    if faults.num_valid > faults.num_invalid:
        return Decoding(UTF8, STRAY, "UTF-8 with stray bytes of windows-1252")
    for likely in likely_encodings(bytes(faults.sample)):
        if _is_valid(open_bytes, likely):
            return Decoding(likely, described=likely)
    raise NotTextError(
        f"{name}, byte {faults.first:,}: invalid UTF-8 (0x{faults.first_byte:02X}), and no other "
        "encoding fits. Save it as UTF-8, or pass the --encoding it was saved in."
    )


@dataclass(slots=True)
class _Faults:
    """What in the bytes of a file is not UTF-8."""

    num_valid: int = 0
    """The number of valid characters beyond ASCII."""
    num_invalid: int = 0
    first: int = 0
    first_byte: int = 0
    sample: bytearray = field(default_factory=bytearray)
    """Lines with bytes that are not ASCII."""
    has_nul: bool = False

    @property
    def is_utf8(self) -> bool:
        return not self.num_invalid


def _faults(open_bytes: Open) -> _Faults:
    faults = _Faults()
    rest, offset = b"", 0
    with open_bytes() as raw:
        for block, is_last in _blocks(raw):
            block = rest + block
            faults.has_nul = faults.has_nul or b"\0" in block
            # A character may reach across the end of a block: it waits for the next one.
            keep = 0 if is_last else _unfinished(block)
            rest, block = block[len(block) - keep :], block[: len(block) - keep]
            _examine(block, offset, faults)
            offset += len(block)
    return faults


def _blocks(raw: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    block = raw.read(_AT_ONCE)
    while block:
        following = raw.read(_AT_ONCE)
        yield block, not following
        block = following


def _unfinished(block: bytes) -> int:
    """How many bytes at the end may be the beginning of a character."""
    for length in range(1, min(4, len(block) + 1)):
        if block[-length] >= 0xC0:
            return length
        if block[-length] < 0x80:
            return 0
    return 0


def _examine(block: bytes, offset: int, faults: _Faults) -> None:
    try:
        block.decode(UTF8)
    except UnicodeDecodeError as error:
        if not faults.num_invalid:
            faults.first, faults.first_byte = offset + error.start, block[error.start]
        text = block.decode(UTF8, "surrogateescape")
        faults.num_invalid += sum(map(len, _INVALID.findall(text)))
        faults.num_valid += sum(map(len, _VALID.findall(text)))
        _add_sample(block, error.start, faults.sample)
    else:
        faults.num_valid += len(block) - len(block.translate(None, _LEADS))


def _add_sample(block: bytes, at: int, sample: bytearray) -> None:
    """Add lines with invalid bytes, the first of which is `at`."""
    while len(sample) < _SAMPLE and at < len(block):
        start = block.rfind(b"\n", max(0, at - _NEAR), at) + 1 or max(0, at - _NEAR)
        end = block.find(b"\n", at, at + _SAMPLE) + 1 or min(len(block), at + _SAMPLE)
        sample += block[start:end]
        at = _next_fault(block, end)


def _next_fault(block: bytes, start: int) -> int:
    try:
        block[start:].decode(UTF8)
    except UnicodeDecodeError as error:
        return start + error.start
    return len(block)


def _unmarked(open_bytes: Open) -> str | None:
    with open_bytes() as raw:
        codec = unmarked_utf16(raw.read(HEAD))
    return codec if codec and _is_valid(open_bytes, codec) else None


def _is_valid(open_bytes: Open, codec: str) -> bool:
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        with open_bytes() as raw:
            for block in iter(partial(raw.read, _AT_ONCE), b""):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def _stray(error: UnicodeError) -> tuple[str, int]:
    """A byte that is not UTF-8, in windows-1252."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return wrong.decode("windows-1252", "replace"), error.end


codecs.register_error(STRAY, _stray)


# --- detection: the encoding that a text was probably saved in ---
# Each candidate decodes a sample of the text, and the result is scored: how many of its letters
# beyond ASCII are where and what they would be in a text of that script? "naïve" has one accented
# letter among plain ones; Russian in windows-1251 consists of the letters that are common in
# Russian, while the same bytes in koi8-r do not. Encodings of the Latin script differ in their
# letters only: what is "černý kůň" in windows-1250 is "èerný kùò" in windows-1252, and no language
# of the west has these letters together. If no candidate is plausible, none is returned.

_WORDS = re.compile(r"[^\W\d_]+")
_INSIDE = re.compile(r"(?<=[^\W\d_])(?:[“”‘•¹²³¿](?=[a-z])|[¢£¥§±¶¼½¾])")
_SYLLABLE = re.compile(  # of Vietnamese, without its accents; every word is one
    r"(?:ngh?|[cgknpt]h|gi|qu|tr|[bcdđghklmnpqrstvx])?[aeiouy]{1,3}(?:ng|nh|ch|[cmnpt])?"
)
_STRAY_U = re.compile("(?<=[бвгґджзйклмнпрстфхцчшщь])ў")
_MARKS = re.compile("[\u0300-\u036f]")
_TONES = re.compile("[\u0300\u0301\u0303\u0309\u0323]")
_PUNCTUATION = frozenset("“”‘’–—…•€£§©®™°«»‹›·¿¡ºª½¼¾±×÷²³¹\xa0\xad¢¥µ¶")
_CYRILLIC = frozenset("оеаинтсрвлкмдпуяізбы")  # the commonest letters
_GREEK = frozenset("αοιετνσηρπκμλυςάόίέή")
_HEBREW = frozenset("יוהלאמרתבנשםד")
_ARABIC = frozenset("اليمونتربةعدسفهك")
_WESTERN = (  # the letters of each language beyond a to z
    *("äöüß", "àâæçéèêëîïôœùûüÿ", "áéíñóúü", "áâãàçéêíóôõúü", "àèéìíîòóùú", "áéëïóöü"),
    *("åäöéü", "æøåéèêòóô", "áéíóúýðþæö", "àçèéíïòóúü", "äõöüšž", "áéíóú"),
)
_CENTRAL = (*("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ"),)
_TURKISH = ("çğıöşüâîûİ",)
_BALTIC = ("ąčęėįšųūž", "āčēģīķļņšūž")
_VIETNAMESE = frozenset("àáâãèéêìíòóôõùúýăđĩũơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ")
_THAI = frozenset("านรอกเงมยลวดทสตะปบคหแจพชขใไโ่้ิีัุูื์็ำ")
_SIMPLIFIED = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行"
    "所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实"
)
_TRADITIONAL = frozenset(
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行"
    "所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實"
)
_KANA = frozenset(map(chr, (*range(0x3041, 0x3094), *range(0x30A1, 0x30F7), 0x30FC)))
_HANGUL = frozenset(
    "이다는에의을가한지고를은하어사대로인도기서시있나여그자리정아들해수라스일보부전상과게우것으오주장제원와았었니"
)


class _Score(NamedTuple):
    """How plausible a text is, and its rank among those that are plausible."""

    plausible: float
    rank: float


def likely_encodings(sample: bytes) -> list[str]:
    """The encodings in which a sample is plausible text, the likeliest first."""
    scores = {codec: score for codec, score in _scored(sample) if score.plausible >= _ENOUGH}
    return sorted(scores, key=lambda codec: -scores[codec].rank)


def unmarked_utf16(head: bytes) -> str | None:
    """UTF-16 without a byte order mark, if the first bytes of a file are text in it.

    Spaces, line breaks and plain letters have a zero byte in the same half of each pair; numbers
    in a binary file have zeros in both halves, or decode to controls.
    """
    head = head[: len(head) // 2 * 2]
    for codec, zeros, others in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        matching, stray = head[zeros::2].count(0), head[others::2].count(0)
        if not matching or matching < 4 * stray:
            continue
        # Plain text with a few zero bytes is not UTF-16.
        if 4 * matching < len(head) and head.replace(b"\0", b"").translate(None, _PLAIN) == b"":
            continue
        # A pair of surrogates may be cut at the end.
        text = codecs.getincrementaldecoder(codec)("replace").decode(head)
        kinds = {unicodedata.category(character) for character in {*text} - _BLANKS}
        words = text.split()
        if not kinds & {*_UNUSED} and "\ufffd" not in text and words:
            return codec if len("".join(words)) <= _LONG_WORD * len(words) else None
    return None


def _scored(sample: bytes) -> Iterator[tuple[str, _Score]]:
    for codec, judge in _CANDIDATES.items():
        try:
            text = sample.decode(codec)
        except UnicodeDecodeError:
            continue
        beyond = "".join(letter for letter in text if not letter.isascii())
        if beyond and not any(unicodedata.category(letter) in _UNUSED for letter in set(beyond)):
            yield codec, judge(text, beyond)


def _latin(alphabets: Sequence[str], least: float, text: str, beyond: str) -> _Score:
    """Whether the letters are where they would be, and those of a language: at least so many."""
    letters = [letter for letter in beyond if letter.isalpha()]
    matching = [
        sum(letter in alphabet or letter.lower() in alphabet for letter in letters)
        for alphabet in alphabets
    ]
    share = max(matching) / len(letters) if letters else 1.0
    placed = _placed(text, beyond)
    return _Score(placed if share >= least else 0.0, placed * (1 + share) / 2)


def _placed(text: str, beyond: str) -> float:
    """The share of characters beyond ASCII that are letters among plain ones, or punctuation."""
    words = [word for word in _WORDS.findall(text) if not word.isascii()]
    strange = 0
    for word in words:
        num_accented = sum(not letter.isascii() for letter in word)
        if 2 * num_accented > len(word) + 1:  # "été" is a word, "Ïðèâåò" is not
            strange += num_accented
    marks = [character for character in beyond if not character.isalpha()]
    strange += sum(character not in _PUNCTUATION for character in marks)
    # Punctuation between letters is a letter of another encoding; an apostrophe is not.
    strange += len(_INSIDE.findall(text))
    return 1 - strange / len(beyond)


def _common(expected: float, common: frozenset[str], text: str, beyond: str) -> _Score:
    """The share of common letters, relative to the share that is expected in a text."""
    num_marks = sum(unicodedata.category(letter)[0] in "PZ" for letter in beyond)
    if num_marks == len(beyond):
        return _Score(0.0, 0.0)
    num_symbols = sum(unicodedata.category(letter)[0] == "S" for letter in beyond)  # such as │
    matching = -num_symbols
    for word in _WORDS.findall(text):
        # A word has letters of one script, and capitals only at its beginning or everywhere. East
        # Asian scripts have no spaces around a foreign word.
        if word.isupper() or word[1:] == word[1:].lower():
            script = [letter for letter in word.lower() if not letter.isascii()]
            if len(script) == len(word) or (script and script[0] > "\u2e7f"):
                matching += sum(letter in common for letter in script)
    plausible = min(1.0, matching / (len(beyond) - num_marks) / expected)
    # Small letters of koi8-r are capitals in windows-1251: texts are rarely all in capitals. The
    # symbols decide between koi8-r and koi8-u, which has letters in their place.
    rank = plausible * (1 - 0.1 * sum(map(str.isupper, beyond)) / len(beyond))
    return _Score(plausible, rank - 0.001 * num_symbols / len(beyond))


def _dos(text: str, beyond: str) -> _Score:
    """Cyrillic, where capitals alone are the Hebrew of another code page of DOS, and ў behind a
    consonant is the і of Ukrainian: in Belarusian, it follows vowels."""
    if 2 * sum(map(str.isupper, beyond)) > len(beyond):
        return _Score(0.0, 0.0)
    plausible, rank = _common(0.8, _CYRILLIC, text, beyond)
    return _Score(plausible, rank - len(_STRAY_U.findall(text)) / len(beyond))


def _vietnamese(text: str, beyond: str) -> _Score:
    """The share of letters beyond ASCII that are in a syllable of Vietnamese. Tones are characters
    of their own in windows-1258."""
    composed = unicodedata.normalize("NFC", text).lower()
    letters = [letter for letter in composed if not (letter.isascii() or letter in _PUNCTUATION)]
    matching = 0
    if 3 * len(letters) > 2 * sum(map(str.isalpha, composed)):  # "một", not "ở ở ở"
        return _Score(0.0, 0.0)
    for word in _WORDS.findall(composed):
        syllable = unicodedata.normalize("NFD", word)
        if len(_TONES.findall(syllable)) <= 1 and _SYLLABLE.fullmatch(_MARKS.sub("", syllable)):
            matching += sum(letter in _VIETNAMESE for letter in word)
    share = matching / len(letters) if letters else 0.0
    return _Score(share, share)


_PLAIN = bytes((*b"\t\n\v\f\r", *range(32, 127)))
_BLANKS = frozenset("\t\n\v\f\r")
_LONG_WORD = 200  # characters; lines of Chinese have no spaces
_UNUSED = ("Cc", "Co", "Cn", "Cs")  # controls, private use, not assigned
_ENOUGH = 0.7
_central = partial(_latin, _CENTRAL, 0.9)
_western = partial(_latin, _WESTERN, 0.0)  # foreign words are often spelled in its letters
_CANDIDATES: dict[str, Callable[[str, str], _Score]] = {  # of equal ranks the first counts
    "windows-1252": _western,
    "latin-1": _western,
    "windows-1250": _central,
    "iso8859-2": _central,
    "windows-1254": partial(_latin, _TURKISH, 0.9),
    "windows-1257": partial(_latin, _BALTIC, 0.9),
    "windows-1251": partial(_common, 0.8, _CYRILLIC),
    "koi8-r": partial(_common, 0.8, _CYRILLIC),
    "koi8-u": partial(_common, 0.8, _CYRILLIC),
    "iso8859-5": partial(_common, 0.8, _CYRILLIC),
    "cp866": _dos,
    "cp1125": _dos,  # the same with the letters of Ukrainian
    "windows-1253": partial(_common, 0.8, _GREEK),
    "iso8859-7": partial(_common, 0.8, _GREEK),
    "windows-1255": partial(_common, 0.8, _HEBREW),
    "windows-1256": partial(_common, 0.8, _ARABIC),
    "windows-1258": _vietnamese,
    "cp874": partial(_common, 0.7, _THAI),
    "cp932": partial(_common, 0.4, _KANA),  # Shift-JIS, with what Windows adds
    "euc_jis_2004": partial(_common, 0.4, _KANA),  # EUC-JP, with what others add
    "gb18030": partial(_common, 0.35, _SIMPLIFIED),
    "big5": partial(_common, 0.35, _TRADITIONAL),
    "cp949": partial(_common, 0.4, _HANGUL),  # EUC-KR, with what Windows adds
}
