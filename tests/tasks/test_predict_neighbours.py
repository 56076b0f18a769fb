"""The neighbours of a word, for word vectors, GPT and BERT: each number from the model itself."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.capture import capturing
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.rnn import RNNLanguageModel, RNNLanguageModelConfig
from glassformer.models.word_vectors import WordVectors, WordVectorsConfig
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.skip_gram import SkipGramPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.tasks.word_vectors.predictor import WordVectorsPredictor
from glassformer.text.tokenizer_training import train_tokenizer, word_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

WORDS = {"station": (3, 1), "train": (4, 0), "radio": (0, 4), "the": (1, 1), "rail": (3, -1)}
WORDS |= {"song": (-1, 3), "<b>": (9, 9), ".": (3, 1)}
SENTENCE = "The train left the station."
TEXT = "the train left the station while a radio played the songs of the station"
STACK: dict[str, Any] = {"num_layers": 2, "d_model": 8, "num_heads": 2, "context_length": 16}


@pytest.fixture
def vectors() -> WordVectorsPredictor:
    """Eight words in two dimensions."""
    tokenizer = word_tokenizer([*WORDS], lowercase=True)
    config = WordVectorsConfig(vocab_size=len(WORDS) + 2, d_model=2, has_contexts=False)
    model = WordVectors(config)
    table = torch.tensor([(0, 0), *WORDS.values(), (0, 0)], dtype=torch.float32)
    model.embedding.weight.data = table
    return WordVectorsPredictor(model, SkipGramPreprocessing(tokenizer=tokenizer))


def randomized(model: Any) -> Any:
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def gpt(kind: Any = "word", **more: Any) -> LanguagePredictor:
    tokenizer = train_tokenizer(kind, [TEXT])
    model = randomized(GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **STACK, **more)))
    return LanguagePredictor(model, TextPreprocessing(tokenizer=tokenizer, is_causal=True))


def bert() -> MaskedPredictor:
    tokenizer = train_tokenizer("wordpiece", [TEXT], None, BERT_TOKENS)
    model = randomized(Bert(BertConfig(vocab_size=tokenizer.vocab_size, **STACK)))
    return MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=tokenizer))


def test_neighbours_are_words_in_the_order_of_their_cosine(vectors: WordVectorsPredictor) -> None:
    (alone,) = vectors.neighbours("Station", top=3).steps
    assert [near.word for near in alone.neighbours] == ["train", "the", "<b>"]  # "." is no word
    assert alone.neighbours[0].similarity == pytest.approx(12 / (np.sqrt(10) * 4))


def test_each_step_of_attention_without_parameters_follows_from_the_one_before(
    vectors: WordVectorsPredictor,
) -> None:
    found = vectors.neighbours("station", SENTENCE, top=4)
    alone, step = found.steps
    assert step.tokens == ("the", "train", "the", "station")  # "left" is unknown
    assert step.places == (3,)
    rows = np.array([WORDS[token] for token in step.tokens], dtype=float)
    dots = rows @ np.array(WORDS["station"])
    np.testing.assert_allclose(step.dot_products, dots)
    np.testing.assert_allclose(step.scores, dots / np.sqrt(2), rtol=1e-6)
    shares = np.exp(dots / np.sqrt(2))
    np.testing.assert_allclose(step.weights, shares / shares.sum(), rtol=1e-5)
    np.testing.assert_allclose(step.vector, (shares / shares.sum()) @ rows, rtol=1e-5)
    before = {near.word: near.similarity for near in alone.neighbours}
    assert {near.word: near.before for near in step.neighbours} == before
    assert any("left out: left" in note for note in found.notes)


def test_attention_moves_a_word_towards_its_context(vectors: WordVectorsPredictor) -> None:
    by_rail = vectors.neighbours("station", "the train station").steps[-1]
    on_air = vectors.neighbours("station", "the radio station", temperature=3).steps[-1]

    def similarity(step: Any, word: str) -> float:
        return next(near.similarity for near in step.neighbours if near.word == word)

    assert similarity(by_rail, "train") > similarity(on_air, "train")
    assert similarity(on_air, "song") > similarity(by_rail, "song")


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_the_layers_of_a_gpt_show_its_own_states_and_weights(kind: str) -> None:
    predictor = gpt(kind, d_embedding=4, tie_weights=False)
    context = "the train left"
    found = predictor.neighbours("train", context)
    assert [step.name for step in found.steps] == ["alone", "attention", "layer 1", "layer 2"]
    ids = predictor.tokenizer.encode(context)
    with capturing(predictor.model.blocks) as seen, torch.no_grad():  # type: ignore[arg-type]
        predictor.model(torch.tensor([ids]))
    for number, step in enumerate(found.steps[2:]):
        assert "train" in "".join(step.tokens[place] for place in step.places)
        places = list(step.places)
        assert step.heads is not None
        assert step.weights is not None
        np.testing.assert_allclose(step.vector, seen.hidden[number + 1][places].mean(0), rtol=1e-6)
        np.testing.assert_allclose(step.heads, seen.attention[number][:, places].mean(1), rtol=1e-6)
        np.testing.assert_allclose(step.weights.sum(), 1, rtol=1e-5)
        assert not step.weights[places[-1] + 1 :].any()  # the future is hidden


def test_half_a_character_is_no_neighbour() -> None:
    found = gpt("bpe").neighbours("train", top=1000)
    assert not [near.word for near in found.steps[0].neighbours if "<0x" in near.word]


def test_a_bert_sees_its_special_tokens_and_both_sides() -> None:
    found = bert().neighbours("station", "the station the")
    plain, first = found.steps[1], found.steps[2]
    assert plain.tokens == ("the", "station", "the")
    assert first.tokens == ("[CLS]", *plain.tokens, "[SEP]")
    assert (plain.places, first.places) == ((1,), (2,))
    assert first.weights is not None
    assert (first.weights > 0).all()


def test_a_recurrent_network_has_no_layers_of_attention() -> None:
    tokenizer = train_tokenizer("word", [TEXT])
    config = RNNLanguageModelConfig(vocab_size=tokenizer.vocab_size, d_embedding=4, d_model=8)
    predictor = LanguagePredictor(
        randomized(RNNLanguageModel(config)), TextPreprocessing(tokenizer=tokenizer)
    )
    found = predictor.neighbours("train", "the train")
    assert [step.name for step in found.steps] == ["alone", "attention"]


def test_a_word_of_several_tokens_is_their_mean() -> None:
    predictor = gpt("char")
    found = predictor.neighbours("train", "a train left", top=2)
    ids = predictor.tokenizer.encode("train")
    expected = predictor.model.token_vectors[ids].mean(0)
    np.testing.assert_allclose(found.steps[0].vector, expected.detach(), rtol=1e-5)
    assert found.steps[1].places == (2, 3, 4, 5, 6)
    assert found.notes[0].startswith("\"train\" is 5 tokens ('t', 'r', 'a', 'i', 'n')")


def test_a_word_that_occurs_twice_is_taken_where_it_occurs_last(
    vectors: WordVectorsPredictor,
) -> None:
    found = vectors.neighbours("the", "The train the")
    assert found.steps[1].places == (2,)
    assert 'contains "the" 2 times: the last one is used' in found.notes[0]


@pytest.mark.parametrize(
    ("word", "context", "more", "said"),
    [
        ("statin", None, {}, r'"statin" is not among the 7 words of this model\. Did .* station\?'),
        ("xyzzy", None, {}, "Choose another one"),
        (" ", None, {}, "the word is empty"),
        ("train", "the station", {}, 'does not contain the word "train"'),
        ("train", "trains and training", {}, "does not contain"),
        ("train", " ", {}, "the context is empty"),
        ("train", None, {"top": 0}, "top is 0, but must be at least 1"),
        ("train", "train", {"temperature": 0.0}, "temperature is 0.0, but must be greater than 0"),
        ("train", "train", {"temperature": float("nan")}, "temperature is nan"),
    ],
)
def test_bad_input_is_one_clear_sentence(
    vectors: WordVectorsPredictor, word: str, context: str | None, more: Any, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        vectors.neighbours(word, context, **more)


def test_a_context_longer_than_the_models_is_refused() -> None:
    with pytest.raises(GlassformerError, match="has 20 tokens, but the model reads at most 16"):
        gpt().neighbours("train", "the train " * 10)


def test_imported_vectors_cannot_be_evaluated(vectors: WordVectorsPredictor) -> None:
    with pytest.raises(UsageError, match="cannot be evaluated: they were imported"):
        vectors.evaluate("any.txt")


def test_a_result_shows_itself_as_text_json_and_html(vectors: WordVectorsPredictor) -> None:
    found = vectors.neighbours("station", SENTENCE)
    text = found.text()
    assert "dot product" in text
    assert "/ 1.41" in text
    assert repr(found) == text
    assert "&lt;b&gt;" in found._repr_html_()
    assert "<b>" not in found._repr_html_()
    written = json.loads(json.dumps(found.as_json()))
    assert written["word"] == "station"
    attention = written["steps"][1]
    assert attention["scale"] == np.sqrt(2)
    assert sum(attention["weights"]) == pytest.approx(1)
    assert attention["neighbours"][0].keys() == {"word", "similarity", "before"}
