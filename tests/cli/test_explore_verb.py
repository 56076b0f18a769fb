"""`glassformer explore`: a line when it is ready, one sentence when it cannot be, a clean end."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest


@contextmanager
def exploring(*words: object, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, and its address."""
    command = [sys.executable, "-m", "glassformer", "explore", *map(str, words), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=cwd, encoding="utf-8", **pipes)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("exploring at http://127.0.0.1:"), process.communicate()
        assert line.endswith(" (press Ctrl-C to stop)\n")
        yield process, line.split()[2]
    finally:
        process.kill()
        process.communicate()


def story(address: str, **question: Any) -> dict[str, Any]:
    request = Request(
        f"{address}/api/story", json.dumps(question).encode(), {"content-type": "application/json"}
    )
    with urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_the_live_story_has_the_numbers_of_inspect_and_ends_with_ctrl_c(
    run: Any, in_process: Any, tmp_path: Path
) -> None:
    text = "the quick brown fox"
    plain = in_process("inspect", run.folder, text, "--json", cwd=tmp_path)
    expected = json.loads(plain.out)
    with exploring(run.folder, cwd=tmp_path) as (process, address):
        found = story(address, model="gpt-notes", text=text)
        assert found["streams"][-1]["tokens"] == expected["tokens"]
        for ours, theirs in zip(found["predictions"], expected["predictions"], strict=True):
            best, known = ours["options"][0], theirs["options"][0]
            assert best["token"] == known["token"]
            assert best["probability"] == pytest.approx(known["probability"], rel=1e-4)
        with urlopen(address, timeout=60) as page:
            html = page.read().decode()
        first = json.loads(html.split('id="data">')[1].split("</script>")[0])["server"]["text"]
        assert first.split()[0] in run.notes.read_text()  # a text of its own data
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "stopped.\n")


def test_sigterm_ends_it_too(run: Any, tmp_path: Path) -> None:
    with exploring(run.folder, cwd=tmp_path) as (process, _):
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, "stopped.\n")


def test_a_port_in_use_is_named_with_another_one(glassformer: Any, run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = glassformer("explore", run.folder, "--port", port)
    assert (result.code, result.out) == (1, "")
    assert result.error.startswith(
        f"port {port} on 127.0.0.1 is in use. Stop the program that uses it, or choose another "
        "one, such as --port "
    )
    offered = int(result.error.rstrip(".").split()[-1])
    with socket.create_server(("127.0.0.1", offered)):
        pass


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_what_is_no_port_is_refused(glassformer: Any, run: Any, port: str) -> None:
    result = glassformer("explore", run.folder, "--port", port)
    assert (result.code, result.out) == (2, "")
    assert "--port" in result.error


def test_a_folder_without_a_model_is_refused(glassformer: Any, run: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = glassformer("explore", run.folder, "empty", "--port", 0)
    assert (result.code, result.out) == (1, "")
    assert result.error == "empty does not contain a model: there is no config.json in it."
    assert glassformer("explore", "nowhere", "--port", 0).error.startswith(
        "nowhere does not exist."
    )
    assert glassformer("explore").code == 2


def test_a_model_without_a_story_is_refused(
    glassformer: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.predict.language import LanguagePredictor

    monkeypatch.setattr(LanguagePredictor, "views", {})
    result = glassformer("explore", run.folder, "--port", 0)
    assert (result.code, result.error) == (
        1,
        f"{run.folder} cannot be explored: it has no story.",
    )


def test_without_fastapi_the_command_to_install_it_is_shown(
    glassformer: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = glassformer("explore", run.folder)
    assert (result.code, result.out) == (1, "")
    assert "pip install 'glassformer[serve]'" in result.error


def test_models_of_the_same_name_are_told_apart(run: Any, tmp_path: Path) -> None:
    from glassformer.server.explored_models import load_models

    other = tmp_path / "gpt-notes"
    other.symlink_to(run.folder)  # the same model
    copy = tmp_path / "copy" / "gpt-notes"
    copy.mkdir(parents=True)
    for file in run.folder.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    names = [each.name for each in load_models([run.folder, other, copy])]
    assert names == [str(other), str(copy)]
