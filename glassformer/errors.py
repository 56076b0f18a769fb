"""The one family of errors that a user can cause and mend.

The message is the whole interface: what is wrong, where, and what to do about it, in one sentence
or two. The command line prints it without a traceback and exits with `exit_code`.
"""


class GlassformerError(Exception):
    """Something the user can mend: the message says what, where and what to do."""

    exit_code = 1


class UsageError(GlassformerError):
    """The command itself was wrong: a flag, a name, a combination that means nothing."""

    exit_code = 2
