"""A model folder gives back the model that was put into it, or says what is wrong with it."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.checkpoint.model_folder import load_model, save_model
from glassformer.errors import GlassformerError
from glassformer.models.gpt import GPT
from glassformer.models.presets import GPT_PRESETS
from glassformer.preprocessing.text import TextPreprocessing

Make = Callable[..., GPT]
IDS = torch.tensor([[1, 2, 3, 4, 5]])


def loaded(folder: Path) -> GPT:
    model = load_model(folder).model
    assert isinstance(model, GPT)
    return model


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rewrite(folder: Path, **changes: Any) -> None:
    """Change keys of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def saved(tmp_path: Path, gpt: Make, preprocessing: TextPreprocessing) -> Path:
    save_model(tmp_path / "model", gpt(), preprocessing, card="# A model")
    return tmp_path / "model"


# --- there and back ---


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "relative", "rotary", "none"])
def test_a_loaded_model_computes_the_same_bits(
    tmp_path: Path, gpt: Make, preprocessing: TextPreprocessing, positions: str
) -> None:
    model = gpt(positions=positions, norm="rms", qk_norm=True, num_kv_heads=1)
    save_model(tmp_path, model, preprocessing)
    again = loaded(tmp_path)
    assert again.config == model.config
    assert not again.training
    assert torch.equal(again(IDS), model(IDS))


@pytest.mark.parametrize("preset", ["nano", "lecture", "modern-xs"])
def test_every_weight_of_a_preset_comes_back(
    tmp_path: Path, gpt: Make, preprocessing: TextPreprocessing, preset: str
) -> None:
    keys: dict[str, Any] = GPT_PRESETS[preset] | {"num_layers": 1, "vocab_size": 30}
    model = gpt(**{"head_dim": None} | keys)
    save_model(tmp_path, model, preprocessing)
    before, after = model.state_dict(), loaded(tmp_path).state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_tied_weights_are_stored_once_and_stay_one_tensor(
    tmp_path: Path, gpt: Make, preprocessing: TextPreprocessing
) -> None:
    save_model(tmp_path, gpt(tie_weights=True), preprocessing)
    again = loaded(tmp_path)
    assert "head.weight" not in load_file(tmp_path / "model.safetensors")
    assert again.head.weight is again.embedding.weight


def test_untied_weights_stay_two_tensors(
    tmp_path: Path, gpt: Make, preprocessing: TextPreprocessing
) -> None:
    model = gpt(tie_weights=False)
    save_model(tmp_path, model, preprocessing)
    again = loaded(tmp_path)
    assert torch.equal(again.head.weight, model.head.weight)
    assert not torch.equal(again.head.weight, again.embedding.weight)


def test_the_preprocessing_and_the_defaults_come_along(
    saved: Path, preprocessing: TextPreprocessing
) -> None:
    found = load_model(saved)
    assert found.name == "gpt"
    assert isinstance(found.preprocessing, TextPreprocessing)
    assert found.preprocessing.tokenizer.encode("the fox") == preprocessing.tokenizer.encode(
        "the fox"
    )
    assert found.generation == {}
    (saved / "generation_config.json").write_text('{"temperature": 0.7}')
    assert load_model(saved).generation == {"temperature": 0.7}


def test_equal_models_give_equal_bytes_wherever_they_are(
    saved: Path, tmp_path: Path, gpt: Make, preprocessing: TextPreprocessing
) -> None:
    for place in range(8):
        save_model(tmp_path / f"{place}", gpt(), preprocessing, card="# A model")
        assert contents(saved) == contents(tmp_path / f"{place}")
    assert not any(str(tmp_path).encode() in content for content in contents(saved).values())


def test_a_loaded_model_can_be_trained(saved: Path) -> None:
    model = loaded(saved)
    model(IDS).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_weights_of_fewer_bits_are_read_as_float32(saved: Path, gpt: Make) -> None:
    weights = {name: tensor.bfloat16() for name, tensor in weights_of(saved).items()}
    save_file(weights, saved / "model.safetensors")
    again = loaded(saved)
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}
    assert torch.equal(again.embedding.weight, weights["embedding.weight"].float())


# --- what is wrong with it ---


def weights_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def complaint(folder: Path) -> str:
    with pytest.raises(GlassformerError) as error:
        load_model(folder)
    return str(error.value)


def test_what_is_no_model_folder_says_what_is_missing(tmp_path: Path) -> None:
    assert "nothing does not exist" in complaint(tmp_path / "nothing")
    assert "there is no config.json in it" in complaint(tmp_path)
    (tmp_path / "gpt-playground.zip").touch()
    assert "Unpack it, and pass the folder in it" in complaint(tmp_path / "gpt-playground.zip")
    (tmp_path / "recipe.yaml").touch()
    assert "has not saved a model yet" in complaint(tmp_path)


@pytest.mark.parametrize("name", ["runs/bag-reviwes", "bag-reviews"])
def test_a_model_with_a_similar_name_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "runs/bag-reviews").mkdir(parents=True)
    (tmp_path / "runs/bag-reviews/config.json").touch()
    monkeypatch.chdir(tmp_path)
    assert complaint(Path(name)) == f"{name} does not exist. Did you mean runs/bag-reviews?"


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tokenizer.json", "preprocessor_config.json"]
)
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    assert f"{name} does not exist" in complaint(saved)


@pytest.mark.parametrize("kind", ["os.system", "llama", None, ["gpt"]])
def test_a_model_can_only_be_one_of_the_table(saved: Path, kind: Any) -> None:
    rewrite(saved, model_type=kind)
    assert f'unknown model_type "{kind}". Known models: gpt' in complaint(saved)


def test_an_unknown_key_in_the_config_is_an_error(saved: Path) -> None:
    rewrite(saved, num_layer=3, auto_map={"AutoModel": "evil.Model"})
    assert "unknown key num_layer" in complaint(saved)
    assert "unknown key auto_map" in complaint(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000, '{"model_type": "\xff"}'])
def test_a_config_that_is_no_json_object_is_damaged(saved: Path, text: str) -> None:
    (saved / "config.json").write_bytes(text.encode("latin-1"))
    assert "config.json is damaged" in complaint(saved)


def test_a_shape_that_does_not_fit_is_told_with_both_shapes(saved: Path) -> None:
    rewrite(saved, context_length=9)
    message = complaint(saved)
    assert "positions" in message
    assert "has shape (8, 8); config.json expects (9, 8)" in message


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "preprocessor_config.json"])
def test_a_file_that_still_makes_sense_but_was_changed_is_refused(saved: Path, name: str) -> None:
    path = saved / name
    path.write_text(path.read_text() + "\n")
    said = complaint(saved)
    assert f"{name} is damaged: it differs from what was saved with model.safetensors" in said


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "preprocessor_config.json", "model.safetensors"]
)
@pytest.mark.parametrize("how", ["gone", "folder", "loop", "empty", "junk"])
def test_whatever_is_wrong_with_a_file_the_message_names_it_without_error_numbers(
    saved: Path, name: str, how: str
) -> None:
    path = saved / name
    path.unlink()
    match how:
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(name)
        case "empty" | "junk":
            path.write_bytes(b"" if how == "empty" else b"\xff\x00junk")
    said = complaint(saved)
    assert str(path) in said
    assert "Errno" not in said
    assert said.count("again") + said.count("Copy the whole") <= 1  # one cure


def test_a_giant_config_is_refused_without_taking_memory(saved: Path) -> None:
    rewrite(saved, vocab_size=10**12)
    assert "vocab_size in" in complaint(saved)
    rewrite(saved, vocab_size=2**24)
    assert "config.json expects (16777216, 8)" in complaint(saved)


def test_a_weight_too_few_or_too_many_is_named(saved: Path) -> None:
    weights = weights_of(saved)
    save_file(weights | {"backdoor": torch.ones(2)}, saved / "model.safetensors")
    assert "backdoor is not part of the model" in complaint(saved)
    del weights["embedding.weight"]
    save_file(weights, saved / "model.safetensors")
    assert "embedding.weight is missing" in complaint(saved)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a pickle", b"\x80\x04K\x01.", b"\0" * 99])
def test_what_is_not_safetensors_is_refused(saved: Path, content: bytes) -> None:
    (saved / "model.safetensors").write_bytes(content)
    assert "is not a safetensors file, or is damaged" in complaint(saved)


def test_weights_cut_short_anywhere_are_refused(saved: Path) -> None:
    path = saved / "model.safetensors"
    whole = path.read_bytes()
    for length in (*range(12), *range(100, len(whole), 199), len(whole) - 1):
        path.write_bytes(whole[:length])
        complaint(saved)


def test_a_damaged_byte_anywhere_in_the_weights_is_found(saved: Path, gpt: Make) -> None:
    path, expected = saved / "model.safetensors", gpt()(IDS)
    whole, draw = path.read_bytes(), random.Random(0)
    for place in draw.sample(range(len(whole)), 100):
        changed = bytearray(whole)
        changed[place] ^= draw.randrange(1, 256)
        path.write_bytes(changed)
        try:
            assert torch.equal(loaded(saved)(IDS), expected)  # a byte that means nothing
        except GlassformerError:
            continue


def test_a_damaged_weight_is_told_as_such(saved: Path) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    assert "is damaged: it differs from what was saved" in complaint(saved)


# --- a disk that fails ---


def test_a_failed_write_leaves_a_model_that_works_and_no_scraps(
    saved: Path, gpt: Make, preprocessing: TextPreprocessing, faults: Callable[[], Iterator[int]]
) -> None:
    names, outputs = set(contents(saved)), [gpt(0)(IDS), gpt(1)(IDS)]
    failed = 0
    for _ in faults():
        try:
            save_model(saved, gpt(1), preprocessing, card="# A model")
        except GlassformerError as error:
            failed += 1
            assert "cannot be written: No space left on device" in str(error)  # noqa: PT017
        assert any(torch.equal(loaded(saved)(IDS), output) for output in outputs)
        assert set(contents(saved)) == names
    assert failed >= 20
    assert torch.equal(loaded(saved)(IDS), outputs[1])
