"""Errors that a user can fix.

The message is the whole interface: the problem, its place and what to do about it, in one or two
sentences. The command line prints it without a traceback and exits with `exit_code`.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from glassformer.wording import install


class GlassformerError(Exception):
    """Something the user can fix: the message says what, where and how."""

    exit_code = 1


class UsageError(GlassformerError):
    """The command itself is wrong: an unknown option, a bad value, a meaningless combination."""

    exit_code = 2


def require(*packages: str, problem: str, to_install: str = "") -> None:
    """Raise unless all of these optional packages are installed. `problem` is a sentence that says
    what needs them; `to_install` brings them, if not they themselves."""
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        command = install(*([to_install] if to_install else missing))
        raise GlassformerError(f"{problem} Run {command}.")


@contextmanager
def enough_memory(where: str) -> Iterator[None]:
    """Inside, a training that runs out of memory ends with a sentence. torch raises a RuntimeError,
    which each kind of device words differently."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        signs = ("out of memory", "can't allocate memory", "not enough memory")
        if isinstance(error, RuntimeError) and not any(sign in str(error) for sign in signs):
            raise
        raise GlassformerError(
            f"out of memory {where}. Pass a smaller --batch-size (with --set "
            "training.gradient_accumulation_steps=N, an update still learns from N batches), "
            "--checkpoint-activations or a smaller --preset. glassformer plan shows how much "
            "memory a training needs."
        ) from error
