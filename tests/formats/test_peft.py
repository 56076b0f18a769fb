"""LoRA adapters of peft: merged here as peft merges them, and written so that peft loads them."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import peft
import pytest
import torch
import transformers as hf
from published import CASES, inputs_of, publish, their_logits, tokenizer
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import glassformer
from glassformer.checkpoint.model_folder import save_model
from glassformer.checkpoint.open import open_config, open_model, open_preprocessing
from glassformer.errors import GlassformerError
from glassformer.formats import export_peft
from glassformer.formats.open_model import import_model
from glassformer.models.heads import Labeller
from glassformer.nn.lora import lora_layers
from glassformer.tasks.recipe import FinetuneConfig
from glassformer.training.finetuning import _freeze, lora_to_keep, model_to_keep

TARGETS = {
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "llama": ["q_proj", "v_proj", "down_proj"],
    "bert": ["query", "value", "intermediate.dense"],
    "bert-classifier": ["query", "key"],
    "bert-tagger": ["query", "key"],
    "roberta-classifier": ["query", "key"],
    "distilbert-classifier": ["q_lin", "v_lin"],
    "vit": ["q_proj", "v_proj", "fc1"],
    "swin": ["q_proj", "fc2"],
    "marian": ["q_proj", "v_proj", "fc1"],
}
TASKS = {"gpt2": "CAUSAL_LM", "llama": "CAUSAL_LM", "bert-tagger": "TOKEN_CLS"}
TASKS |= {"distilbert-classifier": "SEQ_CLS"}
TASKS |= {"bert-classifier": "SEQ_CLS", "roberta-classifier": "SEQ_CLS", "marian": "SEQ_2_SEQ_LM"}
HEADS = {"vit": ["classifier"], "swin": ["classifier"]}  # of the other tasks, peft knows them


def adapted(name: str, folder: Path, **options: Any) -> Any:
    """A small published model in `folder`/base, and a random adapter in `folder`/adapter. Returns
    peft's model."""
    base = publish(name, folder / "base")
    settings = {"r": 3, "lora_alpha": 5, "target_modules": TARGETS[name]} | options
    settings |= {"task_type": TASKS.get(name), "modules_to_save": HEADS.get(name)}
    config = peft.LoraConfig(fan_in_fan_out=name == "gpt2", **settings)
    model = peft.get_peft_model(base, config)
    torch.manual_seed(2)
    for key, weight in model.named_parameters():
        if "lora_" in key or "modules_to_save" in key:
            nn.init.normal_(weight, std=0.2)
    model.peft_config["default"].base_model_name_or_path = str(folder / "base")
    model.save_pretrained(folder / "adapter", save_embedding_layers=False)
    return model.eval()


def our_logits(source: Path, inputs: dict[str, Tensor]) -> Tensor:
    model: Any = open_model(source).model
    with torch.inference_mode():
        if "pixel_values" in inputs:
            return model(inputs["pixel_values"])
        if "decoder_input_ids" in inputs:
            mask = inputs["attention_mask"].bool()
            return model(inputs["input_ids"], inputs["decoder_input_ids"], mask)
        if "attention_mask" in inputs:
            return model(inputs["input_ids"], inputs["attention_mask"].bool())
        return model(inputs["input_ids"])


def largest_difference(name: str, theirs: Any, source: Path) -> float:
    inputs = inputs_of(name, theirs)
    found, expected = our_logits(source, inputs), their_logits(theirs, inputs)
    if found.dim() == 3 and "attention_mask" in inputs and "decoder_input_ids" not in inputs:
        kept = inputs["attention_mask"].bool()
        found, expected = found[kept], expected[kept]
    return float((found - expected).abs().max())


# --- from peft ---


@pytest.mark.parametrize("name", TARGETS)
def test_a_merged_adapter_has_the_logits_of_peft(tmp_path: Path, name: str):
    theirs = adapted(name, tmp_path)
    changed = largest_difference(name, theirs, tmp_path / "base")
    assert changed > 0.05  # or the adapter would not matter
    assert largest_difference(name, theirs, tmp_path / "adapter") <= 1e-4
    merged = theirs.merge_and_unload()
    assert largest_difference(name, merged, tmp_path / "adapter") <= 1e-4


@pytest.mark.parametrize(
    "options",
    [
        {"use_rslora": True},
        {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 9}},
        {"target_modules": "all-linear"},
        {"layers_to_transform": [1]},
        {"lora_dropout": 0.3},
        {"exclude_modules": ["v_proj"]},
        {"exclude_modules": ["model.layers.0.self_attn.v_proj"]},
        {"exclude_modules": r".*\.0\..*v_proj"},
    ],
)
def test_ranks_alphas_and_chosen_layers_count_as_in_peft(tmp_path: Path, options: dict[str, Any]):
    theirs = adapted("llama", tmp_path, **options)
    assert largest_difference("llama", theirs, tmp_path / "adapter") <= 1e-4


# --- to peft ---


def lora_run(name: str, folder: Path, **options: Any) -> Path:
    """A run whose LoRA matrices are random, on a published model in `folder`/base."""
    publish(name, folder / "base")
    saved = open_model(folder / "base")
    values = {"lora_rank": 2, "lora_alpha": 5.0} | options
    start = FinetuneConfig(model=str(folder / "base"), head="kept", **values)
    model: Any = saved.model
    _freeze(model, start)
    torch.manual_seed(3)
    for layer in lora_layers(model).values():
        nn.init.normal_(layer.B, std=0.2)
    if isinstance(model, Labeller):
        nn.init.normal_(model.head.weight, std=0.3)
        model.temperature.fill_(1.7)
    recipe: Any = SimpleNamespace(start=start)
    lora = lora_to_keep(recipe, model)
    merged = model_to_keep(recipe, model)
    save_model(folder / "run", merged, saved.preprocessing, lora=lora)
    return folder / "run"


@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in TARGETS), ("gpt2", {"use_rslora": True})]
)
def test_peft_loads_an_exported_adapter_and_computes_the_same(
    tmp_path: Path, name: str, options: dict[str, Any]
):
    run = lora_run(name, tmp_path, **options)
    exported = glassformer.export_model(run, "peft", tmp_path / "out")
    assert exported.differences["glassformer"] <= 1e-4
    kind = type(CASES[name].build())
    base = kind.from_pretrained(tmp_path / "base")
    theirs = peft.PeftModel.from_pretrained(base, tmp_path / "out").eval()
    model: Any = open_model(run).model
    temperature = float(getattr(model, "temperature", 1.0))
    inputs = inputs_of(name, theirs)
    found, expected = their_logits(theirs, inputs), our_logits(run, inputs) / temperature
    if found.dim() == 3 and "attention_mask" in inputs and "decoder_input_ids" not in inputs:
        kept = inputs["attention_mask"].bool()
        found, expected = found[kept], expected[kept]
    assert float((found - expected).abs().max()) <= 1e-4
    assert (tmp_path / "out" / "adapter_model.safetensors").stat().st_size < 2e5
    assert open_model(tmp_path / "out").name == open_model(run).name


@pytest.mark.parametrize(
    ("name", "printed"),
    [("llama", r"\w+"), ("bert", r"\S+"), ("bert-classifier", r"bad 0\.\d+\nfine")],
)
def test_an_adapter_of_a_relative_base_works_in_its_own_folder(
    tmp_path: Path, name: str, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    monkeypatch.chdir(tmp_path)
    run = lora_run(name, Path())
    out = tmp_path / glassformer.export_model(run, "peft", Path("elsewhere/out")).folder
    monkeypatch.chdir(out)
    assert open_model(".").name == open_model(tmp_path / run).name
    (program,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)
    capsys.readouterr()
    exec(compile(program, "README.md", "exec"), {})
    assert re.match(printed, capsys.readouterr().out)


def test_the_card_says_when_transformers_cannot_load_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    run = lora_run("llama", Path())
    glassformer.import_model(Path("base"), Path("ours"))
    shutil.rmtree("base")
    Path("ours").rename("base")
    out = glassformer.export_model(run, "peft", Path("out")).folder
    text = (out / "README.md").read_text()
    assert "transformers cannot load the base model" in text
    monkeypatch.chdir(out)
    glassformer.export_model(tmp_path / "base", "hf", Path("base"))  # as the card says
    assert f"glassformer export {tmp_path / 'base'} --format hf --out base" in text
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})


def test_a_base_of_the_hub_keeps_its_name(tmp_path: Path):
    base = export_peft._Base.of("someone/bird@abc")
    assert base.values() == {"base_model_name_or_path": "someone/bird", "revision": "abc"}


def test_a_base_that_looks_like_a_name_on_the_hub_leads_to_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    adapted("llama", tmp_path)
    with pytest.raises(GlassformerError, match=r"no-such/base.*--base MODEL"):
        open_model(spoiled(tmp_path, base_model_name_or_path="no-such/base"))


def test_the_labels_of_an_exported_adapter_come_back(tmp_path: Path):
    run = lora_run("bert-classifier", tmp_path)
    glassformer.export_model(run, "peft", tmp_path / "out")
    merged = glassformer.import_model(tmp_path / "out", tmp_path / "merged")
    assert glassformer.load(merged).model.labels == ("bad", "fine", "good")


def test_equal_adapters_are_equal_files(tmp_path: Path):
    run = lora_run("bert-classifier", tmp_path)
    one, other = (glassformer.export_model(run, "peft", tmp_path / name) for name in ("a", "b"))
    files = sorted(path.name for path in one.folder.iterdir())
    assert [
        name
        for name in files
        if (one.folder / name).read_bytes() != (other.folder / name).read_bytes()
    ] == []
    content = (one.folder / "adapter_model.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert list(header["__metadata__"]) == ["format", "labels"]  # the library's order is random


def test_an_adapter_for_another_head_than_that_of_its_base(tmp_path: Path):
    """As peft is mostly used: a masked language model as the base, a classifier as the result."""
    theirs = adapted("bert-classifier", tmp_path)
    shutil.rmtree(tmp_path / "base")
    model: Any = hf.BertForMaskedLM(CASES["bert"].build().config)
    body = {
        key.removeprefix("base_model.model.bert.").replace(".base_layer", ""): weight
        for key, weight in theirs.state_dict().items()
        if ".bert." in key and ".lora_" not in key
    }
    model.bert.load_state_dict(body, strict=False)
    model.save_pretrained(tmp_path / "base")
    tensors = load_file(tmp_path / "base" / "model.safetensors")
    pooler = {f"bert.{key}": weight for key, weight in body.items() if "pooler" in key}
    save_file(tensors | pooler, tmp_path / "base" / "model.safetensors", {"format": "pt"})
    publish_tokenizer(tmp_path / "base")
    assert open_config(tmp_path / "adapter")[0] == "classifier"
    assert largest_difference("bert-classifier", theirs, tmp_path / "adapter") <= 1e-4
    assert glassformer.load(tmp_path / "adapter").model.labels == ("bad", "fine", "good")
    config = tmp_path / "base" / "config.json"  # most base models have no labels
    values = json.loads(config.read_text())
    config.write_text(json.dumps({k: v for k, v in values.items() if k != "id2label"}))
    labels = ("LABEL_0", "LABEL_1", "LABEL_2")
    assert glassformer.load(tmp_path / "adapter").model.labels == labels


def publish_tokenizer(folder: Path) -> None:
    tokenizer(with_frame=True).save(str(folder / "tokenizer.json"))


def test_a_base_of_ours_serves_an_adapter(tmp_path: Path):
    theirs = adapted("llama", tmp_path)
    glassformer.import_model(tmp_path / "base", tmp_path / "ours")
    merged = glassformer.import_model(
        tmp_path / "adapter", tmp_path / "merged", base=tmp_path / "ours"
    )
    assert any("adapter" in note for note in merged.notes)
    assert largest_difference("llama", theirs, tmp_path / "merged") <= 1e-4


def test_a_run_without_lora_has_no_adapter(tmp_path: Path):
    publish("gpt2", tmp_path / "base")
    glassformer.import_model(tmp_path / "base", tmp_path / "ours")
    with pytest.raises(GlassformerError, match="was not trained with LoRA"):
        glassformer.export_model(tmp_path / "ours", "peft", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- bad input ---


def spoiled(folder: Path, **changes: Any) -> Path:
    """The adapter with other values in its config."""
    path = folder / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder / "adapter"


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    adapted("llama", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"peft_type": "IA3"}, "of type IA3 cannot be merged"),
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "bias is all"),
        ({"init_lora_weights": "pissa"}, "pissa"),
        ({"trainable_token_indices": [1]}, "trained tokens"),
        ({"r": 4}, "lora_A.weight has shape"),
        ({"r": 10**12}, "at most 1,000,000,000 is possible"),
        ({"r": -3}, "not a positive number"),
        ({"r": "x"}, "r is 'x'"),
        ({"lora_alpha": None}, "lora_alpha is None"),
        ({"rank_pattern": {"(a+)+$": 3}}, "regular expression"),
        ({"target_modules": 5}, "target_modules is 5, not a list of names"),
        ({"target_modules": [5]}, "not a list of names"),
        ({"target_modules": "("}, "target_modules is not a regular expression"),
        ({"exclude_modules": 5}, "exclude_modules is 5, not a list of names"),
        ({"modules_to_save": "x"}, 'modules_to_save is "x", not a list of names'),
        ({"target_modules": ["bird"]}, "no layer named bird"),
        ({"target_modules": ["q_proj", "up_proj"]}, "up_proj"),
        ({"task_type": "SEQ_CLS"}, "SEQ_CLS of the family llama"),
        ({"base_model_name_or_path": None}, "--base MODEL"),
        ({"base_model_name_or_path": "/no/such/place"}, "/no/such/place.*does not exist"),
    ],
)
def test_what_cannot_be_merged_is_refused_by_name(
    llama: Path, changes: dict[str, Any], problem: str
):
    with pytest.raises(GlassformerError, match=problem):
        open_model(spoiled(llama, **changes))


def rewritten(folder: Path, change: Any) -> Path:
    path = folder / "adapter" / "adapter_model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})
    return folder / "adapter"


FIRST = "base_model.model.model.layers.0.self_attn.q_proj"


def test_missing_unknown_and_misshapen_tensors_are_named(llama: Path):
    original = (llama / "adapter" / "adapter_model.safetensors").read_bytes()

    def problem(change: Any) -> str:
        (llama / "adapter" / "adapter_model.safetensors").write_bytes(original)
        with pytest.raises(GlassformerError) as error:
            open_model(rewritten(llama, change))
        return str(error.value)

    def both_gone(tensors: dict[str, Tensor]) -> None:
        for part in "AB":
            del tensors[f"{FIRST}.lora_{part}.weight"]

    ours = FIRST.removeprefix("base_model.model.")
    assert f"{ours}.lora_B.weight is missing" in problem(lambda t: t.pop(f"{FIRST}.lora_B.weight"))
    assert f"the update of {ours} is missing" in problem(both_gone)
    wide = {f"{FIRST}.lora_A.weight": torch.zeros(3, 99)}
    assert "has shape (3, 99)" in problem(lambda t: t.update(wide))
    other = {
        key.replace("q_proj", "bird"): value.clone()
        for key, value in load_file(llama / "adapter" / "adapter_model.safetensors").items()
        if "q_proj" in key
    }
    assert "no layer model.layers.0.self_attn.bird" in problem(lambda t: t.update(other))
    table = {"base_model.model.model.embed_tokens.weight": torch.zeros(61, 32)}
    assert "changes embeddings" in problem(lambda t: t.update(table))
    table = {"base_model.model.model.embed_tokens.lora_embedding_A": torch.zeros(3, 61)}
    assert "updates an embedding" in problem(lambda t: t.update(table))


def test_a_terabyte_in_the_header_is_refused_before_it_is_read(llama: Path):
    path = llama / "adapter" / "adapter_model.safetensors"
    header = {f"{FIRST}.lora_A.weight": {"dtype": "F32", "shape": [2**20, 2**18]}}
    header[f"{FIRST}.lora_A.weight"]["data_offsets"] = [0, 2**40]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(GlassformerError, match="is not a safetensors file"):
        open_model(llama / "adapter")


def test_a_pickle_is_refused_and_never_opened(llama: Path):
    (llama / "adapter" / "adapter_model.safetensors").rename(llama / "adapter/adapter_model.bin")
    with pytest.raises(GlassformerError, match=r"adapter_model\.bin is a pickle"):
        open_preprocessing(llama / "adapter")


def test_another_base_than_the_one_it_names_is_noted(llama: Path):
    shutil.copytree(llama / "base", llama / "other")
    same = import_model(llama / "adapter", llama / "same", base=llama / "adapter/../base")
    other = import_model(llama / "adapter", llama / "merged", base=llama / "other")
    assert not any("names" in note for note in same.notes)
    assert any(f"names {llama / 'base'} as its base" in note for note in other.notes)


def test_a_base_of_another_family_is_named(tmp_path: Path):
    adapted("bert-classifier", tmp_path)
    publish("gpt2", tmp_path / "gpt2")
    with pytest.raises(GlassformerError, match=r"family bert, but .* family gpt2\..*--base"):
        import_model(tmp_path / "adapter", tmp_path / "out", base=tmp_path / "gpt2")


def test_only_an_adapter_has_a_base(llama: Path):
    with pytest.raises(GlassformerError, match="not an adapter"):
        import_model(llama / "base", llama / "out", base=llama / "base")
