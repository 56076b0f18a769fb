"""`inspect`: what did the model look at?"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from glassformer import tasks
from glassformer.inspect.alignment import Alignment
from glassformer.models.bert import Bert, BertConfig
from glassformer.preprocessing.images import PalettePreprocessing
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.tasks.paint.probe import ProbePredictor
from glassformer.tasks.translate.predictor import TranslatePredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

MODEL = "someone/model"  # on the hub, so it need not be on this machine; no test loads it


class Translator(TranslatePredictor):
    """Translates everything to the same, and remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.model = nn.Identity()  # type: ignore[assignment]  # it has no layers

    def align(
        self,
        text: str,
        target: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        words: bool = False,
    ) -> Alignment:
        self.asked = {"text": text, "target": target, "layer": layer, "head": head, "words": words}
        return Alignment(
            source=text,
            target="Good day",
            source_tokens=["Guten", " Tag"],
            target_tokens=["Good", " day"],
            weights=np.array([[0.9, 0.1], [1 / 3, 2 / 3]]),
        )


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Translator:
    found = Translator()
    monkeypatch.setattr(tasks, "load", lambda path: found)
    return found


@pytest.fixture
def inspect(glassformer: Any, translator: Translator) -> Callable[..., Any]:
    def call(*words: object, **kwargs: Any) -> Any:
        return glassformer("inspect", MODEL, *words, "--view", "alignment", **kwargs)

    return call


def test_without_a_file_it_says_where_each_token_looked(inspect: Any) -> None:
    result = inspect("Guten Tag")
    assert (result.code, result.err) == (0, "")
    assert result.out == "'Good'  →  'Guten'   90.0%\n' day'  →  ' Tag'    66.7%\n"


def test_json_is_one_object_with_all_digits(inspect: Any) -> None:
    result = inspect("Guten Tag", "--json")
    assert json.loads(result.out) == {
        "source": "Guten Tag",
        "translations": [{"text": "Good day", "score": None}],
        "source_tokens": ["Guten", " Tag"],
        "target_tokens": ["Good", " day"],
        "alignment": [[0.9, 0.1], [1 / 3, 2 / 3]],
    }


@pytest.mark.parametrize(("ending", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_ending_chooses_the_picture(
    inspect: Any, tmp_path: Path, ending: str, begin: bytes
) -> None:
    result = inspect("Guten Tag", "--out", f"new/a.{ending}")
    assert (result.code, result.out, result.err) == (0, "", f"wrote new/a.{ending}\n")
    assert (tmp_path / "new" / f"a.{ending}").read_bytes().startswith(begin)


def test_a_file_and_json_can_be_had_together(inspect: Any, tmp_path: Path) -> None:
    result = inspect("Guten Tag", "--out", "a.json", "--json")
    assert (tmp_path / "a.json").read_text() == result.out


def test_another_ending_is_refused_before_the_model_is_loaded(
    inspect: Any, translator: Translator, tmp_path: Path
) -> None:
    result = inspect("Guten Tag", "--out", "a.pdf")
    assert result.code == 2
    assert result.error == "a.pdf: the name must end in .html, .png, .svg or .json."
    assert translator.asked == {}
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said_in_a_sentence(inspect: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = inspect("Guten Tag", "--out", "file/a.png")
    assert result.code == 1
    assert result.error.startswith("file/a.png cannot be written: ")


def test_every_option_reaches_the_model(inspect: Any, translator: Translator) -> None:
    inspect("Hallo")
    nothing_said = {"target": None, "layer": None, "head": None, "words": False}
    assert translator.asked == {"text": "Hallo", **nothing_said}
    inspect("--target", "Hello", "--layer", "1", "--head", "0", "--words", stdin="Hallo\n")
    said = {"target": "Hello", "layer": 1, "head": 0, "words": True}
    assert translator.asked == {"text": "Hallo", **said}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((" ",), "the text is empty."),
        (("Hallo", "--target", ""), "--target is empty. Leave it out to align the model's own"),
        (("Hallo", "--layer", "-1"), "Invalid value for '--layer'"),
    ],
)
def test_what_means_nothing_is_refused(
    inspect: Any, translator: Translator, words: tuple[str, ...], sentence: str
) -> None:
    result = inspect(*words)
    assert result.code == 2
    assert result.error.startswith(sentence)
    assert translator.asked == {}


def test_an_unknown_view_is_answered_with_those_there_are(
    glassformer: Any, translator: Translator
) -> None:
    result = glassformer("inspect", MODEL, "Hallo", "--view", "colours")
    assert result.code == 2
    assert "--view" in result.err
    assert "alignment" in result.err


def test_a_model_without_views_says_so(glassformer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    preprocessing = PalettePreprocessing(
        image_size=(2, 2), num_channels=1, palette=((0,), (128,), (255,))
    )
    other = ProbePredictor(nn.Identity(), preprocessing)
    monkeypatch.setattr(tasks, "load", lambda path: other)
    result = glassformer("inspect", MODEL, "Hallo", "--view", "alignment")
    assert result.code == 2
    assert result.error == (
        f"{MODEL} has nothing to inspect. This model supports classify and evaluate."
    )


def test_an_option_that_the_usual_view_does_not_have_is_refused_by_name(
    glassformer: Any, translator: Translator
) -> None:
    result = glassformer("inspect", MODEL, "Hallo", "--words")
    assert result.code == 2
    assert "the view story does not accept --words" in result.err


def test_one_head_narrows_the_numbers_of_a_story_and_not_its_page(
    glassformer: Any, masked: None, tmp_path: Path
) -> None:
    words = ("inspect", MODEL, "one two three", "--layer", "1", "--head", "0")
    found = json.loads(glassformer(*words, "--json").out)
    assert (found["layers"], found["heads"]) == ([1], [0])
    assert np.shape(found["attention"]) == (1, 1, 5, 5)
    result = glassformer(*words, "--out", "story.html")
    assert result.code == 2
    assert result.error.startswith("the page of a story has all layers and heads.")
    assert not (tmp_path / "story.html").exists()


def test_a_text_of_512_tokens_prints_what_was_asked_for(
    glassformer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = train_tokenizer("word", ["one two three four five"] * 3, None, list(BERT_TOKENS))
    shape = {"num_layers": 4, "d_model": 16, "num_heads": 4, "context_length": 512}
    model = Bert(BertConfig(vocab_size=tokenizer.vocab_size, **shape))
    found = MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=tokenizer))
    monkeypatch.setattr(tasks, "load", lambda path: found)
    words = ("inspect", MODEL, "one two three four five " * 120, "--json")
    sizes = {}
    for name, more in {
        "all": (),
        "layer": ("--layer", "1"),
        "head": ("--layer", "1", "--head", "2"),
        "heads": ("--view", "heads", "--layer", "3", "--head", "0"),
        "prediction": ("--view", "prediction"),
    }.items():
        result = glassformer(*words, *more)
        assert result.code == 0
        assert "512 tokens; 90 from the middle of the text are left out" in result.err
        sizes[name] = len(result.out)
        numbers = json.loads(result.out)
        if name in ("head", "heads"):
            assert np.shape(numbers["attention"]) == (1, 1, 512, 512)
            assert np.sum(numbers["attention"][0][0], axis=1) == pytest.approx(np.ones(512))
    assert sizes["layer"] < 0.3 * sizes["all"]
    assert sizes["head"] < 0.1 * sizes["all"]
    assert sizes["prediction"] < 0.02 * sizes["all"]
    for more in (("--layer", "4"), ("--head", "4"), ("--view", "heads", "--layer", "9")):
        result = glassformer(*words, *more)
        assert result.code == 2
        assert "the last one is 3" in result.error


@pytest.fixture
def masked(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = train_tokenizer("word", ["one two three four five"] * 3, None, list(BERT_TOKENS))
    shape = {"num_layers": 2, "d_model": 16, "num_heads": 2, "context_length": 12}
    model = Bert(BertConfig(vocab_size=tokenizer.vocab_size, **shape))
    found = MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=tokenizer))
    monkeypatch.setattr(tasks, "load", lambda path: found)


def test_a_word_is_compared_in_several_sentences(
    glassformer: Any, masked: None, tmp_path: Path
) -> None:
    words = ("inspect", MODEL, "one two three", "--compare", "four two", "--compare", "two five")
    result = glassformer(*words, "--view", "contexts")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith('"two" in 3 places:')
    result = glassformer(*words, "--word", "two", "--out", "story.html")
    assert (result.code, result.err) == (0, "wrote story.html\n")
    assert '"word": "two"' in (tmp_path / "story.html").read_text()
    result = glassformer(*words, "--view", "contexts", "--word", "five")
    assert result.code == 2
    assert result.error.startswith('"five" is not a word of "one two three"')
    result = glassformer(*words, "--view", "heads")
    assert result.code == 2
    assert "the view heads does not accept --compare" in result.err


def test_attributions_are_printed_with_all_digits(glassformer: Any, masked: None) -> None:
    result = glassformer("inspect", MODEL, "one [MASK] three", "--view", "attribution", "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert found["position"] == 2
    total = sum(found["attribution"]["integrated_gradients"])
    difference = found["logprob"] - found["baseline_logprob"]
    assert total - difference == pytest.approx(found["completeness_error"], abs=1e-12)
