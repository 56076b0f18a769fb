"""Two hundred texts that try to be more than text: as tokens, labels, texts and names of models."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from page_scripts import script
from test_alignment_pictures import HOSTILE
from test_story_page import needs_chromium, predictor, shown

from glassformer.inspect.story import page

MARKUP = (
    "<img src=x onerror={}>",
    "<svg onload={}>",
    "<script>{}</script>",
    "</script><script>{}</script>",
    "</title><img src=x onerror={}>",
    "</textarea><img src=x onerror={}>",
    '" onmouseover="{}" x="',
    "' onfocus='{}' autofocus='",
    "<iframe src=\"javascript:{}\"></iframe>",
    "<math><mtext></mtext><style><img src=x onerror={}></style></math>",
    "<body onload={}>",
    "<details open ontoggle={}>",
    "<a href=\"javascript:{}\">a</a>",
    "]]><img src=x onerror={}>",
    "--><img src=x onerror={}><!--",
    "${{{}}}",
    "{{{{constructor.constructor('{}')()}}}}",
    "&lt;img src=x onerror={}&gt;",
    "<link rel=stylesheet href=https://example.com/{}>",
    "<style>@import 'https://example.com/{}'</style>",
    "url(https://example.com/{})",
)  # fmt: skip
ACTIONS = (
    *("alert(1)", "hacked=1", "globalThis.hacked=1", "fetch('https://example.com')", "void(0)"),
    "location='https://example.com'",
)
ODD = (
    *("__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "valueOf", "null"),
    *("undefined", "NaN", "Infinity", "-1", "", " ", "\t", "\n", "\r\n", "\u2028", "\u2029"),
    *("\u0000", "a\u0000b", "\u0007", "\u001b[31mred", "\u007f", "\u0080", "\ufeff", "\ufffe"),
    *("\ud800", "\udfff", "a\ud83d", "\udc00\ud800", "\u202eevil", "\u202e\u202dx", "\u2066a"),
    *("\u200b", "\u200f", "\u061c", "\u0301" * 40, "🏳️‍🌈", "שלום", "مرحبا <b>", "ﷺ" * 9, "𓀀"),
    *("x" * 10_000, "<" * 3000, "W" * 400, "ab\n" * 200, "/", "..", "*", "#", "%00", "%", "a/b/*"),
    *("weight/0/0/0/0/0", "token/*", "\\", "\\u003cscript>", "`", "$&", "$1", "\u0000</script>"),
    *("&amp;", "&#x3c;", "<!--", "<![CDATA[", "]]>", "<?xml?>", "<!DOCTYPE x>", "{}", "[]", "()"),
)
MADE = (each.format(act) for each in MARKUP for act in ACTIONS)
ALL = list(dict.fromkeys([*ODD, *HOSTILE, *MADE]))
TITLE = "</h1><img src=x onerror=hacked=1>"

KINDS = {*("svg", "title", "desc", "g", "rect", "text", "image", "line", "circle", "path")}
WATCH = f'<script>{script("watch")}</script>\n<script type="module">'


def hostile_page(text: str, model: str) -> tuple[str, list[str]]:
    seen = predictor("abcdefgh", context_length=256).inspect("abcdefgh" * 25)
    tokens = ALL[:200]
    seen.tokens[:] = tokens
    subject = seen.subject
    names: dict[str, Any] = {"text": text, "model": model, "module": None}
    names["name_of"] = lambda id: ALL[(37 * id + 11) % len(ALL)]
    for name, value in names.items():
        object.__setattr__(subject, name, value)
    return page(seen), tokens


def test_there_are_two_hundred_different_payloads() -> None:
    assert len(set(ALL)) >= 200


@needs_chromium
def test_two_hundred_hostile_texts_stay_text(tmp_path: Path) -> None:
    html, tokens = hostile_page(TITLE, "<img src=x onerror=hacked=1>")
    html = html.replace('<script type="module">', WATCH, 1)
    found = shown(html, script("use_everything"), tmp_path)
    assert found["faults"] == []
    assert found["loaded"] == []
    assert (found["hacked"], found["strange"], found["scripts"]) == (None, 0, 3)
    whole = [each.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for each in tokens]
    assert found["tokens"] == whole
    assert found["title"] == TITLE
    assert found["chips"][tokens.index("__proto__")] == "__proto__"
    assert found["wide"] <= 0
    assert len(found["pictures"]) > 10
    for each in found["pictures"]:
        tree = ElementTree.fromstring(each)
        kinds = {element.tag.split("}")[1] for element in tree.iter()}
        assert kinds <= KINDS
        for element in tree.iter():
            assert not any(name.startswith("on") for name in element.attrib)
            assert element.get("href", "data:image/png").startswith("data:image/png")
