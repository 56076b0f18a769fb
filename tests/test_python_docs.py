"""The snippets of docs/python.md run as written, only with fewer steps, and show all there is."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from documented_files import write_files

import glassformer
import glassformer.sklearn
from glassformer.tasks import TASKS
from glassformer.tasks.task import Predictor

PAGE = (Path(__file__).parent.parent / "docs/python.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
QUICK = {"max_steps": 2, "per_device_train_batch_size": 2, "precision": "float32"}
QUICK |= {"num_threads": 1, "report_to": []}
SETTINGS = [glassformer.GenerationSettings, glassformer.TranslationSettings]


def quick(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same training with fewer steps."""

    def shortened(*arguments: Any, **options: Any) -> Any:
        changes = {} if options.get("resume") else {f"training.{k}": v for k, v in QUICK.items()}
        settings = {**(options.pop("settings", None) or {}), **changes}
        return function(*arguments, settings=settings, **options)

    return shortened


def test_every_snippet_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("train", "finetune"):
        monkeypatch.setattr(glassformer, name, quick(getattr(glassformer, name)))
    monkeypatch.setattr(glassformer.sklearn, "train", quick(glassformer.sklearn.train))
    names: dict[str, Any] = {}
    assert len(SNIPPETS) > 10
    for snippet in SNIPPETS:
        capsys.readouterr()
        exec(compile(snippet, "docs/python.md", "exec"), names)
        assert capsys.readouterr().out.strip(), snippet
    assert (tmp_path / "both.html").is_file()


def test_every_function_and_class_is_shown() -> None:
    assert [name for name in glassformer.__all__ if name not in PAGE] == []


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_verb_of_every_task_is_shown(task: str) -> None:
    shown = set(re.findall(r"(?:model|predictor|\))\.(\w+)\(", "".join(SNIPPETS)))
    verbs = {*TASKS[task].predictor.verbs} - {*Predictor.verbs}
    if "inspect" in verbs:  # by the methods of its views
        verbs ^= {"inspect"}
        assert shown & {view.method for view in TASKS[task].predictor.views.values()}
    assert verbs <= shown


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: each.__name__)
def test_every_field_of_the_settings_is_listed(settings: Any) -> None:
    (listed,) = re.findall(rf"^\| `{settings.__name__}` \| (.*) \|$", PAGE, re.M)
    assert {*re.findall(r"`(\w+)`", listed)} == {*settings.model_fields}


def test_the_types_of_options_are_those_of_the_functions() -> None:
    pairs = ((glassformer.train, glassformer.TrainOptions),)
    pairs += ((glassformer.finetune, glassformer.FinetuneOptions),)
    for function, options in pairs:
        assert options.__annotations__.keys() <= inspect.signature(function).parameters.keys()
