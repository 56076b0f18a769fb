"""A translator with its tokenizers: it translates, says how likely a translation is, and shows
where it looked meanwhile."""

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.config import parse
from glassformer.data.paired import PairedRows
from glassformer.data.pairs import pairs_of
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.beam import Beams, Hypothesis, Trace
from glassformer.generation.logits import checked
from glassformer.inspection.alignment import Alignment
from glassformer.models.translator import Translator
from glassformer.text.tokenizers import Tokenizer
from glassformer.training.translating import Languages, losses, translate

END = "<end>"  # how the end of a sentence is shown
# Where a text that is too long may be cut, the best places first, and what stood there.
CUTS = (
    (r"(?<=[.!?…。！？])\s+", " "),
    (r"(?<=[,;:–—،、，])\s+", " "),
    (r"\s+", " "),
    (r"(?<=.)(?=.)", ""),
)


class TranslationSettings(Beams):
    """How to translate. Names follow Hugging Face's."""

    num_beams: int = 5
    copy_unknown: bool = True
    """A word of the source that the model does not know is written as it stands."""


@dataclass(frozen=True)
class Translation:
    text: str
    score: float
    """Its log-probability, divided by its length to the power of length_penalty."""


@dataclass(frozen=True)
class Translations:
    """What a sentence may mean, the best first."""

    source: str
    translations: list[Translation]

    @property
    def text(self) -> str:
        return self.translations[0].text

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class TranslationScore:
    """How likely a given translation is, token by token, with its end. Logarithms are natural."""

    tokens: list[str]
    logprobs: list[float]

    @property
    def total(self) -> float:
        return math.fsum(self.logprobs)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"total": self.total}


@dataclass(frozen=True)
class TranslationEvaluation:
    """BLEU and chrF by sacreBLEU, and what the model itself thinks of the right translations."""

    bleu: float
    chrf: float
    signature: str
    loss: float
    num_sentences: int
    sentences_per_second: float
    num_too_long: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    def text(self) -> str:
        return (
            f"BLEU {self.bleu:.2f}  chrF {self.chrf:.2f}  loss {self.loss:.4f}  perplexity "
            f"{self.perplexity:.3f}  ({self.num_sentences:,} sentences, "
            f"{self.sentences_per_second:.1f} per second)\n{self.signature}"
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"perplexity": self.perplexity}


class TranslatePredictor:
    """The verbs of a translator: translate, score, evaluate, align."""

    def __init__(
        self,
        model: Translator,
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer | None = None,
        defaults: dict[str, Any] | None = None,
    ) -> None:
        self.model = model.eval()
        self.languages = Languages(tokenizer, target_tokenizer or tokenizer)
        self.defaults = defaults or {}

    def translate(self, text: str, **settings: Any) -> Translations:
        """The best translations of a text. The settings are those of `TranslationSettings`."""
        return self.translate_batch([text], **settings)[0]

    def translate_batch(self, texts: Sequence[str], **settings: Any) -> list[Translations]:
        """Of every text, in their order; an empty one stays empty."""
        chosen = self.settings(settings)
        pieces = [(number, piece) for number, text in enumerate(texts) for piece in self.cut(text)]
        rows = self.languages.read([piece for _, piece in pieces])
        found: list[list[list[Hypothesis]]] = [[] for _ in texts]
        sources: list[list[str]] = [[] for _ in texts]
        results = translate(self.model, self.languages, rows, chosen)
        for (number, piece), hypotheses in zip(pieces, results, strict=True):
            found[number].append(hypotheses)
            sources[number].append(piece)
        return [
            Translations(text, [*self._joined(sources[number], found[number], chosen)])
            for number, text in enumerate(texts)
        ]

    def cut(self, text: str) -> list[str]:
        """A text as pieces that fit into the model: whole, or cut at the ends of sentences, or
        where else a cut does the least harm."""
        text = " ".join(text.split())
        return self._cut(text, 0) if text else []

    def tree(self, text: str, **settings: Any) -> list[dict[str, Any]]:
        """All that beam search has looked at on its way: every candidate with its parent, its
        score, and what became of it."""
        trace = Trace()
        rows, _ = self._rows(" ".join(text.split()), "")
        translate(self.model, self.languages, rows, self.settings(settings), trace)
        return [
            asdict(each) | {"token": self._target_tokens([each.token])[0]}
            for each in trace.candidates
        ]

    @torch.inference_mode()
    def score(self, source: str, target: str) -> TranslationScore:
        """How likely is `target` as the translation of `source`?"""
        rows, ids = self._rows(" ".join(source.split()), " ".join(target.split()))
        source_ids, target_ids = (
            torch.tensor(each, device=self.model.device) for each in (rows, ids)
        )
        logits = self.model(source_ids, target_ids[:, :-1])[0]
        logprobs = checked(logits.float()).log_softmax(-1).gather(1, target_ids[0, 1:, None])[:, 0]
        return TranslationScore(self._target_tokens(ids[0][1:]), logprobs.tolist())

    def evaluate(
        self,
        paths: str | Sequence[str] = (),
        *,
        source_paths: Sequence[str] = (),
        target_paths: Sequence[str] = (),
        source_column: str | None = None,
        target_column: str | None = None,
        encoding: str = "utf-8",
        **settings: Any,
    ) -> TranslationEvaluation:
        """Translate the sources of pairs and compare with their targets."""
        config = self.model.config
        pairs = pairs_of(
            [paths] if isinstance(paths, str) else paths,
            source_paths,
            target_paths,
            source_column or config.source_column,
            target_column or config.target_column,
            encoding,
            reverse=config.reverse and not source_paths,
        )
        sources = [pair.source for pair in pairs]
        right = [pair.target for pair in pairs]
        rows = PairedRows.of(self.languages.read(sources), self.languages.write(right), np.int64)
        longest = np.maximum(rows.source.lengths, rows.target.lengths - 1)
        fits = (longest <= self.model.context_length).nonzero()[0]
        if not len(fits):
            raise GlassformerError("every sentence is longer than the model allows.")
        sums, counts = zip(*losses(self.model, rows.taken(fits)), strict=True)
        begin = time.perf_counter()
        texts = [each.text for each in self.translate_batch(sources, **settings)]
        seconds = time.perf_counter() - begin
        bleu, chrf, signature = quality(texts, right)
        return TranslationEvaluation(
            bleu=bleu,
            chrf=chrf,
            signature=signature,
            loss=sum(sums) / sum(counts),
            num_sentences=len(pairs),
            sentences_per_second=len(pairs) / seconds,
            num_too_long=len(pairs) - len(fits),
        )

    def align(
        self,
        text: str,
        target: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        words: bool = False,
    ) -> Alignment:
        """Which tokens of the source each token of its translation looked at; without `layer` or
        `head`, the mean of all."""
        source = " ".join(text.split())
        written = self.translate(source).text if target is None else " ".join(target.split())
        rows, ids = self._rows(source, written)
        weights = self._attention(rows, ids, layer, head)  # (T, S)
        found = Alignment(
            source=source,
            target=written,
            source_tokens=_shown(self.languages.source, rows[0]),
            target_tokens=self._target_tokens(ids[0][1:]),
            weights=weights.double().numpy(),
        )
        if not words:
            return found
        return found.in_words(
            _starts(self.languages.source, rows[0]), _starts(self.languages.target, ids[0][1:])
        )

    def settings(self, settings: dict[str, Any]) -> TranslationSettings:
        where = "the settings of translation"
        return parse(TranslationSettings, self.defaults | settings, where, error=UsageError)

    def _cut(self, text: str, level: int) -> list[str]:
        room = self.model.context_length
        if len(self.languages.read([text])[0]) <= room or level == len(CUTS):
            return [text]
        pieces: list[str] = []
        place, between = CUTS[level]
        for part in re.split(place, text):
            joined = f"{pieces[-1]}{between}{part}" if pieces else part
            if pieces and len(self.languages.read([joined])[0]) <= room:
                pieces[-1] = joined
            else:
                pieces.append(part)
        return [small for piece in pieces for small in self._cut(piece, level + 1)]

    def _joined(
        self, sources: list[str], found: list[list[Hypothesis]], chosen: TranslationSettings
    ) -> Iterator[Translation]:
        """The n-th best of a text: the n-th best of each of its pieces, one after the other."""
        if not found:
            yield Translation("", 0.0)
        for parts in zip(*found, strict=False):
            length = sum(len(part.ids) + part.is_complete for part in parts)
            texts = [
                self._text(source, part, chosen.copy_unknown)
                for source, part in zip(sources, parts, strict=True)
            ]
            total = math.fsum(part.logprob for part in parts)
            yield Translation(" ".join(filter(None, texts)), chosen.score(total, length))

    def _text(self, source: str, found: Hypothesis, copy_unknown: bool) -> str:
        text = self.languages.text(found.ids)
        unknown = self.languages.target.unknown
        if not copy_unknown or unknown is None or unknown not in found.ids or not self.model.taps:
            return text
        rows = self.languages.read([source])
        weights = self._attention(rows, [[self.languages.start, *found.ids]])[:, :-1]  # no end
        spans = self.languages.source.spans(source)
        for place, id in enumerate(found.ids):
            if id == unknown:
                first, last = spans[int(weights[place].argmax())]
                text = text.replace(self.languages.target.token(unknown), source[first:last], 1)
        return text

    @torch.inference_mode()
    def _attention(
        self,
        rows: list[list[int]],
        ids: list[list[int]],
        layer: int | None = None,
        head: int | None = None,
    ) -> Tensor:
        """(T, S): of each target token but the first, how much it looked at each source token."""
        taps = self.model.taps
        if not taps:
            raise UsageError("this translator has no attention, and so no alignment.")
        if layer is not None and not 0 <= layer < len(taps):
            raise UsageError(f"there is no layer {layer}: the last one is {len(taps) - 1}.")
        memory = self.model.encode(torch.tensor(rows, device=self.model.device))
        heard = []
        for tap in taps if layer is None else [taps[layer]]:
            with tap.listen() as seen:
                self.model.hidden(torch.tensor(ids, device=self.model.device)[:, :-1], memory)
            # A recurrent decoder is heard once for every token, and has one head.
            heard.append(seen[0][0] if seen[0].dim() == 4 else torch.cat(seen, dim=1))
        weights = torch.stack(heard).cpu()  # (layers, H, T, S)
        if head is not None and not 0 <= head < weights.size(1):
            raise UsageError(f"there is no head {head}: the last one is {weights.size(1) - 1}.")
        return (weights if head is None else weights[:, head : head + 1]).mean(dim=(0, 1))

    def _rows(self, source: str, target: str) -> tuple[list[list[int]], list[list[int]]]:
        rows, ids = self.languages.read([source]), self.languages.write([target])
        room = self.model.context_length
        for side, length in (("source", len(rows[0])), ("translation", len(ids[0]) - 1)):
            if length > room:
                raise UsageError(
                    f"the {side} has {length:,} tokens with its end, and the model sees {room:,} "
                    "at once. Give a shorter one."
                )
        return rows, ids

    def _target_tokens(self, ids: Sequence[int]) -> list[str]:
        return _shown(self.languages.target, ids)


def quality(texts: Sequence[str], right: Sequence[str]) -> tuple[float, float, str]:
    """BLEU, chrF, and sacreBLEU's signature of how they were computed."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu = BLEU()
    score = bleu.corpus_score(texts, [right]).score
    chrf = CHRF().corpus_score(texts, [right]).score
    return score, chrf, str(bleu.get_signature())


def _shown(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    return [END if id == tokenizer.end_of_text else tokenizer.token(id) for id in ids]


def _starts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[bool]:
    """Of each token, whether a word begins with it."""
    shown = _shown(tokenizer, ids)
    if tokenizer.carries_blanks:
        return [token == END or token.startswith(" ") for token in shown]
    if tokenizer.kind == "char":
        before = ["", *shown]
        return [token == END or last == " " for token, last in zip(shown, before, strict=False)]
    return [not token.startswith("##") for token in shown]
