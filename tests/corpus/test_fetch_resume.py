"""A fetch that ends at any moment, and continues: no page twice, no damaged file."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_web import SmallWeb, outcomes, page, stored

from glassformer.corpus import page_store
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import locked

URLS = [f"http://{host}.org/{n}" for n in range(12) for host in "abcd"]
# The command line, as if all host names led to the server of this test.
PROGRAM = """
import sys
from glassformer.corpus import http
port, folder = int(sys.argv[1]), sys.argv[2]
class Here(http.Network):
    def endpoints(self, host, port_, timeout):
        return [("127.0.0.1", port)]
http.Network = Here
from glassformer.cli.main import main
sys.argv = ["glassformer", "corpus", "fetch", "--links", f"{folder}/links.jsonl", "--out",
            f"{folder}/pages", "--delay", "0", "--contact", "me", "--json"]
main()
"""


@pytest.fixture
def web() -> Iterator[SmallWeb]:
    found = SmallWeb()
    for url in URLS:
        found.pages[url.removeprefix("http://")] = page(f"<p>{url}</p>" * 20)
    yield found
    found.close()


def started(web: SmallWeb, folder: Path) -> subprocess.Popen[str]:
    (folder / "links.jsonl").write_text("".join(json.dumps({"url": url}) + "\n" for url in URLS))
    command = [sys.executable, "-c", PROGRAM, str(web.address[1]), str(folder)]
    return subprocess.Popen(command, stdout=-1, stderr=-1, text=True)


def slowed(web: SmallWeb, seconds: float) -> None:
    """Let each page wait a little, so that there is time to end the process."""
    for url, answer in list(web.pages.items()):
        web.pages[url] = Late(answer, seconds)


class Late:
    def __init__(self, answer: bytes, seconds: float) -> None:
        self.answer, self.seconds = answer, seconds

    def __iter__(self) -> Iterator[bytes]:
        time.sleep(self.seconds)
        yield self.answer


def check_complete(pages: Path) -> None:
    assert outcomes(pages) == dict.fromkeys(URLS, "fetched")
    assert stored(pages) == {url: f"<p>{url}</p>".encode() * 20 for url in URLS}
    assert not list(pages.glob(".*"))


def test_a_killed_fetch_continues_where_it_was(web: SmallWeb, tmp_path: Path) -> None:
    slowed(web, 0.04)
    draw = random.Random(0)
    for _ in range(4):
        process = started(web, tmp_path)
        before = len(web.urls())
        while len(web.urls()) < before + 4 and process.poll() is None:
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.05))
        process.kill()
        process.communicate()
    last = started(web, tmp_path)
    out, err = last.communicate()
    assert last.returncode == 0, err
    assert json.loads(out)["fetched"] == len(URLS)
    assert "continuing: " in err
    check_complete(tmp_path / "pages")
    # Only what was on its way when the process was killed is asked for again.
    assert len(web.urls()) - len(URLS) <= 4 * 4


def test_ctrl_c_leaves_complete_files_and_exits_with_130(web: SmallWeb, tmp_path: Path) -> None:
    slowed(web, 0.1)
    process = started(web, tmp_path)
    while len(web.urls()) < 6:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "stopped. Run the same command again to continue."
    pages = tmp_path / "pages"
    assert 0 < len(stored(pages)) < len(URLS)
    assert list(stored(pages)) == list(outcomes(pages))
    assert not list(pages.glob(".*"))
    last = started(web, tmp_path)
    last.communicate()
    check_complete(pages)


def test_every_cut_of_the_files_is_mended(web: SmallWeb, tmp_path: Path) -> None:
    """As after a power failure, when either file may lack its end."""
    urls = URLS[:4]
    web.fetch(tmp_path, *urls)
    pages, whole = tmp_path / "pages", tmp_path / "whole"
    (pages / "pages-00000.warc.gz").rename(pages / ".pages-00000.warc.gz.partial")
    shutil.copytree(pages, whole)
    partial, lines = ".pages-00000.warc.gz.partial", "outcomes.jsonl"
    sizes = {name: (whole / name).stat().st_size for name in (partial, lines)}
    cuts = [(partial, cut) for cut in range(0, sizes[partial], 211)]
    cuts += [(lines, cut) for cut in range(0, sizes[lines], 97)]
    for name, cut in cuts:
        shutil.rmtree(pages)
        shutil.copytree(whole, pages)
        with (pages / name).open("r+b") as stream:
            stream.truncate(cut)
        found = web.fetch(tmp_path, *urls)
        assert found.outcomes == {"fetched": 4}
        assert list(outcomes(pages).values()) == ["fetched"] * 4
        assert set(stored(pages)) == set(urls)


def test_a_finished_fetch_asks_for_nothing(web: SmallWeb, tmp_path: Path) -> None:
    first = web.fetch(tmp_path, *URLS)
    asked = len(web.asked)
    again = web.fetch(tmp_path, *URLS)
    assert (again, len(web.asked)) == (first, asked)
    manifest = json.loads((tmp_path / "pages" / "manifest.json").read_text())
    assert manifest["outcomes"] == {"fetched": len(URLS)}
    assert set(manifest["files"]) == {"pages-00000.warc.gz", "outcomes.jsonl"}


def test_a_limit_can_be_raised_later(web: SmallWeb, tmp_path: Path) -> None:
    assert web.fetch(tmp_path, *URLS, limit=5).links == 5
    assert web.fetch(tmp_path, *URLS).links == len(URLS)
    check_complete(tmp_path / "pages")


def test_files_rotate_by_size(web: SmallWeb, tmp_path: Path) -> None:
    web.fetch(tmp_path, *URLS, warc_size=2_000)
    assert len(list((tmp_path / "pages").glob("pages-*.warc.gz"))) > 5
    check_complete(tmp_path / "pages")


def test_failures_that_may_pass_are_tried_again_on_request(web: SmallWeb, tmp_path: Path) -> None:
    good = web.pages.pop("a.org/0")
    web.pages["a.org/1"] = page("", "503 Busy")
    urls = [url for url in URLS if url.startswith("http://a")]
    assert web.fetch(tmp_path, *urls).outcomes == {"http_404": 1, "http_503": 1, "fetched": 10}
    web.pages |= {"a.org/0": good, "a.org/1": good}
    assert web.fetch(tmp_path, *urls).outcomes["http_503"] == 1
    assert web.fetch(tmp_path, *urls, retry=True).outcomes == {"http_404": 1, "fetched": 11}
    assert len(stored(tmp_path / "pages")) == 11


def test_a_machine_that_is_offline_stops_early(tmp_path: Path) -> None:
    web = SmallWeb()
    web.close()  # connections are refused
    urls = [f"http://host{n}.org/" for n in range(3_000)]
    with pytest.raises(GlassformerError, match=r"links can be reached.*--retry"):
        web.fetch(tmp_path, *urls, timeout=0.5, workers=2)


def test_a_bad_url_among_the_links_has_an_outcome(web: SmallWeb, tmp_path: Path) -> None:
    web.fetch(tmp_path, "http://localhost/", URLS[0], "ftp://a.org/x")
    assert sorted(outcomes(tmp_path / "pages").values()) == ["bad_url", "bad_url", "fetched"]


# --- what is refused ---


def test_a_line_that_is_no_link_is_an_error_that_names_it(web: SmallWeb, tmp_path: Path) -> None:
    from glassformer.corpus.fetch import FetchSettings, fetch_pages

    (tmp_path / "links.jsonl").write_text('{"url": "http://a.org/0"}\n{"link": 3}\n')
    with pytest.raises(GlassformerError, match=r"links.jsonl:2: not a link"):
        fetch_pages(tmp_path, tmp_path / "pages", FetchSettings(delay=0), network=web)


def test_a_folder_with_something_else_is_left_alone(web: SmallWeb, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="contains something else"):
        web.fetch(tmp_path, *URLS)
    assert [each.name for each in (tmp_path / "pages").iterdir()] == ["thesis.txt"]


def test_pages_of_other_links_are_left_alone(web: SmallWeb, tmp_path: Path) -> None:
    web.fetch(tmp_path, *URLS[:2])
    with pytest.raises(UsageError, match="pages of other links"):
        web.fetch(tmp_path, *URLS[:3])


def test_two_processes_do_not_share_a_folder(web: SmallWeb, tmp_path: Path) -> None:
    with (
        locked(tmp_path / "pages", "fetched"),
        pytest.raises(GlassformerError, match=rf"is being fetched by process {os.getpid()}"),
    ):
        web.fetch(tmp_path, *URLS[:2])


def test_a_lost_file_is_an_error(web: SmallWeb, tmp_path: Path) -> None:
    web.fetch(tmp_path, *URLS[:2])
    (tmp_path / "pages" / "pages-00000.warc.gz").unlink()
    with pytest.raises(GlassformerError, match=r"pages-00000.warc.gz is missing"):
        web.fetch(tmp_path, *URLS[:2])


def test_links_that_changed_are_noticed(web: SmallWeb, tmp_path: Path) -> None:
    about = {"files": {"links.jsonl": {"bytes": 1, "sha256": "0" * 64}}}
    (tmp_path / "manifest.json").write_text(json.dumps(about))
    with pytest.raises(GlassformerError, match=r"links.jsonl is damaged"):
        web.fetch(tmp_path, *URLS[:2])


@pytest.mark.parametrize("k", range(12))
def test_a_disk_that_fails_at_any_write_leaves_whole_files(
    k: int, web: SmallWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the k-th write succeeds, as when a disk is full."""
    urls, count = URLS[:5], iter(range(99))
    whole = page_store.write_all

    def failing(file: Any, content: bytes) -> None:
        if next(count) < k:
            whole(file, content)
            return
        whole(file, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    pages = tmp_path / "pages"
    with monkeypatch.context() as patch:
        patch.setattr(page_store, "write_all", failing)
        if k < 11:  # a warcinfo, five pages and five outcomes
            with pytest.raises(GlassformerError, match="No space left"):
                web.fetch(tmp_path, *urls, workers=1)
        else:
            web.fetch(tmp_path, *urls, workers=1)
    assert len(stored(pages)) == max(0, k - 1) // 2
    assert web.fetch(tmp_path, *urls).outcomes == {"fetched": 5}
    assert set(stored(pages)) == set(urls)
