"""The story for everyone: axe-core finds no serious fault, and a phone need not scroll sideways."""

import html as markup
from pathlib import Path
from typing import Any

import pytest
from page_families import FAMILIES
from page_scripts import script
from test_story_page import masked_predictor, needs_chromium, predictor, shown
from translators import translator

from glassformer.inspect.story import page

PICTURES = ("multiscale-vit", "image-gpt", "captioner")
TEXT = "the lower the slower"
AXE = Path(__file__).with_name("axe") / "axe.min.js"  # axe-core 4.14.0, MPL-2.0


def inspected(kind: str) -> Any:
    if kind in PICTURES:
        return FAMILIES[kind]()
    if kind == "gpt":
        return predictor(TEXT, "bpe").inspect("the lower the slower")
    if kind == "bert":
        return masked_predictor().inspect("one [MASK] three")
    return translator("transformer").inspect("one two three", target="two one")


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["gpt", "bert", "translator", *PICTURES])
def test_axe_finds_no_serious_fault(kind: str, scheme: str, tmp_path: Path) -> None:
    axe = AXE.read_text(encoding="utf-8")
    html = page(inspected(kind))
    first = '<script type="module">'
    html = html.replace(first, f"<script>{axe}</script>\n{first}", 1)
    found = shown(html, script("axe").replace("SCHEME", scheme), tmp_path)
    assert [each for each in found if each[0] in ("serious", "critical")] == []


@needs_chromium
@pytest.mark.parametrize("kind", ["gpt", "translator"])
def test_a_phone_need_not_scroll_sideways(kind: str, tmp_path: Path) -> None:
    inside = markup.escape(page(inspected(kind)))
    outside = f'''<!doctype html><meta charset="utf-8"><main id="main"></main>
<iframe id="phone" srcdoc="{inside}" width="390" height="844"></iframe>
<script type="module">
{script("phone")}
</script>'''
    wide, room, beyond = shown(outside, "[phone.scrollWidth, phone.clientWidth, beyond]", tmp_path)
    assert room == 390 or room == 375  # with a scroll bar
    assert wide <= room, beyond
    assert beyond == []
