"""A value of a wrong type in a config.json is refused by a sentence with the file and the key."""

import json
from pathlib import Path
from typing import Any

import pytest
from published import publish

from glassformer.errors import GlassformerError
from glassformer.formats.hugging_face import read_preprocessing

NAMES = """gpt2 llama3 qwen3 bert bert-classifier bert-body roberta-tagger distilbert
    distilbert-classifier marian vit swin imagegpt"""
OTHERS = """rope_scaling rope_theta layer_types partial_rotary_factor num_labels n_inner mlp_bias
    decoder_vocab_size classifier_dropout problem_type share_encoder_decoder_embeddings"""
WRONG: list[Any] = [5, -1, 0, 2.5, 1e300, 10**30, "x", "", [], ["x"], [None], None, True, {}]
WRONG += [{"x": 5}, {"rope_type": 5}, {"rope_type": "llama3"}, {"rope_theta": []}]
WRONG += [{"rope_type": "linear", "factor": "x"}, {"rope_type": "linear", "factor": -1}]


def said(folder: Path) -> str:
    """The error; empty if the folder can be read."""
    try:
        read_preprocessing(folder)
    except GlassformerError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", NAMES.split())
def test_every_key_with_every_wrong_type(tmp_path: Path, name: str):
    publish(name, tmp_path)
    path = tmp_path / "config.json"
    original = json.loads(path.read_text())
    for key in {*original, *OTHERS.split()}:
        for value in WRONG:
            path.write_text(json.dumps(original | {key: value}))
            problem = said(tmp_path)
            assert not problem or str(tmp_path) in problem, (key, value)
            assert "Error(" not in problem, (key, value, problem)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("llama", "rope_parameters", 5),
        ("llama", "rope_scaling", [None]),
        ("llama", "rope_parameters.factor", "x"),
        ("llama", "architectures", "LlamaForCausalLM"),
        ("gpt2", "activation_function", []),
        ("gpt2", "attn_pdrop", "x"),
        ("gpt2", "n_embd", None),
        ("roberta", "max_position_embeddings", "x"),
        ("bert-classifier", "id2label", 5),
        ("bert-classifier", "id2label", ["x"]),
        ("distilbert-classifier", "seq_classif_dropout", {}),
        ("swin", "window_size", 0),
        ("imagegpt", "n_positions", -1),
    ],
)
def test_the_file_and_the_key_of_theirs_are_named(tmp_path: Path, name: str, key: str, value: Any):
    publish(name, tmp_path)
    path = tmp_path / "config.json"
    outer, _, inner = key.partition(".")
    changed = {outer: {inner: value} if inner else value}
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    problem = said(tmp_path)
    assert str(path) in problem
    assert key in problem
