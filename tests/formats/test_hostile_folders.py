"""Folders that are damaged, unknown or made to do harm are refused by one sentence."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from published import publish
from safetensors.torch import load_file, save_file

import glassformer
from glassformer.errors import GlassformerError
from glassformer.formats import hub, hugging_face
from glassformer.formats.hugging_face import read_folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "gpt2"
    publish("gpt2", folder)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of a small GPT-2."""
    copy = tmp_path / "gpt2"
    copy.mkdir()
    for path in original.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def edit(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refused(folder: Path) -> str:
    with pytest.raises(GlassformerError) as caught:
        read_folder(folder)
    return str(caught.value)


def test_an_unknown_family_lists_those_that_are_known(folder: Path) -> None:
    edit(folder, model_type="mamba")
    said = refused(folder)
    assert 'family "mamba"' in said
    assert "gpt2, llama, qwen3, bert" in said
    with pytest.raises(GlassformerError, match="mamba"):
        glassformer.load(folder)


def test_an_unknown_head_lists_those_that_are_known(folder: Path) -> None:
    edit(folder, architectures=["GPT2DoubleHeadsModel"])
    said = refused(folder)
    assert "GPT2DoubleHeadsModel" in said
    assert "GPT2LMHeadModel" in said


def test_a_config_without_a_family_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    assert "config.json has no model_type" in refused(folder)


def test_a_short_name_of_the_hub_is_answered_with_what_to_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GlassformerError, match=r"^gpt2 does not exist.*openai-community/gpt2"):
        glassformer.load("gpt2")


@pytest.mark.parametrize(
    ("key", "value"),
    [("scale_attn_by_inverse_layer_idx", True), ("activation_function", "mish")],
)
def test_a_config_that_we_would_compute_differently_is_refused(
    folder: Path, key: str, value: Any
) -> None:
    edit(folder, **{key: value})
    assert str(value) in refused(folder)


def test_rotary_positions_of_an_unknown_type_are_refused(tmp_path: Path) -> None:
    publish("llama", tmp_path)
    edit(tmp_path, rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0})
    assert '"yarn" cannot be imported' in refused(tmp_path)


def test_pickle_is_refused_with_the_reason_and_the_cure(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    said = refused(folder)
    assert "pytorch_model.bin is a pickle, which can run any code" in said
    assert "GPT2LMHeadModel.from_pretrained(folder).save_pretrained" in said


def test_missing_extra_and_misshapen_tensors_are_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = "transformer.h.1.mlp.c_fc.weight"
    tensor = weights.pop(name)
    save_file(weights, path, {"format": "pt"})
    assert f"{name} is missing" in refused(folder)
    save_file(weights | {name: tensor[:, :100].contiguous()}, path, {"format": "pt"})
    assert f"{name} has shape (32, 100); config.json expects (32, 128)" in refused(folder)
    more = {name: tensor, "transformer.h.2.extra": torch.ones(2)}
    save_file(weights | more, path, {"format": "pt"})
    assert "transformer.h.2.extra is not part of a GPT2LMHeadModel" in refused(folder)


def test_a_truncated_file_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert "model.safetensors is not a safetensors file, or is damaged" in refused(folder)
    path.write_bytes(path.read_bytes()[:5])
    assert "damaged" in refused(folder)


def test_a_terabyte_in_a_header_is_refused_before_it_is_allocated(folder: Path) -> None:
    size = 2**40
    header = {
        "transformer.wte.weight": {
            "dtype": "F32",
            "shape": [size // 128, 32],
            "data_offsets": [0, size],
        }
    }
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    assert "damaged" in refused(folder)


def test_a_terabyte_in_a_config_is_refused_before_it_is_allocated(folder: Path) -> None:
    edit(folder, vocab_size=2**23, n_embd=2**16)
    assert "config.json expects" in refused(folder)
    edit(folder, vocab_size=2**60)
    assert "vocab_size" in refused(folder)


def test_a_config_of_nonsense_is_refused(folder: Path) -> None:
    for key, value in (("n_embd", "wide"), ("n_head", None), ("n_layer", [1]), ("n_head", 5)):
        edit(folder, n_embd=32, n_head=4, n_layer=2)
        edit(folder, **{key: value})
        assert "config.json" in refused(folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(GlassformerError, match="not a JSON object"):
        glassformer.load(folder)


def test_a_palette_of_nonsense_is_refused(tmp_path: Path) -> None:
    publish("imagegpt", tmp_path)
    config, images = tmp_path / "config.json", tmp_path / "preprocessor_config.json"
    values = json.loads(config.read_text())
    del values["n_positions"]  # 1,024 by default, which the weights contradict
    original = config.read_text()
    config.write_text(json.dumps(values))
    assert "transformer.wpe.weight has shape" in refused(tmp_path)
    config.write_text(original)
    for clusters in ("red", [["red"]], [[float("inf")] * 3], 7):
        images.write_text(json.dumps({"clusters": clusters}))
        assert "its preprocessing cannot be read" in refused(tmp_path)


def test_an_index_cannot_lead_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    index = {"weight_map": {"transformer.wte.weight": "../outside.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "outside its folder" in refused(folder)


@pytest.mark.parametrize("place", ["../outside", "..", "", "1_Pooling/../../outside", "/outside"])
def test_modules_cannot_lead_out_of_the_folder(tmp_path: Path, place: str) -> None:
    publish("bert-body", tmp_path / "bert")
    pooling = json.dumps({"pooling_mode": "cls"})
    for inside in (tmp_path / "outside", tmp_path / "bert/1_Pooling"):
        inside.mkdir()
        (inside / "config.json").write_text(pooling)
    (tmp_path / "config.json").write_text(pooling)
    place = str(tmp_path) + place if place.startswith("/") else place
    modules = [{"type": "st.Transformer", "path": ""}, {"type": "st.Pooling", "path": place}]
    path = tmp_path / "bert/modules.json"
    path.write_text(json.dumps(modules))
    assert f'modules.json: the path "{place}" of its pooling' in refused(tmp_path / "bert")
    path.write_text(json.dumps([modules[0], modules[1] | {"path": "1_Pooling"}]))
    assert read_folder(tmp_path / "bert").model.config.pooling == "first"  # type: ignore[union-attr]


def test_a_config_of_the_pooling_that_is_far_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish("bert-body", tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    large = {"pooling_mode": "cls", "more": " " * (tmp_path / "tokenizer.json").stat().st_size}
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(large))
    modules = [{"type": "st.Pooling", "path": "1_Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    read_folder(tmp_path)
    size = (tmp_path / "1_Pooling/config.json").stat().st_size
    monkeypatch.setattr(hugging_face, "LARGEST_TEXT", size - 1)
    assert "1_Pooling/config.json is far too large" in refused(tmp_path)


def test_a_run_is_never_replaced(folder: Path, tmp_path: Path) -> None:
    run = Path(glassformer.import_model(folder, tmp_path / "run"))
    glassformer.import_model(folder, run, force=True)  # only a model
    (run / "recipe.yaml").write_text("task: generate\n")
    with pytest.raises(GlassformerError, match="contains a run"):
        glassformer.import_model(folder, run, force=True)
    with pytest.raises(GlassformerError, match="contains a run"):
        glassformer.export_model(folder, "safetensors", run, force=True)
    assert (run / "recipe.yaml").is_file()


def test_a_missing_tokenizer_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    assert "tokenizer.json does not exist" in refused(folder)


def test_a_tokenizer_with_more_tokens_than_the_model_names_both_sizes(
    folder: Path, tmp_path: Path
) -> None:
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"]["more"] = 61
    path.write_text(json.dumps(values))
    said = refused(folder)
    assert "62" in said
    assert "61" in said


def test_code_that_comes_with_a_model_is_not_run(folder: Path) -> None:
    (folder / "modeling_custom.py").write_text("raise SystemExit('run!')")
    edit(folder, model_type="custom", auto_map={"AutoModel": "modeling_custom.Model"})
    assert 'family "custom"' in refused(folder)


def test_offline_the_hub_says_what_is_missing_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(GlassformerError) as caught:
        glassformer.load("somebody/gpt2-small")
    said = str(caught.value)
    assert "somebody/gpt2-small is neither a local folder nor in the hub's cache" in said
    assert "hf download somebody/gpt2-small" in said


def test_a_cache_that_cannot_be_written_is_not_taken_for_a_missing_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    def full(*each: Any, **rest: Any) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "cache/blobs/x")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", full)
    with pytest.raises(GlassformerError) as caught:
        glassformer.load("somebody/gpt2-small")
    said = str(caught.value)
    assert "cannot be loaded: cache/blobs/x: No space left on device." in said
    assert "reached" not in said


def test_a_model_in_the_hubs_cache_is_used_by_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    cached = tmp_path / "cache/models--somebody--gpt2-small"
    revision = "a" * 40
    (cached / "snapshots").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(revision)
    folder.rename(cached / "snapshots" / revision)
    model: Any = glassformer.load("somebody/gpt2-small")
    assert model.generate("w1 w2", max_new_tokens=3, do_sample=False).num_tokens <= 3


def test_a_path_into_a_folder_that_exists_is_not_a_name_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    assert not hub.is_hub_name("models/gpt")
    assert not hub.is_hub_name("runs/gpt")
    assert not hub.is_hub_name("/models/gpt")
    assert hub.is_hub_name("openai-community/gpt2")
    with pytest.raises(GlassformerError, match="does not exist"):
        glassformer.load("runs/gpt")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(folder: Path, value: float) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["transformer.h.0.attn.c_attn.bias"][3] = value
    save_file(tensors, path)
    with pytest.raises(GlassformerError, match=r"c_attn\.bias has values that are not finite"):
        read_folder(folder)


def test_a_limit_is_written_with_all_its_digits(folder: Path) -> None:
    edit(folder, vocab_size=10**12)
    with pytest.raises(GlassformerError, match="it must be 16777216 or less"):
        read_folder(folder)
