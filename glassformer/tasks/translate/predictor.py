"""A translator in use: it translates, scores translations, and shows where it looked.

    text           →  pieces that fit  →  beam search  →  Translations
    text, target   →  log p of each token of the target  →  TranslationScore
    text, target   →  (T, S) attention of target tokens to source tokens  →  Alignment

A word that the model does not know is copied from where it looked.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, ClassVar, overload

import torch
from pydantic import Field

from glassformer.config import Count
from glassformer.data.pair_files import one_line
from glassformer.data.sentence_pairs import pairs_of
from glassformer.errors import UsageError
from glassformer.generation.beam import MOST_BEAMS, Beams, Hypothesis, Trace
from glassformer.inspect.alignment import Alignment
from glassformer.inspect.inspection import Inspection, Subject
from glassformer.models import name_of
from glassformer.models.sources import Translator
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.tasks import answers
from glassformer.tasks.alignment import (
    attention_of_heads,
    select_weights,
    shown_tokens,
    word_starts,
)
from glassformer.tasks.inspecting import TEXT_VIEWS, InspectsTranslations
from glassformer.tasks.subjects import of_translation
from glassformer.tasks.task import Texts, View, as_list, merged_settings
from glassformer.tasks.translate import scores
from glassformer.text.tokenizers import readable
from glassformer.text.words import fitting_pieces
from glassformer.wording import counted


class TranslationSettings(Beams):
    """How to translate. Names follow Hugging Face's."""

    num_beams: Count = Field(5, ge=1, le=MOST_BEAMS)
    prefix: str = ""
    """The beginning of every translation. The score is that of the rest."""
    copy_unknown: bool = True
    """Copy words that the model does not know from the source."""
    max_new_tokens: Count | None = Field(None, ge=1)
    """The most tokens of a translation, with its end, up to the model's context (null: as many as
    the training data suggests)."""


@dataclass(frozen=True)
class Translations(answers.WrittenTexts):
    """The translations of a text, the best first."""

    num_pieces: int = 1
    """More than one if the source is longer than the model's context."""

    @property
    def translations(self) -> list[answers.WrittenText]:
        return self.ranked

    def as_json(self) -> dict[str, Any]:
        return {"source": self.source, "translations": [asdict(one) for one in self.ranked]}


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


class TranslatePredictor(InspectsTranslations):
    """The verbs of a translator: translate, score, evaluate, align."""

    verbs = ("translate", "inspect", "evaluate")
    views: ClassVar = TEXT_VIEWS | {
        "alignment": View("align", "the source words that each word of a translation attends to")
    }
    preprocessing_class = PairPreprocessing
    settings_class = TranslationSettings
    model: Translator
    preprocessing: PairPreprocessing

    @overload
    def translate(
        self, text: str, settings: TranslationSettings | None = None, **changes: Any
    ) -> Translations: ...
    @overload
    def translate(
        self, text: Texts, settings: TranslationSettings | None = None, **changes: Any
    ) -> list[Translations]: ...
    def translate(
        self, text: str | Texts, settings: TranslationSettings | None = None, **changes: Any
    ) -> Translations | list[Translations]:
        """The best translations of a text. A list gives a list. Settings are given as an object, or
        by the names of its fields.

        >>> model.translate("one two").text
        '...'
        >>> found = model.translate("one two", num_beams=4, num_return_sequences=2)
        >>> [(each.text, each.score) for each in found.translations]
        [('...', -...), ('...', -...)]
        >>> [each.text for each in model.translate(["one two", "two"])]
        ['...', '...']
        >>> from glassformer import TranslationSettings
        >>> greedy = TranslationSettings(num_beams=1, max_new_tokens=5)
        >>> len(model.translate("one two", greedy).translations)
        1
        """
        if isinstance(text, str):
            return self.translate_batch([text], settings, **changes)[0]
        return self.translate_batch(list(text), settings, **changes)

    def translate_batch(
        self, texts: Sequence[str], settings: TranslationSettings | None = None, **changes: Any
    ) -> list[Translations]:
        """Translate every text, in order; an empty one stays empty.

        >>> [each.text for each in model.translate_batch(["one two", ""], num_beams=1)]
        ['...', '']
        """
        settings = self.settings(merged_settings(settings, changes))
        pieces, rows = list[list[str]](), list[list[int]]()
        cleaned = [one_line(text) for text in texts]
        for text, row in zip(cleaned, self.preprocessing.encode_source(cleaned), strict=True):
            fits = len(row) <= self.model.context_length
            pieces.append([text] * bool(text) if fits else self.cut(text))
            rows += [row] * bool(text) if fits else self.preprocessing.encode_source(pieces[-1])
        if settings.prefix and any(len(parts) > 1 for parts in pieces):
            raise UsageError("a text longer than the model's context cannot have a prefix.")
        results = iter(self._search(rows, settings))
        return [
            Translations(
                text, self._join(parts, [*islice(results, len(parts))], settings), len(parts)
            )
            for text, parts in zip(texts, pieces, strict=True)
        ]

    def cut(self, text: str) -> list[str]:
        """The text if it fits into the model, otherwise pieces of it, cut where it harms least.

        >>> model.cut("one two")
        ['one two']
        """
        return fitting_pieces(one_line(text), self._fits)

    def tree(
        self, text: str, settings: TranslationSettings | None = None, **changes: Any
    ) -> list[dict[str, Any]]:
        """Everything that beam search considered for one text: each token with its parent, its
        score, and why it was kept or dropped.

        >>> model.tree("one two", num_beams=2)[0].keys()
        dict_keys([...])
        """
        trace = Trace()
        source, _ = self._rows(text, "")
        self._search([source], self.settings(merged_settings(settings, changes)), trace)
        return [
            asdict(node) | {"token": shown_tokens(self.preprocessing.target, [node.token])[0]}
            for node in trace.nodes
        ]

    @overload
    def score(self, source: str, target: str) -> TranslationScore: ...
    @overload
    def score(self, source: list[str], target: list[str]) -> list[TranslationScore]: ...
    def score(self, source: Any, target: Any) -> TranslationScore | list[TranslationScore]:
        """How likely `target` is as the translation of `source`. Two lists give a list.

        >>> model.score("one two", "eno owt").total
        -...
        >>> [each.tokens for each in model.score(["one"], ["eno"])]
        [[...]]
        """
        results = [self._score(*pair) for pair in _pairs(source, target)]
        return results[0] if isinstance(source, str) else results

    def _score(self, source: str, target: str) -> TranslationScore:
        source_ids, target_ids = self._rows(source, target)
        with torch.inference_mode():
            memory = self.model.encode(torch.tensor([source_ids], device=self.model.device))
        return TranslationScore(
            shown_tokens(self.preprocessing.target, target_ids[1:]),
            answers.logprobs_about(memory, self.model, target_ids).tolist(),
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
        max_new_tokens: int | None = None,
        bleu_tokenizer: str | None = None,
        errors: int | None = None,
        **settings: Any,
    ) -> scores.TranslationResult:
        """Translate the sources of pairs and compare with their targets. `bleu_tokenizer` is one of
        sacreBLEU's (None: chosen by the script of the targets). With `errors`, the result has that
        many of the translations, the one with the lowest chrF first.

        >>> 0 <= model.evaluate("test.tsv").bleu <= 100
        True
        """
        preprocessing, notes = self.preprocessing, list[str]()
        pairs = pairs_of(
            as_list(paths),
            source_paths,
            target_paths,
            source_column,
            target_column,
            encoding,
            reverse=preprocessing.reverse and not source_paths,
            preferred=(preprocessing.source_column, preprocessing.target_column),
            notes=notes,
        )
        sources = [pair.source for pair in pairs]
        references = [pair.target for pair in pairs]
        rows = scores.pair_rows(preprocessing, pairs)
        if max_new_tokens is not None:
            settings["max_new_tokens"] = max_new_tokens

        def translate() -> tuple[list[str], int]:
            written = self.translate_batch(sources, **settings)
            return [one.text for one in written], sum(one.is_cut_off for one in written)

        notes += scores.unknown_characters("source", preprocessing.source, sources)
        notes += scores.unknown_characters("reference", preprocessing.target, references)
        result = scores.evaluate_translation(
            self.model, rows, references, translate, bleu_tokenizer, notes
        )
        if errors is None:
            return result
        compared = scores.compare_sentences(pairs, result.texts)
        poor = [one for one in compared if one.score < scores.PERFECT]
        poor.sort(key=lambda one: one.score)
        return replace(result, errors=tuple(poor[:errors]))

    @overload
    def align(
        self,
        text: str,
        target: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        words: bool = False,
    ) -> Alignment: ...
    @overload
    def align(
        self,
        text: Texts,
        target: Sequence[str] | None = None,
        layer: int | None = None,
        head: int | None = None,
        words: bool = False,
    ) -> list[Alignment]: ...
    def align(
        self,
        text: str | Texts,
        target: str | Sequence[str] | None = None,
        layer: int | None = None,
        head: int | None = None,
        words: bool = False,
    ) -> Alignment | list[Alignment]:
        """Which tokens of the source each token of its translation looked at, or of the `target`
        that is given. Without `layer` or `head`, the mean of all. A list gives a list.

        >>> model.align("one two", target="eno owt", words=True).source_tokens
        ['one', 'two', ...]
        >>> len(model.align(["one two", "two"]))
        2
        """
        alignments = [self._align(*pair, layer, head, words) for pair in _pairs(text, target)]
        return alignments[0] if isinstance(text, str) else alignments

    def _align(
        self, text: str, target: str | None, layer: int | None, head: int | None, words: bool
    ) -> Alignment:
        source = one_line(text)
        source_ids, target_ids, hypothesis = self._pair(source, target)
        written = one_line(target or "") if hypothesis is None else hypothesis.text
        heads = attention_of_heads(self.model, source_ids, target_ids)  # (layers, H, T, S)
        weights = select_weights(heads, layer, head)  # (T, S)
        if hypothesis is None:
            total = self.score(source, written).total
            score = self.settings({}).score(total, len(target_ids) - 1)
        else:
            score = hypothesis.score
        read = self.preprocessing.source, source_ids
        wrote = self.preprocessing.target, target_ids[1:]
        alignment = Alignment(
            source=source,
            target=written,
            score=score,
            source_tokens=shown_tokens(*read),
            target_tokens=shown_tokens(*wrote),
            weights=weights.double().numpy(),
            is_cut_off=hypothesis is not None and hypothesis.finish_reason == "length",
            heads=heads.double().numpy(),
            chosen=(layer, head),
            model=name_of(self.model),
            inspect=lambda: Inspection(
                self._with_history(self._read(source, source_ids, target_ids))
            ),
        )
        return alignment.in_words(word_starts(*read), word_starts(*wrote)) if words else alignment

    def _subject(self, text: str, target: str | None = None) -> Subject:
        source = one_line(text)
        source_ids, target_ids, _ = self._pair(source, target)
        return self._read(source, source_ids, target_ids)

    def _read(self, source: str, source_ids: list[int], target_ids: list[int]) -> Subject:
        return of_translation(self.model, self.preprocessing, source, source_ids, target_ids)

    def settings(self, settings: dict[str, Any]) -> TranslationSettings:
        parsed: TranslationSettings = self.parse_settings(settings)
        if settings.get("copy_unknown") and self.preprocessing.target.unknown is None:
            raise UsageError(
                "copy_unknown has no effect: this model can write every word. Leave it out."
            )
        self._prefix(parsed)  # raises if it is invalid
        return parsed

    def _fits(self, text: str) -> bool:
        return len(self.preprocessing.encode_source([text])[0]) <= self.model.context_length

    def _search(
        self,
        rows: Sequence[Sequence[int]],
        settings: TranslationSettings,
        trace: Trace | None = None,
    ) -> list[list[Hypothesis]]:
        """The best translations of rows of source tokens."""
        prefix, limit = self._prefix(settings), settings.max_new_tokens
        return scores.search_translations(
            self.model, self.preprocessing, rows, settings, prefix, trace, limit
        )

    def _join(
        self, sources: list[str], results: list[list[Hypothesis]], settings: TranslationSettings
    ) -> list[answers.WrittenText]:
        """The n-th best translation of a text joins the n-th best of each of its pieces."""
        if not results:
            return [answers.WrittenText("", 0.0)]
        prefix, joined = self._prefix(settings), []
        for parts in zip(*results, strict=False):
            length = sum(len(part.ids) + part.is_complete for part in parts)
            texts = [
                decode_with_unknown(
                    self.model,
                    self.preprocessing,
                    source,
                    one_line(settings.prefix),
                    [*prefix, *part.ids],
                    settings.copy_unknown,
                )
                for source, part in zip(sources, parts, strict=True)
            ]
            total = math.fsum(part.logprob for part in parts)
            is_whole = all(part.finish_reason == "stop" for part in parts)
            written = answers.WrittenText(
                text=" ".join(filter(None, texts)),
                score=settings.score(total, length),
                finish_reason="stop" if is_whole else "length",
            )
            joined.append(written)
        return joined

    def _prefix(self, settings: TranslationSettings) -> list[int]:
        """The tokens that every translation begins with."""
        if not settings.prefix:
            return []
        prefix, target = one_line(settings.prefix), self.preprocessing.target
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

    def _pair(
        self, source: str, target: str | None
    ) -> tuple[list[int], list[int], answers.WrittenText | None]:
        """The ids of a sentence and of `target`, or of what the model writes, and its text."""
        if target is not None:
            return (*self._rows(source, target), None)
        source_ids, target_ids = self._rows(source, "")
        if not source:
            return source_ids, target_ids, answers.WrittenText("", 0.0)
        settings = self.settings({})
        (hypotheses,) = self._search([source_ids], settings)
        ids = answers.whole_ids(self.preprocessing, hypotheses[0], self._prefix(settings))
        return source_ids, ids, self._join([source], [hypotheses], settings)[0]

    def _rows(self, source: str, target: str) -> tuple[list[int], list[int]]:
        """The ids of a sentence pair."""
        (source_ids,) = self.preprocessing.encode_source([one_line(source)])
        (target_ids,) = self.preprocessing.encode_target([one_line(target)])
        answers.check_room("source", len(source_ids), self.model.context_length)
        answers.check_room("translation", len(target_ids) - 1, self.model.context_length)
        return source_ids, target_ids


def _pairs(source: Any, target: Any) -> list[tuple[Any, Any]]:
    """A source and its target, or the pairs of two lists. Without targets, each is None."""
    if isinstance(source, str) and (target is None or isinstance(target, str)):
        return [(source, target)]
    if isinstance(source, str) or isinstance(target, str):
        raise UsageError("pass a source and its target, or a list of each, of the same length.")
    targets = [None] * len(source) if target is None else target
    if len(source) != len(targets):
        raise UsageError(
            f"found {counted(len(source), 'source')}, but {counted(len(targets), 'target')}."
        )
    return [*zip(source, targets, strict=True)]


# --- words that the model does not know ---
#
# Ada visits Timbuktu.  →  Ada besucht <|unk|>.  →  Ada besucht Timbuktu.


def decode_with_unknown(
    model: Translator,
    preprocessing: PairPreprocessing,
    source: str,
    prefix: str,
    ids: Sequence[int],
    copies: bool,
) -> str:
    """The text of a translation, `ids`, that begins with `prefix`. Unknown words of the prefix stay
    as they are; the others are copied from the source if `copies`."""
    target = preprocessing.target
    text, unknown = preprocessing.decode(ids), target.unknown
    if unknown is None or unknown not in ids:
        return text
    mark = target.token(unknown)
    in_prefix = list(target.unknown_words(prefix))
    words = [*in_prefix, *([mark] * (ids.count(unknown) - len(in_prefix)))]
    if copies and model.taps and len(words) > len(in_prefix):
        words[len(in_prefix) :] = _copy_words(model, preprocessing, source, ids)[len(in_prefix) :]
    parts = text.split(mark)
    if len(parts) != len(words) + 1:  # a word of the text looks like the mark
        return text
    return "".join(part + word for part, word in zip(parts, [*words, ""], strict=True))


def _copy_words(
    model: Translator, preprocessing: PairPreprocessing, source: str, ids: Sequence[int]
) -> list[str]:
    """The source word that each unknown token of a translation attended to most: one that the model
    does not know either, if there is any."""
    (row,) = preprocessing.encode_source([source])
    target = [preprocessing.start, *ids, preprocessing.end]
    heads = attention_of_heads(model, row, target)
    weights = select_weights(heads)[:, :-1]  # (T, S), without the source's end
    is_unknown = torch.tensor([id == preprocessing.source.unknown for id in row[:-1]])
    if is_unknown.any():
        weights = weights.masked_fill(~is_unknown, -1)
    (text,) = readable(preprocessing.source, [source])  # as it was encoded
    spans = preprocessing.source.spans(text)
    unknown = preprocessing.target.unknown
    looked_at = [int(weights[step].argmax()) for step, id in enumerate(ids) if id == unknown]
    return [text[first:last].strip() for first, last in (spans[token] for token in looked_at)]
