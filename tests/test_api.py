"""The verbs from Python: the same options, the same run, the same sentences as on the command
line."""

import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_tasks import reviews

import glassformer
from glassformer.api import Run
from glassformer.cli.main import main
from glassformer.cli.train import Run as RunGroup
from glassformer.cli.train import finetune as finetune_verb
from glassformer.cli.train import train as train_verb
from glassformer.errors import GlassformerError
from glassformer.tables import Table

SIZES = {"num_layers": 1, "d_model": 16, "num_heads": 2, "context_length": 16}
MACHINE = {"device": "cpu", "precision": "float32", "num_threads": 1, "report_to": []}
SMALL: dict[str, Any] = {"model": SIZES, "training": MACHINE | {"per_device_train_batch_size": 2}}
BAG: dict[str, Any] = {"model.d_model": 16, "training": MACHINE}


def gpt(data: Any, **more: Any) -> Run:
    more = {"max_steps": 4, "settings": SMALL, "tokenizer": "char", "quiet": True} | more
    return glassformer.train("gpt", data, **more)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    reviews(folder)
    (folder / "notes.txt").write_text("the quick brown fox jumps over a lazy dog.\n" * 60)
    return folder


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    return gpt(home / "notes.txt", out=home / "gpt")


@pytest.fixture(scope="module")
def bag(home: Path) -> Run:
    return glassformer.train(
        "bag", home / "reviews.csv", out=home / "bag", max_steps=20, settings=BAG, quiet=True
    )


@pytest.mark.parametrize(
    ("function", "verb"), [(glassformer.train, train_verb), (glassformer.finetune, finetune_verb)]
)
def test_a_function_has_the_options_of_its_verb(function: Any, verb: Any) -> None:
    expected = inspect.signature(verb).parameters.keys() | {"quiet", "settings"}
    of_the_command_line = {"dry_run", "print_recipe", "as_json", "assignments"}
    assert of_the_command_line <= {option.name for option in RunGroup.parameters}
    assert inspect.signature(function).parameters.keys() == expected - of_the_command_line


def test_python_and_the_command_line_leave_the_same_run(
    home: Path, run: Run, contents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = {f"model.{key}": value for key, value in SIZES.items()}
    flat |= {f"training.{key}": value for key, value in SMALL["training"].items()}
    words = [word for key, value in flat.items() for word in ("--set", f"{key}={value}")]
    notes = str(home / "notes.txt")
    words += ["--data", notes, "--max-steps", "4", "--tokenizer", "char", "--out", str(home / "x")]
    monkeypatch.setattr(sys, "argv", ["glassformer", "train", "gpt", *words])
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(SystemExit):
        main()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    assert contents(run.folder) == contents(home / "x")


def test_a_run_has_its_model_its_curves_and_its_report(run: Run) -> None:
    assert run.predictor is run.predictor
    assert run.predictor.generate("the", max_new_tokens=3).prompt == "the"
    assert run.metrics["step"][-1] == 4
    assert run.best is not None
    assert run.best["val_loss"] == min(v for v in run.metrics["val_loss"] if v is not None)
    assert run.report == run.folder / "report.html"
    assert run.summary().startswith(f"{run.folder}: validation loss")
    assert run.as_json()["finished"] is True
    assert "val_loss" in run._repr_html_()
    assert os.fspath(run) == str(run.folder)


def test_quiet_writes_nothing_and_otherwise_progress_goes_to_stderr(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gpt(home / "notes.txt", out=home / "quiet")
    assert capfd.readouterr() == ("", "")
    gpt([home / "notes.txt"], out=home / "loud", quiet=False)
    said = capfd.readouterr()
    assert said.out == ""
    assert "step 4/4" in said.err


def test_errors_are_the_sentences_of_the_command_line(home: Path, run: Run) -> None:
    notes = home / "notes.txt"
    with pytest.raises(GlassformerError, match=r"already contains a finished run. Use --force"):
        gpt(notes, out=run)
    with pytest.raises(GlassformerError, match=r"Did you mean learning_rate\?"):
        gpt(notes, settings={"training.learnin_rate": 1.0})
    with pytest.raises(GlassformerError, match=r"--layers does not apply to bag"):
        glassformer.train("bag", notes, layers=2)
    with pytest.raises(GlassformerError, match=r"train has no option max_step. Did you mean max_s"):
        glassformer.train("gpt", notes, max_step=2)  # type: ignore[call-arg]
    with pytest.raises(GlassformerError, match=r"has no option lr. Did you mean learning_rate\?"):
        glassformer.train("gpt", notes, lr=0.1)  # type: ignore[call-arg]
    with pytest.raises(GlassformerError, match=r"has no option epochs. Did you mean num_train_ep"):
        glassformer.train("gpt", notes, epochs=2)  # type: ignore[call-arg]
    with pytest.raises(GlassformerError, match=r"no option colour. See help\(glassformer.train\)"):
        glassformer.train("gpt", notes, colour=2)  # type: ignore[call-arg]
    with pytest.raises(
        GlassformerError, match=r"does not accept --label-column. It accepts --data"
    ):
        glassformer.evaluate(run, notes, label_column="x")
    with pytest.raises(GlassformerError, match="no data"):
        glassformer.evaluate(run)
    with pytest.raises(GlassformerError, match="no data"):
        glassformer.train("gpt")


def test_a_finished_run_is_resumed_and_a_new_one_is_forced(home: Path) -> None:
    first = gpt(home / "notes.txt", out=home / "again", max_steps=2)
    same = glassformer.train(out=first, resume=True, quiet=True)
    assert same.summary().startswith("already finished, at step 2")
    assert gpt(home / "notes.txt", out=first, max_steps=3, force=True).metrics["step"][-1] == 3


def test_fine_tuning_begins_with_a_run(home: Path, run: Run) -> None:
    tuned = glassformer.finetune(
        run, "classify", home / "reviews.csv", max_steps=2, freeze=True, out=home / "tuned",
        settings={"training": MACHINE}, quiet=True,
    )  # fmt: skip
    assert tuned.predictor.classify("a good film").label in ("good", "bad")


def test_evaluate_and_compare_show_themselves(
    home: Path, bag: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    data = home / "reviews.csv"
    found = glassformer.evaluate(bag, data, errors=1, quiet=True)
    assert found.as_json()["num_examples"] == 240
    assert "<th>accuracy</th>" in found._repr_html_()
    assert str(found) == found.text()
    assert found.metrics["accuracy"] == [found.as_json()["accuracy"]]
    table = glassformer.compare([bag, bag.folder], data=data)
    assert [line["model"] for line in table.as_json()].count(str(bag.folder)) == 2
    assert "TF-IDF + logistic regression" in table._repr_html_()
    assert [row["model"] for row in table.metrics] == [line.name for line in table.lines]
    assert table.metrics.columns[:3] == ["model", "parameters", "accuracy"]
    assert "TF-IDF" in repr(table.metrics)
    assert len(glassformer.compare([bag], data, baseline=False).lines) == 1
    with pytest.raises(GlassformerError, match="no models"):
        glassformer.compare([], data)


def test_report_writes_one_page(home: Path, bag: Run, run: Run) -> None:
    assert glassformer.report(bag).path == bag.folder / "report.html"
    both = glassformer.report([bag, run], out=home / "both.json")
    assert Path(both).is_file()
    assert len(both.as_json()["runs"]) == 2
    with pytest.raises(GlassformerError, match="pass --out"):
        glassformer.report([bag, run])


def test_ctrl_c_saves_the_run_and_interrupts_the_program(
    home: Path, at_batch: Any, signalled: Callable[[int], Callable[[], None]]
) -> None:
    at_batch(2, signalled(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="nothing is lost"):
        gpt(home / "notes.txt", out=home / "stopped")
    assert gpt(home / "notes.txt", out=home / "stopped", resume=True).metrics["step"][-1] == 4


def test_a_thread_can_train(home: Path) -> None:
    found: list[Run] = []
    thread = threading.Thread(
        target=lambda: found.append(gpt(home / "notes.txt", out=home / "thread"))
    )
    thread.start()
    thread.join()
    assert found[0].best is not None


def test_settings_are_given_as_an_object_or_by_name(run: Run) -> None:
    settings = glassformer.GenerationSettings(max_new_tokens=3, temperature=0.0)
    same = {"max_new_tokens": 3, "temperature": 0.0}
    assert run.predictor.generate("the", settings) == run.predictor.generate("the", **same)
    assert run.predictor.generate("the", settings, max_new_tokens=2).num_tokens == 2
    assert (
        "".join(run.predictor.stream("the", settings)) == run.predictor.generate("the", **same).text
    )
    with pytest.raises(GlassformerError, match="Use generate for a list"):
        run.predictor.stream(["the"])
    assert not hasattr(glassformer, "Settings")


def test_importing_glassformer_imports_nothing_heavy() -> None:
    program = "import glassformer, sys; print(*{'torch', 'pydantic', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_table_gives_rows_and_columns_and_shows_both_ends() -> None:
    table = Table({"step": n, "loss": None if n else 0.25} for n in range(1000))
    assert table["step"][:2] == [0, 1]
    assert table[0] == {"step": 0, "loss": 0.25}
    assert repr(table).splitlines()[1:2] == ["0     0.25"]
    assert len(repr(table).splitlines()) == 14
    assert isinstance(table[1:], Table)
    with pytest.raises(GlassformerError, match="Columns: step, loss"):
        table["los"]
    assert "&lt;b&gt;" in Table([{"<b>": 1}])._repr_html_()
    assert repr(Table()) == "no rows"


def test_a_table_becomes_a_data_frame_if_pandas_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    table = Table([{"step": 1, "loss": 0.5}])
    pandas.testing.assert_frame_equal(
        table.to_pandas(), pandas.DataFrame({"step": [1], "loss": 0.5})
    )
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(GlassformerError, match="pip install pandas"):
        table.to_pandas()
