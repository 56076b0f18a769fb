"""A word in several sentences: the right tokens are found, and their states are the model's own."""

from typing import Any

import numpy as np
import pytest
import torch
from translators import translator

from glassformer.errors import UsageError
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.classifier import Classifier, ClassifierConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.rnn import RNNLanguageModel, RNNLanguageModelConfig
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.inspecting import words_of
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

TRAIN = "The train slowly left the station."
RADIO = "The radio station plays music, doesn't it?"
SHAPE = {"num_layers": 2, "d_model": 16, "num_heads": 2, "context_length": 64}


def tokenizer(kind: Any, *special: str) -> Any:
    return train_tokenizer(kind, [TRAIN, RADIO] * 3, 300 if kind != "word" else None, special)


def gpt(kind: Any) -> LanguagePredictor:
    own = tokenizer(kind)
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=own.vocab_size, **SHAPE))
    return LanguagePredictor(model, TextPreprocessing(tokenizer=own, is_causal=True))


def bert(kind: Any) -> MaskedPredictor:
    own = tokenizer(kind, *BERT_TOKENS)
    torch.manual_seed(0)
    model = Bert(BertConfig(vocab_size=own.vocab_size, **SHAPE))
    return MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=own))


def classifier(kind: Any) -> ClassifyPredictor:
    own = tokenizer(kind)
    model = Classifier(ClassifierConfig(vocab_size=own.vocab_size, labels=("a", "b"), **SHAPE))
    return ClassifyPredictor(model, TextPreprocessing(tokenizer=own))


@pytest.mark.parametrize("kind", ["char", "word", "bpe", "unigram", "wordpiece"])
@pytest.mark.parametrize("make", [gpt, bert, classifier])
def test_the_longest_shared_word_is_found_in_the_tokens_of_every_model(
    make: Any, kind: Any
) -> None:
    found = make(kind).contexts(TRAIN, [RADIO])
    seen = found.contexts
    assert seen.word == "station"
    assert [use.sentence for use in seen.uses] == [0, 1]
    for use in seen.uses:
        tokens = [seen.tokens[use.sentence][place] for place in use.positions]
        assert "".join(token.removeprefix("##") for token in tokens).strip() == "station"
    assert "[station]" in seen.names[0]
    assert found.notes == (
        '"station" is compared; the sentences also share "the" (choose with --word)',
    )
    assert seen.hidden.shape == (3, 2, 16)


def test_the_vector_of_a_word_is_the_mean_of_its_tokens_after_each_layer() -> None:
    model = bert("char")
    found = model.contexts(TRAIN, [RADIO], word="Station").contexts
    for number, text in enumerate((TRAIN, RADIO)):
        (use,) = [each for each in found.uses if each.sentence == number]
        hidden = model.inspect(text).hidden
        assert len(use.positions) == len("station")
        assert np.allclose(found.hidden[:, number], hidden[:, list(use.positions)].mean(1))
    a, b = found.hidden[-1].astype(float)
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert found.cosine[-1, 0, 1] == pytest.approx(cosine, rel=1e-6)
    assert found.distance[-1, 0, 1] == pytest.approx(np.linalg.norm(a - b), rel=1e-6)
    places, share = found.places
    assert places.shape == (3, 2, 2)
    assert 0 < share <= 1 + 1e-9


def test_a_word_without_positions_begins_alike_and_its_context_parts_it() -> None:
    own = tokenizer("word")
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=own.vocab_size, **SHAPE, positions="rotary"))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    predictor = LanguagePredictor(model, TextPreprocessing(tokenizer=own, is_causal=True))
    cosine = predictor.contexts(TRAIN, RADIO, word="station").contexts.cosine[:, 0, 1]
    assert cosine[0] == pytest.approx(1)
    assert cosine[-1] < 0.99


def test_a_word_may_stand_twice_in_one_sentence() -> None:
    found = gpt("word").contexts("The train left the station", word="the").contexts
    assert [use.positions for use in found.uses] == [(0,), (3,)]
    assert found.as_json()["uses"][1] == {"sentence": 0, "positions": [3], "tokens": ["the"]}


def test_the_encoder_of_a_translator_reads_the_sentences() -> None:
    found = translator().contexts("one two three", compare=["four two"]).contexts
    assert found.word == "two"
    assert [use.positions for use in found.uses] == [(1,), (1,)]
    assert found.names == ["one [two] three", "four [two]"]


def test_three_sentences_have_three_pairs() -> None:
    found = gpt("bpe").contexts(TRAIN, [RADIO, "station"], word="station")
    lines = found.text().splitlines()
    assert lines[0] == '"station" in 3 places:'
    assert [line.split("  ")[0] for line in lines[-3:]] == ["1 and 2", "1 and 3", "2 and 3"]
    assert np.shape(found.as_json()["cosine"]) == (3, 3, 3)


def test_the_story_carries_the_comparison() -> None:
    seen = gpt("word").inspect(TRAIN, compare=[RADIO])
    assert seen.contexts is not None
    assert seen.as_json()["contexts"]["word"] == "station"
    assert any("is compared" in note for note in seen.notes)
    assert gpt("word").inspect(TRAIN).contexts is None


def test_words_are_without_punctuation_special_tokens_and_unknown_words() -> None:
    own = tokenizer("word", *BERT_TOKENS)
    ids = [own.special_tokens["[CLS]"], *own.encode("The train, quickly left."), 0]
    assert [*words_of(own, ids)][:3] == ["the", "train", "left"]


@pytest.mark.parametrize(
    ("others", "word", "message"),
    [
        ([], None, "a word is compared in several sentences. Pass another with --compare."),
        (["music plays"], None, "no word stands in each of the 2 sentences: the first one has the"),
        ([RADIO], "train", 'is not a word of "The radio station plays music, doesn'),
        ([], "left", '"left" stands in one place only. Pass another sentence with --compare.'),
        ([" "], None, "the text is empty"),
    ],
)
def test_what_cannot_be_compared_is_said(others: list[str], word: str | None, message: str) -> None:
    with pytest.raises(UsageError) as error:
        gpt("word").contexts(TRAIN, others, word)
    assert message in str(error.value)


def test_a_model_without_layers_has_no_vectors_to_compare() -> None:
    own = tokenizer("word")
    sizes = {"vocab_size": own.vocab_size, "d_model": 8, "d_embedding": 8, "num_layers": 1}
    model = RNNLanguageModel(RNNLanguageModelConfig(**sizes))
    predictor = LanguagePredictor(model, TextPreprocessing(tokenizer=own))
    with pytest.raises(UsageError, match="has no layers of self-attention"):
        predictor.contexts(TRAIN, RADIO)
