"""A translator keeps the order, reports how sure it is, and cuts what is too long."""

from typing import Any

import pytest
import torch
from translators import KINDS, SENTENCES, WORDS, pupil, sentences, translator, writes

from glassformer.errors import UsageError
from glassformer.generation.beam import Hypothesis
from glassformer.preprocessing.text import TargetLength
from glassformer.tasks import answers
from glassformer.tasks.translate.scores import SEARCHED_AT_ONCE

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
            "translations": [{"text": "", "score": 0.0, "finish_reason": "stop"}],
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
    monkeypatch.setattr(answers, "beam_search", found_at_once)
    for count in (10, 2000):
        predictor.translate_batch(sentences(count, longest=40), num_beams=num_beams)
        assert max(sizes) <= SEARCHED_AT_ONCE
    assert len(sizes) > 2000 * 20 * num_beams // SEARCHED_AT_ONCE


# --- scores ---


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_translation_is_as_likely_as_the_search_says(kind: str, length_penalty: float) -> None:
    predictor = pupil(kind)
    settings = {"num_beams": 3, "num_return_sequences": 3, "length_penalty": length_penalty}
    complete = 0
    for each in predictor.translate_batch(sentences(12), max_new_tokens=24, **settings):
        for translation in each.translations:
            words = translation.text.split()
            score = predictor.score(each.source, translation.text)
            assert score.tokens == [*words, "<end>"]
            assert score.as_json()["total"] == score.total == pytest.approx(sum(score.logprobs))
            is_complete = len(words) < 24
            assert is_complete or translation.finish_reason == "length"
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
        (
            {"num_beams": 4, "num_beam_groups": 3},
            "num_beams 4 is not a multiple of num_beam_groups 3",
        ),
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
    with pytest.raises(UsageError, match="the source has 31 tokens including its end"):
        translator().score("two " * 30, "one")
    with pytest.raises(
        UsageError,
        match="the translation has 31 tokens including its end token, but the model reads at most",
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
    lengths = [len(ids) for ids in predictor.preprocessing.encode_source(pieces)]
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
    assert all(len(ids) <= 24 for ids in predictor.preprocessing.encode_source(pieces))
    assert " " not in "".join(pieces[1:-1])


def test_a_text_that_fits_is_not_cut() -> None:
    assert translator(text=". " + " ".join(WORDS)).cut(" one. two.\tthree ") == ["one. two. three"]


# --- how long a translation may become ---


def test_a_translation_that_is_cut_off_reports_it() -> None:
    predictor = pupil()
    whole = predictor.translate("one two three four")
    assert (whole.translations[0].finish_reason, whole.is_cut_off) == ("stop", False)
    found = predictor.translate("one two three four", max_new_tokens=2)
    assert len(found.text.split()) == 2
    assert found.translations[0].finish_reason == "length"
    assert found.is_cut_off
    assert found.as_json()["translations"][0]["finish_reason"] == "length"


def test_one_piece_of_a_long_text_that_is_cut_off_is_enough() -> None:
    predictor = pupil()
    found = predictor.translate("one two three four. " * 20, max_new_tokens=3)
    assert found.num_pieces > 1
    assert found.is_cut_off


def test_the_limit_is_that_of_training_and_never_more_than_the_context() -> None:
    short = TargetLength(ratio=0.1, offset=0)
    predictor = translator(target_length=short)
    limit = short.limit(3)
    with torch.no_grad():
        predictor.model.head.bias[predictor.preprocessing.end] = -100.0  # it never ends
    for settings, most in (({}, limit), ({"max_new_tokens": 20}, 20), ({"max_new_tokens": 99}, 24)):
        found = predictor.translate("one two", num_beams=2, **settings)
        assert len(found.text.split()) == most
        assert found.is_cut_off
    free = translator()  # a model folder without the lengths of its training
    with torch.no_grad():
        free.model.head.bias[free.preprocessing.end] = -100.0
    assert len(free.translate("one").text.split()) == free.model.context_length


def test_a_translation_as_long_as_the_context_can_be_aligned() -> None:
    predictor = translator()
    with torch.no_grad():
        predictor.model.head.bias[predictor.preprocessing.end] = -100.0  # it never ends
    found = predictor.align("one two")
    assert found.is_cut_off
    assert len(found.target_tokens) == predictor.model.context_length
    assert "<end>" not in found.target_tokens


# --- words ---


@pytest.mark.parametrize("tokens", ["word", "wordpiece", "bpe", "unigram", "char"])
def test_what_is_written_reads_as_text(monkeypatch: pytest.MonkeyPatch, tokens: str) -> None:
    texts = ["Hello, world (again)!", SENTENCES]
    predictor = translator(tokens=tokens, text=" ".join(texts), context_length=200)
    writes(monkeypatch, predictor, *texts)
    found = [each.text for each in predictor.translate_batch(["One", "two"])]
    assert found == texts


# --- how a translation begins ---


def test_a_translation_begins_as_it_is_told_to() -> None:
    predictor = pupil()
    found = predictor.translate("one two three", prefix="eight seven", num_return_sequences=2)
    assert all(each.text.startswith("eight seven") for each in found.translations)
    text, whole = found.text, predictor.score("one two three", found.text)
    rest = sum(whole.logprobs[2:])  # what follows the two words that were given
    assert text
    assert found.translations[0].score == pytest.approx(rest / (len(whole.logprobs) - 2), abs=1e-4)


def test_a_beginning_that_cannot_be_spelled_is_refused() -> None:
    with pytest.raises(UsageError, match="characters that the model does not know: Z ë"):
        translator(tokens="char").translate("one", prefix="Zoë")


def test_an_empty_text_hides_no_text_in_pieces() -> None:
    long = "one two three four five six. " * 5
    with pytest.raises(UsageError, match="prefix"):
        translator(text=long).translate_batch(["", "", "", "", "", long], prefix="one")


def test_a_text_in_pieces_has_no_prefix() -> None:
    with pytest.raises(UsageError, match="prefix"):
        translator().translate("one two. " * 20, prefix="one")


# --- the search ---


def test_groups_of_beams_differ_if_nothing_else_is_said() -> None:
    predictor = pupil()
    more = {"num_beams": 4, "num_return_sequences": 4, "num_beam_groups": 4}
    same = predictor.translate("one two three", **more, diversity_penalty=0.0)
    assert len({each.text for each in same.translations}) == 1
    found = predictor.translate("one two three", **more)
    assert found == predictor.translate("one two three", **more, diversity_penalty=0.5)
    assert len({each.text for each in found.translations}) > 1


def test_the_tree_of_a_search_holds_the_translation() -> None:
    predictor = pupil()
    nodes = {each["node"]: each for each in predictor.tree("one two", num_beams=3)}
    ends = [each for each in nodes.values() if each["fate"] == "complete"]
    best = max(ends, key=lambda each: each["score"])
    words = []
    while best["parent"] is not None:
        best = nodes[best["parent"]]
        words.insert(0, best["token"])
    assert " ".join(words) == predictor.translate("one two", num_beams=3).text


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_sentences_without_blanks_between_them_are_cut_at_their_ends(kind: str) -> None:
    sentence = "我喜欢你。"
    predictor = translator(tokens=kind, text=sentence * 3, context_length=18)
    pieces = predictor.cut(sentence * 9)
    assert "".join(pieces) == sentence * 9
    assert pieces == [sentence] * 9


def test_scores_are_computed_where_the_model_is() -> None:
    predictor = translator()
    predictor.model.to("meta")
    with pytest.raises((NotImplementedError, RuntimeError), match="meta") as refused:
        predictor.score("one", "two")  # no number can come from there, but no device is mixed up
    assert " device" not in str(refused.value)


def test_many_sentences_are_searched_side_by_side_to_the_same_end() -> None:
    predictor = pupil()
    texts = [" ".join(["one", "two", "three"] * (1 + number % 3)) for number in range(500)]
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        found.append(predictor.translate_batch(texts, num_return_sequences=2))
    assert [each.text for each in found[0]] == [each.text for each in found[1]]
    scores = [[each.translations[1].score for each in part] for part in found]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_lists_of_sources_and_targets_are_scored_in_pairs() -> None:
    predictor = translator()
    together = predictor.score(["one two", "three"], ["two", "one"])
    alone = [predictor.score("one two", "two"), predictor.score("three", "one")]
    assert together == alone
    with pytest.raises(UsageError, match="found 1 source, but 2 targets"):
        predictor.score(["one"], ["one", "two"])
    with pytest.raises(UsageError, match="or a list of each"):
        predictor.score("one", ["one"])  # type: ignore[call-overload]
