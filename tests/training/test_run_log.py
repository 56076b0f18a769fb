"""The curves and samples of a run, also after it was resumed."""

from pathlib import Path

from glassformer.training.run_log import RunLog, read_metrics

MEASURES = ("loss", "bits_per_byte")


def test_a_resumed_run_forgets_the_rows_after_its_step(tmp_path: Path) -> None:
    log = RunLog(tmp_path, MEASURES)
    for step in (2, 4, 6):
        log.write(step, {"train_loss": step / 2})
        log.sample(step, f"text of {step}\nin two lines")
    log.close()
    RunLog(tmp_path, MEASURES, resumed_at=4).close()
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == ["2", "4"]
    samples = (tmp_path / "samples.txt").read_text()
    assert samples.endswith("--- step 4 ---\ntext of 4\nin two lines\n")


def test_a_row_that_a_kill_cut_short_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,train_loss,learning_rate,val_loss,val_bits_per_byte\n1,2,3,,\n2,2.5,0")
    RunLog(tmp_path, MEASURES, resumed_at=9).close()
    assert path.read_text().splitlines()[1:] == ["1,2,3,,"]
