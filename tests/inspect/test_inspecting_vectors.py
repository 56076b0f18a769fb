"""An encoder without an output layer can be looked into: only what it predicts is missing. What
was left out of a text is said wherever an inspection is shown."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.errors import UsageError
from glassformer.inspect.story import page, story_data
from glassformer.inspect.views import draw
from glassformer.models.bert import Bert, BertConfig
from glassformer.nn.observe import without_heads
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

TEXT = "one two three four five six"


def encoder(**more: Any) -> MaskedPredictor:
    tokenizer = train_tokenizer("word", [TEXT] * 3, None, list(BERT_TOKENS))
    torch.manual_seed(1)
    shape = {"num_layers": 2, "d_model": 16, "num_heads": 4, "context_length": 8}
    shape |= {"has_head": False}
    config = BertConfig(vocab_size=tokenizer.vocab_size, **shape | more)  # type: ignore[arg-type]
    model = Bert(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=tokenizer))


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_the_vector_is_that_of_embed(pooling: str) -> None:
    predictor = encoder(pooling=pooling, normalize=False)
    seen = predictor.inspect("one two")
    assert seen.vector is not None
    assert np.allclose(seen.vector, predictor.embed("one two"), atol=1e-6)
    assert seen.tokens == ["[CLS]", "one", "two", "[SEP]"]
    assert seen.attention.shape == (2, 4, 4, 4)
    assert seen.hidden.shape == (3, 4, 16)
    assert seen.predictions == []
    assert seen.as_json()["vector"] == seen.vector.tolist()
    assert "'two'" in seen.text()


def test_heads_are_judged_by_how_far_the_vector_turns() -> None:
    predictor = encoder()
    view = predictor.ablation("one two three")
    whole = predictor.embed("one two three").astype(np.float64)
    layer = predictor.model.encoder.blocks[1].attention
    with without_heads({layer.tap: [2]}):
        without = predictor.embed("one two three").astype(np.float64)
    expected = 1 - whole @ without / np.linalg.norm(whole) / np.linalg.norm(without)
    assert view.effects.divergence.shape == (2, 4)
    assert view.effects.divergence[1, 2] == pytest.approx(expected, rel=1e-3)
    assert view.effects.divergence.min() > 1e-6
    assert view.effects.change is None
    assert view.as_json()["distance"] == view.effects.divergence.tolist()
    assert "cosine distance" in view.text()


@pytest.mark.parametrize("name", ["lens", "prediction", "attribution", "over-time"])
def test_views_of_predictions_are_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=r"no view .*: story .*; heads .*; ablation .*; contexts"):
        encoder().view(name, "it")


def test_the_page_says_which_chapters_are_absent(tmp_path: Path) -> None:
    seen = encoder().inspect("one two")
    found = story_data(seen)
    assert "no output layer" in found["absent"]
    assert found["distributions"] == {}
    for name in ("lens", "live", "beams", "attribution", "totals"):
        assert found[name] is None
    assert found["effects"]["0"]["change"] is None
    assert found["path"] is not None
    assert found["embeddings"] is not None
    json.dumps(found, allow_nan=False)
    assert page(seen) == page(seen)
    for ending in ("html", "json"):
        draw(seen, tmp_path / f"story.{ending}")
    draw(encoder().ablation("one two"), tmp_path / "heads.png")
    draw(encoder().heads("one two"), tmp_path / "heads.svg")


def test_of_a_long_text_the_beginning_is_read_as_embed_does() -> None:
    predictor = encoder(sentence_length=5)
    seen = predictor.inspect(TEXT)
    assert seen.tokens == ["[CLS]", "one", "two", "three", "[SEP]"]
    assert seen.notes == (
        "the text is too long: the model reads 5 tokens; 3 from the end of the text are left out",
    )
    assert np.allclose(seen.vector, predictor.embed(TEXT), atol=1e-6)


# --- what is shown in Python ---


def test_what_is_left_out_is_said_in_python(chars: Any) -> None:
    seen = chars.inspect("abba é\nbaab")
    (note,) = seen.notes
    assert "3 from the beginning of the text are left out" in note
    for shown in (repr(seen), seen._repr_html_(), chars.heads("abba é\nbaab")._repr_html_()):
        assert note in shown
    assert note in repr(chars.lens("abba é\nbaab"))
    assert "note" not in repr(chars.inspect("abba")).lower()


def test_the_repr_is_short_and_names_what_there_is(chars: Any) -> None:
    shown = repr(chars.inspect("abba é"))
    assert "'abba é', 6 tokens, attention (1, 2, 6, 6), hidden (2, 6, 16)" in shown
    assert "6 predictions, likeliest" in shown
    for long in (chars.inspect("abba " * 1000), chars.attribution("abba " * 1000)):
        assert len(repr(long)) < 500
    assert "vector (16,)" in repr(encoder().inspect("one two"))


def test_a_note_is_not_markup(chars: Any) -> None:
    seen = chars.inspect("abba")
    object.__setattr__(seen.subject, "remarks", ("<img src=x>",))
    assert "<img" not in seen._repr_html_()
    assert "&lt;img" in seen._repr_html_()
