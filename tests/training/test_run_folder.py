"""A run's folder: what may be deleted, and what never is."""

from pathlib import Path

import pytest

from glassformer.errors import GlassformerError, UsageError
from glassformer.files import locked, new_folder
from glassformer.tasks.recipe import DecidedTraining
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
    config = DecidedTraining.model_construct(
        max_steps=100, warmup_steps=0, eval_steps=1, save_steps=1, save_total_limit=2
    )
    run = RunFolder(tmp_path)
    for name in ("step-9", "step-10", "step-100", ".step-11.partial", "my-notes"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    run.prune(config)
    left = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert left == ["my-notes", "step-10", "step-100"]


def test_a_broken_run_is_set_aside_and_never_in_the_way(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "run" / "checkpoints" / "step-3").mkdir(parents=True)
        (tmp_path / "run" / "data").mkdir()
        (tmp_path / "run" / "data" / "train.bin").touch()  # its manifest is lost
        aside = RunFolder(tmp_path / "run").set_aside_if_broken()
        assert aside == tmp_path / f"run.broken-{number}"
        assert (aside / "checkpoints" / "step-3").is_dir()
        with RunFolder(tmp_path / "run").begin():
            pass
        (tmp_path / "run").rmdir()


def test_what_may_be_the_users_own_is_not_set_aside(tmp_path: Path) -> None:
    (tmp_path / "project" / "data").mkdir(parents=True)
    for name in ("recipe.yaml", "README.md", "data/corpus.txt"):
        (tmp_path / "project" / name).touch()
    assert RunFolder(tmp_path / "project").set_aside_if_broken() is None
    assert RunFolder(tmp_path / "nowhere").set_aside_if_broken() is None


def test_the_current_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run" / "below").mkdir(parents=True)
    for place in (tmp_path / "run", tmp_path / "run" / "below"):
        monkeypatch.chdir(place)
        with (
            pytest.raises(GlassformerError, match="is the current folder or contains it"),
            RunFolder(tmp_path / "run").begin(),
        ):
            pass


# --- links and .. ---


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """What `begin` accepts as an older run."""
    with new_folder(tmp_path / "run" / "data") as data:
        (data / "train.bin").touch()
    return tmp_path / "run"


@pytest.mark.parametrize("route", ["run/../run", "run/data/../../run", "no/../run", "other/../run"])
def test_a_path_through_other_folders_leads_to_the_run(
    tmp_path: Path, finished: Path, route: str
) -> None:
    (tmp_path / "other").mkdir()
    with locked(RunFolder(tmp_path / route).path), RunFolder(tmp_path / route).begin() as folder:
        (folder / "new").touch()
    assert [path.name for path in finished.iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "run"]


@pytest.mark.parametrize("target", ["run", "empty", "nothing-yet"])
def test_a_run_in_a_linked_folder_is_written_where_the_link_leads(
    tmp_path: Path, finished: Path, target: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(target)
    for _ in range(2):
        with RunFolder(tmp_path / "link").begin() as folder, new_folder(folder / "data"):
            pass
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / target / "data" / "manifest.json").is_file()
    assert not list(tmp_path.glob(".*"))


def test_a_link_that_leads_back_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UsageError, match="a is a link that leads back to itself"):
        RunFolder(tmp_path / "a")


@pytest.mark.parametrize("name", [".run.old", ".run.partial"])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_stands_in_the_way_of_a_replacement_is_removed(
    tmp_path: Path, finished: Path, name: str, kind: str
) -> None:
    if kind == "file":
        (tmp_path / name).touch()
    else:
        (tmp_path / name).symlink_to("nowhere")
    with RunFolder(finished).begin():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
