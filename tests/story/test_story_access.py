"""The story for everyone: no serious fault that axe-core finds, and no sideways scrolling on a phone."""

import html as markup
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from test_story_page import masked_predictor, needs_chromium, predictor, shown
from translators import translator

from glassformer.story.story import page

TEXT = "the lower the slower"

CHECK = """await (async () => {
  %s
  for (let n = 0; n < 300 && (waiting.length || (isLive && !document.querySelector(".ask"))); n += 1) await new Promise((done) => setTimeout(done, 20));
  look(document.querySelector(".chip").getAttribute("data-of"), true); // the sum is open, too
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(({ id, impact, nodes }) => [impact, id, nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))]);
})()"""  # fmt: skip


def inspected(kind: str) -> Any:
    if kind == "gpt":
        return predictor(TEXT, "bpe").inspect("the lower the slower")
    if kind == "bert":
        return masked_predictor().inspect("one [MASK] three")
    return translator("transformer").inspect("one two three", target="two one")


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["gpt", "bert", "translator"])
def test_axe_finds_no_serious_fault(kind: str, scheme: str, tmp_path: Path) -> None:
    pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    axe = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    html = page(inspected(kind))
    first = '<script type="module">'
    html = html.replace(first, f"<script>{axe}</script>\n{first}", 1)
    choose = f'document.documentElement.style.colorScheme = "{scheme}";'
    found = shown(html, CHECK % choose, tmp_path)
    assert [each for each in found if each[0] in ("serious", "critical")] == []


@needs_chromium
@pytest.mark.parametrize("kind", ["gpt", "translator"])
def test_a_phone_need_not_scroll_sideways(kind: str, tmp_path: Path) -> None:
    inside = markup.escape(page(inspected(kind)))
    outside = f"""<!doctype html><meta charset="utf-8"><main id="main"></main>
<iframe id="phone" srcdoc="{inside}" width="390" height="844"></iframe>
<script type="module">
const main = document.getElementById("main");
const add = (parent, name, {{ id }}, text) => {{
  const element = Object.assign(document.createElement(name), {{ id, textContent: text }});
  parent.append(element);
}};
const ready = () => document.getElementById("phone").contentDocument?.querySelector(".chapter:last-of-type figure");
while (!ready()) await new Promise((done) => setTimeout(done, 50));
const phone = document.getElementById("phone").contentDocument.documentElement;

</script>"""
    script = """[phone.scrollWidth, phone.clientWidth, [...phone.querySelectorAll("main *")]
      .filter((each) => each.getBoundingClientRect().right > phone.clientWidth + 1 && !each.closest(".scroll, nav, .spoken"))
      .map((each) => `${each.tagName} ${each.getAttribute("class")} ${each.textContent.slice(0, 40)}`)]"""  # fmt: skip
    wide, room, beyond = shown(outside, script, tmp_path)
    assert room == 390 or room == 375  # with a scroll bar
    assert wide <= room, beyond
    assert beyond == []
