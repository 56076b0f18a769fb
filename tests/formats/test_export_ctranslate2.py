"""CTranslate2 computes the same as the models that were exported."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
from exported_models import CLS, MODERN, POST_NORM, a_gpt, a_model, tokenizer
from published import publish

import glassformer
from glassformer.errors import GlassformerError
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.tokenizers import BERT_TOKENS, START


def exported(path: Path) -> Path:
    folder = path.parent / f"{path.name}-ct2"
    found = glassformer.export_model(path, "ctranslate2", folder)
    ((tool, difference),) = found.differences.items()
    assert tool == f"ctranslate2 {ctranslate2.__version__}"
    assert difference <= 1e-4
    return folder


def what_the_card_prints(folder: Path) -> str:
    card = (folder / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    assert found
    done = subprocess.run(
        [sys.executable, "-c", found[1]], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "config",
    [
        {},  # GPT-2
        MODERN | {"num_kv_heads": 2, "head_dim": 12, "tie_weights": False},  # Llama
        MODERN | {"qk_norm": True},  # Qwen3
        MODERN | {"rotary_stretch": {"factor": 4.0}},
        POST_NORM | {"positions": "sinusoidal", "activation": "relu", "output_bias": True},
        {"bias": False, "positions": "none", "activation": "quick_gelu"},
    ],
)
def test_a_language_model_writes_the_same_tokens(tmp_path: Path, config: dict[str, Any]) -> None:
    path = a_gpt(tmp_path / "gpt", **config, context_length=96)
    folder = exported(path)
    predictor: Any = glassformer.load(path)
    prompt = predictor.tokenizer.encode("the quick brown")
    generator: Any = ctranslate2.Generator(str(folder))
    pieces = [predictor.tokenizer.piece(id) for id in prompt]
    (found,) = generator.generate_batch([pieces], max_length=64, include_prompt_in_result=False)
    text = predictor.generate("the quick brown", max_new_tokens=64, do_sample=False).text
    assert predictor.tokenizer.decode(found.sequences_ids[0]) == text


def test_the_program_in_the_card_writes_what_we_write(tmp_path: Path) -> None:
    path = a_gpt(tmp_path / "gpt", context_length=96)
    predictor: Any = glassformer.load(path)
    text = predictor.generate("Once upon a time", max_new_tokens=48, do_sample=False).text
    assert what_the_card_prints(exported(path)).removesuffix("\n") == text


@pytest.mark.parametrize(
    "config", [POST_NORM, {"positions": "rotary", "norm": "rms", "scale_embedding": False}]
)
def test_a_translator_writes_the_same_translation(tmp_path: Path, config: dict[str, Any]) -> None:
    both = PairPreprocessing(tokenizer=tokenizer("bpe", START))
    path = a_model(tmp_path / "t", "translator", both, **config)
    folder = exported(path)
    source = [[both.source.piece(id) for id in both.encode_source(["the quick fox"])[0]]]
    engine: Any = ctranslate2.Translator(str(folder))
    (found,) = engine.translate_batch(source, beam_size=1, max_decoding_length=20)
    predictor: Any = glassformer.load(path)
    text = predictor.translate("the quick fox", num_beams=1, max_new_tokens=20).text
    ids = [both.target._backend.token_to_id(token) for token in found.hypotheses[0]]
    assert both.decode(ids) == text
    printed = what_the_card_prints(folder).removesuffix("\n")
    assert printed == printed.strip() != ""


@pytest.mark.parametrize("config", [{"num_segments": 2}, MODERN | {"qk_norm": True}])
def test_an_encoder_computes_the_same_states(tmp_path: Path, config: dict[str, Any]) -> None:
    preprocessing = MaskedTextPreprocessing(tokenizer=tokenizer("wordpiece", *BERT_TOKENS))
    folder = exported(a_model(tmp_path / "bert", "bert", preprocessing, **config))
    assert what_the_card_prints(folder).startswith("(1, ")


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3", "marian", "bert-body"])
def test_published_models_are_exported_directly(tmp_path: Path, name: str) -> None:
    publish(name, tmp_path / name)
    exported(tmp_path / name)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"positions": "relative"}, "positions is relative"),
        ({"qk_norm": True}, "qk_norm is true and norm is layer instead of rms"),
        ({"pre_norm": False}, "final_norm is true although pre_norm is false"),
        ({"d_embedding": 16, "tie_weights": False}, "d_embedding is 16 instead of d_model"),
    ],
)
def test_what_it_does_not_compute_is_named(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    path = a_gpt(tmp_path / "gpt", **config)
    with pytest.raises(GlassformerError, match="cannot be exported to CTranslate2") as caught:
        glassformer.export_model(path, "ctranslate2", tmp_path / "out")
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_other_models_and_a_missing_package_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preprocessing = TextPreprocessing(tokenizer=tokenizer("bpe"))
    path = a_model(tmp_path / "c", "classifier", preprocessing, **CLS)
    with pytest.raises(GlassformerError, match=r"runs gpt, translator, bert\. Use --format onnx"):
        glassformer.export_model(path, "ctranslate2", tmp_path / "out")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(GlassformerError, match="pip install ctranslate2"):
        glassformer.export_model(a_gpt(tmp_path / "gpt"), "ctranslate2", tmp_path / "out")
