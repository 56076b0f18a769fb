"""Options as arguments of Python functions: every predictor gets those that it has."""

from pathlib import Path
from typing import Any

import pytest

from glassformer.cli.options import Sampling, naming_options, takes
from glassformer.errors import UsageError
from glassformer.options import accepted
from glassformer.tasks import TASKS
from glassformer.tasks.language.predictor import LanguagePredictor

OPTIONS: dict[str, Any] = {
    "paths": ["a.txt"],
    "source_paths": ["a.en"],
    "target_paths": ["a.fr"],
    "source_column": "en",
    "target_column": "fr",
    "text_column": ["text"],
    "image_column": "image",
    "label_column": "label",
    "encoding": "latin-1",
    "context_length": 8,
}
TYPED = {"paths": "--data", "source_paths": "--source", "target_paths": "--target"}
TEXT = {"paths", "text_column", "encoding"}
ACCEPTED = {
    "language": TEXT | {"context_length"},
    "masked": TEXT,
    "classify": TEXT | {"label_column"},
    "tag": TEXT | {"label_column"},
    "word-vectors": TEXT,
    "paint": {"paths", "image_column", "encoding"},
    "caption": TEXT | {"image_column"},
    "classify-images": {"paths", "image_column", "label_column", "encoding"},
    "probe": {"paths", "image_column", "label_column", "encoding"},
    "translate": TYPED.keys() | {"source_column", "target_column", "encoding"},
}


def typed(name: str) -> str:
    return TYPED.get(name) or f"--{name.replace('_', '-')}"


def only(name: str) -> dict[str, Any]:
    return {each: value if each == name else None for each, value in OPTIONS.items()}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_becomes_an_argument_or_is_refused_with_those_there_are(
    task: str, name: str
) -> None:
    evaluate, known = TASKS[task].predictor.evaluate, ACCEPTED[task]
    if name in known:
        arguments = accepted(only(name), evaluate, Path("runs/x"))
        assert arguments == {name: OPTIONS[name]}
        return
    with pytest.raises(UsageError) as refused:
        accepted(only(name), evaluate, Path("runs/x"))
    first, _, rest = str(refused.value).partition(". It accepts ")
    assert first == f"runs/x does not accept {typed(name)}"
    assert rest.rstrip(".").split(", ") == [typed(each) for each in OPTIONS if each in known]


def test_what_was_not_passed_is_left_to_the_defaults() -> None:
    received: dict[str, Any] = {}

    @takes(Sampling)
    def verb(model: str, **settings: Any) -> None:
        received.update(model=model, **settings)

    verb(model="m", temperature=None, top_k=0)
    assert received == {"model": "m", "top_k": 0}


def test_errors_about_settings_name_the_options() -> None:
    predictor: Any = LanguagePredictor  # of which only the class of the settings counts
    with pytest.raises(UsageError) as found, naming_options(predictor, ["seed"]):
        raise UsageError("seed in the settings is -1. Use num_beams, or stop at my_file.")
    assert str(found.value) == "--seed is -1. Use --num-beams, or stop at my_file."
