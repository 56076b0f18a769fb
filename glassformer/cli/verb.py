"""What all verbs share: grouped options and examples in the help, names that are checked before
anything heavy is imported, plain words in errors, and an end at Ctrl-C.

The help is plain text: drawing boxes would take longer than everything else.
"""

import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from glassformer.checkpoint.model_names import is_hub_name, no_model, no_run
from glassformer.errors import GlassformerError
from glassformer.machine.processes import SIGNALS, postponed
from glassformer.models import MODELS, row
from glassformer.options import OnePath, Paths
from glassformer.wording import did_you_mean

HelpRows = list[tuple[str, str]]
ValueT = TypeVar("ValueT")

EXAMPLES = "Examples:"  # in the docstring of a verb: what follows is printed as it is
TEXT_METAVARS = ("TEXT", "PROMPT", "MESSAGE", "INPUT")  # people forget to quote these
WIDEST = 28  # characters of an option with its help on the same line
CHECKS = f"{__name__}.checks"  # of values, in the context of a command


def before_running(check: Callable[[ValueT], None]) -> Callable[[typer.Context, ValueT], ValueT]:
    """A callback for a parameter: check its value when the whole command line has been understood.
    What is wrong with the command itself is reported first."""

    def defer(context: typer.Context, value: ValueT) -> ValueT:
        context.meta.setdefault(CHECKS, []).append(partial(check, value))
        return value

    return defer


class Verb(TyperCommand):
    """Options are listed under the heading that they name as `rich_help_panel`."""

    second_text = "Pass one text at a time."
    """What to do instead of passing a second text."""

    def tables(self) -> dict[str, HelpRows]:
        """Further sections of the help, built when it is shown."""
        return {}

    def is_argument(self, value: str) -> bool:
        """Whether a value that follows those of an option is an argument of the verb."""
        return any((Path(value) / name).is_file() for name in ("config.json", "recipe.yaml"))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, self._with_option_each(ctx, args))
        except typer.BadParameter as error:
            if error.__cause__ is None:
                raise  # a mistyped name: answered before anything heavy is imported
            from pydantic import ValidationError

            from glassformer.config import reason

            if isinstance(error.__cause__, ValidationError):
                (problem,) = error.__cause__.errors()
                value = "" if problem["type"] == "value_error" else f"{problem['input']!r}: "
                error.message = f"{value}{reason(dict(problem))}."
            raise
        except Exception as error:  # a usage error, for which typer has no name
            if "extra argument" in (message := str(getattr(error, "message", ""))):
                error.__dict__["message"] = f"{message}. {self._about_extra(ctx, args)}"
            raise

    def _about_extra(self, ctx: Any, args: list[str]) -> str:
        """What to do about arguments that are too many."""
        params: list[Any] = self.get_params(ctx)
        text = next((param for param in params if param.metavar in TEXT_METAVARS), None)
        if text is None:
            return "Leave it out; a name with spaces needs quotes."
        if not any(re.search(r"\s", word) for word in args):
            return "A text with spaces needs quotes."
        return self.second_text

    def invoke(self, ctx: Any) -> Any:
        for check in ctx.meta.get(CHECKS, ()):
            check()
        return super().invoke(ctx)

    def _with_option_each(self, ctx: Any, args: list[str]) -> list[str]:
        params = self.get_params(ctx)
        options = [param for param in params if param.param_type_name == "option"]
        # Options that may be repeated take names of files; other texts may begin with anything.
        several = [option for option in options if option.multiple and option.metavar == "PATH"]
        single = [option for option in options if not getattr(option, "is_flag", False)]
        needs = any(param.param_type_name == "argument" and param.required for param in params)
        return with_option_each(args, _names(several), _names(single), self.is_argument, needs)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        description, _, _ = (self.help or "").partition(EXAMPLES)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(description.strip())

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, HelpRows] = {}
        others: HelpRows = []
        for param in self.get_params(ctx):
            is_argument = param.param_type_name == "argument"
            heading = "Arguments" if is_argument else getattr(param, "rich_help_panel", None)
            rows = others if heading is None else sections.setdefault(heading, [])
            rows.append((_name(param, ctx), _help(param)))
        sections |= {"Options": others} | self.tables()
        width = min(WIDEST, max(len(name) for rows in sections.values() for name, _ in rows))
        for heading, rows in sections.items():
            with formatter.section(heading):
                for name, text in rows:
                    formatter.write(_aligned(name, text, width, formatter.width))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _, _, examples = (self.help or "").partition(EXAMPLES)
        if examples:
            with formatter.section(EXAMPLES.rstrip(":")):
                for line in examples.split("\n"):
                    if line.strip():
                        formatter.write(f"  {line.strip()}\n")


class ReadsLines(Verb):
    """A verb to which each line of a file or of standard input is a text."""

    second_text = "Pass one text; several are lines of a file or of standard input."


class Verbs(TyperGroup):
    """All verbs together."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False  # for None, typer imports pydantic, which is slow
        return option


def with_option_each(
    args: list[str],
    several: Collection[str],
    single: Collection[str],
    is_argument: Callable[[str], bool],
    needs_argument: bool,
) -> list[str]:
    """The arguments of a verb, with an option before each of its values, as a shell writes them
    when it expands a pattern. The parser takes one value per option:

        train gpt --data a.txt b.txt --seed 1   →   train gpt --data a.txt --data b.txt --seed 1

    `several` are options that take several values, `single` those that take one. A value that
    `is_argument` is an argument of the verb, and so is the last value if the verb has no argument
    but needs one: `evaluate --data a.txt runs/gpt`.
    """
    pairs: list[tuple[str, str]] = []  # the option, "" for none and "-" for itself, and the word
    collecting, words = "", iter(args)
    for word in words:
        if word == "--":
            pairs += [("", rest) for rest in (word, *words)]
            break
        if word.startswith("-") and len(word) > 1:
            name, is_joined, _ = word.partition("=")
            collecting = name if name in several else ""
            pairs.append(("-", word))
            if not is_joined and name in (*several, *single):
                pairs += [("-", value) for value in (next(words, None),) if value is not None]
        elif collecting and is_argument(word):
            pairs.append(("", word))
        else:
            pairs.append((collecting, word))
    if needs_argument and all(option for option, _ in pairs):
        last = max((at for at, (option, _) in enumerate(pairs) if option != "-"), default=None)
        if last is not None:
            pairs[last] = ("", pairs[last][1])
    written: list[str] = []
    for option, word in pairs:
        written += [word] if option in ("", "-") else [option, word]
    return written


def _names(options: list[Any]) -> set[str]:
    return {name for option in options for name in option.opts}


def _aligned(name: str, text: str, width: int, total: int) -> str:
    """Two columns. No line ends in the middle of an option such as --max-steps."""
    margin = " " * (width + 4)
    lines = textwrap.wrap(text, total - len(margin), break_on_hyphens=False)
    if len(name) <= width and lines:
        name = f"{name.ljust(width)}  {lines.pop(0)}"
    return "\n".join([f"  {name}", *(margin + line for line in lines)]) + "\n"


def _name(param: Any, ctx: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    name, _ = param.get_help_record(ctx)
    return str(name)


def _help(param: Any) -> str:
    text, default = str(param.help or ""), param.default
    if param.param_type_name == "option" and param.required:
        return f"{text} Required."
    if default is None or isinstance(default, bool):
        return text
    return f"{text.rstrip('.')} (default: {default})."


# --- names that are typed ---
# A typing error is answered at once, with the name that was probably meant.


def _check_models(names: Paths | None) -> None:
    """Raise if one is neither here nor a name on the hub."""
    from glassformer.data.archives import local_path

    for name in map(str, _several(names)):
        if not (path := local_path(name)).exists() and not is_hub_name(name):
            raise GlassformerError(no_model(Path(str(path))))


def _check_runs(names: Paths | None) -> None:
    for path in map(Path, _several(names)):
        if not path.exists():
            raise GlassformerError(no_run(path))


def _several(names: Paths | None) -> Sequence[OnePath]:
    if names is None:
        return []
    return [names] if isinstance(names, str | os.PathLike) else names


existing_model = before_running(_check_models)
existing_run = before_running(_check_runs)


def finetune_tasks() -> dict[str, list[str]]:
    """The tasks of `finetune`, each with the pre-trained models that it can build on."""
    bodies: dict[str, list[str]] = {}
    for model in MODELS.values():
        if model.body:
            bodies.setdefault(model.task, []).append(model.body)
    return bodies


def task_name(text: str) -> str:
    """A parser for the name of a task that `finetune` knows."""
    if text not in (names := finetune_tasks()):
        cure = did_you_mean(text, names, f"Choose one of: {', '.join(names)}.")
        raise typer.BadParameter(f"there is no task {text!r}. {cure}")
    return text


def check_preset(model: str, preset: str | None) -> None:
    """Raise unless there is a model of that name, with that preset."""
    of_model = row(model)
    if preset is not None:
        of_model.preset(preset)


# --- Ctrl-C and SIGTERM ---
# They end a verb with one line. Training has its own handler, which saves the run.


def heed_signals(message: str = "stopped.") -> None:
    """Print `message` when a signal ends the program."""

    def stop(number: int, frame: FrameType | None) -> None:
        if postponed(number, frame):
            return
        os.write(2, f"{message}\n".encode())  # not print: a stream may be in the middle of a write
        sys.exit(128 + number)

    for number in SIGNALS:
        signal.signal(number, stop)


@contextmanager
def interruptible(is_live: bool) -> Iterator[None]:
    """While someone types at a terminal, Ctrl-C ends only what happens inside, not the program."""
    if not is_live:
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        os.write(2, b" (stopped)")
    finally:
        signal.signal(signal.SIGINT, before)
