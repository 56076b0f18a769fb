"""The rules of .gitignore files: which files of a folder are not meant to be read.

    *.log        at any depth            /build     only next to the .gitignore
    cache/       only folders            docs/*.md  a path from the .gitignore
    a/**/b       any number of folders   !keep.log  read it after all

The last rule that matches decides. The files of an excluded folder stay excluded.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    excludes: bool
    is_for_folders: bool


class Rules(NamedTuple):
    """The rules of one .gitignore file, and how many folders deep it is."""

    depth: int
    rules: tuple[Rule, ...]


def parse_rules(text: str, depth: int) -> Rules:
    return Rules(depth, tuple(filter(None, map(_rule, text.splitlines()))))


def is_ignored(path: Sequence[str], is_folder: bool, files: Iterable[Rules]) -> bool:
    """Whether a path, given as its parts, is excluded by .gitignore files, outermost first."""
    excluded = False
    for depth, rules in files:
        below = "/".join(path[depth:])
        for rule in rules:
            if (is_folder or not rule.is_for_folders) and rule.pattern.fullmatch(below):
                excluded = rule.excludes
    return excluded


def _rule(line: str) -> Rule | None:
    line = re.sub(r"(?<!\\)[ \t]+$", "", line)  # a blank at the end counts only if escaped
    if not line or line.startswith("#"):
        return None
    excludes = not line.startswith("!")
    line = line.removeprefix("!")
    is_for_folders = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    is_anchored = "/" in line
    try:
        pieces = map(_piece, _TOKENS.finditer(line.removeprefix("/")))
        pattern = re.compile("".join(["" if is_anchored else "(?:.*/)?", *pieces]))
    except re.error:  # such as [z-a], which matches nothing
        return None
    return Rule(pattern, excludes, is_for_folders)


_TOKENS = re.compile(
    r"(?P<leading>^\*\*/)|(?P<middle>/\*\*(?=/))|(?P<trailing>/\*\*$)|(?P<star>\*+)|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<set>\]?(?:\\.|[^\]\\])*)\]|\\(?P<escaped>.)|(?P<plain>.)"
)


def _piece(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "leading":
            return "(?:.*/)?"
        case "middle":
            return "(?:/.*)?"
        case "trailing":
            return "/.+"
        case "star":
            return "[^/]*"
        case "one":
            return "[^/]"
        case "set":
            inside = re.sub(r"([\[&~|])", r"\\\1", found["set"])
            inside = f"\\{inside}" if inside.startswith("]") else inside
            return f"(?!/)[{'^' if found['negated'] else ''}{inside}]"
        case _:
            return re.escape(found["escaped"] or found["plain"])
