"""The site as `make docs` builds it: no warnings, nothing from the network, search that works from
disk, and no serious fault that axe-core finds."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium_pipe import CHROMIUM, Browser

ROOT = Path(__file__).parent.parent
AXE = ROOT / "tests" / "inspect" / "axe" / "axe.min.js"
LOADED = re.compile(r'<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="(https?:)?//[^"]+"')
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "docs", str(out)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return out


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as found:
        yield found


def test_every_page_is_there_and_loads_nothing_from_the_network(site: Path) -> None:
    pages = {page.relative_to(site).as_posix(): page.read_text() for page in site.rglob("*.html")}
    lectures = {f"course/lecture-{number}.html" for number in range(5)}
    assert {"index.html", "start.html", "commands.html", "api.html"} | lectures <= pages.keys()
    for name, text in pages.items():
        assert [found[0] for found in LOADED.finditer(text)] == [], name


def test_mathematics_needs_no_script(site: Path) -> None:
    text = (site / "course" / "lecture-1.html").read_text()
    assert text.count("<math") > 10
    assert "katex.js" not in text.lower()
    assert "mathjax.js" not in text.lower()
    for page in site.rglob("*.html"):  # a command that latex2mathml does not know stays as it is
        unknown = re.findall(r"<m(?:i|o|text|n)[^>]*>(\\[^<]*)<", page.read_text())
        assert unknown == [], page.name


def test_programs_find_a_list_of_the_pages(site: Path) -> None:
    text = (site / "llms.txt").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (site / link).is_file()


@needs_chromium
def test_search_works_from_disk(site: Path, browser: Browser) -> None:
    browser.open((site / "search.html").as_uri() + "?q=causal+mask")
    browser.wait("document.querySelectorAll('#search-results li a').length > 2")
    found = browser.value(
        "[...document.querySelectorAll('#search-results li a')].map((each) => each.textContent)"
    )
    assert any("Lecture" in title for title in found)


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "start", "course/lecture-3", "inspect", "commands"])
def test_axe_finds_no_serious_fault(name: str, scheme: str, site: Path, browser: Browser) -> None:
    browser.window(1280, scheme=scheme)
    browser.open((site / f"{name}.html").as_uri())
    browser.wait("document.readyState === 'complete'")
    browser.value(f"{AXE.read_text(encoding='utf-8')}; 0")
    found = browser.value(
        """axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
          violations.map(({ id, impact, nodes }) => [impact, id, nodes[0].html.slice(0, 200)]))"""
    )
    assert [each for each in found if each[0] in ("serious", "critical")] == []


@needs_chromium
@pytest.mark.parametrize("name", ["index", "course/lecture-1", "tour"])
def test_a_phone_need_not_scroll_sideways(name: str, site: Path, browser: Browser) -> None:
    browser.window(390)
    browser.open((site / f"{name}.html").as_uri())
    browser.wait("document.readyState === 'complete'")
    assert browser.value("document.documentElement.scrollWidth - innerWidth") <= 0
