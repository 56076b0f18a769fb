"""The report of a corpus in a real browser: its bars, hostile pages, and axe-core."""

from pathlib import Path
from typing import Any

import pytest
from small_warcs import html, prose, response, write_warc
from test_story_page import needs_chromium, shown

from glassformer.corpus.build import build
from glassformer.corpus.executors import Executor

HOSTILE = "<img src=x onerror=document.body.remove()>"
AXE = Path(__file__).with_name("axe") / "axe.min.js"  # axe-core 4.14.0, MPL-2.0


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("corpus")
    escaped = HOSTILE.replace("<", "&lt;")
    records = [
        *(response(f"http://a.org/{n}", html(prose(n), f"Page {n}")) for n in (1, 2, 2)),
        response(f"http://a.org/{HOSTILE}", html(f"{prose(3)} {escaped}", escaped)),
        response("http://b.org/", html("Das ist ein Satz, und noch ein Satz auf Deutsch. " * 9)),
        response("http://b.org/none", "", status="404 Not Found"),
    ]
    write_warc(folder / "a.warc.gz", *records)
    build([str(folder / "a.warc.gz")], folder / "corpus", executor=Executor(workers=1))
    return (folder / "corpus/report.html").read_text(encoding="utf-8")


@needs_chromium
def test_every_page_that_was_read_is_in_the_funnel(report: str, tmp_path: Path) -> None:
    script = """[...document.querySelectorAll("section:first-of-type .bar-row")].map((row) =>
        [row.className.split(" ")[1], Number(row.lastChild.textContent)])"""
    bars: list[Any] = shown(report, script, tmp_path)
    left = [count for kind, count in bars if kind == "left"]
    dropped = [count for kind, count in bars if kind == "dropped"]
    assert (left[0], left[-1], sum(dropped)) == (6, 3, 3)


@needs_chromium
def test_what_a_page_contains_stays_text(report: str, tmp_path: Path) -> None:
    script = """[document.images.length, document.body.textContent.split("onerror").length > 3]"""
    assert shown(report, script, tmp_path) == [0, True]


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(report: str, scheme: str, tmp_path: Path) -> None:
    axe = AXE.read_text(encoding="utf-8")
    with_axe = report.replace(
        '<script type="module">', f'<script>{axe}</script>\n<script type="module">', 1
    )
    script = f"""await (async () => {{
        document.documentElement.style.colorScheme = "{scheme}";
        for (const each of document.querySelectorAll("details")) each.open = true;
        const {{ violations }} = await axe.run(document, {{ resultTypes: ["violations"] }});
        return violations.map(({{ id, impact, nodes }}) => [impact, id, nodes[0].html]);
    }})()"""
    found = shown(with_axe, script, tmp_path)
    assert [each for each in found if each[0] in ("serious", "critical")] == []
