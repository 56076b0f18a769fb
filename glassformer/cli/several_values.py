"""Several values after one option, as a shell writes them when it expands a pattern.

    train gpt --data a.txt b.txt --seed 1   →   train gpt --data a.txt --data b.txt --seed 1

The option parser takes one value per option, so each value that follows is given the option, too.
An argument of the verb may still come last: `evaluate --data a.txt runs/gpt`.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple


class Options(NamedTuple):
    """The options of a verb, as they are typed."""

    several: Collection[str]
    """Those that take several values."""
    single: Collection[str]
    """Those that take one."""


def with_option_each(
    args: list[str], options: Options, is_argument: Callable[[str], bool], needs_argument: bool
) -> list[str]:
    """The arguments of a verb, with an option before each of its values. A value that `is_argument`
    is an argument of the verb, and so is the last value if the verb has no argument but needs one.
    """
    found: list[tuple[str, str]] = []  # the option, "" for none, and the word
    collecting, words = "", iter(args)
    for word in words:
        if word == "--":
            found += [("", each) for each in (word, *words)]
            break
        if word.startswith("-") and len(word) > 1:
            name, is_joined, _ = word.partition("=")
            collecting = name if name in options.several else ""
            found.append(("-", word))
            if not is_joined and name in (*options.several, *options.single):
                found += [("-", each) for each in (next(words, None),) if each is not None]
        elif collecting and is_argument(word):
            found.append(("", word))
        else:
            found.append((collecting, word))
    if needs_argument and all(option for option, _ in found):
        last = max((at for at, (option, _) in enumerate(found) if option != "-"), default=None)
        if last is not None:
            found[last] = ("", found[last][1])
    written: list[str] = []
    for option, word in found:
        written += [word] if option in ("", "-") else [option, word]
    return written
