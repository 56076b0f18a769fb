"""Errors that a user can fix.

The message is the whole interface: the problem, its place and what to do about it, in one or two
sentences. The command line prints it without a traceback and exits with `exit_code`.
"""

import importlib.util

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
