"""A translator keeps the order, says how sure it is, cuts what is too long, and copies names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from translators import KINDS, SENTENCES, WORDS, pupil, sentences, translator

from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.beam import Hypothesis
from glassformer.predict.translator import TranslatePredictor
from glassformer.training import translating


def writes(monkeypatch: pytest.MonkeyPatch, predictor: TranslatePredictor, *texts: str) -> None:
    """Let the search find the tokens of these texts, one for each sentence."""
    found = [[*ids] for ids in predictor.languages.write(texts)]
    monkeypatch.setattr(
        "glassformer.predict.translator.translate",
        lambda *_: [[Hypothesis(tuple(ids[1:-1]), -1.0, -1.0, True)] for ids in found],
    )


# --- many sentences ---


@pytest.mark.parametrize("kind", KINDS)
def test_many_sentences_are_translated_as_each_alone(kind: str) -> None:
    predictor, texts = pupil(kind), sentences(30)
    together = predictor.translate_batch(texts, num_beams=3, num_return_sequences=2)
    assert [each.source for each in together] == texts
    assert len({each.text for each in together}) > 5
    for found, text in list(zip(together, texts, strict=True))[::3]:
        alone = predictor.translate(text, num_beams=3, num_return_sequences=2)
        assert [each.text for each in found.translations] == [
            each.text for each in alone.translations
        ]
        assert [each.score for each in found.translations] == pytest.approx(
            [each.score for each in alone.translations], abs=1e-4
        )


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_text_stays_empty_and_harms_no_other(kind: str) -> None:
    predictor = pupil(kind)
    texts = ["", "one two", " \t ", "three", ""]
    found = predictor.translate_batch(texts)
    for number in (0, 2, 4):
        assert found[number].as_json() == {
            "source": texts[number],
            "translations": [{"text": "", "score": 0.0}],
        }
    for number in (1, 3):
        assert found[number].text == predictor.translate(texts[number]).text != ""
    assert predictor.translate_batch([]) == []


@pytest.mark.parametrize("num_beams", [1, 4])
def test_memory_does_not_grow_with_the_number_of_sentences(
    monkeypatch: pytest.MonkeyPatch, num_beams: int
) -> None:
    predictor = translator(context_length=64)
    encode, sizes = predictor.model.encode, list[int]()

    def spy(source: torch.Tensor, is_text: torch.Tensor | None = None) -> Any:
        sizes.append(source.numel() * num_beams)
        return encode(source, is_text)

    def found_at_once(_: Any, prompts: list[Any], *__: Any, **___: Any) -> list[list[Hypothesis]]:
        return [[Hypothesis((), -1.0, -1.0, True)] for _ in prompts]

    monkeypatch.setattr(predictor.model, "encode", spy)
    monkeypatch.setattr(translating, "beam_search", found_at_once)
    for count in (10, 2000):
        predictor.translate_batch(sentences(count, longest=40), num_beams=num_beams)
        assert max(sizes) <= translating.SEARCHED_AT_ONCE
    assert len(sizes) > 2000 * 20 * num_beams // translating.SEARCHED_AT_ONCE


# --- scores ---


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_translation_is_as_likely_as_the_search_says(kind: str, length_penalty: float) -> None:
    predictor = pupil(kind)
    settings = {"num_beams": 3, "num_return_sequences": 3, "length_penalty": length_penalty}
    complete = 0
    for each in predictor.translate_batch(sentences(12), **settings):
        limit = translating.longest_answer(len(each.source.split()) + 1, predictor.model)
        for translation in each.translations:
            words = translation.text.split()
            score = predictor.score(each.source, translation.text)
            assert score.tokens == [*words, "<end>"]
            assert score.as_json()["total"] == score.total == pytest.approx(sum(score.logprobs))
            is_complete = len(words) < limit
            complete += is_complete
            # What was cut off has no end yet.
            total = score.total if is_complete else sum(score.logprobs[:-1])
            length = len(words) + is_complete
            assert translation.score * length**length_penalty == pytest.approx(total, abs=1e-3)
    assert complete > 20


def test_the_best_comes_first_and_there_are_as_many_as_asked_for() -> None:
    predictor = pupil()
    for wanted in (1, 3, 4):
        found = predictor.translate("one two three", num_beams=4, num_return_sequences=wanted)
        scores = [each.score for each in found.translations]
        assert len(scores) == wanted
        assert scores == sorted(scores, reverse=True)
        assert len({each.text for each in found.translations}) == wanted


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"num_return_sequences": 6}, "num_return_sequences 6 is more than num_beams 5"),
        ({"num_beams": 4, "num_beam_groups": 3}, "num_beams 4 is no multiple of num_beam_groups 3"),
        ({"num_beam": 4}, "num_beams"),
        ({"length_penalty": "long"}, "length_penalty"),
    ],
)
def test_settings_that_make_no_sense_are_one_sentence(settings: Any, error: str) -> None:
    with pytest.raises(UsageError, match=error) as raised:
        translator().translate("one", **settings)
    assert "\n" not in str(raised.value)


def test_blanks_between_words_make_no_difference() -> None:
    predictor = translator(tokens="bpe")
    assert predictor.translate(" one   two\t").text == predictor.translate("one two").text
    assert predictor.score(" one  two", "two ") == predictor.score("one two", "two")


def test_what_is_too_long_cannot_be_scored() -> None:
    with pytest.raises(UsageError, match="the source has 31 tokens with its end"):
        translator().score("two " * 30, "one")
    with pytest.raises(
        UsageError, match="the translation has 31 tokens with its end, and the model sees 24"
    ):
        translator().score("one", "two " * 30)


# --- texts that are too long ---

SHORT = "one two three four."


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (" ".join([SHORT] * 20), "."),
        (", ".join(["one two three"] * 20), ","),
        (" ".join(WORDS * 12), WORDS),
        ("One two, three four. " + "five " * 40 + "six, seven! eight", None),
    ],
    ids=["sentences", "commas", "blanks", "a bit of each"],
)
@pytest.mark.parametrize("tokens", ["word", "bpe"])
def test_a_long_text_is_cut_where_it_does_the_least_harm(text: str, end: Any, tokens: str) -> None:
    predictor = translator(tokens=tokens, text=f"{' '.join(WORDS)} . , !")
    pieces = predictor.cut(text)
    assert len(pieces) > 3
    assert " ".join(pieces) == text
    lengths = [len(ids) for ids in predictor.languages.read(pieces)]
    assert max(lengths) <= predictor.model.context_length
    if end is not None:
        assert all(piece.endswith(end) for piece in pieces[:-1])
    if end == ".":
        assert pieces == [SHORT] * 20  # a translator knows single sentences
    elif end is not None:
        assert lengths[0] > predictor.model.context_length // 2  # as much as fits
    best = [predictor.translate(piece).text for piece in pieces]
    assert predictor.translate(text).text == " ".join(filter(None, best))


def test_a_word_without_end_is_cut_inside() -> None:
    predictor = translator(tokens="bpe")
    text = "one " + "xyz" * 60 + " two"
    pieces = predictor.cut(text)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert all(len(ids) <= 24 for ids in predictor.languages.read(pieces))
    assert " " not in "".join(pieces[1:-1])


def test_a_text_that_fits_is_not_cut() -> None:
    assert translator(text=". " + " ".join(WORDS)).cut(" one. two.\tthree ") == ["one. two. three"]


# --- words ---


@pytest.mark.parametrize("copies", [True, False])
def test_a_word_that_it_does_not_know_is_copied(
    monkeypatch: pytest.MonkeyPatch, copies: bool
) -> None:
    predictor = translator()
    writes(monkeypatch, predictor, "two Timbuktu one Zanzibar")
    looks = torch.eye(4)[[2, 3, 0, 1]]  # the last two places are the other's
    monkeypatch.setattr(
        predictor, "_attention", lambda *_: torch.cat((looks, torch.zeros(4, 1)), dim=1)
    )
    found = predictor.translate("one Zanzibar two Kairo-Nord", copy_unknown=copies)
    unknown = ("Kairo-Nord", "Zanzibar") if copies else ("<|unk|>", "<|unk|>")
    assert found.text == "two {} one {}".format(*unknown)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_source_of_one_word_that_word_is_copied(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    predictor = translator(kind)
    writes(monkeypatch, predictor, "one Unknown two")
    copied = "one Zanzibar two" if predictor.model.taps else "one <|unk|> two"
    assert predictor.translate("Zanzibar").text == copied


@pytest.mark.parametrize("tokens", ["word", "wordpiece", "bpe", "unigram", "char"])
def test_what_is_written_reads_as_text(monkeypatch: pytest.MonkeyPatch, tokens: str) -> None:
    texts = ["Hello, world (again)!", SENTENCES]
    predictor = translator(tokens=tokens, text=" ".join(texts), context_length=200)
    writes(monkeypatch, predictor, *texts)
    found = [each.text for each in predictor.translate_batch(["One", "two"])]
    assert found == texts


# --- alignment ---


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
@pytest.mark.parametrize("tokens", ["word", "bpe", "wordpiece", "char"])
def test_an_alignment_has_a_row_for_each_token_that_was_written(kind: str, tokens: str) -> None:
    predictor = translator(kind, tokens, context_length=80)
    found = predictor.align(" one  two three", "four five")
    source, target = (found.source_tokens, found.target_tokens)
    assert found.weights.shape == (len(target), len(source))
    assert found.weights.sum(axis=1) == pytest.approx(1)
    assert source[-1] == target[-1] == "<end>"
    assert (found.source, found.target) == ("one two three", "four five")
    in_words = predictor.align("one two three", "four five", words=True)
    assert in_words.weights.sum(axis=1) == pytest.approx(1)
    assert in_words.source_tokens == ["one", "two", "three", "<end>"]
    assert in_words.target_tokens == ["four", "five", "<end>"]


def test_without_a_target_the_models_own_translation_is_aligned() -> None:
    predictor = pupil()
    found = predictor.align("one two three")
    assert found.target == predictor.translate("one two three").text
    assert found.target_tokens == [*found.target.split(), "<end>"]


def test_an_alignment_is_the_mean_over_layers_and_heads_or_one_of_them() -> None:
    predictor = translator()
    source, target = "one two three", "four five"
    single = [
        [predictor.align(source, target, layer=layer, head=head).weights for head in range(2)]
        for layer in range(2)
    ]
    mean = predictor.align(source, target).weights
    assert np.mean(single, axis=(0, 1)) == pytest.approx(mean, abs=1e-6)
    assert not np.allclose(single[0][0], single[1][0])
    second = predictor.align(source, target, layer=1).weights
    assert np.mean(single[1], axis=0) == pytest.approx(second, abs=1e-6)
    with torch.no_grad():
        ids = [torch.tensor(predictor._rows(source, target)[side]) for side in (0, 1)]
        with predictor.model.taps[1].listen() as heard:
            predictor.model(ids[0], ids[1][:, :-1])
    assert heard[0][0, 1].numpy() == pytest.approx(single[1][1], abs=1e-6)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({"layer": 2}, "there is no layer 2: the last one is 1."),
        ({"head": 2}, "there is no head 2: the last one is 1."),
        ({"layer": -1}, "there is no layer -1: the last one is 1."),
        ({"head": -1}, "there is no head -1: the last one is 1."),
    ],
)
def test_a_layer_or_head_that_there_is_not(where: dict[str, int], error: str) -> None:
    with pytest.raises(UsageError) as raised:
        translator().align("one", "two", **where)
    assert str(raised.value) == error


def test_a_translator_without_attention_has_no_alignment() -> None:
    with pytest.raises(UsageError, match="this translator has no attention, and so no alignment"):
        translator("rnn without attention").align("one two")


# --- evaluation ---


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_an_evaluation_is_sacrebleus_and_the_models_own_score(kind: str, tmp_path: Path) -> None:
    predictor, sources = pupil(kind), sentences(40, seed=99)
    right = [f"{text} two" for text in sources]
    pairs = list(zip(sources, right, strict=True))
    (tmp_path / "test.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    found = predictor.evaluate(str(tmp_path / "test.tsv"), num_beams=2)
    texts = [each.text for each in predictor.translate_batch(sources, num_beams=2)]
    bleu = sacrebleu.metrics.BLEU()
    assert found.bleu == bleu.corpus_score(texts, [right]).score
    assert 0 < found.bleu < 100
    assert found.chrf == sacrebleu.metrics.CHRF().corpus_score(texts, [right]).score
    assert found.signature == str(bleu.get_signature())
    scores = [predictor.score(*pair) for pair in pairs]
    count = sum(len(score.tokens) for score in scores)
    assert found.loss == pytest.approx(-sum(score.total for score in scores) / count, rel=1e-5)
    assert found.perplexity == pytest.approx(np.exp(found.loss))
    assert (found.num_sentences, found.num_too_long) == (40, 0)
    assert found.sentences_per_second > 0


def test_the_direction_is_remembered_for_tables_but_not_for_two_files(tmp_path: Path) -> None:
    predictor = translator(reverse=True)
    for name, lines in {"a": ["one two"], "b": ["three"], "ab": ["one two\tthree"]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    a, b, both = (str(tmp_path / name) for name in ("a", "b", "ab"))

    def expected(source: str, target: str) -> Any:
        logprobs = predictor.score(source, target).logprobs
        return pytest.approx(-np.mean(logprobs), rel=1e-5)

    assert predictor.evaluate(both).loss == expected("three", "one two")
    found = predictor.evaluate(source_paths=[a], target_paths=[b])
    assert found.loss == expected("one two", "three")


def test_what_is_too_long_is_translated_in_pieces_and_counted(tmp_path: Path) -> None:
    predictor = translator()
    path = tmp_path / "test.tsv"
    path.write_text("one\ttwo\n" + "one " * 60 + "\tthree\nfour\t" + "five " * 60 + "\n")
    found = predictor.evaluate(str(path))
    assert (found.num_sentences, found.num_too_long) == (3, 2)
    assert found.loss == pytest.approx(-np.mean(predictor.score("one", "two").logprobs), rel=1e-5)
    path.write_text("one " * 60 + "\tthree\n")
    with pytest.raises(GlassformerError, match="every sentence is longer than the model allows"):
        predictor.evaluate(str(path))
