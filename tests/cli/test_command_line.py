"""The command line is a promise: no verb and no option vanishes unnoticed."""

import json
import re
from pathlib import Path
from typing import Any

import typer

from glassformer import __version__
from glassformer.cli.main import app

LISTING = Path(__file__).with_name("command_line.txt")


def verbs(group: Any, before: str = "") -> dict[str, Any]:
    """Every verb by its name; those of a group follow the name of the group."""
    found: dict[str, Any] = {}
    for name, verb in group.commands.items():
        inside = verbs(verb, f"{before}{name} ") if hasattr(verb, "commands") else {}
        found |= inside or {f"{before}{name}": verb}
    return found


def command_line() -> list[str]:
    """Every verb with its arguments and options, one to a line."""
    group: Any = typer.main.get_command(app)
    lines = [f"glassformer {option}" for param in group.params for option in param.opts]
    for name, verb in verbs(group).items():
        for param in verb.params:
            words = param.opts if param.param_type_name == "option" else [param.name.upper()]
            lines += [f"{name} {word}" for word in words]
    return sorted(lines)


def test_the_verbs_and_options_are_those_that_users_know() -> None:
    """A new one belongs into command_line.txt; an old one must not go."""
    assert command_line() == LISTING.read_text().splitlines()


def test_every_option_is_explained() -> None:
    group: Any = typer.main.get_command(app)
    for verb in verbs(group).values():
        assert verb.help
        assert [param.name for param in verb.params if not getattr(param, "help", "")] == []


def test_help_names_every_verb(program: Any) -> None:
    result = program("--help")
    assert result.code == 0
    for verb in ("train", "generate", "score", "evaluate", "verify", "doctor", "demo"):
        assert f"\n  {verb} " in result.out


def test_version_is_the_packages(glassformer: Any) -> None:
    assert glassformer("--version").out == f"{__version__}\n"


def test_no_verb_at_all_shows_the_help(glassformer: Any) -> None:
    result = glassformer()
    usage = (result.out + result.err).splitlines()[0]
    assert re.match(r"Usage: .*glassformer \[OPTIONS\] COMMAND", usage)


def test_the_demo_trains_once_and_shows_what_it_writes(glassformer: Any) -> None:
    words = ("demo", "--max-steps", "1", "--out", "d")
    first = glassformer(*words)
    assert first.code == 0, first.err
    assert "The model continues 'The class statement':" in first.out
    again = glassformer("demo", "--out", "d", "--json")
    found = json.loads(again.out)
    assert (again.code, found["run"], found["prompt"]) == (0, "d", "The class statement")
    assert f"{found['val_loss']:.3f} per character" in first.out
    assert "already trained. Pass --force" in again.err
    assert (
        "started with --max-steps 1." in glassformer("demo", "--out", "d", "--max-steps", 2).error
    )


def test_the_demo_overwrites_no_other_run(glassformer: Any, run: Any) -> None:
    result = glassformer("demo", "--out", run.folder, "--force")
    assert (result.code, result.out) == (1, "")
    assert "already contains another run" in result.error
