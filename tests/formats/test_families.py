"""Every family computes the same here and in transformers, whichever way a model goes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from published import CASES, inputs_of, publish, their_logits
from torch import Tensor

import glassformer
from glassformer.formats.export_hub import write_as
from glassformer.formats.exporting import Probe
from glassformer.formats.families import FAMILIES
from glassformer.formats.hugging_face import read_folder

EVERY = pytest.mark.parametrize("name", CASES)


def largest_difference(inputs: dict[str, Tensor], one: Tensor, other: Tensor) -> float:
    mask = inputs.get("attention_mask")
    kept = None if mask is None or "decoder_input_ids" in inputs else mask.bool()
    return Probe(inputs, kept).difference(one, other)


def test_every_layout_of_every_family_has_a_case() -> None:
    known = {layout.architecture for each in FAMILIES.values() for layout in each.layouts}
    shown = {type(case.theirs()).__name__ for case in CASES.values()}
    assert known == shown


@EVERY
def test_it_computes_the_logits_of_transformers(tmp_path: Path, name: str) -> None:
    theirs = publish(name, tmp_path)
    inputs = inputs_of(name, theirs)
    expected = their_logits(theirs, inputs)
    assert expected.std() > 0.03  # not a comparison of nothing with nothing
    found = Probe(inputs, None).logits(read_folder(tmp_path).model)
    assert largest_difference(inputs, found, expected) <= 1e-4


@EVERY
def test_transformers_computes_the_same_from_what_is_written(tmp_path: Path, name: str) -> None:
    theirs = publish(name, tmp_path / "theirs")
    read = read_folder(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    family = FAMILIES[theirs.config.model_type]
    layout = family.layout([type(theirs).__name__], "")
    assert layout.differences(read.model.config) == []  # type: ignore[arg-type]
    architecture, _ = write_as(family, layout, read, tmp_path / "ours", "")
    again, report = getattr(hf, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    unneeded = ("pooler", "embed_positions")
    assert [key for key in report["missing_keys"] if not any(n in key for n in unneeded)] == []
    assert not report["unexpected_keys"]
    inputs = inputs_of(name, theirs)
    expected = their_logits(theirs, inputs)
    assert largest_difference(inputs, their_logits(again.eval(), inputs), expected) <= 1e-4


@pytest.mark.parametrize("name", ["gpt2", "bert-classifier", "marian", "swin"])
def test_an_imported_model_is_an_ordinary_model_folder(tmp_path: Path, name: str) -> None:
    theirs = publish(name, tmp_path / "theirs")
    found = glassformer.import_model(tmp_path / "theirs", tmp_path / "model")
    predictor: Any = glassformer.load(found)
    inputs = inputs_of(name, theirs)
    logits = Probe(inputs, None).logits(predictor.model)
    assert largest_difference(inputs, logits, their_logits(theirs, inputs)) <= 1e-4
    assert "recipe.yaml" not in [path.name for path in (tmp_path / "model").iterdir()]


def test_shards_are_read_like_one_file(tmp_path: Path) -> None:
    theirs = publish("llama", tmp_path, max_shard_size="20KB")
    assert len([*tmp_path.glob("model-*.safetensors")]) > 2
    inputs = inputs_of("llama", theirs)
    found = Probe(inputs, None).logits(read_folder(tmp_path).model)
    assert largest_difference(inputs, found, their_logits(theirs, inputs)) <= 1e-4


def test_half_precision_becomes_float32_with_a_note(tmp_path: Path) -> None:
    case = CASES["gpt2"]
    case.theirs().to(torch.bfloat16).save_pretrained(tmp_path / "half")
    publish("gpt2", tmp_path / "full")
    (tmp_path / "half/tokenizer.json").write_bytes((tmp_path / "full/tokenizer.json").read_bytes())
    found = read_folder(tmp_path / "half")
    assert {weight.dtype for weight in found.model.parameters()} == {torch.float32}
    assert "stored as bfloat16" in found.notes[0]


def test_files_without_the_prefix_of_the_body_and_with_old_names_are_read(tmp_path: Path) -> None:
    """As the published GPT-2 and BERT are."""
    from safetensors.torch import load_file, save_file

    theirs = publish("gpt2", tmp_path / "gpt2")
    path = tmp_path / "gpt2/model.safetensors"
    bare = {key.removeprefix("transformer."): each for key, each in load_file(path).items()}
    save_file(bare | {"h.0.attn.bias": torch.ones(1, 1, 32, 32)}, path, {"format": "pt"})
    inputs = inputs_of("gpt2", theirs)
    found = Probe(inputs, None).logits(read_folder(tmp_path / "gpt2").model)
    assert largest_difference(inputs, found, their_logits(theirs, inputs)) <= 1e-4

    theirs = publish("bert", tmp_path / "bert")
    path = tmp_path / "bert/model.safetensors"
    old = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): each
        for key, each in load_file(path).items()
    }
    unused = {"cls.seq_relationship.weight": torch.ones(2, 32)}
    save_file(old | unused, path, {"format": "pt"})
    read = read_folder(tmp_path / "bert")
    inputs = inputs_of("bert", theirs)
    found = Probe(inputs, None).logits(read.model)
    assert largest_difference(inputs, found, their_logits(theirs, inputs)) <= 1e-4
    assert "1 tensor left out" in read.notes[0]
    assert "cls.seq_relationship.weight" in read.notes[0]


def test_the_older_spelling_of_rotary_positions_is_read(tmp_path: Path) -> None:
    publish("llama3", tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    new = read_folder(tmp_path).model.config
    rope = values.pop("rope_parameters")
    values |= {"rope_theta": rope.pop("rope_theta"), "rope_scaling": rope}
    path.write_text(json.dumps(values))
    assert read_folder(tmp_path).model.config == new
    assert new.rotary_stretch.factor == 8  # type: ignore[union-attr]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_translator_writes_what_marian_writes(tmp_path: Path, num_beams: int) -> None:
    theirs = publish("marian", tmp_path)
    theirs.final_logits_bias[0, 1] = 40.0  # padding, which must not be written
    theirs.save_pretrained(tmp_path)
    ours: Any = glassformer.load(tmp_path)
    (source,) = ours.preprocessing.encode_source(["w1 w2 w3 w4"])
    expected = theirs.generate(
        input_ids=torch.tensor([source]),
        num_beams=num_beams,
        max_new_tokens=12,
        do_sample=False,
        bad_words_ids=[[1]],
        length_penalty=1.0,
        early_stopping=False,
    )
    found = ours.translate(
        "w1 w2 w3 w4", num_beams=num_beams, max_new_tokens=12, length_penalty=1.0
    )
    special = {0, 1, 5}
    words = [f"w{id - 6}" for id in expected[0].tolist() if id not in special]
    assert found.text.split() == words
