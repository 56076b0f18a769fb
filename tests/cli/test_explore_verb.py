"""`glassformer explore`: a line when it is ready, one sentence when it cannot be, a clean end."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from chromium_pipe import CHROMIUM, Browser


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


def story(address: str, part: str = "", **question: Any) -> dict[str, Any]:
    headers = {"content-type": "application/json"}
    request = Request(f"{address}/api/story{part}", json.dumps(question).encode(), headers)
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
    from glassformer.tasks.language.predictor import LanguagePredictor

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
    from glassformer.serve.explore import distinct, load_models

    other = tmp_path / "gpt-notes"
    other.symlink_to(run.folder)  # the same model
    copy = tmp_path / "copy" / "gpt-notes"
    copy.mkdir(parents=True)
    for file in run.folder.iterdir():
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    folders, notes = distinct([run.folder, other, copy, copy])
    assert [each.name for each in load_models(folders)] == [str(run.folder), str(copy)]
    assert notes == [
        f"{other} is the same model as {run.folder}: it is shown once",
        f"{copy} is given twice: it is shown once",
    ]


def test_a_model_that_is_given_twice_is_noted(run: Any, tmp_path: Path) -> None:
    with exploring(run.folder, run.folder, cwd=tmp_path) as (process, address):
        with urlopen(f"{address}/api/models", timeout=60) as answer:
            assert [each["name"] for each in json.load(answer)["models"]] == ["gpt-notes"]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    note = f"note: {run.folder} is given twice: it is shown once\n"
    assert (process.returncode, err) == (130, f"{note}stopped.\n")


@pytest.mark.parametrize("moments", [range(2)])
def test_ctrl_c_while_models_compute_ends_it(run: Any, tmp_path: Path, moments: range) -> None:
    """At several moments of a request: a lock that a signal handler waits for would be met sooner
    or later."""
    (tmp_path / "again").mkdir()
    for file in run.folder.iterdir():
        if file.is_file():
            (tmp_path / "again" / file.name).write_bytes(file.read_bytes())
    ends = []
    for moment in moments:
        with exploring(run.folder, "again", cwd=tmp_path) as (process, address):
            threads = [
                threading.Thread(target=keep_asking, args=(address, name, process))
                for name in ("gpt-notes", "again") * 2
            ]
            for each in threads:
                each.start()
            time.sleep(0.05 + 0.013 * moment)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
            for each in threads:
                each.join(timeout=30)
            ends.append((process.returncode, err))
    assert ends == [(130, "stopped.\n")] * len(moments)


def keep_asking(address: str, model: str, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        with suppress(OSError, HTTPException):
            story(address, model=model, text="the quick brown fox")
        time.sleep(0.002)


def test_two_servers_at_once_do_not_meet(run: Any, tmp_path: Path, glassformer: Any) -> None:
    with (
        exploring(run.folder, cwd=tmp_path) as (_, one),
        exploring(run.folder, cwd=tmp_path) as (_, other),
    ):
        assert one != other
        text = "a lazy dog"
        first, second = (story(each, model="gpt-notes", text=text) for each in (one, other))
        assert first == second
        taken = glassformer("explore", run.folder, "--port", one.rsplit(":", 1)[1])
        assert taken.code == 1
        assert "is in use" in taken.error


def test_the_snapshots_of_a_run_can_be_asked_for(run: Any, in_process: Any, tmp_path: Path) -> None:
    text = "the quick brown fox"
    words = ("inspect", run.folder, text, "--over-time", "--json")
    expected = json.loads(in_process(*words, cwd=tmp_path).out)
    with exploring(run.folder, cwd=tmp_path) as (_, address):
        asked = {"model": "gpt-notes", "text": text}
        whole = story(address, **asked)
        assert "history" in whole["later"]
        assert whole["history"] is None
        found = story(address, "/history", **asked)["history"]
        without = story(address, "/history", **asked, off=[[0, 1]])["history"]
    assert found["steps"] == expected["steps"]
    assert len(found["steps"]) > 2
    assert found["metrics"].keys() == expected["metrics"].keys()
    last = expected["moments"][-1]["predictions"][-1]["options"][0]
    token, probability = found["options"][-1][-1][0]
    assert token == last["token"]
    assert probability == pytest.approx(last["probability"], rel=1e-4)
    assert without == found  # snapshots have all of their heads


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_the_page_looks_back_when_the_reader_comes_to_it(run: Any, tmp_path: Path) -> None:
    with (
        exploring(run.folder, cwd=tmp_path) as (_, address),
        Browser(tmp_path / "profile") as browser,
    ):
        browser.open(f"{address}/#text=the+quick")
        browser.wait("document.getElementById('prediction') !== null")
        assert browser.value("document.getElementById('history') === null")
        browser.value("document.getElementById('prediction').scrollIntoView()")
        browser.wait("document.getElementById('history') !== null")
        browser.wait("document.querySelector('#history .timeline') !== null")
        assert browser.problems == []
