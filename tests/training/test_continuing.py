"""`train --from`: any model is trained further on new data, with its own preprocessing."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from captioned_scenes import scenes
from PIL import Image
from published import publish
from small_images import squares
from small_tasks import (
    ENCODER,
    MACHINE,
    NOISE,
    AtBatch,
    Contents,
    check_that_it_resumes_exactly,
    ready,
    reviews,
    sentences,
    trained,
)

import glassformer
from glassformer.checkpoint.model_folder import load_model
from glassformer.checkpoint.open import open_model
from glassformer.errors import GlassformerError
from glassformer.preprocessing import load_preprocessing
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as training
from glassformer.training.command import continue_model
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

OTHER = ["a", "hero", "and", "the", "lady", "of", "one", "isle", "went", "home", "summer"]
STEPS: dict[str, Any] = {"max_steps": 6, "eval_steps": 3, "save_steps": 2} | MACHINE
IMAGE_ENCODER = {key: value for key, value in ENCODER.items() if key != "context_length"}
RECURRENT = {"d_embedding": 16, "d_model": 16}


def prose(folder: Path, words: list[str] = NOISE, count: int = 150) -> Path:
    draw, path = random.Random(len(words)), folder / "prose.txt"
    path.write_text("\n".join(" ".join(draw.choices(words, k=9)) for _ in range(count)) + "\n")
    return path


def turned(folder: Path) -> Path:
    """Sentence pairs: the second is the first in capitals."""
    draw, path = random.Random(1), folder / "pairs.tsv"
    lines = {" ".join(draw.choices(NOISE, k=4)) for _ in range(120)}
    path.write_text("".join(f"{line}\t{line.upper()}\n" for line in sorted(lines)))
    return path


def small_series(folder: Path) -> Path:
    path, draw = folder / "series.csv", random.Random(0)
    rows = ["id,step,height,label"]
    for number in range(60):
        for step in range(5):
            height = draw.gauss((number % 2) * 3, 1)
            rows.append(f"{number},{step},{height:.3f},{'up' if number % 2 else 'down'}")
    path.write_text("\n".join(rows) + "\n")
    return path


MODELS: dict[str, tuple[Callable[[Path], Path], dict[str, Any]]] = {
    "gpt": (prose, ENCODER),
    "rnn-lm": (prose, RECURRENT | {"context_length": 16}),
    "bert": (prose, ENCODER),
    "word-vectors": (prose, {"d_model": 16}),
    "classifier": (reviews, ENCODER),
    "rnn-classifier": (reviews, RECURRENT),
    "bag": (reviews, {"d_model": 16}),
    "tagger": (sentences, ENCODER),
    "translator": (turned, ENCODER),
    "rnn-translator": (turned, RECURRENT | {"context_length": 32}),
    "vit": (squares, IMAGE_ENCODER),
    "image-gpt": (squares, IMAGE_ENCODER),
    "captioner": (scenes, ENCODER),
}
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)


def begun(folder: Path, name: str, **more: Any) -> Path:
    """A model that was trained for a moment."""
    write, shape = MODELS[name]
    folder.mkdir(exist_ok=True)
    model = {"name": name, **shape}
    data = {"paths": [str(write(folder))]}
    values = {"model": model, "data": data, "training": STEPS, **more}
    return trained(make_recipe(values), folder / "run")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    known = dict[str, Path]()

    def run(name: str) -> Path:
        if name not in known:
            known[name] = begun(tmp_path_factory.mktemp(name), name)
        return known[name]

    return run


def further(
    run: Path, data: Path, training: Any = None, finetune: Any = None, **sections: Any
) -> Recipe:
    """The recipe that continues the model of a run on other data."""
    start = {"model": str(run), "head": "kept"} | (finetune or {})
    values = {"finetune": start, "data": {"paths": [str(data)]}}
    values |= {"training": STEPS | (training or {}), **sections}
    return make_recipe(continue_model(values, {}))


def same(one: Any, other: Any) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@EVERY_MODEL
def test_it_begins_with_the_whole_model_and_reads_data_as_before(
    tmp_path: Path, runs: Callable[[str], Path], name: str
):
    run = runs(name)
    objective, model = ready(further(run, MODELS[name][0](tmp_path)), tmp_path / "new")
    assert same(model, load_model(run).model)
    before = load_preprocessing(run)
    now = objective.dataset.preprocessing
    assert type(now) is type(before)
    assert {key: each.as_json() for key, each in now.tokenizers.items()} == {
        key: each.as_json() for key, each in before.tokenizers.items()
    }
    for key in ("image_size", "image_mean", "palette", "mean", "tag_scheme", "mlm_probability"):
        assert getattr(now, key, None) == getattr(before, key, None)
    assert now.sizes == before.sizes


@pytest.mark.parametrize("name", ["gpt", "classifier", "translator", "vit", "captioner"])
def test_a_run_that_was_cut_off_resumes_exactly(
    tmp_path: Path,
    runs: Callable[[str], Path],
    at_batch: AtBatch,
    contents: Contents,
    name: str,
):
    recipe = further(runs(name), MODELS[name][0](tmp_path))
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, 3)


@pytest.mark.parametrize("name", ["gpt", "bag", "tagger", "rnn-translator", "image-gpt"])
def test_it_learns_and_its_lineage_is_on_record(
    tmp_path: Path, runs: Callable[[str], Path], name: str
):
    run, data = runs(name), MODELS[name][0](tmp_path)
    heard = io.StringIO()
    training.train(further(run, data), RunFolder(tmp_path / "new"), heard)
    assert f"starting from run ({name}" in heard.getvalue()
    recipe = RunFolder(tmp_path / "new").recipe()
    assert recipe.start is not None
    assert recipe.start.digest is not None
    assert data.name in recipe.start.lineage[0]
    card = (tmp_path / "new" / "README.md").read_text()
    assert f"| trained further from | run ({name}" in card
    assert "trained further from" in (tmp_path / "new" / "report.html").read_text()
    again = further(tmp_path / "new", data)
    objective, _ = ready(again, tmp_path / "third")
    assert len(objective.recipe.start.lineage) == 2


def test_optimizer_and_schedule_start_anew_and_more_gently(
    tmp_path: Path, runs: Callable[[str], Path]
):
    run = runs("gpt")
    objective, _ = ready(further(run, prose(tmp_path, OTHER)), tmp_path / "new")
    usual = RunFolder(run).recipe().decided.learning_rate
    assert objective.config.learning_rate < 0.5 * usual
    given = further(run, prose(tmp_path, OTHER), {"learning_rate": 0.5})
    assert ready(given, tmp_path / "given")[0].config.learning_rate == 0.5


def test_the_new_text_gets_likelier(tmp_path: Path, runs: Callable[[str], Path]):
    run, data = runs("gpt"), prose(tmp_path, OTHER)
    steps = {"max_steps": 40, "eval_steps": 40, "save_steps": 40}
    new = trained(further(run, data, steps), tmp_path / "new")
    before, after = (glassformer.load(each).evaluate(str(data)).loss for each in (run, new))
    assert after < before - 0.1


# --- what does not fit ---


def problem(values: dict[str, Any], origins: Any = None) -> str:
    with pytest.raises(GlassformerError) as error:
        make_recipe(continue_model(values, origins or {}))
    return str(error.value)


def test_a_setting_that_contradicts_the_model_is_refused_by_name(
    tmp_path: Path, runs: Callable[[str], Path]
):
    start = {"model": str(runs("gpt")), "head": "kept"}
    values = {"finetune": start, "data": {"paths": [str(prose(tmp_path))]}}
    assert "--set model.d_model is 32, but the model in" in problem(
        values | {"model": {"d_model": 32}}, {"model.d_model": "--set model.d_model"}
    )
    assert "is a gpt, not a bert" in problem(values | {"model": {"name": "bert"}})
    assert "--preset is for new models" in problem(values | {"model": {"preset": "modern-xs"}})
    assert "unknown key model.d_modell" in problem(values | {"model": {"d_modell": 16}})
    same_value = make_recipe(
        continue_model(values | {"model": {"d_model": 16, "dropout": 0.3}}, {})
    )
    assert same_value.model["dropout"] == 0.3


def test_unknown_labels_are_named_with_the_known_ones(tmp_path: Path, runs: Callable[[str], Path]):
    data = tmp_path / "other.csv"
    rows = "".join(f"one film {n},odd\na story {n},good\n" for n in range(20))
    data.write_text("review,sentiment\n" + rows)
    with pytest.raises(GlassformerError, match=r"does not know the labels odd. It knows bad, good"):
        ready(further(runs("classifier"), data), tmp_path / "new")


def test_fewer_labels_keep_the_numbers_of_the_model(tmp_path: Path):
    def table(*labels: str) -> Path:
        rows = [f"one film {n} of {label},{label}" for n in range(20) for label in labels]
        path = tmp_path / f"{len(labels)}.csv"
        path.write_text("\n".join(["review,sentiment", *rows]) + "\n")
        return path

    values = {"model": {"name": "bag", "d_model": 16}, "training": STEPS}
    data = {"data": {"paths": [str(table("bad", "fair", "good"))]}}
    run = trained(make_recipe(values | data), tmp_path / "old")
    objective, _ = ready(further(run, table("good", "bad")), tmp_path / "new")
    assert objective.dataset.labels == ("bad", "fair", "good")
    assert {*objective.dataset.training.targets.tolist()} == {0, 2}


def test_characters_that_cannot_be_spelled_are_named(tmp_path: Path):
    run = begun(tmp_path / "old", "gpt", tokenizer={"kind": "char"})
    data = tmp_path / "new.txt"
    data.write_text("the story of über\n" * 80)
    with pytest.raises(GlassformerError, match=r"no token for 'b', 'ü'.*--add-tokens"):
        ready(further(run, data), tmp_path / "new")
    objective, _ = ready(further(run, data, finetune={"add_tokens": ["b", "ü"]}), tmp_path / "two")
    known = objective.dataset.preprocessing.tokenizer
    assert known.decode(known.encode("über")) == "über"


def test_images_of_another_size_are_resized_with_a_note(
    tmp_path: Path, runs: Callable[[str], Path]
):
    run = runs("vit")
    size = load_preprocessing(run).image_size  # type: ignore[attr-defined]
    data = squares(tmp_path)
    for path in data.rglob("*.png"):
        Image.open(path).resize((24, 24)).save(path)
    said = list[str]()
    objective, _ = ready(further(run, data), tmp_path / "new", said.append)
    assert objective.dataset.preprocessing.image_size == size
    assert any("the size that the model reads" in line for line in said)
    recipe = further(run, data)
    wrong = recipe.data.model_copy(update={"image_size": (40, 40)})
    with pytest.raises(GlassformerError, match=r"Leave out --image-size"):
        ready(recipe.model_copy(update={"data": wrong}), tmp_path / "wrong")


def test_time_series_keep_their_scale(tmp_path: Path):
    recipe = make_recipe(
        {
            "model": {"name": "rnn-classifier", "d_model": 16},
            "data": {"paths": [str(small_series(tmp_path))]},
            "training": STEPS,
        }
    )
    run = trained(recipe, tmp_path / "old")
    objective, _ = ready(further(run, small_series(tmp_path)), tmp_path / "new")
    assert objective.dataset.preprocessing.mean == load_preprocessing(run).mean  # type: ignore[attr-defined]
    with pytest.raises(GlassformerError, match="reads time series"):
        ready(further(run, reviews(tmp_path)), tmp_path / "texts")


# --- LoRA and the vocabulary ---


def test_lora_of_a_language_model_leaves_its_matrices_and_can_be_exported(tmp_path: Path):
    shape = {"preset": "gpt2", "num_layers": 1, "d_model": 16, "num_heads": 2}
    values = {
        "model": {"name": "gpt", **shape, "context_length": 32, "vocab_size": None},
        "data": {"paths": [str(prose(tmp_path))]},
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "training": STEPS,
    }
    run = trained(make_recipe(values), tmp_path / "old")
    new = trained(further(run, prose(tmp_path, OTHER), finetune={"lora": True}), tmp_path / "new")
    before, after = load_model(run).model.state_dict(), load_model(new).model.state_dict()
    changed = {key for key in before if not torch.equal(before[key], after[key])}
    assert changed
    assert all(".attention." in key or ".feedforward." in key for key in changed)
    exported = glassformer.export_model(new, "peft", tmp_path / "adapter")
    assert exported.differences["glassformer"] <= 1e-4
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["r"] == 8
    text = "the story of one town"
    found, expected = (
        glassformer.load(each).score(text).logprobs[1:] for each in (tmp_path / "adapter", new)
    )
    assert found == pytest.approx(expected, abs=1e-3)


def test_added_tokens_get_rows_of_their_own_from_their_spelling(tmp_path: Path):
    run = begun(tmp_path / "old", "gpt", tokenizer={"kind": "bpe", "vocab_size": 290})
    data = tmp_path / "chat.txt"
    data.write_text("<|user|> the story <|bot|> of one town\n" * 80)
    recipe = further(run, data, finetune={"add_tokens": ["<|user|>", "<|bot|>"]})
    objective, model = ready(recipe, tmp_path / "new")
    old = load_model(run)
    tokenizer, before = objective.dataset.preprocessing.tokenizer, old.preprocessing.tokenizer  # type: ignore[attr-defined]
    size = before.vocab_size
    assert tokenizer.vocab_size == size + 2
    ids = tokenizer.encode("<|user|> the")
    assert ids[0] == size
    assert tokenizer.decode(ids) == "<|user|> the"
    rows, known = model.embedding.weight, old.model.get_parameter("embedding.weight")
    assert torch.equal(rows[:size], known)
    spelled = known[torch.tensor(before.encode("<|user|>"))].mean(0)
    assert torch.allclose(rows[size], spelled)
    new = trained(recipe, tmp_path / "run")
    assert glassformer.load(new).preprocessing.tokenizer.vocab_size == size + 2


def test_another_tokenizer_moves_the_rows_of_the_tokens_that_both_have(tmp_path: Path):
    run = begun(tmp_path / "old", "gpt", tokenizer={"kind": "bpe", "vocab_size": 290})
    recipe = further(run, prose(tmp_path, OTHER), tokenizer={"kind": "bpe", "vocab_size": 280})
    assert recipe.start is not None
    assert recipe.start.tokenizer == "new"
    new = trained(recipe, tmp_path / "run")
    saved, old = load_model(tmp_path / "run"), load_model(run)
    now, before = saved.preprocessing.tokenizer, old.preprocessing.tokenizer  # type: ignore[attr-defined]
    assert now.vocab_size == 280
    from glassformer.training.finetuning import new_model

    fresh = new_model(RunFolder(new).recipe(), preprocessing=saved.preprocessing)
    rows, known = (
        fresh.get_parameter("embedding.weight"),
        old.model.get_parameter("embedding.weight"),
    )
    both = {before.token(id): id for id in range(before.vocab_size)}
    shared = [(id, both[now.token(id)]) for id in range(280) if now.token(id) in both]
    assert len(shared) >= 256
    assert all(torch.equal(rows[one], known[other]) for one, other in shared)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [(["two words"], "no blanks"), (["the"], "already"), ([""], "no blanks")],
)
def test_tokens_that_cannot_be_added_are_refused(tmp_path: Path, tokens: list[str], said: str):
    run = begun(tmp_path / "old", "gpt", tokenizer={"kind": "word"})
    with pytest.raises(GlassformerError, match=said):
        further(run, prose(tmp_path), finetune={"add_tokens": tokens})


def test_models_without_a_vocabulary_get_no_tokens(tmp_path: Path, runs: Callable[[str], Path]):
    with pytest.raises(GlassformerError, match="its vocabulary cannot be extended"):
        further(runs("vit"), squares(tmp_path), finetune={"add_tokens": ["x"]})


# --- published models ---


def test_published_models_and_what_is_trained_from_them_learn_gently(
    tmp_path: Path, runs: Callable[[str], Path]
):
    publish("gpt2", tmp_path / "theirs")
    data = prose(tmp_path, [f"w{number}" for number in range(30)])
    objective, model = ready(further(tmp_path / "theirs", data), tmp_path / "new")
    assert same(model, open_model(tmp_path / "theirs").model)
    assert objective.config.optimizer == "adamw"
    assert objective.config.learning_rate == pytest.approx(1.7e-4)
    new = trained(further(tmp_path / "theirs", data), tmp_path / "run")
    again, _ = ready(further(new, data), tmp_path / "third")
    assert again.config.learning_rate == pytest.approx(1.7e-4)
    assert again.recipe.start.lineage[-1] == "theirs"
    lora, _ = ready(further(new, data, finetune={"lora_rank": 2}), tmp_path / "lora")
    assert lora.config.learning_rate == pytest.approx(1.7e-3)
    ours, _ = ready(further(runs("gpt"), prose(tmp_path)), tmp_path / "ours")
    assert ours.config.optimizer == "muon"
