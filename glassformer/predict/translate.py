"""A translator in use: it translates, scores translations, and shows where it looked."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from pydantic import Field

from glassformer.config import Count
from glassformer.data.pair_batches import PairedRows
from glassformer.data.pair_files import one_line
from glassformer.data.sentence_pairs import pairs_of
from glassformer.errors import UsageError
from glassformer.evaluation.translation import (
    TranslationResult,
    evaluate_translation,
    search_translations,
)
from glassformer.generation.beam_settings import MOST_BEAMS, Beams
from glassformer.generation.beam_trace import Trace
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.logits import refuse_nan
from glassformer.inspection.alignment import Alignment
from glassformer.models.translator import Translator
from glassformer.predict.predictor import Predictor, names_of
from glassformer.predict.word_alignment import (
    attention_weights,
    begins_word,
    decode_with_unknown,
    shown_tokens,
)
from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.text.sentences import fitting_pieces


class TranslationSettings(Beams):
    """How to translate. Names follow Hugging Face's."""

    num_beams: Count = Field(5, ge=1, le=MOST_BEAMS)
    prefix: str = ""
    """The beginning of every translation. The score is that of the rest."""
    copy_unknown: bool = True
    """Copy words that the model does not know from the source."""


@dataclass(frozen=True)
class Translation:
    text: str
    score: float
    """Its log-probability, divided by its length to the power of length_penalty."""


@dataclass(frozen=True)
class Translations:
    """The translations of a text, the best first."""

    source: str
    translations: list[Translation]
    num_pieces: int = 1
    """More than one if the source is longer than the model's context."""

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


class TranslatePredictor(Predictor):
    """The verbs of a translator: translate, score, evaluate, align."""

    verbs = ("translate", "inspect", "evaluate")
    preprocessing_class = PairPreprocessing
    settings_class = TranslationSettings
    model: Translator
    preprocessing: PairPreprocessing

    def translate(self, text: str, **settings: Any) -> Translations:
        """The best translations of a text. The settings are those of `TranslationSettings`."""
        return self.translate_batch([text], **settings)[0]

    def translate_batch(self, texts: Sequence[str], **settings: Any) -> list[Translations]:
        """Translate every text, in order; an empty one stays empty."""
        chosen, pieces = self.settings(settings), list[list[str]]()
        rows = list[list[int]]()
        cleaned = [one_line(text) for text in texts]
        for text, row in zip(cleaned, self.preprocessing.encode_source(cleaned), strict=True):
            fits = len(row) <= self.model.context_length
            pieces.append([text] * bool(text) if fits else self.cut(text))
            rows += [row] * bool(text) if fits else self.preprocessing.encode_source(pieces[-1])
        if chosen.prefix and any(len(parts) > 1 for parts in pieces):
            raise UsageError("a text longer than the model's context cannot have a prefix.")
        prefix = self._prefix(chosen)
        results = iter(search_translations(self.model, self.preprocessing, rows, chosen, prefix))
        answers = []
        for text, parts in zip(texts, pieces, strict=True):
            found = self._joined(parts, [*islice(results, len(parts))], chosen, prefix)
            answers.append(Translations(text, [*found], len(parts)))
        return answers

    def cut(self, text: str) -> list[str]:
        """The text if it fits into the model, otherwise pieces of it, cut where it harms least."""
        return fitting_pieces(one_line(text), self._fits)

    def tree(self, text: str, **settings: Any) -> list[dict[str, Any]]:
        """Everything that beam search considered: each token with its parent, its score, and why it
        was kept or dropped."""
        trace = Trace()
        source, _ = self._rows(text, "")
        chosen = self.settings(settings)
        prefix = self._prefix(chosen)
        search_translations(self.model, self.preprocessing, [source], chosen, prefix, trace)
        return [
            asdict(each) | {"token": shown_tokens(self.preprocessing.target, [each.token])[0]}
            for each in trace.nodes
        ]

    @torch.inference_mode()
    def score(self, source: str, target: str) -> TranslationScore:
        """How likely `target` is as the translation of `source`."""
        source_ids, target_ids = (
            torch.tensor([ids], device=self.model.device) for ids in self._rows(source, target)
        )
        logits = self.model(source_ids, target_ids[:, :-1])[0]
        written = target_ids[0, 1:]
        logprobs = refuse_nan(logits.float()).log_softmax(-1).gather(1, written[:, None])[:, 0]
        return TranslationScore(
            shown_tokens(self.preprocessing.target, written.tolist()), logprobs.tolist()
        )

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
    ) -> TranslationResult:
        """Translate the sources of pairs and compare with their targets."""
        known = self.preprocessing
        pairs = pairs_of(
            names_of(paths),
            source_paths,
            target_paths,
            source_column,
            target_column,
            encoding,
            reverse=known.reverse and not source_paths,
            preferred=(known.source_column, known.target_column),
        )
        sources = [pair.source for pair in pairs]
        references = [pair.target for pair in pairs]
        rows = PairedRows.of(
            known.encode_source(sources), known.encode_target(references), np.int64
        )

        def translate() -> list[str]:
            return [each.text for each in self.translate_batch(sources, **settings)]

        return evaluate_translation(self.model, rows, references, translate)

    def align(
        self,
        text: str,
        target: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        words: bool = False,
    ) -> Alignment:
        """Which tokens of the source each token of its translation looked at. Without `layer` or
        `head`, the mean of all."""
        source = one_line(text)
        written = self.translate(source).text if target is None else one_line(target)
        source_ids, target_ids = self._rows(source, written)
        weights = attention_weights(self.model, source_ids, target_ids, layer, head)  # (T, S)
        total = self.score(source, written).total
        read = self.preprocessing.source, source_ids
        wrote = self.preprocessing.target, target_ids[1:]
        found = Alignment(
            source=source,
            target=written,
            score=self.settings({}).score(total, len(target_ids) - 1),
            source_tokens=shown_tokens(*read),
            target_tokens=shown_tokens(*wrote),
            weights=weights.double().numpy(),
        )
        return found.in_words(begins_word(*read), begins_word(*wrote)) if words else found

    def settings(self, settings: dict[str, Any]) -> TranslationSettings:
        chosen: TranslationSettings = self.chosen_settings(settings)
        if settings.get("copy_unknown") and self.preprocessing.target.unknown is None:
            raise UsageError(
                "copy_unknown changes nothing: this model can write every word. Leave it out."
            )
        self._prefix(chosen)  # raises if it is invalid
        return chosen

    def _fits(self, text: str) -> bool:
        return len(self.preprocessing.encode_source([text])[0]) <= self.model.context_length

    def _joined(
        self,
        sources: list[str],
        found: list[list[Hypothesis]],
        chosen: TranslationSettings,
        prefix: list[int],
    ) -> Iterator[Translation]:
        """The n-th best translation of a text joins the n-th best of each of its pieces."""
        if not found:
            yield Translation("", 0.0)
        for parts in zip(*found, strict=False):
            length = sum(len(part.ids) + part.is_complete for part in parts)
            texts = [
                decode_with_unknown(
                    self.model,
                    self.preprocessing,
                    source,
                    one_line(chosen.prefix),
                    [*prefix, *part.ids],
                    chosen.copy_unknown,
                )
                for source, part in zip(sources, parts, strict=True)
            ]
            total = math.fsum(part.logprob for part in parts)
            yield Translation(" ".join(filter(None, texts)), chosen.score(total, length))

    def _prefix(self, chosen: TranslationSettings) -> list[int]:
        if not chosen.prefix:
            return []
        prefix, target = one_line(chosen.prefix), self.preprocessing.target
        if target.kind == "char" and (unknown := target.unknown_characters(prefix)):
            raise UsageError(
                f"the prefix has characters that the model does not know: {' '.join(unknown[:10])}"
            )
        _, *ids, _ = self.preprocessing.encode_target([prefix])[0]
        room = self.model.context_length - 2
        if len(ids) > room:
            raise UsageError(
                f"the prefix has {len(ids):,} tokens, but the model has room for {room:,}. Use a "
                "shorter one."
            )
        return ids

    def _rows(self, source: str, target: str) -> tuple[list[int], list[int]]:
        """The ids of a sentence pair."""
        (source_ids,) = self.preprocessing.encode_source([one_line(source)])
        (target_ids,) = self.preprocessing.encode_target([one_line(target)])
        room = self.model.context_length
        for side, length in (("source", len(source_ids)), ("translation", len(target_ids) - 1)):
            if length > room:
                raise UsageError(
                    f"the {side} has {length:,} tokens with its end token, but the model sees "
                    f"only {room:,} at once. Use a shorter one."
                )
        return source_ids, target_ids
