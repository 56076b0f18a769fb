"""Errors that a user can fix.

The message is the whole interface: the problem, its place and what to do about it, in one or two
sentences. The command line prints it without a traceback and exits with `exit_code`.
"""


class GlassformerError(Exception):
    """Something the user can fix: the message says what, where and how."""

    exit_code = 1


class UsageError(GlassformerError):
    """The command itself is wrong: an unknown option, a bad value, a meaningless combination."""

    exit_code = 2
