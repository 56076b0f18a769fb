"""A translator in use: it translates, scores translations, and shows where it looked."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, ClassVar, overload

import torch

from glassformer.data.pair_files import one_line
from glassformer.data.sentence_pairs import pairs_of
from glassformer.errors import UsageError
from glassformer.generation.beam import Trace
from glassformer.generation.hypotheses import Hypothesis
from glassformer.inspect.alignment import Alignment
from glassformer.inspect.inspection import Inspection, Subject
from glassformer.models import name_of
from glassformer.models.sources import Translator
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.tasks.alignment import (
    attention_of_heads,
    chosen_weights,
    decode_with_unknown,
    shown_tokens,
    word_starts,
)
from glassformer.tasks.answers import (
    Translations,
    TranslationScore,
    TranslationSettings,
    WrittenText,
    check_room,
    logprobs_about,
    whole_ids,
)
from glassformer.tasks.inspecting import TEXT_VIEWS, InspectsTranslations
from glassformer.tasks.subjects import of_translation
from glassformer.tasks.task import Texts, View, merged_settings, names_of
from glassformer.tasks.translate.scores import (
    PERFECT,
    TranslationResult,
    compare_sentences,
    evaluate_translation,
    pair_rows,
    search_translations,
    unknown_characters,
)
from glassformer.text.words import fitting_pieces
from glassformer.wording import counted


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
        chosen = self.settings(merged_settings(settings, changes))
        pieces, rows = list[list[str]](), list[list[int]]()
        cleaned = [one_line(text) for text in texts]
        for text, row in zip(cleaned, self.preprocessing.encode_source(cleaned), strict=True):
            fits = len(row) <= self.model.context_length
            pieces.append([text] * bool(text) if fits else self.cut(text))
            rows += [row] * bool(text) if fits else self.preprocessing.encode_source(pieces[-1])
        if chosen.prefix and any(len(parts) > 1 for parts in pieces):
            raise UsageError("a text longer than the model's context cannot have a prefix.")
        results = iter(self._search(rows, chosen))
        return [
            Translations(
                text, self._joined(parts, [*islice(results, len(parts))], chosen), len(parts)
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
        scores = [self._score(*pair) for pair in _pairs(source, target)]
        return scores[0] if isinstance(source, str) else scores

    def _score(self, source: str, target: str) -> TranslationScore:
        source_ids, target_ids = self._rows(source, target)
        with torch.inference_mode():
            memory = self.model.encode(torch.tensor([source_ids], device=self.model.device))
        return TranslationScore(
            shown_tokens(self.preprocessing.target, target_ids[1:]),
            logprobs_about(memory, self.model, target_ids).tolist(),
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
    ) -> TranslationResult:
        """Translate the sources of pairs and compare with their targets. `bleu_tokenizer` is one of
        sacreBLEU's (None: chosen by the script of the targets). With `errors`, the result has that
        many of the translations, the one with the lowest chrF first.

        >>> 0 <= model.evaluate("test.tsv").bleu <= 100
        True
        """
        preprocessing, notes = self.preprocessing, list[str]()
        pairs = pairs_of(
            names_of(paths),
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
        rows = pair_rows(preprocessing, pairs)
        if max_new_tokens is not None:
            settings["max_new_tokens"] = max_new_tokens

        def translate() -> tuple[list[str], int]:
            written = self.translate_batch(sources, **settings)
            return [each.text for each in written], sum(each.is_cut_off for each in written)

        notes += unknown_characters("source", preprocessing.source, sources)
        notes += unknown_characters("reference", preprocessing.target, references)
        result = evaluate_translation(
            self.model, rows, references, translate, bleu_tokenizer, notes
        )
        if errors is None:
            return result
        compared = compare_sentences(pairs, result.texts)
        poor = sorted((each for each in compared if each.score < PERFECT), key=lambda e: e.score)
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
        source_ids, target_ids, own = self._pair(source, target)
        written = one_line(target or "") if own is None else own.text
        heads = attention_of_heads(self.model, source_ids, target_ids)  # (layers, H, T, S)
        weights = chosen_weights(heads, layer, head)  # (T, S)
        if own is None:
            total = self.score(source, written).total
            score = self.settings({}).score(total, len(target_ids) - 1)
        else:
            score = own.score
        read = self.preprocessing.source, source_ids
        wrote = self.preprocessing.target, target_ids[1:]
        alignment = Alignment(
            source=source,
            target=written,
            score=score,
            source_tokens=shown_tokens(*read),
            target_tokens=shown_tokens(*wrote),
            weights=weights.double().numpy(),
            is_cut_off=own is not None and own.finish_reason == "length",
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
        chosen: TranslationSettings = self.parse_settings(settings)
        if settings.get("copy_unknown") and self.preprocessing.target.unknown is None:
            raise UsageError(
                "copy_unknown has no effect: this model can write every word. Leave it out."
            )
        self._prefix(chosen)  # raises if it is invalid
        return chosen

    def _fits(self, text: str) -> bool:
        return len(self.preprocessing.encode_source([text])[0]) <= self.model.context_length

    def _search(
        self,
        rows: Sequence[Sequence[int]],
        chosen: TranslationSettings,
        trace: Trace | None = None,
    ) -> list[list[Hypothesis]]:
        """The best translations of rows of source tokens."""
        prefix, limit = self._prefix(chosen), chosen.max_new_tokens
        return search_translations(
            self.model, self.preprocessing, rows, chosen, prefix, trace, limit
        )

    def _joined(
        self, sources: list[str], results: list[list[Hypothesis]], chosen: TranslationSettings
    ) -> list[WrittenText]:
        """The n-th best translation of a text joins the n-th best of each of its pieces."""
        if not results:
            return [WrittenText("", 0.0)]
        prefix, joined = self._prefix(chosen), []
        for parts in zip(*results, strict=False):
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
            is_whole = all(part.finish_reason == "stop" for part in parts)
            written = WrittenText(
                text=" ".join(filter(None, texts)),
                score=chosen.score(total, length),
                finish_reason="stop" if is_whole else "length",
            )
            joined.append(written)
        return joined

    def _prefix(self, chosen: TranslationSettings) -> list[int]:
        """The tokens that every translation begins with."""
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

    def _pair(
        self, source: str, target: str | None
    ) -> tuple[list[int], list[int], WrittenText | None]:
        """The ids of a sentence and of `target`, or of what the model writes, and its text."""
        if target is not None:
            return (*self._rows(source, target), None)
        source_ids, target_ids = self._rows(source, "")
        if not source:
            return source_ids, target_ids, WrittenText("", 0.0)
        chosen = self.settings({})
        (hypotheses,) = self._search([source_ids], chosen)
        ids = whole_ids(self.preprocessing, hypotheses[0], self._prefix(chosen))
        return source_ids, ids, self._joined([source], [hypotheses], chosen)[0]

    def _rows(self, source: str, target: str) -> tuple[list[int], list[int]]:
        """The ids of a sentence pair."""
        (source_ids,) = self.preprocessing.encode_source([one_line(source)])
        (target_ids,) = self.preprocessing.encode_target([one_line(target)])
        check_room("source", len(source_ids), self.model.context_length)
        check_room("translation", len(target_ids) - 1, self.model.context_length)
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
