"""The commands and code of the README and of the pages on jobs run as written, only with fewer
steps."""

import re
import shlex
import socket
import sys
from pathlib import Path

import pytest
from documented_files import taken, write_files

from glassformer.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
JOBS = ("README.md", "docs/tour.md")
QUICK = ["--set", "training.max_steps=2", "--set", "training.per_device_train_batch_size=2"]


def commands(page: str) -> list[list[str]]:
    """Every line that begins with `$ glassformer` in a console block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [
        shlex.split(line, comments=True)[2:]
        for line in joined.splitlines()
        if line.startswith("$ glassformer")
    ]


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    quick = QUICK if arguments[0] in ("train", "finetune") else []
    if arguments[0] == "explore":
        quick = ["--port", "0"]
        end_at_once(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["glassformer", *arguments, *quick])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code in (0, None), arguments


def end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server end when it is ready."""
    import uvicorn

    startup = uvicorn.Server.startup

    async def ends(self: uvicorn.Server, sockets: list[socket.socket] | None = None) -> None:
        await startup(self, sockets)
        self.should_exit = True

    monkeypatch.setattr(uvicorn.Server, "startup", ends)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the README speaks of."""
    write_files(tmp_path)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.timeout(900)  # some fifty commands, one after the other
@pytest.mark.parametrize("page", JOBS)
def test_every_command_of_a_page_runs(
    page: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commands(page)
    for arguments in commands(page):
        if arguments[:2] != ["course", "check"]:  # tests/course does that
            run(arguments, monkeypatch)


PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_every_command_of_a_page_is_one_that_the_program_takes(page: str) -> None:
    for words in commands(page):
        taken(words)


def test_the_snippet_of_the_readme_runs(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(commands("README.md")[0], monkeypatch)
    (snippet,) = re.findall(r"```python\n(.*?)```", README, re.S)
    capsys.readouterr()
    exec(compile(snippet, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_readme_opens_with_the_two_commands() -> None:
    first_block = re.search(r"```\n(.*?)```", README, re.S)
    assert first_block is not None
    assert [line.split("#")[0].strip() for line in first_block[1].splitlines()] == [
        "make demo",
        "make test",
    ]


def test_every_file_that_the_docs_link_to_exists() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
