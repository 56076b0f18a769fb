"""corpus build and corpus report as a user runs them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from small_warcs import html, prose, response, write_warc

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    records = [response(f"http://a.org/{each}", html(prose(each))) for each in range(3)]
    hostile = html(f"{prose(9)} {HOSTILE.replace('<', '&lt;')}", HOSTILE.replace("<", "&lt;"))
    records.append(response(f"http://a.org/{HOSTILE}", hostile))
    return write_warc(tmp_path / "pages/a.warc.gz", *records, response("http://a.org/x", "<p>No"))


def test_build_train_and_report(glassformer: Any, pages: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    given = ("corpus", "build", "--warc", pages.parent, "--out", out, "--workers", 1)
    result = glassformer(*given, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["read"], found["kept"], found["num_documents"]) == (5, 4, 4)
    assert sum(found["dropped"].values()) == 1
    assert f"see {out / 'report.html'}" in result.err
    dry = glassformer("train", "gpt", "--data", out, "--dry-run", "--json")
    assert dry.code == 0, dry.err
    assert glassformer(*given).error == (
        f"{out} already exists. Pass --force to replace it, or another --out."
    )
    before = (out / "report.html").read_bytes()
    assert glassformer("corpus", "report", out).code == 0
    assert (out / "report.html").read_bytes() == before
    assert glassformer(*given, "--force").code == 0
    values = json.loads(glassformer("corpus", "report", out, "--json").out)
    assert values["steps"][-1]["left"] == values["kept"] == 4


def test_no_text_of_a_page_becomes_markup_of_the_report(
    glassformer: Any, pages: Path, tmp_path: Path
) -> None:
    out = tmp_path / "corpus"
    glassformer("corpus", "build", "--warc", pages, "--out", out, "--workers", 1)
    page = (out / "report.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "default-src 'none'" in page
    assert "http://" not in page.split('id="data"')[0].replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("--warc", "none.warc"), "none.warc does not exist."),
        (("--language", "xx"), "unknown language 'xx'."),
        (("--quality", "best"), "there is no set of rules 'best'"),
        (("--similarity", "2"), "similarity is 2.0: it must be 1 or less."),
        (("--language", "any", "--language", "en"), "any cannot be combined"),
        (("--quality", "none", "--quality", "c4"), "none cannot be combined"),
        (("--links", "nowhere"), "nowhere contains no links.jsonl."),
        (("--executor", "ray"), "needs Ray. Run"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    glassformer: Any, pages: Path, tmp_path: Path, given: tuple[str, ...], problem: str
) -> None:
    result = glassformer("corpus", "build", "--warc", pages, "--out", tmp_path / "c", *given)
    assert result.code in (1, 2)
    assert problem in result.error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pages"]


def test_a_file_that_is_not_warc_is_one_sentence(glassformer: Any, tmp_path: Path) -> None:
    (tmp_path / "x.warc.gz").write_bytes(gzip.compress(b"hello"))
    result = glassformer("corpus", "build", "--warc", tmp_path, "--out", tmp_path / "c")
    assert result.code == 1
    assert "x.warc.gz is not a WARC file" in result.error
    assert [path.name for path in tmp_path.iterdir()] == ["x.warc.gz"]


def test_a_damaged_report_is_one_sentence(glassformer: Any, pages: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    glassformer("corpus", "build", "--warc", pages, "--out", out, "--workers", 1)
    (out / "details.json").write_text("{}")
    assert (
        "details.json does not belong to this corpus" in glassformer("corpus", "report", out).error
    )


def test_a_report_of_something_else_is_one_sentence(glassformer: Any, tmp_path: Path) -> None:
    assert "is not a corpus." in glassformer("corpus", "report", tmp_path).error


def test_missing_packages_are_named_with_the_command(
    glassformer: Any, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = glassformer("corpus", "build", "--warc", pages, "--out", tmp_path / "c")
    assert "pip install 'glassformer[corpus]'." in result.error
