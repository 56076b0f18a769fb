"""`glassformer corpus`: from posts to links to pages on the command line."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

POSTS = [
    {"score": 2, "url": "http://a.org/1"},
    {"score": 3, "url": "http://a.org/2"},
    {"score": 9, "url": "http://www.a.org/2/"},
    {"score": 9, "url": "http://www.reddit.com/r/x/comments/1", "is_self": True},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    lines = "".join(json.dumps(each) + "\n" for each in POSTS)
    (tmp_path / "posts.jsonl").write_text(lines)
    (tmp_path / "more.jsonl").write_text(lines)
    return tmp_path


def test_links_are_counted_on_stdout(in_process: Any, home: Path) -> None:
    words = ("corpus", "links", "--posts", "posts.jsonl", "more.jsonl", "--out", "links")
    result = in_process(*words, "--json", cwd=home)
    found = json.loads(result.out)
    assert (result.code, found["read"], found["kept"]) == (0, 8, 1)
    assert found["dropped"] | {"low_score": 2, "self_post": 2, "duplicate": 3} == found["dropped"]
    text = in_process(*words, "--force", cwd=home)
    assert text.out.splitlines()[0].split() == ["posts", "read", "8"]
    assert text.out.splitlines()[-1].split() == ["links", "kept", "1"]
    assert text.err == "wrote links\n"


def test_the_lowest_score_and_domains_can_be_chosen(in_process: Any, home: Path) -> None:
    (home / "mine.txt").write_text("a.org\n")
    words = ("corpus", "links", "--posts", "posts.jsonl", "--out", "links", "--json", "--force")
    assert json.loads(in_process(*words, "--min-score", 10, cwd=home).out)["kept"] == 0
    result = in_process(*words, "--exclude-domains", "mine.txt", cwd=home)
    assert json.loads(result.out)["dropped"]["excluded_domain"] == 2
    result = in_process(*words, "--include-domains", "nowhere.txt", cwd=home)
    assert (result.code, result.error) == (
        1,
        "nowhere.txt cannot be read: No such file or directory.",
    )


def test_a_fetch_without_links_points_to_the_step_before(in_process: Any, home: Path) -> None:
    result = in_process("corpus", "fetch", "--links", "links", "--out", "pages", cwd=home)
    assert (result.code, result.out) == (1, "")
    assert result.error.startswith("links does not exist.")
    assert not (home / "pages").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--max-page-size", "much"), ("--delay", "-1"), ("--timeout", "inf"), ("--workers", "0")],
)
def test_a_wrong_value_is_refused(option: str, value: str, in_process: Any, home: Path) -> None:
    (home / "links.jsonl").write_text('{"url": "http://a.org/"}\n')
    words = ("corpus", "fetch", "--links", "links.jsonl", "--out", "pages", option, value)
    result = in_process(*words, cwd=home)
    assert (result.code, (home / "pages").exists()) == (2, False)
    assert value in result.error


@pytest.mark.parametrize("package", ["warcio", "zstandard", "idna"])
def test_a_missing_package_names_the_command_that_installs_it(
    package: str, in_process: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (package, f"{package}.warcwriter"):
        monkeypatch.setitem(sys.modules, name, None)
    (home / "links.jsonl").write_text('{"url": "http://a.org/"}\n')
    (home / "RS_1.zst").write_bytes(b"x")
    (home / "posts.jsonl").write_text('{"url": "http://stra\u00dfe.de/", "score": 9}\n')
    steps = {
        "warcio": ("fetch", "--links", "links.jsonl"),
        "zstandard": ("links", "--posts", "RS_1.zst"),
        "idna": ("links", "--posts", "posts.jsonl"),
    }
    result = in_process("corpus", *steps[package], "--out", "out", cwd=home)
    assert result.code == 1
    assert result.error.endswith("-m pip install 'glassformer[corpus]'.")
    assert not (home / "out").exists()
