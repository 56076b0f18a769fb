"""The curves and samples of a run, also after it was resumed."""

from pathlib import Path

import pytest

from glassformer.checkpoint.training_state import read_metrics
from glassformer.training.progress import RunLog

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


@pytest.mark.parametrize(
    "line",
    [
        b"2,\xff,0.1,,",
        b"\xb2,1,2,,",
        b"9" * 5000 + b",1,2,,",
        b"2,1,2,,,9",
        b"2,x,2,,",
        b"\0",
        b'"',
    ],
)
def test_a_damaged_line_is_dropped_and_counted(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.csv"
    good = b"step,train_loss,learning_rate,val_loss,val_bits_per_byte\n1,2,3e-05,,\n"
    path.write_bytes(good + line + b"\n")
    log = RunLog(tmp_path, MEASURES, resumed_at=9)
    log.close()
    assert log.num_damaged == 1
    assert path.read_bytes() == good


@pytest.mark.parametrize("header", [b"\xff\xfe", b"step,loss,rate", b"", b"a,b,c,d,e"])
def test_without_its_header_a_table_starts_again(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "metrics.csv").write_bytes(header + b"\n1,2,3,,\n")
    log = RunLog(tmp_path, MEASURES, resumed_at=9)
    log.close()
    assert log.num_damaged == 1
    assert read_metrics(tmp_path / "metrics.csv") == []
