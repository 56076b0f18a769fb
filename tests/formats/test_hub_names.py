"""Models by their name on the hub: pinned to a commit, downloaded once, then used without a
network. A server on this machine speaks as much of the hub's protocol as a download needs."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from published import publish

import glassformer
from glassformer.errors import GlassformerError
from glassformer.formats import hub

OLD, NEW = "a" * 40, "b" * 40
NAME = "somebody/gpt2-small"


class Hub(ThreadingHTTPServer):
    """Folders by their commit; `main` is the newest."""

    daemon_threads = True

    def __init__(self, commits: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.commits = commits
        self.asked: list[str] = []


class Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET(is_head=True)

    def do_GET(self, is_head: bool = False) -> None:
        path = urlsplit(self.path).path
        self.server.asked.append(path)
        commits = self.server.commits
        match path.strip("/").split("/"):
            case ["api", "models", _, _, "revision", revision] if self._commit(revision):
                commit = self._commit(revision)
                values = {"id": NAME, "sha": commit, "siblings": self._names(commits[commit])}
                self._send(json.dumps(values).encode(), is_head)
            case ["api", "models", _, _, "tree", commit, *_] if commit in commits:
                self._send(json.dumps(self._tree(commits[commit])).encode(), is_head)
            case [_, _, "resolve", commit, *rest] if (
                file := commits.get(commit, Path()) / "/".join(rest)
            ).is_file():
                self._send(file.read_bytes(), is_head, commit)
            case _:
                self.send_response(404)
                self.send_header("X-Error-Code", "RevisionNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()

    def _commit(self, revision: str) -> str:
        newest = [*self.server.commits][-1]
        return newest if revision == "main" else revision if revision in self.server.commits else ""

    def _names(self, folder: Path) -> list[dict[str, str]]:
        return [{"rfilename": each["path"]} for each in self._tree(folder)]

    def _tree(self, folder: Path) -> list[dict[str, Any]]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return [
            {
                "type": "file",
                "path": str(path.relative_to(folder)),
                "size": path.stat().st_size,
                "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
            }
            for path in files
        ]

    def _send(self, content: bytes, is_head: bool, commit: str = "") -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        if commit:
            self.send_header("X-Repo-Commit", commit)
            self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    def log_message(self, *each: Any) -> None:
        pass


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two releases of a model, the second with other weights."""
    folder = tmp_path_factory.mktemp("commits")
    publish("gpt2", folder / OLD)
    publish("gpt2-untied", folder / NEW)
    for commit in (OLD, NEW):
        (folder / commit / "pytorch_model.bin").write_bytes(b"a pickle")
        (folder / commit / "onnx").mkdir()
        (folder / commit / "onnx/config.json").write_text("{}")
    return {commit: folder / commit for commit in (OLD, NEW)}


@pytest.fixture
def served(commits: dict[str, Path]) -> Iterator[Hub]:
    server = Hub(commits)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


PROGRAM = """
import json, sys
from glassformer.cli.main import main
codes = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["glassformer", *words]
    try:
        main()
        codes.append(0)
    except SystemExit as ended:
        codes.append(ended.code or 0)
print(codes, file=sys.stderr)
"""


def run(folder: Path, *commands: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Commands in a process of their own, since huggingface_hub reads its settings only once. The
    last line of stderr has their exit codes."""
    removed = ("HF_HUB_OFFLINE", "HF_ENDPOINT", "HF_TOKEN", "HF_HUB_CACHE")
    kept = {key: value for key, value in os.environ.items() if key not in removed}
    settings = {"HF_HOME": str(folder / "home"), "HF_HUB_DISABLE_XET": "1", "no_proxy": "*"}
    root = str(Path(glassformer.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=kept | {"PYTHONPATH": root} | settings | environment,
        timeout=240,
    )


def test_a_name_is_downloaded_recorded_with_its_commit_and_then_used_offline(
    tmp_path: Path, served: Hub
) -> None:
    done = run(
        tmp_path,
        ["import", f"{NAME}@{OLD}", "--out", "old", "--json"],
        ["export", NAME, "--format", "safetensors", "--json"],  # what main is
        ["generate", f"{NAME}@v9", "w1"],
        HF_ENDPOINT=f"http://127.0.0.1:{served.server_port}",
    )
    assert done.stderr.splitlines()[-1] == "[0, 0, 1]", done.stderr
    assert f'error: {NAME} has no revision "v9" on the hub.' in done.stderr
    imported, exported = map(json.loads, done.stdout.splitlines())
    assert imported["source"] == f"{NAME}@{OLD}"
    assert f"`{NAME}@{OLD}`" in (tmp_path / "old/README.md").read_text()
    assert exported["folder"] == "exports/gpt2-small-safetensors"
    assert f"`{NAME}@{NEW}`" in (tmp_path / exported["folder"] / "README.md").read_text()
    assert not [path for path in served.asked if path.endswith((".bin", "onnx/config.json"))]

    question = ["w1 w2", "--max-new-tokens", "3", "--temperature", "0"]
    offline = run(
        tmp_path,
        ["generate", f"{NAME}@{OLD}", *question],
        ["generate", "old", *question],
        HF_HUB_OFFLINE="1",
    )
    assert offline.stderr.splitlines()[-1] == "[0, 0]", offline.stderr
    by_name, from_folder = offline.stdout.splitlines()
    assert by_name == from_folder


# --- a cache as huggingface_hub lays it out ---


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the model in an offline cache."""
    from huggingface_hub import constants

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache/models--somebody--gpt2-small"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(OLD)
    publish("gpt2", folder / "snapshots" / OLD)
    return folder


def refused(source: str) -> str:
    with pytest.raises(GlassformerError) as caught:
        glassformer.load(source)
    return str(caught.value)


def test_offline_a_name_is_pinned_to_what_is_in_the_cache(cache: Path) -> None:
    assert hub.pinned(NAME) == hub.pinned(f"{NAME}@{OLD}") == f"{NAME}@{OLD}"
    assert hub.pinned("runs/gpt") == "runs/gpt"


def test_another_commit_than_the_cached_one_is_an_error_that_names_both(cache: Path) -> None:
    said = refused(f"{NAME}@{NEW}")
    assert f"has {NAME} only at {OLD}" in said
    assert f"hf download {NAME} --revision {NEW}" in said


def test_an_incomplete_cache_says_which_file_is_missing(cache: Path) -> None:
    weights = cache / "snapshots" / OLD / "model.safetensors"
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    weights.rename(weights.with_name("model-00002-of-00002.safetensors"))
    (weights.parent / "model.safetensors.index.json").write_text(json.dumps(index))
    said = refused(NAME)
    assert "model-00001-of-00002.safetensors is missing in the hub's cache" in said
    assert f"hf download {NAME}" in said


def test_a_release_with_pickle_alone_is_refused_with_the_reason(cache: Path) -> None:
    (cache / "snapshots" / OLD / "model.safetensors").unlink()
    assert "only as a pickle (pytorch_model.bin), which can run any code" in refused(NAME)


def test_a_repository_without_a_config_suggests_its_gguf_files(cache: Path) -> None:
    (cache / "snapshots" / OLD / "config.json").unlink()
    assert f"hf download {NAME} FILE.gguf" in refused(NAME)


def test_a_fine_tuned_run_records_the_commit_it_began_with(cache: Path, tmp_path: Path) -> None:
    rows = "".join(
        "text,label\n" if n == 0 else f"w{n} w{n % 7},{'ab'[n % 2]}\n" for n in range(60)
    )
    (tmp_path / "data.csv").write_text(rows)
    run = glassformer.finetune(
        NAME, task="classify", data=tmp_path / "data.csv", out=tmp_path / "run", max_steps=2
    )
    recipe = yaml.safe_load((tmp_path / "run/recipe.yaml").read_text())
    assert recipe["finetune"]["model"] == f"{NAME}@{OLD}"
    assert f"| fine-tuned from | {NAME}@{OLD} |" in (tmp_path / "run/README.md").read_text()
    assert run is not None
