"""`glassformer VERB --help`: grouped options, true defaults, examples that work, nothing heavy."""

import json
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer
from test_command_line import verbs

from glassformer.cli.main import app
from glassformer.generation.beam import Beams
from glassformer.models import MODELS, ModelRow, trainable
from glassformer.tasks.language.predictor import GenerationSettings
from glassformer.tasks.recipe import TrainingConfig
from glassformer.tasks.translate.predictor import TranslationSettings

GROUP: Any = typer.main.get_command(app)
VERBS = verbs(GROUP)
GROUPS = [name for name, verb in GROUP.commands.items() if hasattr(verb, "commands")]
HEADINGS = {
    "train": ["Arguments", "Data", "Model", "Fine-tuning", "Training", "Devices", "Run", "Options"],
    "finetune": ["Arguments", "Fine-tuning", "Data", "Training", "Devices", "Run", "Options"],
    "generate": ["Arguments", "Sampling", "Beam search", "Output", "Options"],
    "translate": ["Arguments", "Beam search", "Output", "Options"],
    "classify": ["Arguments", "Data", "Output", "Options"],
    "evaluate": ["Arguments", "Data", "Evaluation", "Output", "Options"],
    "inspect": ["Arguments", "View", "Output", "Options"],
    "doctor": ["Output", "Options"],
}
HEAVY = {
    "torch",
    "lightning_fabric",
    "pydantic",
    "rich",
    "numpy",
    "yaml",
    "tokenizers",
    "matplotlib",
}


def sections(text: str) -> dict[str, list[str]]:
    """The lines under each heading of a help."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            found[line.rstrip(":")] = []
        elif line.startswith("  ") and found:
            found[next(reversed(found))].append(line.strip())
    return found


def words(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def modules_after(*arguments: str) -> set[str]:
    """The top-level modules that a fresh Python has loaded after a command."""
    program = (
        f"import sys, json\nsys.argv = ['glassformer', *{arguments!r}]\n"
        "from glassformer.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(json.dumps([name.split('.')[0] for name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_has_headings_and_two_or_three_examples(glassformer: Any, verb: str) -> None:
    result = glassformer(*verb.split(), "--help")
    assert result.code == 0
    found = sections(result.out)
    if verb in HEADINGS:
        tables = ("Models and their presets", "Tasks", "Examples")
        assert [heading for heading in found if heading not in tables] == HEADINGS[verb]
    assert "--help" in words(found["Options"])
    assert list(found)[-1] == "Examples"
    assert 2 <= len(found["Examples"]) <= 3
    assert result.out.count("Examples:") == 1


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_lists_its_verbs(glassformer: Any, group: str) -> None:
    result = glassformer(group, "--help")
    assert result.code == 0
    listed = [line.split()[0] for line in sections(result.out)["Commands"]]
    assert set(GROUP.commands[group].commands) <= set(listed)


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_stands_in_the_help_once(glassformer: Any, verb: str) -> None:
    found = sections(glassformer(*verb.split(), "--help").out)
    names = [line.split()[0].rstrip(",") for each in found.values() for line in each]
    for param in VERBS[verb].params:
        name = param.opts[0] if param.param_type_name == "option" else param.metavar
        assert names.count(name) == 1, name


@pytest.mark.parametrize("verb", VERBS)
def test_examples_are_commands_that_the_verb_takes(glassformer: Any, verb: str) -> None:
    for example in sections(glassformer(*verb.split(), "--help").out)["Examples"]:
        typed = shlex.split(re.sub(r" [<>] \S+", "", example))  # a shell takes these away
        name = ["glassformer", *verb.split()]
        assert typed[: len(name)] == name
        context = VERBS[verb].make_context(verb, typed[len(name) :])
        if verb == "train" and context.params["model"] is not None:
            assert context.params["model"] in trainable()


@pytest.mark.parametrize(
    ("verb", "settings"),
    [
        ("generate", GenerationSettings),
        ("translate", TranslationSettings),
        ("train", TrainingConfig),
    ],
)
def test_the_defaults_in_the_help_are_those_of_the_settings(verb: str, settings: Any) -> None:
    defaults = {name: field.default for name, field in settings.model_fields.items()}
    defaults["diversity_penalty"] = Beams().diversity
    checked = 0
    for param in VERBS[verb].params:
        default = defaults.get(param.name)
        if isinstance(default, int | float | str) and not isinstance(default, bool) and default:
            assert f"(default: {default})" in param.help
            checked += 1
    assert checked > 0


# --- what comes from the table of models ---


def test_models_and_presets_come_from_the_table(
    glassformer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    presets: Any = {"pocket": {}, "cathedral": {}}
    row = ModelRow("language", "an organ", MODELS["gpt"].code, presets, ((0, "pocket"),))
    monkeypatch.setitem(MODELS, "organ", row)
    listed = sections(glassformer("train", "--help").out)["Models and their presets"]
    assert "organ An organ: pocket, cathedral." in words(listed)
    for name in trainable():
        assert any(line.startswith(f"{name} ") for line in listed)
        assert ", ".join(MODELS[name].presets) in words(listed)
    assert not any(line.startswith("gpt-classifier") for line in listed)  # only finetune makes it


def test_tasks_come_from_the_table(glassformer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ("finetune", "runs/bert", "--task", "sing", "--data", "x")
    result = glassformer(*wrong)
    assert (result.code, result.out) == (2, "")
    assert "'sing'" in result.error
    assert "classify, tag, probe." in result.error
    gpt = MODELS["gpt"]
    row = ModelRow("sing", "a singer", gpt.code, gpt.presets, gpt.sizes, body="gpt")
    monkeypatch.setitem(MODELS, "gpt-singer", row)
    listed = sections(glassformer("finetune", "--help").out)["Tasks"]
    assert [line.split()[0] for line in listed] == ["classify", "tag", "probe", "sing"]
    assert "sing Needs a pre-trained gpt." in words(listed)
    assert glassformer(*wrong).error.startswith("runs/bert does not exist.")


# --- speed ---


@pytest.mark.parametrize("verb", ["train", "finetune", "generate", "corpus links"])
def test_the_help_of_a_verb_loads_nothing_heavy(verb: str) -> None:
    loaded = modules_after(*verb.split(), "--help")
    assert "typer" in loaded
    assert not loaded & HEAVY
