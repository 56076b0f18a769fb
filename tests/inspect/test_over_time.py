"""A text through the training of a model: every number is that of the model of a snapshot."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_tasks import reviews

import glassformer
from glassformer.checkpoint.model_folder import snapshots_of
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.views import draw

MACHINE = {"device": "cpu", "precision": "float32", "num_threads": 1, "report_to": []}
MACHINE |= {"eval_steps": 1000, "save_steps": 1000, "warmup_steps": 2, "learning_rate": 0.02}
STACK = {"num_layers": 2, "num_heads": 2, "d_model": 16}
SHAPES: dict[str, dict[str, Any]] = {
    "gpt": STACK | {"context_length": 16},
    "bert": STACK,
    "classifier": STACK,
    "rnn-classifier": {"d_embedding": 16, "d_model": 16},
    "translator": STACK,
    "rnn-translator": {"d_embedding": 16, "d_model": 16},
}
TEXTS = {"classifier": "a good film", "rnn-classifier": "a good film"}
TEXTS |= {"translator": "one two", "rnn-translator": "one two"}

Train = Callable[[str], Path]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """The run of a model by its name, trained when it is first asked for."""
    home = tmp_path_factory.mktemp("home")
    (home / "notes.txt").write_text("the quick brown fox jumps over a lazy dog.\n" * 60)
    numbers = ("one", "two", "three", "four", "five")
    pairs = [f"{a} {b}\t{b} {a}\n" for a in numbers for b in numbers]
    (home / "pairs.tsv").write_text("".join(pairs * 3))
    data = dict.fromkeys(("classifier", "rnn-classifier"), reviews(home))
    data |= dict.fromkeys(("translator", "rnn-translator"), home / "pairs.tsv")

    def run_of(name: str) -> Path:
        folder = home / name
        if not folder.exists():
            settings = {"model": SHAPES[name], "training": MACHINE}
            source = data.get(name, home / "notes.txt")
            glassformer.train(name, source, out=folder, max_steps=5, settings=settings, quiet=True)
        return folder

    return run_of


def text_for(name: str) -> str:
    return TEXTS.get(name, "the quick brown fox")


def model_at(run: Path, step: int, folder: Path) -> Any:
    """The model of a snapshot, as one that was copied out of its run."""
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("data", "checkpoints", "snapshots"))
    shutil.copy(dict(snapshots_of(run))[step], folder / "model.safetensors")
    return glassformer.load(folder)


@pytest.mark.parametrize("name", SHAPES)
def test_every_moment_is_what_the_model_of_its_snapshot_computes(
    name: str, trained: Train, tmp_path: Path
) -> None:
    run, text = trained(name), text_for(name)
    more = {"target": "two one"} if "translator" in name else {}
    model = glassformer.load(run)
    found = model.inspect_over_time(text, **more)
    assert found.steps == [0, 1, 2, 5]
    for moment in found.moments:
        alone = model_at(run, moment.step, tmp_path / f"{moment.step}").inspect(text, **more)
        assert moment.predictions[0].options == alone.predictions[0].options
        assert [each.logprob for each in moment.predictions] == [
            each.logprob for each in alone.predictions
        ]
        if alone.has_layers:
            assert np.array_equal(moment.attention, alone.attention)
        if alone.cross_attention is not None:
            assert np.array_equal(moment.cross_attention, alone.cross_attention)
        p = alone.logprobs.exp()
        for place, names in enumerate(found.followed):
            ids = [alone.subject.name_of(id) for id in range(p.shape[1])]
            assert moment.followed[place] == [p[place, ids.index(each)].item() for each in names]
    first, last = found.moments[0], found.moments[-1]
    assert first.predictions[0].options != last.predictions[0].options
    for ending in ("png", "html"):
        draw(found, tmp_path / f"history.{ending}")


def test_what_is_there_and_what_is_likeliest_in_the_end_is_followed(trained: Train) -> None:
    found = glassformer.load(trained("gpt")).inspect_over_time("the quick")
    last = found.moments[-1].predictions
    for names, prediction in zip(found.followed, last, strict=True):
        assert names[:5] == [each.token for each in prediction.options[:5]]
        assert prediction.actual is None or prediction.actual in names
    assert len(found.text().splitlines()) > len(found.steps)


def test_a_model_that_writes_shows_what_it_wrote_at_each_step(
    trained: Train, tmp_path: Path
) -> None:
    found = glassformer.load(trained("gpt")).inspect_over_time("the quick")
    alone = model_at(trained("gpt"), 5, tmp_path / "5")
    greedy = alone.generate("the quick", temperature=0, max_new_tokens=40).text
    assert found.moments[-1].written == greedy
    said = glassformer.load(trained("classifier")).inspect_over_time("a good film")
    assert {each.written for each in said.moments} == {None}


def test_layers_and_heads_can_be_chosen(trained: Train) -> None:
    model = glassformer.load(trained("gpt"))
    whole = model.inspect_over_time("the quick").as_json()
    part = model.inspect_over_time("the quick", layer=1, head=0).as_json()
    assert (part["layers"], part["heads"]) == ([1], [0])
    for one, all_of_it in zip(part["moments"], whole["moments"], strict=True):
        assert one["attention"] == [[all_of_it["attention"][1][0]]]
    with pytest.raises(UsageError, match="there is no layer 2: the last one is 1"):
        model.inspect_over_time("the quick", layer=2)


def test_the_record_of_the_run_goes_with_it(trained: Train) -> None:
    found = glassformer.load(trained("gpt")).inspect_over_time("the quick").as_json()
    assert found["metrics"]["step"][-1] == 5
    assert found["metrics"]["val_loss"][-1] > 0
    assert [each["step"] for each in found["samples"]] == [5]


def test_looking_back_changes_nothing(trained: Train) -> None:
    model = glassformer.load(trained("gpt"))
    before = model.inspect("the quick").logits
    model.inspect_over_time("the quick")
    assert np.array_equal(model.inspect("the quick").logits, before)


# --- without a past ---


def test_a_run_without_snapshots_says_how_to_keep_some(trained: Train, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained("gpt"), run)
    shutil.rmtree(run / "snapshots")
    model = glassformer.load(run)
    with pytest.raises(UsageError) as caught:
        model.inspect_over_time("the quick")
    assert str(caught.value) == (
        f"{run}: the run has no snapshots of its weights. Train with --set training.snapshots=12 "
        "to keep some."
    )
    history = model.inspect("the quick").subject.history()
    assert (history.moments, history.record.metrics["step"]) == ([], [5.0])


def test_a_model_without_its_run_has_no_history(trained: Train, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(trained("gpt"), model)
    (model / "recipe.yaml").unlink()
    with pytest.raises(UsageError, match="no training is recorded here: the model is not in a run"):
        glassformer.load(model).inspect_over_time("the quick")


def test_a_damaged_snapshot_is_named(trained: Train, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained("gpt"), run)
    file = run / "snapshots" / "step-2.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"\x00\x00\x80\x3f")
    model = glassformer.load(run)
    with pytest.raises(GlassformerError, match=rf"^{file} is damaged: .* Or delete it"):
        model.inspect_over_time("the quick")
    file.unlink()
    assert model.inspect_over_time("the quick").steps == [0, 1, 5]


def test_an_empty_text_is_refused(trained: Train) -> None:
    with pytest.raises(UsageError, match="the text is empty"):
        glassformer.load(trained("gpt")).inspect_over_time(" ")
