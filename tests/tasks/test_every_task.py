"""Every task is validated and evaluated by the same code, and reports the scores it promises."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from captioned_scenes import scenes
from small_images import squares
from small_tasks import (
    ENCODER,
    MACHINE,
    NOISE,
    best,
    ready,
    recipe_for,
    reopened,
    reviews,
    sentences,
    trained,
)

from glassformer.preprocessing.masking import MaskedBatch, Masking
from glassformer.tasks import TASKS, load
from glassformer.tasks.evaluating import Result
from glassformer.training.finetuning import on_top_of
from glassformer.training.preparation import make_recipe

SMALL = {"language": "gpt", "masked": "bert", "classify": "classifier", "tag": "tagger"}
SMALL |= {"translate": "translator", "classify-images": "vit", "paint": "image-gpt"}
SMALL |= {"caption": "captioner", "word-vectors": "word-vectors"}
IMAGE_ENCODER = {key: value for key, value in ENCODER.items() if key != "context_length"}
EVERY_TASK = pytest.mark.parametrize("task", sorted(TASKS))


def prose(folder: Path, count: int = 200) -> Path:
    draw, path = random.Random(0), folder / "prose.txt"
    path.write_text("\n".join(" ".join(draw.choices(NOISE, k=9)) for _ in range(count)) + "\n")
    return path


def turned(folder: Path, count: int = 200) -> Path:
    """Sentence pairs: the second is the first in capitals."""
    draw, path = random.Random(0), folder / "pairs.tsv"
    lines = {" ".join(draw.choices(NOISE, k=4)) for _ in range(count)}
    path.write_text("".join(f"{line}\t{line.upper()}\n" for line in sorted(lines)))
    return path


WRITE: dict[str, Callable[..., Path]] = {"language": prose, "masked": prose, "classify": reviews}
WRITE |= {"tag": sentences, "translate": turned, "classify-images": squares, "caption": scenes}
WRITE |= {"paint": squares, "probe": squares, "word-vectors": prose}
SHAPE: dict[str, dict[str, Any]] = {"classify-images": IMAGE_ENCODER, "paint": IMAGE_ENCODER}
SHAPE |= {"word-vectors": {"d_model": 16}}


@dataclass(frozen=True)
class Run:
    """A model trained for a moment, with a file of its own to validate on."""

    folder: Path
    held_out: Path

    def validated(self) -> tuple[Any, Result]:
        objective, model = reopened(self.folder)
        return objective, objective.validate(model)


def model_for(folder: Path, task: str) -> dict[str, Any]:
    """The sections of a recipe that name the model."""
    if task == "probe":  # which looks into a trained model
        (folder / "painter").mkdir()
        return on_top_of(a_run(folder / "painter", "paint").folder, task)
    return {"model": {"name": SMALL[task], **SHAPE.get(task, ENCODER)}}


def a_run(folder: Path, task: str, **sections: Any) -> Run:
    (folder / "held_out").mkdir()
    held_out = WRITE[task](folder / "held_out", 60)
    recipe = make_recipe(
        {
            **model_for(folder, task),
            "data": {
                "paths": [str(WRITE[task](folder))],
                "validation_paths": [str(held_out)],
            },
            "training": {"max_steps": 6, "eval_steps": 6, "save_steps": 6} | MACHINE,
            **sections,
        }
    )
    return Run(trained(recipe, folder / "run"), held_out)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return {task: a_run(tmp_path_factory.mktemp(task), task) for task in TASKS}


@EVERY_TASK
def test_a_result_has_its_loss_and_every_measure_of_its_objective(
    runs: dict[str, Run], task: str
) -> None:
    objective, found = runs[task].validated()
    scores = found.scores()
    assert scores["loss"] == found.loss
    assert {"loss", objective.measure} <= {*objective.measures} <= scores.keys()
    assert next(iter(scores)) in (objective.measure, "bits_per_byte")
    assert best(runs[task].folder).keys() == {f"val_{name}" for name in objective.measures}


@EVERY_TASK
def test_a_result_can_be_read_by_people_and_by_programs(runs: dict[str, Run], task: str) -> None:
    _, found = runs[task].validated()
    assert "\n" not in found.headline()
    assert f"{found.loss:.4f}" in found.text()
    written = json.loads(json.dumps(found.as_json()))
    assert found.scores().items() <= written.items()
    # A translator that has hardly learned anything never comes to an end.
    assert [note for note in found.notes if "were cut off" not in note] == []
    if found.interval is not None:
        low, high = found.interval
        assert low <= next(iter(found.scores().values())) <= high


@EVERY_TASK
def test_validation_and_evaluate_give_the_same_scores(runs: dict[str, Run], task: str) -> None:
    run = runs[task]
    # As in training.
    settings = {"num_beams": 1} if task in ("translate", "caption") else {}
    evaluated = load(run.folder).evaluate(str(run.held_out), **settings)
    objective, validated = run.validated()
    assert type(evaluated) is type(validated)
    assert evaluated.scores() == pytest.approx(validated.scores(), rel=1e-4)
    assert best(run.folder) == {
        f"val_{name}": pytest.approx(evaluated.scores()[name], rel=1e-4)
        for name in objective.measures
    }


def test_evaluating_a_bert_hides_as_much_as_its_training(
    tmp_path: Path, runs: dict[str, Run]
) -> None:
    hidden = {"mlm_probability": 0.4, "whole_word_masking": True}
    run = a_run(tmp_path, "masked", objective=hidden)
    settings = json.loads((run.folder / "preprocessor_config.json").read_text())
    assert hidden.items() <= settings.items()
    evaluated = load(run.folder).evaluate(str(run.held_out))
    _, validated = run.validated()
    assert evaluated.num_tokens == validated.num_tokens
    assert evaluated.scores() == pytest.approx(validated.scores(), rel=1e-4)
    _, fewer = runs["masked"].validated()
    assert evaluated.num_tokens / fewer.num_tokens == pytest.approx(0.4 / 0.15, rel=0.25)


def test_evaluating_a_bert_hides_whole_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = {"kind": "wordpiece", "vocab_size": 48}  # so few that words are cut into pieces
    run = a_run(tmp_path, "masked", objective={"whole_word_masking": True}, tokenizer=pieces)
    predictor: Any = load(run.folder)
    make, made = Masking.batch, list[MaskedBatch]()

    def batch(self: Masking, *given: Any) -> MaskedBatch:
        made.append(make(self, *given))
        return made[-1]

    monkeypatch.setattr(Masking, "batch", batch)
    predictor.evaluate(str(run.held_out))
    pairs = set()  # whether a piece is to be guessed, and the piece before it in the same word
    for ids, is_asked, targets in made:
        text = ids.masked_scatter(is_asked, targets)
        for row, place in torch.cartesian_prod(*map(torch.arange, text.shape)).tolist():
            if place > 1 and predictor.tokenizer.token(int(text[row, place])).startswith("##"):
                pairs.add((bool(is_asked[row, place - 1]), bool(is_asked[row, place])))
    assert pairs == {(True, True), (False, False)}


@pytest.mark.parametrize(
    "task", sorted(TASKS.keys() - {"paint", "probe", "classify-images", "caption"})
)
def test_what_to_try_has_words_and_never_the_unknown_token(task: str, tmp_path: Path) -> None:
    """With a vocabulary of a few words, nearly every word of the data is unknown."""
    tokenizer = {"kind": "word", "vocab_size": 8}
    recipe = recipe_for(SMALL[task], WRITE[task](tmp_path), tokenizer=tokenizer)
    objective, _ = ready(recipe, tmp_path / "data")
    for _, _, *words in objective.trials("RUN"):
        assert "".join(words).strip()
        assert "<|unk|>" not in "".join(words)
