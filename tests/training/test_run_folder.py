"""A run's folder: what may be deleted, and what never is."""

from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.training.run_folder import RunFolder


@pytest.mark.parametrize("name", ["thesis.tex", ".git", "README.md", "data"])
def test_a_folder_with_anything_else_in_it_is_never_cleared(tmp_path: Path, name: str) -> None:
    (tmp_path / "run" / name).mkdir(parents=True)
    with (
        pytest.raises(GlassformerError, match=r"exists and .* Choose another --out"),
        RunFolder(tmp_path / "run").begin(),
    ):
        pass
    assert (tmp_path / "run" / name).exists()


def test_a_run_with_something_of_the_users_in_it_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").touch()
    (tmp_path / "thesis.tex").touch()
    with (
        pytest.raises(GlassformerError, match=r"contains thesis\.tex, which is not part of a run"),
        RunFolder(tmp_path).begin(),
    ):
        pass
    assert (tmp_path / "thesis.tex").exists()


def test_what_a_kill_left_of_setting_up_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".run.partial" / ".data.partial").mkdir(parents=True)
    with RunFolder(tmp_path / "run").begin() as folder:
        assert list(folder.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_kill_between_the_renames_loses_no_run(tmp_path: Path) -> None:
    (tmp_path / ".run.old" / "data").mkdir(parents=True)
    (tmp_path / ".run.old" / "data" / "manifest.json").touch()
    with pytest.raises(KeyError), RunFolder(tmp_path / "run").begin():
        raise KeyError
    assert (tmp_path / "run" / "data" / "manifest.json").is_file()


def test_a_folder_that_only_resembles_a_run_is_never_deleted(tmp_path: Path) -> None:
    (tmp_path / "project" / "data").mkdir(parents=True)
    for name in ("recipe.yaml", "README.md", "data/corpus.txt"):
        (tmp_path / "project" / name).touch()
    with (
        pytest.raises(GlassformerError, match=r"contains data/corpus\.txt, which is not part"),
        RunFolder(tmp_path / "project").begin(),
    ):
        pass


def test_pruning_keeps_the_newest_and_what_is_not_ours(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for name in ("step-9", "step-10", "step-100", ".step-11.partial", "my-notes"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    run.prune(keep=2)
    left = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert left == ["my-notes", "step-10", "step-100"]
