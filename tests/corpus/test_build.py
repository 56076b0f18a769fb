"""Building a corpus: every page is kept or counted, and the bytes depend on the input only."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_warcs import html, prose, record, response, write_warc

from glassformer.corpus.build import build
from glassformer.corpus.executors import Executor
from glassformer.corpus.pages import listed
from glassformer.corpus.quality import BuildSettings
from glassformer.data.documents import read_documents
from glassformer.errors import GlassformerError

SITE = "http://www.site.org"
ALMOST = prose(1, 40).replace("river", "lake", 1)
RECORDS = [
    record("warcinfo", b"software: test"),
    response(f"{SITE}/first", html(prose(1, 40), "First")),
    response(f"{SITE}/same", html(prose(1, 40), "First")),
    response(f"{SITE}/almost", html(ALMOST, "First")),
    response(f"{SITE}/second?utm_source=x", html(prose(2), "Second")),
    response(f"{SITE}/old", "", status="301 Moved", headers="Location: /third\r\n"),
    response(f"{SITE}/third", html(prose(3) + " Mail me@work.org.", "Third")),
    response(f"{SITE}/german", html("Das ist ein Satz, und noch ein Satz auf Deutsch. " * 9)),
    response(
        f"{SITE}/short", html("Ask me@work.org: this page in English has only a few words in it.")
    ),
    response(f"{SITE}/empty", "<html><body></body></html>"),
    response(f"{SITE}/missing", html(prose(4)), status="404 Not Found"),
    response(f"{SITE}/robots.txt", "User-agent: *\nDisallow:\n", "text/plain"),
    response(f"{SITE}/picture", b"\x89PNG", "image/png"),
    response(f"{SITE}/large", html(prose(5)) + " " * 200_000),
    response(f"{SITE}/bomb", gzip.compress(b"a" * 10**7), headers="Content-Encoding: gzip\r\n"),
    record("response", b"1.2.3.4", "dns:site.org", "text/dns"),
    record("conversion", prose(6).encode(), f"{SITE}/converted", "text/plain"),
    record("revisit", b"", f"{SITE}/first"),
]
SMALL_PAGES = BuildSettings(max_page_bytes=100_000)
DROPPED = {
    "page/not_http": 1,
    "page/robots_txt": 1,
    "page/status": 2,
    "page/too_large": 2,
    "page/type": 1,
    "extraction/no_text": 1,
    "language/other": 1,
    "quality/too_few_words": 1,
    "duplicates/exact": 1,
    "duplicates/near": 1,
}


def rows(corpus: Path) -> list[dict[str, Any]]:
    shards = sorted(corpus.glob("*.jsonl.gz"))
    return [json.loads(line) for shard in shards for line in gzip.open(shard, "rt")]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    write_warc(folder / "pages/a.warc.gz", *RECORDS)
    found = build([str(folder / "pages")], folder / "corpus", SMALL_PAGES)
    assert found.notes == ()
    return folder / "corpus"


def test_every_page_is_kept_or_counted_under_one_rule(built: Path) -> None:
    manifest = json.loads((built / "manifest.json").read_text())
    assert list(manifest["dropped"].items()) == list(DROPPED.items())  # in the order of the steps
    assert manifest["read"] == 16
    assert manifest["kept"] == manifest["num_documents"] == 4
    assert manifest["read"] == manifest["kept"] + sum(manifest["dropped"].values())


def test_documents_carry_what_is_known_of_their_page(built: Path) -> None:
    found = {Path(row["metadata"]["url"]).name: row for row in rows(built)}
    assert list(found) == ["first", "second?utm_source=x", "third", "converted"]
    first = found["first"]
    assert prose(1, 40) in first["text"]
    assert first["metadata"] == {
        "url": f"{SITE}/first",
        "title": "First",
        "domain": "site.org",
        "date": "2024-05-01T10:00:00Z",
        "language": "en",
        "language_probability": 1.0,
    }


def test_training_reads_exactly_the_documents_that_were_kept(built: Path) -> None:
    texts = [document.text for document in read_documents([str(built)])]
    assert texts == [row["text"] for row in rows(built)]


def test_a_corpus_without_one_of_its_shards_is_not_read(built: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(built, tmp_path / "copy")
    (copy / "corpus-00000.jsonl.gz").unlink()
    with pytest.raises(GlassformerError, match=r"corpus-00000\.jsonl\.gz is missing"):
        list(read_documents([str(copy)]))


def test_the_manifest_has_the_hashes_and_all_settings(built: Path) -> None:
    from glassformer.files import file_digest

    manifest = json.loads((built / "manifest.json").read_text())
    shard = manifest["shards"]["corpus-00000.jsonl.gz"]
    assert shard["sha256"] == file_digest(built / "corpus-00000.jsonl.gz")
    assert shard["num_documents"] == 4
    assert manifest["inputs"][0]["sha256"] == file_digest(built.parent / "pages/a.warc.gz")
    assert manifest["recipe"]["max_page_bytes"] == 100_000
    assert set(BuildSettings.model_fields) < set(manifest["recipe"])


def test_only_linked_pages_are_kept_also_behind_a_redirect(built: Path, tmp_path: Path) -> None:
    links = [
        {"url": "https://site.org/second", "score": 7, "title": "Posted title"},
        {"url": f"{SITE}/old", "score": 12, "title": "Moved"},
    ]
    (tmp_path / "links").mkdir()
    (tmp_path / "links/links.jsonl").write_text("\n".join(map(json.dumps, links)))
    out = tmp_path / "corpus"
    found = build([str(built.parent / "pages")], out, SMALL_PAGES, tmp_path / "links")
    about = [row["metadata"] for row in rows(out)]
    assert [(Path(each["url"]).name, each["score"]) for each in about] == [
        ("second?utm_source=x", 7),
        ("third", 12),
    ]
    assert [each["title"] for each in about] == ["Second", "Third"]
    assert found.manifest["dropped"]["page/not_linked"] == 9


def test_a_page_belongs_to_the_link_that_the_crawler_names(tmp_path: Path) -> None:
    moved = response(f"{SITE}/elsewhere", html(prose(1)), link="http://short.org/x")
    write_warc(tmp_path / "a.warc.gz", moved, response(f"{SITE}/other", html(prose(2))))
    (tmp_path / "links.jsonl").write_text('{"url": "http://short.org/x", "score": 5}\n')
    build([str(tmp_path / "a.warc.gz")], tmp_path / "corpus", links=tmp_path)
    found = [row["metadata"] for row in rows(tmp_path / "corpus")]
    assert [(each["url"], each["score"]) for each in found] == [(f"{SITE}/elsewhere", 5)]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
@pytest.mark.parametrize("size", [100, 60_000])
def test_wherever_a_file_ends_each_record_is_counted_once(
    name: str, size: int, tmp_path: Path
) -> None:
    last = response(f"{SITE}/last", html(prose(9), "Last") + f"<!-- {'x ' * size} -->")
    whole = write_warc(tmp_path / name, RECORDS[1], last).read_bytes()
    begin = len(write_warc(tmp_path / name, RECORDS[1]).read_bytes())
    cuts = [begin, begin + 5, begin + 200, (begin + len(whole)) // 2, len(whole) - 40]
    for cut in (*cuts, *range(len(whole) - 9, len(whole) + 1)):
        (tmp_path / name).write_bytes(whole[:cut])
        listing = listed(tmp_path / name)
        hidden = sum(listing["hidden"].values())
        assert listing["num_pages"] + hidden == (1 if cut == begin else 2), cut


def test_pages_of_brotli_are_read_or_counted_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = response(f"{SITE}/br", b"\x8b\x0f\x80abc\x03", headers="Content-Encoding: br\r\n")
    path = write_warc(tmp_path / "a.warc.gz", RECORDS[1], packed)
    monkeypatch.setattr("glassformer.corpus.http.has_brotli", lambda: False)
    found = build([str(path)], tmp_path / "corpus", executor=Executor(workers=1))
    assert found.manifest["dropped"]["page/brotli"] == 1
    assert "1 page could not be decompressed" in found.notes[0]


def test_a_large_page_that_was_cut_off_is_counted_once(tmp_path: Path) -> None:
    large = response(f"{SITE}/large", html(prose(9), "Last") + "x" * 50_000)
    path = write_warc(tmp_path / "a.warc", RECORDS[1], large)
    path.write_bytes(path.read_bytes()[:-10_000])
    found = build([str(path)], tmp_path / "corpus", executor=Executor(workers=1))
    assert (found.manifest["read"], found.manifest["dropped"]) == (2, {"record/truncated": 1})


def test_a_truncated_file_gives_what_is_whole_and_a_note(tmp_path: Path) -> None:
    path = write_warc(tmp_path / "a.warc.gz", *RECORDS[1:6], RECORDS[6])
    path.write_bytes(path.read_bytes()[:-100])
    found = build([str(path)], tmp_path / "corpus")
    assert found.manifest["dropped"]["record/truncated"] == 1
    assert (found.manifest["read"], found.manifest["kept"]) == (6, 2)
    assert found.notes == (
        f"{path}, byte {path.stat().st_size:,}: the file ends in the middle of a record. What "
        "comes before it was read.",
    )


def test_the_same_bytes_whatever_the_number_of_workers(tmp_path: Path) -> None:
    pages = [response(f"{SITE}/{each}", html(prose(each % 180))) for each in range(200)]
    write_warc(tmp_path / "p/a.warc.gz", *pages[:150])
    write_warc(tmp_path / "p/b.warc", *pages[150:])
    settings = BuildSettings(shard_bytes=40_000)
    for workers in (1, 3):
        out, executor = tmp_path / str(workers), Executor(workers=workers)
        found = build([str(tmp_path / "p")], out, settings, executor=executor)
    assert found.manifest["kept"] == 180
    assert len(found.manifest["shards"]) > 1
    assert content(tmp_path / "1") == content(tmp_path / "3")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_build_that_failed_continues_with_the_tasks_that_are_missing(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassformer.corpus import build as shards

    pages, out = str(built.parent / "pages"), tmp_path / "corpus"
    with monkeypatch.context() as patch:
        patch.setattr(shards.WriteShards, "__call__", _fails)
        with pytest.raises(GlassformerError, match="No space left on device"):
            build([pages], out, SMALL_PAGES)
    assert not out.exists()
    done = tmp_path / ".corpus.partial/logs/pages/completions"
    before = {path.name: path.stat().st_mtime_ns for path in done.iterdir()}
    assert before
    with monkeypatch.context() as patch:
        patch.setattr("glassformer.corpus.pages.page_of", _fails)  # must not be needed again
        build([pages], out, SMALL_PAGES)
    assert content(out) == content(built)


def _fails(*given: Any) -> None:
    raise OSError(28, "No space left on device")


def test_other_settings_start_over(built: Path, tmp_path: Path) -> None:
    from glassformer.corpus.build import Workspace

    work = Workspace(tmp_path / "corpus")
    assert not work.begin({"a": 1})
    (work.part("pages") / "x").touch()
    assert work.begin({"a": 1})
    assert (work.part("pages") / "x").exists()
    assert not work.begin({"a": 2})
    assert not (work.folder / "pages").exists()


def test_personal_data_is_replaced_if_asked(built: Path, tmp_path: Path) -> None:
    settings = SMALL_PAGES.model_copy(update={"scrub_pii": True})
    build([str(built.parent / "pages")], tmp_path / "corpus", settings)
    texts = " ".join(row["text"] for row in rows(tmp_path / "corpus"))
    assert "Mail email@example.com." in texts
    for name in ("details.json", "report.html"):
        assert "me@work.org" not in (tmp_path / "corpus" / name).read_text()
    assert "Mail me@work.org." in " ".join(row["text"] for row in rows(built))


def test_two_builds_cannot_write_the_same_folder(built: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    program = (
        "import sys; from pathlib import Path; from glassformer.files import locked\n"
        "with locked(Path(sys.argv[1]), 'built'): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "corpus")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        with pytest.raises(GlassformerError, match="is being built by process"):
            build([str(built.parent / "pages")], tmp_path / "corpus", SMALL_PAGES)
    finally:
        holder.communicate()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_corpus_is_never_replaced(built: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("precious")
    for force in (False, True):
        with pytest.raises(GlassformerError, match=r"Pass another --out|already exists"):
            build([str(built.parent / "pages")], tmp_path, SMALL_PAGES, force=force)
    assert (tmp_path / "notes.txt").read_text() == "precious"
