"""A tagger says something of every word, whatever its length and its company."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.checkpoint.model_folder import save_model
from glassformer.data.tag_schemes import Scheme
from glassformer.errors import GlassformerError
from glassformer.models.classifier import GPTTagger, GPTTaggerConfig, Tagger, TaggerConfig
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.tag.predictor import Tagged, TagPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS
from glassformer.text.words import split_words

TEXT = "Ada Lovelace lived in London and Kurt met Ada there"
SHAPE: dict[str, Any] = {"num_layers": 1, "d_model": 16, "num_heads": 2, "context_length": 16}
LABELS = ("O", "B-PER", "I-PER", "B-LOC")
SENTENCES = [
    "Ada",
    "",
    "Ada Lovelace lived in London and Kurt met Ada there. " * 5,
    "in",
    "  \t ",
    "Kurt met Ada there",
]


def make(kind: str, folder: Path, labels: tuple[str, ...] = LABELS) -> TagPredictor:
    torch.manual_seed(1)
    said: dict[str, Any] = {**SHAPE, "labels": labels}
    model: torch.nn.Module
    if kind == "gpt":
        tokenizer = train_tokenizer("bpe", [TEXT])
        model = GPTTagger(GPTTaggerConfig(vocab_size=tokenizer.vocab_size, **said))
    else:
        tokenizer = train_tokenizer("wordpiece", [TEXT], 60, BERT_TOKENS)
        model = Tagger(TaggerConfig(vocab_size=tokenizer.vocab_size, **said))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    preprocessing = TextPreprocessing(tokenizer=tokenizer, is_causal=kind == "gpt")
    save_model(folder, model, preprocessing)
    found = glassformer.load(folder)
    assert isinstance(found, TagPredictor)
    return found


@pytest.fixture(scope="module", params=["tagger", "gpt"])
def predictor(request: Any, tmp_path_factory: pytest.TempPathFactory) -> TagPredictor:
    return make(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def always(tmp_path: Path) -> Any:
    """Make one that gives every word the same tag."""

    def make_one(tag: str, labels: tuple[str, ...] = LABELS) -> TagPredictor:
        predictor = make("tagger", tmp_path / "model", labels)
        torch.nn.init.zeros_(predictor.model.head.weight)
        torch.nn.init.zeros_(predictor.model.head.bias)
        predictor.model.head.bias.data[labels.index(tag)] = 5.0
        return predictor

    return make_one


def conll(path: Path, *sentences: str) -> str:
    """Ada/B-PER met/O → a file of words and tags."""
    blocks = (
        "".join(pair.replace("/", "\t") + "\n" for pair in sentence.split())
        for sentence in sentences
    )
    path.write_text("\n".join(blocks))
    return str(path)


# --- words ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ada lived.", ["Ada", "lived", "."]),
        ("state-of-the-art, isn't it?", ["state-of-the-art", ",", "isn't", "it", "?"]),
        ("3,000.50 at 10:30", ["3,000.50", "at", "10:30"]),
        ("the U.K., e.g. at 5 p.m.", ["the", "U.K.", ",", "e.g.", "at", "5", "p.m."]),
        ("a Ph.D. in U.S.-based U.S.A", ["a", "Ph.D.", "in", "U.S.-based", "U.S.A"]),
        ("3.50 at 10:30. It is I.", ["3.50", "at", "10:30", ".", "It", "is", "I", "."]),
        ("London,Paris", ["London", ",", "Paris"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        (unicodedata.normalize("NFD", "café là"), unicodedata.normalize("NFD", "café là").split()),
        ("東京 ❤️!", ["東京", "❤️", "!"]),
        (" \t\n", []),
    ],
)
def test_a_text_is_split_as_files_of_tagged_sentences_are(text: str, words: list[str]) -> None:
    assert split_words(text) == words


# --- tag ---


def test_every_word_has_a_tag_and_a_score(predictor: TagPredictor) -> None:
    for sentence, found in zip(SENTENCES, predictor.tag_batch(SENTENCES), strict=True):
        assert list(found.words) == split_words(sentence)
        assert len(found.tags) == len(found.scores) == len(found.words)
        assert set(found.tags) <= set(LABELS)
        assert all(1 / len(LABELS) <= score <= 1 for score in found.scores)


def test_a_batch_says_what_each_sentence_alone_is_told(predictor: TagPredictor) -> None:
    for sentence, found in zip(SENTENCES, predictor.tag_batch(SENTENCES), strict=True):
        alone = predictor.tag(sentence)
        assert found.tags == alone.tags
        assert found.scores == pytest.approx(alone.scores, abs=1e-5)


def test_a_sentence_without_words_has_no_tags(predictor: TagPredictor) -> None:
    for found in predictor.tag(["", " ", []]):
        assert (found.words, found.tags, found.scores, found.entities) == ((), (), (), [])
    assert predictor.tag_batch([]) == []


def test_words_may_be_given_as_they_are(predictor: TagPredictor) -> None:
    whole = predictor.tag([["Ada Lovelace", "met", "a.b@c"]])[0]
    assert whole.words == ("Ada Lovelace", "met", "a.b@c")
    assert predictor.tag("Ada met").tags == predictor.tag([["Ada", "met"]])[0].tags


def test_a_word_longer_than_the_context_has_a_tag_and_so_have_its_neighbours(
    predictor: TagPredictor,
) -> None:
    found = predictor.tag([["Ada", "there" * 40, "Kurt"]])[0]
    assert len(found.tags) == 3
    assert found.tags[0] == predictor.tag("Ada").tags[0]


def test_words_that_no_token_spells_have_a_tag(predictor: TagPredictor) -> None:
    assert len(predictor.tag("猫 Ω Ada").tags) == 3


def test_entities_are_put_together_from_their_words() -> None:
    found = Tagged(
        ("Ada", "Lovelace", "in", "London"),
        ("B-PER", "I-PER", "O", "B-LOC"),
        (1.0,) * 4,
        Scheme("IOB2", is_typed=True),
    )
    values = json.loads(json.dumps(found.as_json()))
    assert values["entities"] == [
        {"type": "PER", "text": "Ada Lovelace", "words": [0, 1]},
        {"type": "LOC", "text": "London", "words": [3, 3]},
    ]
    assert values.keys() == {"words", "tags", "scores", "entities"}


def test_damaged_weights_are_an_error_and_no_answer(tmp_path: Path) -> None:
    predictor = make("tagger", tmp_path)
    torch.nn.init.constant_(predictor.model.head.bias, torch.nan)
    with pytest.raises(GlassformerError, match="weights are damaged"):
        predictor.tag("Ada")


# --- evaluate ---


def test_entities_are_judged_whole(always: Any, tmp_path: Path) -> None:
    path = conll(tmp_path / "x.conll", "Ada/B-PER met/O Kurt/B-PER", "London/B-LOC")
    found = always("B-PER").evaluate(path).as_json()
    assert found["accuracy"] == 0.5
    assert (found["precision"], found["recall"]) == (0.5, pytest.approx(2 / 3))
    assert found["types"]["PER"]["support"] == 2
    assert found["types"]["LOC"]["recall"] == 0
    assert (found["num_words"], found["num_sentences"]) == (4, 2)
    assert found["unknown_tags"] == {}


def test_tags_that_mark_no_entities_are_judged_one_by_one(always: Any, tmp_path: Path) -> None:
    path = conll(tmp_path / "x.conll", "Ada/NOUN runs/VERB Kurt/NOUN in/VERB dogs/NOUN")
    found = always("NOUN", ("NOUN", "VERB")).evaluate(path).as_json()
    assert found["accuracy"] == pytest.approx(3 / 5)
    assert found["f1"] is found["precision"] is found["recall"] is None
    assert found["types"]["NOUN"]["recall"] == 1


def test_long_sentences_are_judged_to_their_last_word(always: Any, tmp_path: Path) -> None:
    path = conll(tmp_path / "x.conll", "in/O " * 99 + "London/B-LOC")
    found = always("O").evaluate(path)
    assert (found.num_words, found.accuracy) == (100, 0.99)


def test_tags_never_seen_are_named_counted_and_wrong(always: Any, tmp_path: Path) -> None:
    path = conll(tmp_path / "x.conll", "Ada/B-PER met/B-ODD Kurt/B-ODD now/NEW")
    found = always("B-PER").evaluate(path)
    assert found.as_json()["unknown_tags"] == {"B-ODD": 2, "NEW": 1}
    assert found.accuracy == 0.25
    (note,) = found.notes
    assert note.endswith("count as wrong: B-ODD (2), NEW (1)")


def test_data_with_none_of_the_tags_is_an_error(always: Any, tmp_path: Path) -> None:
    path = conll(tmp_path / "x.conll", "Ada/X met/Y")
    with pytest.raises(GlassformerError, match=r"X \(1\), Y \(1\)\. It knows: O, B-PER"):
        always("O").evaluate(path)
