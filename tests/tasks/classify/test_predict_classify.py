"""A classifier answers for texts of any length, alone or in company, and is judged fairly."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.checkpoint.model_folder import save_model
from glassformer.data.labelled_texts import Example
from glassformer.data.labels import targets_of
from glassformer.errors import GlassformerError
from glassformer.models.bag import Bag, BagConfig
from glassformer.models.classifier import (
    Classifier,
    ClassifierConfig,
    GPTClassifier,
    GPTClassifierConfig,
)
from glassformer.models.rnn import RNNClassifier, RNNClassifierConfig
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

WORDS = "a good film and one bad story of the town"
SHAPE: dict[str, Any] = {"num_layers": 1, "d_model": 16, "num_heads": 2, "context_length": 12}
TEXTS = [
    "good",
    "",
    "the town and the story of a good film " * 9,
    "bad",
    "   ",
    "a bad story of the town",
    "nothing known here",
]


def make(kind: str, folder: Path, multi_label: bool = False) -> ClassifyPredictor:
    """A model of random weights, saved and loaded."""
    torch.manual_seed(1)
    tokens = BERT_TOKENS if kind == "classifier" else ()
    tokenizer = train_tokenizer("bpe" if kind == "gpt" else "word", [WORDS], None, tokens)
    said: dict[str, Any] = {
        "vocab_size": tokenizer.vocab_size,
        "labels": ("good", "bad", "so-so"),
        "multi_label": multi_label,
    }
    preprocessing = TextPreprocessing(
        tokenizer=tokenizer,
        text_column=("title", "body"),
        label_column="verdict",
        is_causal=kind == "gpt",
    )
    model: torch.nn.Module
    match kind:
        case "bag":
            model = Bag(BagConfig(d_model=16, **said))
        case "rnn":
            model = RNNClassifier(RNNClassifierConfig(d_embedding=8, d_model=8, **said))
        case "classifier":
            model = Classifier(ClassifierConfig(**SHAPE, **said))
        case _:
            model = GPTClassifier(GPTClassifierConfig(**SHAPE, **said))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    save_model(folder, model, preprocessing)
    found = glassformer.load(folder)
    assert isinstance(found, ClassifyPredictor)
    return found


@pytest.fixture(scope="module", params=["bag", "rnn", "classifier", "gpt"])
def predictor(request: Any, tmp_path_factory: pytest.TempPathFactory) -> ClassifyPredictor:
    return make(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> ClassifyPredictor:
    """One that says good of the word good, bad of the word bad, and so-so of the rest."""
    predictor = make("bag", tmp_path_factory.mktemp("made"))
    _knows(predictor, {"good": [20.0, 0.0, 0.0], "bad": [0.0, 20.0, 0.0]}, [0.0, 0.0, 3.0])
    return predictor


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> ClassifyPredictor:
    """One that may give several labels: good and bad by their words, so-so never."""
    predictor = make("bag", tmp_path_factory.mktemp("several"), multi_label=True)
    _knows(predictor, {"good": [99.0, 0.0, 0.0], "bad": [0.0, 99.0, 0.0]}, [-9.0, -9.0, -9.0])
    return predictor


def _knows(predictor: ClassifyPredictor, words: dict[str, list[float]], bias: list[float]) -> None:
    """Set the weights by hand: a word's vector begins with its logits, and the head copies them."""
    for name, parameter in predictor.model.named_parameters():
        torch.nn.init.ones_(parameter) if "norm" in name else torch.nn.init.zeros_(parameter)
    (table,) = (m for m in predictor.model.modules() if isinstance(m, torch.nn.Embedding))
    with torch.no_grad():
        for word, logits in words.items():
            assert isinstance(predictor.preprocessing, TextPreprocessing)
            (id,) = predictor.preprocessing.tokenizer.encode(word)
            table.weight[id, :3] = torch.tensor(logits)
        predictor.model.head.weight[:, :3] = torch.eye(3)
        predictor.model.head.bias.copy_(torch.tensor(bias))


def table_of(path: Path, rows: Sequence[tuple[str, str, str]]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("title", "body", "verdict"), *rows])
    return str(path)


# --- classify ---


def test_a_batch_says_what_each_text_alone_is_told(predictor: ClassifyPredictor) -> None:
    together = predictor.classify_batch(TEXTS)
    assert [found.text for found in together] == TEXTS
    for text, found in zip(TEXTS, together, strict=True):
        alone = predictor.classify(text)
        assert found.labels == alone.labels
        for label, score in alone.scores.items():
            assert found.scores[label] == pytest.approx(score, abs=1e-5)


def test_the_answers_are_not_all_alike(predictor: ClassifyPredictor) -> None:
    scores = [tuple(found.scores.items()) for found in predictor.classify_batch(TEXTS)]
    assert len(set(scores)) >= 4


def test_the_order_of_the_texts_does_not_matter(predictor: ClassifyPredictor) -> None:
    forth, back = predictor.classify_batch(TEXTS), predictor.classify_batch(TEXTS[::-1])
    for one, other in zip(forth, back[::-1], strict=True):
        assert one.labels == other.labels
        assert one.scores == pytest.approx(other.scores, abs=1e-5)


def test_scores_are_probabilities_with_the_label_first(predictor: ClassifyPredictor) -> None:
    for found in predictor.classify_batch([text for text in TEXTS if text.strip()]):
        scores = list(found.scores.values())
        assert set(found.scores) == {"good", "bad", "so-so"}
        assert sum(scores) == pytest.approx(1)
        assert scores == sorted(scores, reverse=True)
        assert found.label == next(iter(found.scores))


def test_no_texts_have_no_answers(predictor: ClassifyPredictor) -> None:
    assert predictor.classify_batch([]) == []


def test_a_word_decides(bag: ClassifyPredictor) -> None:
    said = [found.label for found in bag.classify_batch(["good", "bad", "town"])]
    assert said == ["good", "bad", "so-so"]


def test_of_a_text_without_words_nothing_is_said(predictor: ClassifyPredictor) -> None:
    for text in ("", " \t\n"):
        found = predictor.classify(text)
        assert (found.labels, found.label, found.scores) == ((), "", {})
        assert found.as_json() == {"text": text, "label": None, "scores": {}}


def test_a_label_of_one_stands_alone_in_json(bag: ClassifyPredictor) -> None:
    values = json.loads(json.dumps(bag.classify("good").as_json()))
    assert values.keys() == {"text", "label", "scores"}
    assert (values["text"], values["label"]) == ("good", "good")


def test_of_several_labels_none_one_or_more_are_given(topics: ClassifyPredictor) -> None:
    found = topics.classify_batch(["good", "good bad", "the town", "bad"])
    assert [set(each.labels) for each in found] == [{"good"}, {"good", "bad"}, set(), {"bad"}]
    values = found[1].as_json()
    assert values.keys() == {"text", "labels", "scores"}
    assert sorted(values["labels"]) == ["bad", "good"]
    assert all(0 <= score <= 1 for score in values["scores"].values())
    assert found[2].as_json()["labels"] == []


def test_calibration_changes_how_sure_it_is_and_not_what_it_says(
    bag: ClassifyPredictor,
) -> None:
    before = bag.classify("good")
    bag.model.temperature.fill_(4.0)
    try:
        after = bag.classify("good")
    finally:
        bag.model.temperature.fill_(1.0)
    assert after.label == before.label
    assert after.scores["good"] < before.scores["good"]


def test_damaged_weights_are_an_error_and_no_answer(tmp_path: Path) -> None:
    predictor = make("bag", tmp_path)
    torch.nn.init.constant_(predictor.model.head.bias, torch.nan)
    with pytest.raises(GlassformerError, match="weights are damaged"):
        predictor.classify("good")


# --- evaluate ---


def test_evaluation_reads_the_columns_of_the_training(
    tmp_path: Path, bag: ClassifyPredictor
) -> None:
    rows = [("good", "the town", "good"), ("the town", "bad", "bad"), ("a", "", "so-so")]
    path = table_of(tmp_path / "test.csv", [*rows, ("bad", "film", "good")])
    found = bag.evaluate(path).as_json()
    assert found["accuracy"] == 0.75
    assert found["num_examples"] == 4
    low, high = found["accuracy_interval"]
    assert low < 0.75 < high
    assert found["classes"]["bad"] == {
        "precision": 0.5,
        "recall": 1.0,
        "f1": pytest.approx(2 / 3),
        "support": 1,
    }
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert found["loss"] > 0


def test_other_columns_can_be_named(tmp_path: Path, bag: ClassifyPredictor) -> None:
    (tmp_path / "x.csv").write_text("verdict,title,mark\nbad,good,good\n")
    found = bag.evaluate(str(tmp_path / "x.csv"), ["title"], "mark")
    assert found.accuracy == 1


def test_labels_never_seen_are_named_and_counted_as_wrong(
    tmp_path: Path, bag: ClassifyPredictor
) -> None:
    rows = [("good", "", "good"), ("x", "", "odd"), ("y", "", "odd"), ("z", "", "new")]
    found = bag.evaluate(table_of(tmp_path / "test.csv", rows))
    assert found.unknown_labels == {"odd": 2, "new": 1}
    assert (found.num_examples, found.accuracy) == (4, 0.25)
    (note,) = found.notes
    assert "3 of 4 examples" in note
    assert "odd (2), new (1)" in note


def test_data_with_none_of_the_labels_is_an_error(tmp_path: Path, bag: ClassifyPredictor) -> None:
    path = table_of(tmp_path / "test.csv", [("good", "", "odd")])
    with pytest.raises(GlassformerError, match=r"odd \(1\)\. It knows: good, bad, so-so"):
        bag.evaluate(path)


def test_several_labels_are_judged_as_sets(tmp_path: Path, topics: ClassifyPredictor) -> None:
    rows = [("good bad", ["bad", "good"]), ("good", ["good"]), ("the", []), ("bad", ["good"])]
    lines = (json.dumps({"title": text, "body": "", "verdict": labels}) for text, labels in rows)
    (tmp_path / "test.jsonl").write_text("\n".join(lines))
    found = topics.evaluate(str(tmp_path / "test.jsonl")).as_json()
    assert found["accuracy"] == 0.75
    assert found["classes"]["good"]["recall"] == pytest.approx(2 / 3)


def test_a_model_of_one_label_refuses_examples_with_two(
    tmp_path: Path, bag: ClassifyPredictor
) -> None:
    line = json.dumps({"title": "a", "body": "", "verdict": ["good", "bad"]})
    (tmp_path / "test.jsonl").write_text(line)
    with pytest.raises(
        GlassformerError, match=r"test.jsonl:1 has 2 labels, but the model predicts"
    ):
        bag.evaluate(str(tmp_path / "test.jsonl"))


# --- time series ---


@pytest.fixture
def of_numbers(tmp_path: Path) -> ClassifyPredictor:
    shape = {"num_features": 2, "d_embedding": 8, "d_model": 8, "context_length": 3}
    model = RNNClassifier(RNNClassifierConfig(labels=("run", "walk"), **shape))
    scale = SeriesPreprocessing(label_column="move", mean=(1.0, 5.0), deviation=(2.0, 1.0))
    save_model(tmp_path / "model", model, scale)
    found = glassformer.load(tmp_path / "model")
    assert isinstance(found, ClassifyPredictor)
    return found


def test_a_series_is_classified_by_its_last_steps_scaled_as_in_training(
    of_numbers: ClassifyPredictor,
) -> None:
    series = np.array([[9, 9], [1, 5], [3, 6], [5, 7]], dtype=np.float32)
    found = of_numbers.classify(series)
    assert (found.text, found.is_shortened) == ("4 steps", True)
    scaled = torch.tensor([[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]])
    expected = of_numbers.model(scaled, torch.ones(1, 3, dtype=torch.bool)).softmax(-1)[0]
    for label, probability in zip(("run", "walk"), expected.tolist(), strict=True):
        assert found.scores[label] == pytest.approx(probability, abs=1e-6)
    assert "only the last steps are read" in of_numbers.shortened(1, 1)


def test_labelled_series_are_judged(tmp_path: Path, of_numbers: ClassifyPredictor) -> None:
    path = tmp_path / "test.csv"
    path.write_text("id,step,x,y,move\na,1,3,30,run\na,2,6,60,run\nb,1,1,10,walk\nc,1,0,0,fly\n")
    found = of_numbers.evaluate(str(path))
    assert found.num_examples == 3
    assert found.unknown_labels == {"fly": 1}


def test_numbers_of_another_shape_are_refused(of_numbers: ClassifyPredictor) -> None:
    with pytest.raises(GlassformerError, match=r"has the shape \(4, 3\)"):
        of_numbers.classify(np.zeros((4, 3), dtype=np.float32))


def test_labels_are_matched_whatever_their_spelling(tmp_path: Path) -> None:
    """Models may be older than the rule that 1.0 and 1 are one label."""
    bag = make("bag", tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bag.model, "labels", ("1.0", "True", "so-so"))
        rows = [
            ("good", "", "1"),
            ("bad", "", "1.0"),
            ("bad film", "", "TRUE"),
            ("film", "", "so-so"),
        ]
        found = bag.evaluate(table_of(tmp_path / "a.csv", rows))
    assert (found.num_examples, found.unknown_labels, found.notes) == (4, {}, ())


def test_the_first_of_two_spellings_in_a_model_is_the_exact_one() -> None:
    examples = [Example("a", ("1",), "x:1"), Example("b", ("2",), "x:2")]
    assert targets_of(examples, ["1.0", "1", "2.0"], is_multi_label=False) == [1, 2]
    assert targets_of(examples, ["1.0", "1", "2.0"], is_multi_label=True) == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("wrong", "kind"), [(float("nan"), "float"), (None, "NoneType"), (7, "int")]
)
def test_what_is_no_text_is_refused_in_words(tmp_path: Path, wrong: Any, kind: str) -> None:
    predictor = make("bag", tmp_path)
    for content in (wrong, ["good", wrong]):
        with pytest.raises(GlassformerError, match=f"{wrong} is a {kind}, not a text"):
            predictor.classify(content)
