"""Sequences of numbers are classified as texts are, whatever the scale of their numbers."""

import io
from pathlib import Path

import numpy as np
import pytest
from small_tasks import MACHINE, ready

from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks import load
from glassformer.training import run as training
from glassformer.training.preparation import make_recipe
from glassformer.training.report import Outcome
from glassformer.training.run_folder import RunFolder


def waves(number: int = 120) -> tuple[list[np.ndarray], list[str]]:
    """Fast and slow waves of different lengths, in numbers of very different sizes."""
    random = np.random.default_rng(0)
    rows, labels = [], []
    for index in range(number):
        time = np.arange(random.integers(12, 24)) + random.uniform(0, 6)
        is_fast = index % 2 == 0
        wave = np.sin(time * (1.5 if is_fast else 0.4))
        rows.append(np.stack([1e6 + 1e5 * wave, 1e-3 * random.normal(size=len(time))], axis=1))
        labels.append("fast" if is_fast else "slow")
    return rows, labels


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "waves.csv"
    lines = ["id,step,x,noise,label"]
    for number, (row, label) in enumerate(zip(*waves(), strict=True)):
        lines += [f"{number},{step},{x},{noise},{label}" for step, (x, noise) in enumerate(row)]
    path.write_text("\n".join(lines) + "\n")
    return path


def trained(data: Path, folder: Path, name: str, **model: object) -> Outcome:
    recipe = make_recipe(
        {
            "model": {"name": name} | model,
            "data": {"paths": [str(data)]},
            "training": {
                "max_steps": 250,
                "eval_steps": 50,
                "save_steps": 125,
                "per_device_train_batch_size": 16,
                "learning_rate": 0.01,
                **MACHINE,
            },
        }
    )
    return training.train(recipe, RunFolder(folder), io.StringIO())


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("rnn-classifier", {"preset": "small", "d_model": 16, "d_embedding": 8, "cell": "gru"}),
        ("classifier", {"preset": "xs", "d_model": 32, "num_heads": 4, "d_feedforward": 64}),
    ],
)
def test_waves_are_distinguished_by_their_speed(
    tmp_path: Path, table: Path, name: str, model: dict[str, object]
) -> None:
    outcome = trained(table, tmp_path / "run", name, **model)
    assert outcome.best is not None
    assert outcome.best["val_accuracy"] >= 0.9
    predictor = load(tmp_path / "run")
    assert isinstance(predictor.preprocessing, SeriesPreprocessing)
    assert predictor.evaluate(str(table)).accuracy >= 0.9
    rows, labels = waves(4)
    alone = [predictor.classify(row) for row in rows]
    together = predictor.classify_batch(rows)
    assert [each.label for each in together] == labels
    for one, other in zip(alone, together, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-4)


def test_a_finished_run_of_numbers_needs_no_tokenizer(tmp_path: Path, table: Path) -> None:
    run = RunFolder(tmp_path / "run")
    trained(table, run.path, "rnn-classifier", preset="small", d_model=8, d_embedding=4)
    assert not (run.path / "tokenizer.json").exists()
    assert training.resume(run, io.StringIO()).is_old


def test_an_archive_of_arrays_is_read_as_well(tmp_path: Path) -> None:
    rows, labels = waves(60)
    lengths = np.array([len(row) for row in rows])
    values = np.zeros((60, lengths.max(), 2), dtype=np.float32)
    for row, padded in zip(rows, values, strict=True):
        padded[: len(row)] = row
    np.savez(tmp_path / "waves.npz", x=values, y=np.array(labels), lengths=lengths)
    model = {"preset": "small", "d_model": 8, "d_embedding": 4}
    outcome = trained(tmp_path / "waves.npz", tmp_path / "run", "rnn-classifier", **model)
    assert outcome.objective.dataset.facts()["num_steps"] < lengths.sum()  # a part is held out


def test_a_model_of_words_does_not_read_numbers(tmp_path: Path, table: Path) -> None:
    with pytest.raises(UsageError, match="but a bag reads text"):
        trained(table, tmp_path / "run", "bag")


def test_sequences_of_another_width_are_refused(tmp_path: Path, table: Path) -> None:
    trained(table, tmp_path / "run", "rnn-classifier", preset="small", d_model=8, d_embedding=4)
    with pytest.raises(GlassformerError, match=r"the model reads \(steps, 2\)"):
        load(tmp_path / "run").classify(np.zeros((5, 3)))


def test_columns_in_another_order_are_the_same_columns(tmp_path: Path, table: Path) -> None:
    trained(table, tmp_path / "run", "rnn-classifier", preset="small", d_model=8, d_embedding=4)
    swapped = tmp_path / "swapped.csv"
    cells = [line.split(",") for line in table.read_text().splitlines()]
    swapped.write_text("\n".join(",".join([i, s, n, x, y]) for i, s, x, n, y in cells) + "\n")
    predictor = load(tmp_path / "run")
    assert predictor.evaluate(str(swapped)) == predictor.evaluate(str(table))


def test_a_table_of_texts_with_times_is_no_series(tmp_path: Path) -> None:
    lines = ["id,time,title,priority,label"]
    lines += [f"{n},{n},a {w} thing {n},{n % 3},{w}" for n in range(40) for w in ("fine", "poor")]
    path = tmp_path / "tickets.csv"
    path.write_text("\n".join(lines) + "\n")
    recipe = make_recipe(
        {"model": {"name": "bag"}, "data": {"paths": [str(path)], "text_column": "title"}}
    )
    objective, _ = ready(recipe, tmp_path / "run")
    assert isinstance(objective.dataset.preprocessing, TextPreprocessing)
