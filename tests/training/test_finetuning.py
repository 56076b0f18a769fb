"""A training that begins with a trained model: what it takes over, changes and keeps."""

import hashlib
import io
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from small_tasks import (
    ENCODER,
    MACHINE,
    NAMES,
    NOISE,
    OPINIONS,
    OTHERS,
    AtBatch,
    Contents,
    PowerError,
    check_that_it_resumes_exactly,
    ready,
    recipe_for,
    reopened,
    reviews,
    sentences,
    trained,
)
from torch import Tensor

from glassformer.checkpoint.model_folder import load_config, load_model, load_snapshot, save_model
from glassformer.checkpoint.training_state import load_state
from glassformer.errors import GlassformerError
from glassformer.machine.host import Setup
from glassformer.models.heads import body_config
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as training
from glassformer.training.finetuning import model_to_keep, new_model, on_top_of
from glassformer.training.learner import Learner
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

SHORT: dict[str, Any] = {"max_steps": 6, "eval_steps": 3, "save_steps": 2}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny `bert` and a tiny `gpt`, each of two layers, trained for a moment."""
    folder = tmp_path_factory.mktemp("sources")
    draw, words = random.Random(0), [*NOISE, *NAMES, *OTHERS, *OPINIONS["good"], *OPINIONS["bad"]]
    text = "\n".join(" ".join(draw.choices(words, k=9)) for _ in range(150))
    (folder / "text.txt").write_text(text)
    for name, more in (
        ("bert", {"pre_norm": True, "final_norm": True, "dropout": 0.1}),
        ("gpt", {"tie_weights": False}),
    ):
        recipe = make_recipe(
            {
                "model": {"name": name, **ENCODER, **more, "num_layers": 2},
                "data": {"paths": [str(folder / "text.txt")]},
                "tokenizer": {"kind": "wordpiece" if name == "bert" else "bpe", "vocab_size": 330},
                "training": {"max_steps": 4, "eval_steps": 4, "save_steps": 4} | MACHINE,
            }
        )
        trained(recipe, folder / name)
    return folder


def recipe_on(
    source: Path, folder: Path, kind: str = "classify", finetune: Any = None, **training: Any
) -> Recipe:
    """A recipe that begins with the model in a folder."""
    name, values = body_config(*load_config(source), kind)
    data = reviews(folder) if kind == "classify" else sentences(folder)
    section = {"model": str(source)} | (finetune or {})
    return recipe_for(name, data, values, finetune=section, **SHORT | training)


def body(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """What lies below the new head, by the names that it has in the source."""
    parts = ((name.partition("."), weight) for name, weight in state.items())
    return {rest: weight for (part, _, rest), weight in parts if part in ("encoder", "gpt")}


def body_of_source(folder: Path) -> dict[str, Tensor]:
    state = load_file(folder / "model.safetensors")
    if folder.name == "bert":
        return body(state)
    return {name: weight for name, weight in state.items() if not name.startswith("head.")}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if not torch.equal(before[name], after[name])}


BOTH = pytest.mark.parametrize("source", ["bert", "gpt"])
KINDS = pytest.mark.parametrize("kind", ["classify", "tag"])


# --- the beginning ---


@BOTH
def test_a_fine_tuned_classifier_has_a_bag_beside_it_and_a_tagger_has_none(
    sources: Path, source: str
):
    classifier = on_top_of(sources / source, "classify")["model"]
    assert (classifier["bag"], classifier["bag_ngram_weight"]) == (True, 1.0)
    assert "bag" not in on_top_of(sources / source, "tag")["model"]


@BOTH
@KINDS
def test_the_body_begins_with_the_trained_weights(
    tmp_path: Path, sources: Path, source: str, kind: str
):
    objective, model = ready(recipe_on(sources / source, tmp_path, kind), tmp_path / "run")
    expected = body_of_source(sources / source)
    assert len(expected) > 20
    assert not changed(expected, body(model.state_dict()))
    assert changed(expected, body(new_model(objective.recipe, is_fresh=False).state_dict()))


@BOTH
def test_texts_are_read_with_the_tokenizer_of_the_source(
    tmp_path: Path, sources: Path, source: str
):
    run = trained(recipe_on(sources / source, tmp_path), tmp_path / "run")
    for file in ("tokenizer.json", "data/tokenizer.json"):
        assert (run / file).read_bytes() == (sources / source / "tokenizer.json").read_bytes()


def test_texts_have_the_special_tokens_that_the_source_knows(tmp_path: Path, sources: Path):
    bert, gpt = (
        ready(recipe_on(sources / name, tmp_path), tmp_path / name)[0].dataset
        for name in ("bert", "gpt")
    )
    special = bert.preprocessing.tokenizer.special_tokens
    for index in range(len(bert.training)):
        row = bert.training.row(index)
        assert (row[0], row[-1]) == (special["[CLS]"], special["[SEP]"])
        assert gpt.training.row(index)[-1] == gpt.preprocessing.tokenizer.end_of_text


def test_by_default_all_weights_learn(tmp_path: Path, sources: Path):
    run = trained(recipe_on(sources / "bert", tmp_path), tmp_path / "run")
    expected = body_of_source(sources / "bert")
    assert changed(expected, body(load_file(run / "model.safetensors"))) == expected.keys()


def test_another_kind_of_body_is_refused(tmp_path: Path, sources: Path):
    recipe = recipe_on(sources / "bert", tmp_path, finetune={"model": str(sources / "gpt")})
    other = recipe.model_copy(update={"model": recipe.model | {"vocab_size": 330}})
    refused = "a classifier cannot start from the weights of a gpt"
    with pytest.raises(GlassformerError, match=refused):
        ready(other, tmp_path / "run")


def test_another_shape_is_refused(tmp_path: Path, sources: Path):
    recipe = recipe_on(sources / "bert", tmp_path)
    other = recipe.model_copy(update={"model": recipe.model | {"d_feedforward": 48}})
    with pytest.raises(GlassformerError, match="has a different shape"):
        ready(other, tmp_path / "run")


# --- what may change ---


@BOTH
@KINDS
def test_a_frozen_body_stays_as_it_was(tmp_path: Path, sources: Path, source: str, kind: str):
    recipe = recipe_on(sources / source, tmp_path, kind, {"freeze": True}, ema=0.9)
    run = trained(recipe, tmp_path / "run")
    state = load_state(run / "checkpoints" / "step-6")
    for part in ("model", "averaged"):
        assert not changed(body_of_source(sources / source), body(state[part]))
    first = load_state(run / "checkpoints" / "step-4")
    assert not torch.equal(first["model"]["head.weight"], state["model"]["head.weight"])


@BOTH
def test_the_first_layers_stay_as_they_were_and_no_others(
    tmp_path: Path, sources: Path, source: str
):
    recipe = recipe_on(sources / source, tmp_path, finetune={"freeze_layers": 1})
    run = trained(recipe, tmp_path / "run")
    expected = body_of_source(sources / source)
    moved = changed(expected, body(load_file(run / "model.safetensors")))
    free = {name for name in expected if name.startswith(("blocks.1.", "final_norm."))}
    assert moved == free
    assert any(name.startswith("final_norm.") for name in free)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@BOTH
def test_lower_layers_learn_more_slowly_by_the_decay(
    tmp_path: Path, sources: Path, source: str, optimizer: str
):
    finetune = {"layer_lr_decay": 0.5}
    settings = {"optimizer": optimizer, "learning_rate": 0.01}
    recipe = recipe_on(sources / source, tmp_path, "tag", finetune, **settings)
    objective, model = ready(recipe, tmp_path)
    groups = Learner(model, objective, Setup("cpu", "float32", 1)).optimizer.param_groups
    group_of = {id(weight): group for group in groups for weight in group["params"]}
    share = {"head": 1.0, "blocks.1": 0.5, "final_norm": 0.5, "blocks.0": 0.25, "": 0.125}
    seen = set()
    for name, weight in model.named_parameters():
        place = next(place for place in share if place in name)
        seen.add(place)
        group = group_of[id(weight)]
        bolder = 3 if optimizer == "muon" and not group.get("muon") else 1
        assert group["lr"] == pytest.approx(0.01 * share[place] * bolder), name
        assert group["highest_lr"] == group["lr"]
    assert seen == set(share)


def test_without_decay_all_learn_alike(tmp_path: Path, sources: Path):
    recipe = recipe_on(sources / "bert", tmp_path, optimizer="adamw", learning_rate=0.01)
    objective, model = ready(recipe, tmp_path)
    groups = Learner(model, objective, Setup("cpu", "float32", 1)).optimizer.param_groups
    assert {group["lr"] for group in groups} == {0.01}


# --- LoRA ---


@BOTH
def test_with_lora_only_thin_matrices_and_the_head_change(
    tmp_path: Path, sources: Path, source: str
):
    recipe = recipe_on(sources / source, tmp_path, finetune={"lora_rank": 2})
    run = trained(recipe, tmp_path / "run")
    before = new_model(RunFolder(run).recipe()).state_dict()
    moved = changed(before, load_state(run / "checkpoints" / "step-6")["model"])
    thin = {name for name in before if name.endswith((".A", ".B"))}
    assert len(thin) == 2 * 2 * (4 + (3 if any("gate" in name for name in thin) else 2))
    assert all(2 in before[name].shape for name in thin)
    # A changes only after B, which begins at zero, has: by the sixth step both have.
    assert moved == thin | {"head.weight", "head.bias", "temperature"}


@BOTH
@KINDS
def test_the_model_kept_after_lora_is_an_ordinary_one_with_the_same_predictions(
    tmp_path: Path, sources: Path, source: str, kind: str
):
    steps = {"eval_steps": 6, "learning_rate": 0.05}
    recipe = recipe_on(sources / source, tmp_path, kind, {"lora_rank": 2}, **steps)
    run = trained(recipe, tmp_path / "run")
    objective, kept = reopened(run)
    expected = body_of_source(sources / source)
    moved = changed(expected, body(kept.state_dict()))
    assert moved
    assert all(expected[name].dim() == 2 for name in moved)
    learner = new_model(objective.recipe, is_fresh=False).eval()
    learner.load_state_dict(load_state(run / "checkpoints" / "step-6")["model"])
    batch = objective.dataset.training.batch(range(8))
    with torch.no_grad():
        torch.testing.assert_close(
            kept(batch.ids, batch.is_text)[batch.is_text if kind == "tag" else ...],
            learner(batch.ids, batch.is_text)[batch.is_text if kind == "tag" else ...],
            rtol=1e-4,
            atol=1e-5,
        )
    last = load_snapshot(run, run / "snapshots" / "step-6.safetensors").state_dict()
    assert changed(kept.state_dict(), last) == set()
    assert (
        f"| parameters | {sum(p.numel() for p in kept.parameters()):,} |"
        in (run / "README.md").read_text()
    )


def test_keeping_a_model_does_not_change_the_one_that_learns(tmp_path: Path, sources: Path):
    recipe = recipe_on(sources / "bert", tmp_path, finetune={"lora_rank": 2})
    objective, model = ready(recipe, tmp_path)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    learns = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert model_to_keep(objective.recipe, model) is not model
    assert not changed(before, model.state_dict())
    assert learns == [name for name, weight in model.named_parameters() if weight.requires_grad]
    plain = recipe_on(sources / "bert", tmp_path)
    assert model_to_keep(plain, model) is model


# --- exactly ---


@pytest.mark.parametrize(
    ("source", "kind", "finetune"),
    [
        ("bert", "classify", {"lora_rank": 2}),
        ("gpt", "tag", {"lora_rank": 2}),
        ("bert", "classify", {"freeze_layers": 1, "layer_lr_decay": 0.7}),
    ],
)
def test_a_run_cut_off_resumes_to_the_same_bytes_and_is_verified(
    tmp_path: Path,
    sources: Path,
    at_batch: AtBatch,
    contents: Contents,
    source: str,
    kind: str,
    finetune: dict[str, Any],
):
    recipe = recipe_on(sources / source, tmp_path, kind, finetune, ema=0.9)
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch=3)


# --- the source ---


@pytest.fixture
def source(tmp_path: Path, sources: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(sources / "bert", tmp_path / "bert")


def replace_weights(source: Path) -> None:
    """Put another model of the same shape in its place."""
    saved = load_model(source)
    with torch.no_grad():
        next(saved.model.parameters()).add_(1)
    save_model(source, saved.model, saved.preprocessing)


def test_the_saved_recipe_has_the_checksum_of_the_weights_it_began_with(
    tmp_path: Path, source: Path
):
    objective, _ = ready(recipe_on(source, tmp_path), tmp_path / "run")
    expected = hashlib.sha256((source / "model.safetensors").read_bytes()).hexdigest()
    assert objective.recipe.start.digest == expected


def test_a_source_that_changed_before_the_first_step_is_refused(tmp_path: Path, source: Path):
    run = RunFolder(tmp_path / "run")
    training.begin(recipe_on(source, tmp_path), run, io.StringIO())
    replace_weights(source)
    with pytest.raises(GlassformerError, match=r"safetensors has changed since this training"):
        training.resume(run, io.StringIO())


def test_a_source_whose_checksum_differs_from_the_recipe_is_refused(tmp_path: Path, source: Path):
    digest = hashlib.sha256((source / "model.safetensors").read_bytes()).hexdigest()
    recipe = recipe_on(source, tmp_path, finetune={"digest": digest})
    ready(recipe, tmp_path / "run")
    replace_weights(source)
    with pytest.raises(GlassformerError, match=r"does not match the checksum finetune\.digest"):
        ready(recipe, tmp_path / "again")


def test_a_run_under_way_no_longer_needs_its_source(
    tmp_path: Path, source: Path, at_batch: AtBatch
):
    def gone() -> None:
        shutil.rmtree(source)
        raise PowerError

    run = RunFolder(tmp_path / "run")
    at_batch(3, gone)
    with pytest.raises(PowerError):
        training.train(recipe_on(source, tmp_path), run, io.StringIO())
    assert training.resume(run, io.StringIO()).step == 6


def test_a_source_without_weights_is_an_error(tmp_path: Path, source: Path):
    recipe = recipe_on(source, tmp_path)
    (source / "model.safetensors").unlink()
    with pytest.raises(GlassformerError, match=r"model\.safetensors cannot be read: No such file"):
        ready(recipe, tmp_path / "run")
    shutil.rmtree(source)
    with pytest.raises(GlassformerError, match="Pass the folder of a trained model"):
        ready(recipe, tmp_path / "run")
