"""onnxruntime computes the same as the models that were exported, on inputs of any size.

Tracing a graph takes seconds, so every kind of model is exported once, and the program in its model
card is run on it.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from exported_models import LABELS, MODERN, a_gpt, a_model, tokenizer
from PIL import Image
from torch import nn

import glassformer
from glassformer.checkpoint.model_folder import load_model, save_model
from glassformer.errors import GlassformerError
from glassformer.formats.export_onnx import onnx_model
from glassformer.models import row
from glassformer.preprocessing.images import ImagePreprocessing
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.tokenizers import BERT_TOKENS, START

SMALL = {"num_layers": 1}


def exported(path: Path) -> Path:
    folder = path.parent / f"{path.name}-onnx"
    found = glassformer.export_model(path, "onnx", folder)
    ((tool, difference),) = found.differences.items()
    assert tool.startswith("onnxruntime")
    assert difference <= 1e-4
    return folder


def what_the_card_prints(folder: Path) -> str:
    """The output of the first program in the model card."""
    card = (folder / "README.md").read_text()
    assert "# the card" in card
    found = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    assert found
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", found[1]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def session(folder: Path, file: str = "model.onnx") -> Any:
    return onnxruntime.InferenceSession(folder / file)


def test_a_decoder_continues_a_text_with_its_cache(tmp_path: Path) -> None:
    path = a_gpt(tmp_path / "gpt", **MODERN, qk_norm=True, num_kv_heads=2, context_length=96)
    folder = exported(path)
    graph, ours = session(folder), load_model(path).model
    names = [each.name for each in graph.get_inputs()]
    assert names[:3] == ["input_ids", "attention_mask", "past_key_values.0.key"]
    assert graph.get_inputs()[2].shape == ["batch", 2, "past", 8]
    cache = {name: np.zeros((3, 2, 0, 8), np.float32) for name in names[2:]}
    ids = new = torch.randint(0, 280, (3, 5)).numpy()
    for _ in range(64):
        mask = np.ones(ids.shape, np.int64)
        logits, *present = graph.run(None, {"input_ids": new, "attention_mask": mask} | cache)
        cache = dict(zip(cache, present, strict=True))
        new = logits[:, -1:].argmax(-1)
        ids = np.concatenate([ids, new], axis=1)
    with torch.no_grad():
        expected = ours(torch.from_numpy(ids))[:, 4:-1].argmax(-1)  # greedy: what follows each
    assert ids[:, 5:].tolist() == expected.tolist()
    predictor: Any = glassformer.load(path)
    prompt = "Once upon a time"
    text = predictor.generate(prompt, max_new_tokens=64, do_sample=False).text
    assert what_the_card_prints(folder).removesuffix("\n") == text


def test_a_classifier_with_a_bag_gives_calibrated_logits(tmp_path: Path) -> None:
    preprocessing = TextPreprocessing(tokenizer=tokenizer("word", *BERT_TOKENS))
    config = SMALL | {"labels": LABELS, "bag": True, "pooling": "idf"}
    path = a_model(tmp_path / "c", "classifier", preprocessing, **config)
    saved: Any = load_model(path)
    words = preprocessing.tokenizer.words
    saved.model.see([torch.randint(0, len(words), (12,)) for _ in range(9)], words)
    saved.model.temperature.fill_(2.5)
    save_model(path, saved.model, preprocessing, "# the card\n")
    folder = exported(path)
    ids = torch.randint(0, len(words), (5, 14))
    mask = (torch.arange(14) < torch.tensor([[14], [9], [3], [1], [7]])).long()
    inputs = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    (logits,) = session(folder).run(None, inputs)
    with torch.no_grad():
        expected = saved.model.probabilities(saved.model(ids, mask.bool()))
    found = torch.from_numpy(logits).softmax(-1)
    assert (found - expected).abs().max() <= 1e-5
    predictor: Any = glassformer.load(path)
    expected_labels = [predictor.classify(each).label for each in ("a short text", "another one")]
    assert what_the_card_prints(folder).split() == expected_labels
    assert "glassformer reads the beginning and the end" in (folder / "README.md").read_text()


def test_an_embedder_gives_the_vector_of_each_text(tmp_path: Path) -> None:
    preprocessing = MaskedTextPreprocessing(tokenizer=tokenizer("wordpiece", *BERT_TOKENS))
    path = a_model(tmp_path / "e", "bert", preprocessing, **SMALL, has_head=False, num_segments=2)
    folder = exported(path)
    predictor: Any = glassformer.load(path)
    one, other = (predictor.embed(each) for each in ("a short text", "another one"))
    found = [float(each) for each in re.findall(r"-?\d\.\d*", what_the_card_prints(folder))]
    assert found == pytest.approx([1, one @ other, other @ one, 1], abs=1e-5)


@pytest.mark.parametrize("target", ["word", "bpe"])
def test_a_translator_is_an_encoder_and_a_decoder(tmp_path: Path, target: Any) -> None:
    both = PairPreprocessing(
        tokenizer=tokenizer("bpe", START), target_tokenizer=tokenizer(target, START)
    )
    path = a_model(tmp_path / "t", "translator", both, **SMALL)
    folder = exported(path)
    predictor: Any = glassformer.load(path)
    text = predictor.translate("how are you", num_beams=1, max_new_tokens=32).text
    assert what_the_card_prints(folder).removesuffix("\n") == text  # without a blank before it
    assert "(written).strip())" in (folder / "README.md").read_text()
    shapes = {each.name: each.shape for each in session(folder, "decoder.onnx").get_inputs()}
    assert shapes["memory.0.key"] == ["batch", 4, "source", 8]


def test_images_are_classified(tmp_path: Path) -> None:
    scale = {"image_mean": (0.5, 0.4, 0.5), "image_std": (0.5, 0.4, 0.5)}
    preprocessing = ImagePreprocessing(image_size=(16, 12), num_channels=3, **scale)
    path = a_model(tmp_path / "v", "vit", preprocessing, **SMALL, labels=LABELS, patch_size=4)
    folder = exported(path)
    pixels = np.random.default_rng(0).integers(0, 255, (16, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "image.png")
    predictor: Any = glassformer.load(path)
    expected = predictor.classify(str(folder / "image.png")).label
    assert what_the_card_prints(folder).strip() == expected


@pytest.mark.parametrize("name", ["rnn-lm", "word-vectors"])
def test_what_is_no_graph_is_refused(tmp_path: Path, name: str) -> None:
    known = row(name)
    values = {"vocab_size": 20, "d_model": 8}
    model = known.model(known.config(**values))
    assert onnx_model(model) is None
    if name == "rnn-lm":
        reader = TextPreprocessing(tokenizer=tokenizer("bpe"))
        model = known.model(known.config(**values | reader.sizes))
        save_model(tmp_path / name, model, reader)
        with pytest.raises(GlassformerError, match=r"an rnn-lm cannot.*Use --format safetensors"):
            glassformer.export_model(tmp_path / name, "onnx", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_what_is_missing_is_installed_with_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(GlassformerError, match="pip install onnx onnxruntime onnxscript"):
        glassformer.export_model(a_gpt(tmp_path / "gpt"), "onnx", tmp_path / "out")


def test_a_bag_is_the_same_sum_with_a_column_for_every_term() -> None:
    known = row("bag")
    config = {"vocab_size": 30, "labels": LABELS, "ngrams": 3, "char_ngrams": 5}
    for weighting in ("mean", "tfidf"):
        model: Any = known.model(known.config(**config, num_buckets=64, weighting=weighting))
        words = [f"word{number}" for number in range(30)]
        model.see([torch.randint(0, 30, (9,)) for _ in range(8)], words)
        nn.init.normal_(model.embedding.weight)
        ids = torch.randint(0, 30, (4, 11))
        is_text = torch.arange(11) < torch.tensor([[11], [4], [1], [0]])
        for mask in (None, is_text):
            with torch.no_grad():
                expected, found = model.represent(ids, mask), model.dense(ids, mask)
            assert (expected - found).abs().max() <= 1e-5
