"""A masked language model guesses what stands behind each mask, and is measured by it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.checkpoint.model_folder import save_model
from glassformer.errors import GlassformerError, UsageError
from glassformer.models.bert import Bert, BertConfig
from glassformer.preprocessing import load_preprocessing
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

TEXT = "the train left the station and the dog saw the train leave. " * 3


def make(folder: Path, kind: Any = "word") -> MaskedPredictor:
    torch.manual_seed(1)
    tokenizer = train_tokenizer(kind, [TEXT], None, BERT_TOKENS)
    model = Bert(
        BertConfig(
            vocab_size=tokenizer.vocab_size,
            context_length=12,
            num_layers=1,
            d_model=16,
            num_heads=2,
            tie_weights=False,
        )
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    save_model(folder, model, MaskedTextPreprocessing(tokenizer=tokenizer))
    found = glassformer.load(folder)
    assert isinstance(found, MaskedPredictor)
    return found


def fond_of(folder: Path, kind: str, token: str) -> MaskedPredictor:
    """One that guesses this token, wherever it is asked."""
    predictor = make(folder, kind)
    torch.nn.init.zeros_(predictor.model.head.weight)
    assert predictor.model.head.bias is not None
    torch.nn.init.zeros_(predictor.model.head.bias)
    size = predictor.tokenizer.vocab_size
    id = next(id for id in range(size) if predictor.tokenizer.token(id) == token)
    predictor.model.head.bias.data[id] = 9.0
    return predictor


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> MaskedPredictor:
    return make(tmp_path_factory.mktemp("words"))


# --- fill ---


def test_guesses_are_probabilities_the_likeliest_first(words: MaskedPredictor) -> None:
    (guesses,) = words.fill("the train left the [MASK].", top=1000)
    chances = [guess.probability for guess in guesses]
    assert len(guesses) == words.tokenizer.vocab_size
    assert sum(chances) == pytest.approx(1, abs=1e-5)
    assert chances == sorted(chances, reverse=True)


def test_top_says_how_many(words: MaskedPredictor) -> None:
    assert [len(mask) for mask in words.fill("[MASK] left", top=3)] == [3]
    assert [len(mask) for mask in words.fill("[MASK] left")] == [5]


def test_every_mask_has_guesses_of_its_own(words: MaskedPredictor) -> None:
    first, second = words.fill("the [MASK] left the [MASK] and", top=4)
    assert [guess.probability for guess in first] != [guess.probability for guess in second]
    assert first[0].text == f"the {first[0].token} left the [MASK] and"
    assert second[0].text == f"the [MASK] left the {second[0].token} and"


def test_both_sides_of_a_mask_are_read(words: MaskedPredictor) -> None:
    texts = ("the [MASK] left", "dog [MASK] left", "the [MASK] station")
    found = [words.fill(text)[0] for text in texts]
    chances = [[guess.probability for guess in guesses] for guesses in found]
    assert chances[0] != chances[1]
    assert chances[0] != chances[2]


def test_a_mask_may_stand_alone_first_last_or_beside_another(words: MaskedPredictor) -> None:
    for text, masks in (("[MASK]", 1), ("[MASK] left", 1), ("left [MASK]", 1), ("[MASK][MASK]", 2)):
        assert len(words.fill(text)) == masks


@pytest.mark.parametrize(
    ("kind", "token", "text", "filled"),
    [
        ("word", "dog", "the [MASK] left", "the dog left"),
        ("wordpiece", "##n", "the trai[MASK] left", "the train left"),
        ("bpe", " train", "the [MASK] left", "the train left"),
        ("bpe", "t", "[MASK]he dog", "the dog"),
        ("unigram", " t", "the [MASK]rain", "the train"),
    ],
)
def test_a_guess_is_put_into_the_text_as_it_would_be_written(
    tmp_path: Path, kind: str, token: str, text: str, filled: str
) -> None:
    (guesses,) = fond_of(tmp_path, kind, token).fill(text, top=1)
    assert (guesses[0].token, guesses[0].text) == (token, filled)
    assert json.loads(json.dumps(guesses[0].as_json()))["token"] == token


@pytest.mark.parametrize(
    ("kind", "piece", "alone", "touching"),
    [
        ("wordpiece", "##n", "the ([MASK]) left", "the trai[MASK] left"),
        ("wordpiece", "##n", "[MASK], the", "[MASK]rain"),
        ("wordpiece", "##n", "the [MASK]", "the [MASK][MASK]"),
        ("bpe", "e", "the [MASK] left", "th[MASK] left"),
        ("bpe", "e", "[MASK] left", "([MASK]) left"),
        ("unigram", "e", "the [MASK].", "the [MASK]a"),
    ],
)
def test_a_mask_that_stands_alone_is_a_word_and_no_piece_of_one(
    tmp_path: Path, kind: str, piece: str, alone: str, touching: str
) -> None:
    predictor = fond_of(tmp_path, kind, piece)
    (guesses,) = predictor.fill(alone, top=1000)
    begins = ("##",) if kind == "wordpiece" else (" ",)
    tokens = [guess.token for guess in guesses]
    assert len(tokens) > 2
    assert {token.startswith(begins) for token in tokens} == {kind != "wordpiece"}
    assert not [guess.text for guess in guesses if guess.text.startswith(" ")]
    assert predictor.fill(touching, top=1)[0][0].token == piece


@pytest.mark.parametrize("text", ["the train", "", "the [mask]"])
def test_a_text_without_a_mask_is_wrong_usage(words: MaskedPredictor, text: str) -> None:
    with pytest.raises(UsageError, match=r"there is no \[MASK\] in"):
        words.fill(text)


def test_a_text_longer_than_the_context_is_named_with_the_limit(words: MaskedPredictor) -> None:
    assert words.fill("the " * 9 + "[MASK]")  # 10 tokens and two around them
    with pytest.raises(GlassformerError, match="has 11 tokens, but the model reads at most 10"):
        words.fill("the " * 10 + "[MASK]")


# --- evaluate ---


def test_an_evaluation_is_the_same_every_time(tmp_path: Path, words: MaskedPredictor) -> None:
    (tmp_path / "x.txt").write_text(TEXT)
    once, again = (words.evaluate(str(tmp_path / "x.txt")) for _ in range(2))
    assert once == again
    assert once.num_tokens > 0
    assert once.loss > 0


def test_a_model_that_knows_the_word_guesses_it(tmp_path: Path) -> None:
    predictor = fond_of(tmp_path / "model", "word", "the")
    for name, text in (("the.txt", "the " * 200), ("dog.txt", "dog " * 200)):
        (tmp_path / name).write_text(text)
    assert predictor.evaluate(str(tmp_path / "the.txt")).accuracy == 1
    assert predictor.evaluate(str(tmp_path / "dog.txt")).accuracy == 0


def test_damaged_weights_are_an_error_and_no_number(tmp_path: Path) -> None:
    predictor = make(tmp_path / "model")
    torch.nn.init.constant_(predictor.model.head.weight, torch.nan)
    (tmp_path / "x.txt").write_text(TEXT)
    with pytest.raises(GlassformerError):
        predictor.evaluate(str(tmp_path / "x.txt"))
    with pytest.raises(GlassformerError):
        predictor.fill("the [MASK]")


def test_a_tokenizer_without_a_mask_is_refused(tmp_path: Path, words: MaskedPredictor) -> None:
    save_model(tmp_path, words.model, TextPreprocessing(tokenizer=train_tokenizer("word", [TEXT])))
    with pytest.raises(GlassformerError, match=r'has kind "text", which does not belong'):
        glassformer.load(tmp_path)
    settings = tmp_path / "preprocessor_config.json"
    settings.write_text(settings.read_text().replace('"text"', '"masked_text"', 1))
    with pytest.raises(GlassformerError, match=r"has no token \[MASK\]"):
        load_preprocessing(tmp_path)
