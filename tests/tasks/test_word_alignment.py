"""An alignment shows where a translator looked: in the mean, or by one layer and head."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from translators import pupil, translator

from glassformer.errors import UsageError
from glassformer.generation.beam import Hypothesis
from glassformer.inspect.alignment import word_of
from glassformer.nn.observe import listening
from glassformer.tasks.alignment import shown_tokens, word_starts
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Kind


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


@pytest.mark.parametrize("is_complete", [True, False])
def test_what_the_model_wrote_is_aligned_not_read_again(
    monkeypatch: pytest.MonkeyPatch, is_complete: bool
) -> None:
    predictor = translator(tokens="bpe")
    byte = predictor.preprocessing.target.id("ÿ")  # 0xFF, which is no letter in UTF-8
    assert byte is not None
    wrote = Hypothesis((byte,) * 20, -1.0, -1.0, is_complete)
    monkeypatch.setattr(
        "glassformer.tasks.translate.scores.search_translations", lambda *_, **__: [[wrote]]
    )
    found = predictor.align("one two")  # the text would be more tokens than the model reads
    assert found.target_tokens == ["<0xFF>"] * 20 + ["<end>"] * is_complete
    assert found.is_cut_off is not is_complete
    assert len(found.weights) == len(found.target_tokens)
    assert predictor.inspect("one two") is not None


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
        ids = [torch.tensor([row]) for row in predictor._rows(source, target)]
        with listening([predictor.model.taps[1]]) as (heard,):
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
    with pytest.raises(
        UsageError, match="this translator has no attention, so there is no alignment"
    ):
        translator("rnn without attention").align("one two")


@pytest.mark.parametrize("kind", ["bpe", "char", "wordpiece", "unigram"])
def test_punctuation_is_a_word_of_its_own_unless_it_joins_a_word(kind: Kind) -> None:
    text = ' He said: "don\'t go to the beach."'
    tokenizer = train_tokenizer(kind, [text * 9], None if kind == "char" else 400)
    ids = tokenizer.encode(text)
    tokens = shown_tokens(tokenizer, ids)
    starts = [place for place, begins in enumerate(word_starts(tokenizer, ids)) if begins]
    found = [word_of(tokens[first:last]) for first, last in pairwise([*starts, len(ids)])]
    assert {"said", "the", "beach"} <= set(found)
    assert "".join(found[found.index("beach") + 1 :]) == '."'  # a token may hold both marks
    if kind != "wordpiece":  # which cuts at every mark
        assert "don't" in found
