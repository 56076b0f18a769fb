"""A translator with its tokenizers: it translates, says how likely a translation is, and shows
where it looked meanwhile."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from glassformer.config import Count, parse
from glassformer.data.pair_files import one_line
from glassformer.data.paired import PairedRows
from glassformer.data.pairs import pairs_of
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.beam import MOST_BEAMS, Beams, Hypothesis, Trace
from glassformer.generation.logits import checked
from glassformer.inspection.alignment import Alignment
from glassformer.models.translator import Translator
from glassformer.text.sentences import pieces_of
from glassformer.text.tokenizers import Tokenizer
from glassformer.training.translating import Languages, bleu_of, losses, translate

END = "<end>"  # how the end of a sentence is shown


class TranslationSettings(Beams):
    """How to translate. Names follow Hugging Face's."""

    num_beams: Count = Field(5, ge=1, le=MOST_BEAMS)
    prefix: str = ""
    """How every translation is to begin. The score is that of what follows."""
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
    num_pieces: int = 1
    """In which a source was read that is longer than the model's context."""

    @property
    def text(self) -> str:
        return self.translations[0].text

    def as_json(self) -> dict[str, Any]:
        return {"source": self.source, "translations": [asdict(each) for each in self.translations]}


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

    @property
    def notes(self) -> list[str]:
        if not self.num_too_long:
            return []
        return [f"the loss leaves out what is too long for the model: {self.num_too_long:,} pairs"]

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
        chosen, pieces = self.settings(settings), list[list[str]]()
        rows = list[list[int]]()
        cleaned = [one_line(text) for text in texts]
        for text, row in zip(cleaned, self.languages.read(cleaned), strict=True):
            fits = len(row) <= self.model.context_length
            pieces.append([text] * bool(text) if fits else self.cut(text))
            rows += [row] * bool(text) if fits else self.languages.read(pieces[-1])
        if chosen.prefix and any(len(parts) > 1 for parts in pieces):
            raise UsageError("a text longer than the model's context cannot have a prefix.")
        prefix = self._prefix(chosen)
        results = iter(translate(self.model, self.languages, rows, chosen, prefix))
        answers = []
        for text, parts in zip(texts, pieces, strict=True):
            found = [*islice(results, len(parts))]
            answers.append(
                Translations(text, [*self._joined(parts, found, chosen, prefix)], len(parts))
            )
        return answers

    def cut(self, text: str) -> list[str]:
        """A text as pieces that fit into the model: whole, or cut where it does the least harm."""
        return pieces_of(one_line(text), self._fits)

    def tree(self, text: str, **settings: Any) -> list[dict[str, Any]]:
        """All that beam search has looked at on its way: every candidate with its parent, its
        score, and what became of it."""
        trace = Trace()
        rows, _ = self._rows(text, "")
        chosen = self.settings(settings)
        translate(self.model, self.languages, rows, chosen, self._prefix(chosen), trace)
        return [
            asdict(each) | {"token": self._target_tokens([each.token])[0]}
            for each in trace.candidates
        ]

    @torch.inference_mode()
    def score(self, source: str, target: str) -> TranslationScore:
        """How likely is `target` as the translation of `source`?"""
        rows, ids = self._rows(source, target)
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
            source_column,
            target_column,
            encoding,
            reverse=config.reverse and not source_paths,
            preferred=(config.source_column, config.target_column),
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
        bleu, signature = bleu_of(texts, right)
        return TranslationEvaluation(
            bleu=bleu,
            chrf=chrf_of(texts, right),
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
        source = one_line(text)
        written = self.translate(source).text if target is None else one_line(target)
        rows, ids = self._rows(source, written)
        weights = self._attention(rows, ids, layer, head)  # (T, S)
        total = self.score(source, written).total
        found = Alignment(
            source=source,
            target=written,
            score=self.settings({}).score(total, len(ids[0]) - 1),
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
        chosen = parse(TranslationSettings, self.defaults | settings, where, error=UsageError)
        if settings.get("copy_unknown") and self.languages.target.unknown is None:
            raise UsageError(
                "copy_unknown changes nothing: there is no word that this model does not know. "
                "Leave it out."
            )
        self._prefix(chosen)  # what is wrong with it is said here, too
        return chosen

    def _fits(self, text: str) -> bool:
        return len(self.languages.read([text])[0]) <= self.model.context_length

    def _joined(
        self,
        sources: list[str],
        found: list[list[Hypothesis]],
        chosen: TranslationSettings,
        prefix: list[int],
    ) -> Iterator[Translation]:
        """The n-th best of a text: the n-th best of each of its pieces, one after the other."""
        if not found:
            yield Translation("", 0.0)
        for parts in zip(*found, strict=False):
            length = sum(len(part.ids) + part.is_complete for part in parts)
            texts = [
                self._text(source, part, chosen, prefix)
                for source, part in zip(sources, parts, strict=True)
            ]
            total = math.fsum(part.logprob for part in parts)
            yield Translation(" ".join(filter(None, texts)), chosen.score(total, length))

    def _text(
        self, source: str, found: Hypothesis, chosen: TranslationSettings, prefix: list[int]
    ) -> str:
        ids, target = [*prefix, *found.ids], self.languages.target
        text, unknown = self.languages.text(ids), target.unknown
        if unknown is None or unknown not in ids:
            return text
        mark = target.token(unknown)
        words = [mark] * ids.count(unknown)
        if chosen.copy_unknown and self.model.taps and unknown in found.ids:
            words = self._looked_at(source, ids, unknown)
        told = one_line(chosen.prefix)  # its own words stay, known or not
        spans = zip(prefix, target.spans(told) if told else [], strict=True)
        own = [told[first:last] for id, (first, last) in spans if id == unknown]
        words[: len(own)] = own
        parts = text.split(mark)
        if len(parts) != len(words) + 1:
            return text
        return "".join(part + word for part, word in zip(parts, [*words, ""], strict=True))

    def _looked_at(self, source: str, ids: list[int], unknown: int) -> list[str]:
        """For each unknown token of a translation, the word of the source that it looked at most:
        one that the model does not know either, if there is any."""
        rows = self.languages.read([source])
        weights = self._attention(rows, [[self.languages.start, *ids, self.languages.end]])
        known = self.languages.source.unknown
        is_unknown = torch.tensor([id == known for id in rows[0][:-1]])  # without the end
        weights = weights[:, :-1]
        if is_unknown.any():
            weights = weights.masked_fill(~is_unknown, -1)
        spans = self.languages.source.spans(source)
        places = [int(weights[row].argmax()) for row, id in enumerate(ids) if id == unknown]
        return [source[first:last] for first, last in (spans[place] for place in places)]

    def _prefix(self, chosen: TranslationSettings) -> list[int]:
        if not chosen.prefix:
            return []
        told, target = one_line(chosen.prefix), self.languages.target
        if target.kind == "char" and (unknown := target.unknown_characters(told)):
            raise UsageError(
                f"the prefix has characters that the model does not know: {' '.join(unknown[:10])}"
            )
        ids, room = self.languages.write([told])[0][1:-1], self.model.context_length - 2
        if len(ids) > room:
            raise UsageError(
                f"the prefix has {len(ids):,} tokens, and the model has room for {room:,}. Give a "
                "shorter one."
            )
        return ids

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
        with ExitStack() as listening:
            chosen = taps if layer is None else [taps[layer]]
            heard = [listening.enter_context(tap.listen()) for tap in chosen]
            self.model.hidden(torch.tensor(ids, device=self.model.device)[:, :-1], memory)
        # A recurrent decoder is heard once for every token, and has one head.
        layers = [seen[0][0] if seen[0].dim() == 4 else torch.cat(seen, dim=1) for seen in heard]
        weights = torch.stack(layers).cpu()  # (layers, H, T, S)
        if head is not None and not 0 <= head < weights.size(1):
            raise UsageError(f"there is no head {head}: the last one is {weights.size(1) - 1}.")
        return (weights if head is None else weights[:, head : head + 1]).mean(dim=(0, 1))

    def _rows(self, source: str, target: str) -> tuple[list[list[int]], list[list[int]]]:
        rows = self.languages.read([one_line(source)])
        ids = self.languages.write([one_line(target)])
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


def chrf_of(texts: Sequence[str], right: Sequence[str]) -> float:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF().corpus_score(texts, [right]).score


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
