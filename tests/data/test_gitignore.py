"""The rules of .gitignore files."""

import pytest

from glassformer.data.folders import is_ignored, parse_rules


def ignored(rules: str, path: str, depth: int = 0) -> bool:
    parts = path.rstrip("/").split("/")
    return is_ignored(parts, path.endswith("/"), [parse_rules(rules, depth)])


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        ("*.log", "a.log"),
        ("*.log", "deep/down/a.log"),
        ("/build", "build"),
        ("cache/", "a/cache/"),
        ("docs/*.md", "docs/a.md"),
        ("**/x", "a/b/x"),
        ("**/x", "x"),
        ("a/**/b", "a/b"),
        ("a/**/b", "a/x/y/b"),
        ("a/**", "a/x/y"),
        ("a?.txt", "ab.txt"),
        ("[a-c].txt", "b.txt"),
        ("[!a-c].txt", "d.txt"),
        (r"\#notes", "#notes"),
        (r"\!notes", "!notes"),
        ("name ", "name"),
        (r"name\ ", "name "),
        ("!a.log\n*.log", "a.log"),
        ("Ümläut *", "x/Ümläut file"),
    ],
)
def test_a_rule_excludes(rules: str, path: str) -> None:
    assert ignored(rules, path)


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        ("# *.log", "a.log"),
        ("", "a.log"),
        ("*.log\n!a.log", "a.log"),
        ("/build", "a/build"),
        ("cache/", "cache"),
        ("docs/*.md", "docs/deep/a.md"),
        ("docs/*.md", "a/docs/a.md"),
        ("a?.txt", "a/.txt"),
        ("a/**", "a/"),
        ("[z-a]", "b"),
        ("*.log", "a.logs"),
    ],
)
def test_a_rule_does_not_exclude(rules: str, path: str) -> None:
    assert not ignored(rules, path)


def test_a_rule_is_relative_to_its_file() -> None:
    assert ignored("/x", "inner/x", depth=1)
    assert not ignored("/x", "inner/deep/x", depth=1)
