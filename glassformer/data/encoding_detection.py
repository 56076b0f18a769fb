"""Which encoding a text that is not UTF-8 was probably saved in.

Each candidate decodes a sample of the text, and the result is scored: how many of its letters
beyond ASCII are where and what they would be in a text of that script? "naïve" has one accented
letter among plain ones; Russian in windows-1251 consists of the letters that are common in Russian,
while the same bytes in koi8-r do not. If no candidate is plausible, none is returned.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial

_WORDS = re.compile(r"[^\W\d_]+")
_INSIDE = re.compile(r"(?<=[^\W\d_])(?:[“”‘•](?=[a-z])|[¢£¥§±¶¼½¾])")
_PUNCTUATION = frozenset("“”‘’–—…•€£§©®™°«»‹›·¿¡ºª½¼¾±×÷²³¹\xa0\xad¢¥µ¶")
_CYRILLIC = frozenset("оеаинтсрвлкмдпуяізбы")  # the commonest letters
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


def likely_encodings(sample: bytes) -> list[str]:
    """The encodings in which a sample is plausible text, the likeliest first."""
    scores = {codec: score for codec, score in _scored(sample) if score >= _ENOUGH}
    return sorted(scores, key=lambda codec: -scores[codec])


def _scored(sample: bytes) -> Iterator[tuple[str, float]]:
    for codec, judge in _CANDIDATES.items():
        try:
            text = sample.decode(codec)
        except UnicodeDecodeError:
            continue
        beyond = "".join(each for each in text if not each.isascii())
        if beyond and not any(unicodedata.category(each) in _UNUSED for each in set(beyond)):
            yield codec, judge(text, beyond)


def _latin(text: str, beyond: str) -> float:
    """The share of characters beyond ASCII that are letters among plain ones, or punctuation."""
    words = [word for word in _WORDS.findall(text) if not word.isascii()]
    strange = 0
    for word in words:
        number = sum(not letter.isascii() for letter in word)
        if 2 * number > len(word) + 1:  # "été" is a word, "Ïðèâåò" is not
            strange += number
    marks = [each for each in beyond if not each.isalpha()]
    strange += sum(each not in _PUNCTUATION for each in marks)
    # Punctuation between letters is a letter of another encoding; an apostrophe is not.
    strange += len(_INSIDE.findall(text))
    return 1 - strange / len(beyond)


def _common(expected: float, common: frozenset[str], text: str, beyond: str) -> float:
    """The share of common letters, relative to the share that is expected in a text."""
    marks = sum(unicodedata.category(each)[0] in "PZ" for each in beyond)
    if marks == len(beyond):
        return 0.0
    found = -sum(unicodedata.category(each)[0] == "S" for each in beyond)  # such as │
    for word in _WORDS.findall(text):
        # A word has letters of one script, and capitals only at its beginning or everywhere.
        if word.isupper() or word[1:] == word[1:].lower():
            script = [each for each in word.lower() if not each.isascii()]
            if len(script) == len(word):
                found += sum(each in common for each in script)
    return min(1.0, found / (len(beyond) - marks) / expected)


_UNUSED = ("Cc", "Co", "Cn", "Cs")  # controls, private use, not assigned
_ENOUGH = 0.7
_CANDIDATES: dict[str, Callable[[str, str], float]] = {  # of equal scores the first counts
    "windows-1252": _latin,
    "latin-1": _latin,
    "windows-1251": partial(_common, 0.8, _CYRILLIC),
    "koi8-r": partial(_common, 0.8, _CYRILLIC),
    "shift_jis": partial(_common, 0.5, _KANA),
    "euc_jp": partial(_common, 0.5, _KANA),
    "gb18030": partial(_common, 0.35, _SIMPLIFIED),
    "big5": partial(_common, 0.35, _TRADITIONAL),
    "euc_kr": partial(_common, 0.4, _HANGUL),
}
