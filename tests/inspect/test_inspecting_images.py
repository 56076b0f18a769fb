"""Looking inside models of images, and at the labels of texts: numbers are those of the model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from picture_models import captioner, multiscale, painter, picture, shaken, vit
from PIL import Image

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.inspection import Inspection
from glassformer.models.bag import Bag, BagConfig
from glassformer.models.classifier import (
    Classifier,
    ClassifierConfig,
    GPTClassifier,
    GPTClassifierConfig,
    GPTTagger,
    GPTTaggerConfig,
    Tagger,
    TaggerConfig,
)
from glassformer.models.rnn import (
    RNNClassifier,
    RNNClassifierConfig,
    RNNLanguageModel,
    RNNLanguageModelConfig,
)
from glassformer.nn.observe import listening
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.paint.probe import ProbePredictor
from glassformer.tasks.paint.scores import evaluate_painting
from glassformer.tasks.tag.predictor import TagPredictor
from glassformer.text.tokenizer_training import train_tokenizer

TEXT = "one two three two one two"


def test_the_attention_of_patches_is_what_the_model_computes() -> None:
    predictor, image = vit(), picture()
    seen = predictor.inspect(image)
    taps = [attention.tap for attention, _ in predictor.model.layers]
    ready = predictor.preprocessing.pixels(np.stack(predictor.preprocessing.encode([image])))
    with listening(taps) as heard, torch.inference_mode():
        predictor.model(ready)
    expected = np.stack([each[0][0].numpy() for each in heard])  # (L, H, T, T)
    assert np.array_equal(seen.attention, expected)
    assert seen.attention.shape == (2, 2, 7, 7)
    assert seen.tokens == ["class token", *(f"patch {n}" for n in range(6))]


def test_the_prediction_is_that_of_classify_and_the_lens_ends_with_it() -> None:
    for pooling in ("class", "mean", "sequence"):
        predictor = vit(pooling=pooling)
        seen = predictor.inspect(picture())
        found = {each.token: each.probability for each in seen.predictions[0].options}
        assert found == pytest.approx(predictor.classify(picture()).scores, rel=1e-4)
        assert len(seen.lens) == 3  # the input and two layers
        (last,) = seen.lens[-1]
        assert {each.token: each.probability for each in last} == pytest.approx(found, rel=1e-4)


def test_a_change_of_the_picture_in_one_patch_reaches_the_token_of_that_patch() -> None:
    predictor, image = vit(), np.full((16, 24, 3), 100, np.uint8)
    other = image.copy()
    other[11:13, 19:21] = 250  # inside row 1, column 2 of 2 rows and 3 columns
    before, after = (predictor.inspect(each).hidden[0] for each in (image, other))
    changed = np.abs(before - after).max(-1) > 1e-6
    assert np.flatnonzero(changed).tolist() == [1 + 1 * 3 + 2]  # the class token comes first


@pytest.mark.parametrize("model", [vit, multiscale])
def test_rollout_in_the_json_is_that_of_the_view(model: Any) -> None:
    predictor = model()
    found = predictor.inspect(picture()).as_json()
    assert np.allclose(found["rollout"], predictor.rollout(picture()).weights)
    assert found["size"] == [16, 24]
    assert found["image"] == "16×24 image"
    assert "text" not in found


def test_the_windows_of_a_multiscale_model_hold_its_weights_and_its_heads_can_be_off() -> None:
    predictor = multiscale()
    seen = predictor.inspect(picture())
    windows = seen.windows()
    assert [each.grid for each in windows] == [(8, 12), (8, 12), (4, 6), (4, 6)]
    assert [len(each.heads) for each in windows] == [2, 2, 4, 4]
    for layer in windows:
        real = layer.places >= 0
        assert sorted(layer.places[real].tolist()) == list(range(layer.grid[0] * layer.grid[1]))
        assert np.allclose(layer.weights.sum(-1), 1, atol=1e-5)
    effects = seen.effects()
    assert effects.divergence.shape == (4, 4)
    assert np.isnan(effects.divergence[:2, 2:]).all()
    attention = predictor.model.layers[2][0]
    attention.output.weight.data[:, attention.head_dim : 2 * attention.head_dim] = 0  # head 1
    without = predictor.inspect(picture())
    p, q = (each.logits[0].astype(np.float64) for each in (seen, without))
    p, q = (np.exp(each - each.max()) / np.exp(each - each.max()).sum() for each in (p, q))
    assert effects.divergence[2, 1] == pytest.approx((p * np.log(p / q)).sum(), rel=1e-3)


@pytest.mark.parametrize("kind", ["captioner", "show-attend-tell"])
def test_the_words_of_a_caption_look_where_the_view_says(kind: str) -> None:
    predictor = captioner(kind)
    seen = predictor.inspect(picture(), target="a red cat")
    assert [each.actual for each in seen.predictions] == ["a", "red", "cat", "<end>"]
    looked = predictor.look(picture(), target="a red cat", words=False)
    assert seen.cross_attention is not None
    mean = seen.cross_attention.mean((0, 1)).reshape(-1, 2, 3)
    assert np.allclose(mean, looked.weights, atol=1e-6)
    assert seen.as_json()["image_tokens"] == [f"patch {n}" for n in range(6)]
    own = predictor.inspect(picture())
    assert own.subject.title.startswith("16×24 image → ")


def test_a_painter_predicts_the_colour_of_each_pixel() -> None:
    predictor = painter()
    image = picture(3, 4)
    seen = predictor.inspect(image)
    (ids,) = predictor.preprocessing.encode([image])
    palette = ["#000000", "#ff0000", "#00ff00", "#ffffff"]
    assert [each.actual for each in seen.predictions] == [palette[id] for id in ids]
    assert seen.tokens == ["start", *(f"pixel {n}" for n in range(11))]
    total = -sum(each.logprob or 0 for each in seen.predictions) / np.log(2)
    bits = evaluate_painting(predictor.model, lambda rows: ids[None], 1, 12).bits_per_dim
    assert total / 12 == pytest.approx(bits, rel=1e-4)
    assert seen.stream.is_causal


def test_a_single_pixel_is_a_picture(tmp_path: Path) -> None:
    Image.new("L", (1, 1), 200).save(tmp_path / "dot.png")
    seen = vit().inspect(tmp_path / "dot.png")
    assert seen.as_json()["size"] == [1, 1]
    assert len(seen.tokens) == 7


def test_what_is_no_picture_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(GlassformerError, match=r"notes\.txt is not an image"):
        vit().inspect(tmp_path / "notes.txt")
    Image.new("1", (20_000, 6_000)).save(tmp_path / "huge.png")
    with pytest.raises(GlassformerError, match="more than 100 megapixels"):
        vit().inspect(tmp_path / "huge.png")
    with pytest.raises(UsageError, match="there is no layer 7: the last one is 1"):
        vit().inspect(picture(), layers=[7])


def test_a_notebook_shows_the_picture_and_its_name_stays_text(tmp_path: Path) -> None:
    path = tmp_path / '"><script>alert(1)<'
    path.mkdir()
    Image.fromarray(picture()).save(path / "script>.png")
    shown = vit().inspect(path / "script>.png")._repr_html_()
    assert '<img src="data:image/png;base64,' in shown
    assert "<script" not in shown
    assert "the whole image" in shown


# --- texts ---


def words(**more: Any) -> Any:
    return TextPreprocessing(tokenizer=train_tokenizer("word", [TEXT] * 3), **more)


LABELLERS = [
    (Classifier, ClassifierConfig, {"pooling": "idf"}),
    (Classifier, ClassifierConfig, {"pooling": "mean", "multi_label": True, "pooler": True}),
    (Tagger, TaggerConfig, {}),
    (GPTClassifier, GPTClassifierConfig, {}),
    (GPTTagger, GPTTaggerConfig, {}),
]


@pytest.mark.parametrize(("model", "config", "more"), LABELLERS)
def test_the_lens_of_labels_ends_with_the_prediction(model: Any, config: Any, more: Any) -> None:
    known = words(is_causal=model.is_causal)
    shape = {"num_layers": 2, "d_model": 16, "num_heads": 2, "context_length": 8}
    sizes = {"vocab_size": known.tokenizer.vocab_size, "labels": ("x", "y", "z")}
    kind = TagPredictor if "Tagger" in model.__name__ else ClassifyPredictor
    predictor = kind(shaken(model(config(**shape, **sizes, **more))), known)
    seen = predictor.inspect("one two three")
    assert seen.stream.is_causal == model.is_causal
    for last, prediction in zip(seen.lens[-1], seen.predictions, strict=True):
        expected = {each.token: each.probability for each in prediction.options}
        assert {each.token: each.probability for each in last} == pytest.approx(expected, rel=1e-4)
    assert "layer 1" in predictor.lens("one two three").text()


@pytest.mark.parametrize("weighting", ["mean", "tfidf"])
@pytest.mark.parametrize("ngrams", [{"ngrams": 1}, {"ngrams": 3, "char_ngrams": 4}])
def test_what_the_words_of_a_bag_add_is_its_score(weighting: Any, ngrams: Any) -> None:
    known = words()
    config = BagConfig(
        vocab_size=known.tokenizer.vocab_size,
        labels=("x", "y", "z"),
        d_model=4,
        weighting=weighting,
        num_buckets=7,  # so that different sequences share embeddings
        **ngrams,
    )
    model = Bag(config)
    model.see([torch.tensor([1, 2, 3])], ["", *TEXT.split()][: known.tokenizer.vocab_size])
    predictor = ClassifyPredictor(shaken(model), known)
    seen = predictor.inspect(TEXT)
    assert seen.subject.contributions is not None
    assert seen.subject.bias is not None
    parts = seen.subject.contributions
    assert parts.shape == (6, 3)
    assert np.allclose(parts.sum(0) + seen.subject.bias, seen.logits[0], atol=1e-4)
    assert np.allclose(seen.as_json()["contributions"], parts)
    if ngrams == {"ngrams": 1}:
        assert np.allclose(parts[1], parts[3])  # the same word adds the same


@pytest.mark.parametrize("pooling", ["mean", "idf", "max"])
@pytest.mark.parametrize("kind", ["classifier", "rnn-classifier"])
def test_pooled_tokens_add_up_to_the_score(kind: str, pooling: Any) -> None:
    known = words()
    sizes = {"vocab_size": known.tokenizer.vocab_size, "labels": ("x", "y"), "pooling": pooling}
    if kind == "classifier":
        shape = {"num_layers": 1, "d_model": 16, "num_heads": 2, "context_length": 8}
        model: Any = Classifier(ClassifierConfig(**shape, **sizes))
    else:
        model = RNNClassifier(RNNClassifierConfig(**sizes, d_model=8, d_embedding=8))
    model.see([torch.tensor([1, 2, 3]), torch.tensor([1])])
    seen = ClassifyPredictor(shaken(model), known).inspect(TEXT)
    parts, bias = seen.subject.contributions, seen.subject.bias
    if pooling == "max":
        assert parts is None
        return
    assert parts is not None
    assert bias is not None
    assert np.allclose(parts.sum(0) + bias, seen.logits[0], atol=1e-4)
    assert not seen.subject.reads_words_alone


def test_only_views_that_a_model_can_show_are_listed() -> None:
    known = words(is_causal=True)
    sizes = {"vocab_size": known.tokenizer.vocab_size, "context_length": 8, "d_model": 8}
    model = RNNLanguageModel(RNNLanguageModelConfig(**sizes, d_embedding=8))
    predictor = LanguagePredictor(model, known)
    assert set(predictor.usable_views) == {"story", "prediction", "attribution", "over-time"}
    with pytest.raises(UsageError, match=r'runs/rnn has no view "lens".*one of: story \(') as said:
        predictor.view("lens", "runs/rnn")
    assert "heads (" not in str(said.value)
    assert set(vit().usable_views) == {"story", "attention", "rollout"}
    assert vit().view(None, "run").reads_file


def test_a_classifier_of_images_has_no_verbs_of_texts() -> None:
    for predictor in (vit(), ProbePredictor):
        assert not hasattr(predictor, "heads")
    assert isinstance(vit().inspect(picture()), Inspection)
