"""A run belongs to one process at a time, and to nobody when that process is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.files import locked

HOLDER = """
import sys
from pathlib import Path
from glassformer.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process, which holds the lock on `run`."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_is_named(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with (
        pytest.raises(GlassformerError, match=rf"being trained by process {holder.pid}\. Wait"),
        locked(tmp_path / "run"),
    ):
        pass
    with locked(tmp_path / "other"):
        pass


@pytest.mark.parametrize("end", ["kill", "terminate", "close"])
def test_the_lock_ends_with_its_process(
    tmp_path: Path, holder: subprocess.Popen[str], end: str
) -> None:
    holder.stdin.close() if end == "close" else getattr(holder, end)()
    holder.wait()
    with locked(tmp_path / "run"):
        assert [path.name for path in tmp_path.iterdir()] == [".run.lock"]
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_behind_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "a" / "b" / "run"):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_lock_that_was_deleted_in_between_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is opened; its holder deletes it and leaves; another creates a new one."""
    real, opened = os.open, []

    def open_late(path: Path, *more: int) -> int:
        file = real(path, *more)
        if not opened:
            Path(path).unlink()
        opened.append(file)
        return file

    monkeypatch.setattr(os, "open", open_late)
    with locked(tmp_path / "run"):
        assert len(opened) == 2
        assert (tmp_path / ".run.lock").is_file()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(GlassformerError, match="cannot be written"),
        locked(tmp_path / "file" / "run"),
    ):
        pass
