"""Pictures of alignments: whole files, equal bytes, and tokens that are only ever text."""

import errno
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspection.alignment import Alignment
from glassformer.story.alignment import draw, page
from glassformer.story.heat_map import heat_map
from glassformer.story.labels import shortened, visible

HOSTILE = [
    *("</script>", "<script>alert(1)</script>", "<!--", "]]>", "&lt;", '"', "'", "\\", "$x_1$"),
    *(
        "\0",
        "\n",
        " ",
        "",
        "\u2028",
        "\u202eabc",
        "\ud800",
        "🙂",
        "👩\u200d👧",
        "/* data */",
        "`${1}`",
    ),
]
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


def made(source: list[str], target: list[str]) -> Alignment:
    near = -np.abs(np.linspace(0, 9, len(target))[:, None] - np.linspace(0, 9, len(source)))
    weights = np.exp(near)
    weights /= weights.sum(axis=1, keepdims=True)
    texts = {"source": "".join(source), "target": "".join(target)}
    return Alignment(**texts, source_tokens=source, target_tokens=target, weights=weights)


def greeting() -> Alignment:
    return Alignment(
        source="Guten Tag",
        target="Good day",
        source_tokens=["Guten", " Tag"],
        target_tokens=["Good", " day"],
        weights=np.array([[0.9, 0.1], [0.2, 0.8]]),
    )


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def svg_texts(svg: bytes) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter() if "text" in each.tag]


# --- files ---


@pytest.mark.parametrize("ending", ["png", "svg", "html", "json", "PNG"])
def test_the_same_alignment_is_drawn_in_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        draw(greeting(), tmp_path / f"{name}.{ending}", title="Greeting")
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"a.{ending}", f"b.{ending}"]
    first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
    assert first == second != b""


def test_another_process_draws_the_same_bytes(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_alignment_pictures import *\n"
        "draw(greeting(), Path(sys.argv[2]) / 'other.svg')"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(tmp_path)]
    environment = os.environ | {"PYTHONHASHSEED": "7", "MPLBACKEND": "TkAgg", "TZ": "Asia/Tokyo"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    draw(greeting(), tmp_path / "own.svg")
    assert (tmp_path / "other.svg").read_bytes() == (tmp_path / "own.svg").read_bytes()


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.png.txt", ".png"])
def test_another_ending_is_refused_with_the_endings_there_are(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"must end in \.html, \.png, \.svg or \.json\.$"):
        draw(greeting(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["png", "svg", "html", "json"])
def test_a_disk_that_is_full_leaves_the_old_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    old = tmp_path / f"a.{ending}"
    old.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(GlassformerError, match="cannot be written: No space left on device"):
        draw(greeting(), old)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


def test_a_folder_that_cannot_be_written_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(GlassformerError, match=r"file/a\.png cannot be written"):
        draw(greeting(), tmp_path / "file" / "a.png")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_json_is_what_the_alignment_says_of_itself(tmp_path: Path) -> None:
    hostile = made(HOSTILE, ["ü"])
    draw(hostile, tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == hostile.as_json()
    assert "ü" in text


def test_an_empty_output_is_no_picture(tmp_path: Path) -> None:
    empty = Alignment(
        source="a", target="", source_tokens=["a"], target_tokens=[], weights=np.zeros((0, 1))
    )
    for ending in ("html", "png", "svg"):
        with pytest.raises(GlassformerError, match="the output is empty"):
            draw(empty, tmp_path / f"a.{ending}")
    draw(empty, tmp_path / "a.json")
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


# --- the heat map ---


def test_an_image_grows_with_its_tokens_and_stays_sensible() -> None:
    images = [heat_map(made(["w"] * n, ["w"] * n), None, "", "png") for n in (1, 9, 40, 60)]
    sides = [max(size(image)) for image in images]
    assert sides == sorted(sides)
    assert sides[0] > 150
    assert sides[-1] < 3500
    wide, high = size(heat_map(made(["w"] * 60, ["w"]), None, "", "png"))
    assert 150 < high < wide < 3500


def test_very_many_tokens_still_make_an_image_that_can_be_opened() -> None:
    assert max(size(heat_map(made(["w"] * 3, ["w"] * 400), None, "", "png"))) < 4000


def test_an_svg_holds_its_labels_as_text_the_source_first() -> None:
    texts = svg_texts(heat_map(greeting(), "Ein Gruß", "", "svg"))
    words = [text for text in texts if text in ("Guten", "Tag", "Good", "day")]
    assert words == ["Guten", "Tag", "Good", "day"]
    assert {"attention weight", "source", "translation", "Ein Gruß"} <= set(texts)


def test_without_a_title_a_picture_has_both_sentences_the_model_and_the_score(
    tmp_path: Path,
) -> None:
    found = replace(greeting(), model="translator", score=-0.25, chosen=(1, None))
    draw(found, tmp_path / "a.svg")
    texts = svg_texts((tmp_path / "a.svg").read_bytes())
    assert {"Guten Tag", "→ Good day"} <= set(texts)
    assert "translator, score -0.250, layer 1, mean of all heads" in texts


def test_the_source_runs_from_left_to_right_and_the_output_downwards() -> None:
    image = heat_map(greeting(), None, "", "svg").decode()
    place = r'x="([0-9.]+)" y="([0-9.]+)"[^>]*>(Guten|Tag|Good|day)<'
    at = {word: (float(x), float(y)) for x, y, word in re.findall(place, image)}
    assert at["Good"][0] < at["Guten"][0] < at["Tag"][0]
    assert at["Guten"][1] < at["Good"][1] < at["day"][1]
    mesh = image.partition('id="QuadMesh_1"')[2].partition("</g>")[0]
    cells = re.findall(r'd="M ([0-9.]+) ([0-9.]+).*?fill: #(\w\w)', mesh, re.DOTALL)
    # From the darkest on: Good at Guten, day at Tag, day at Guten, Good at Tag.
    order = sorted((int(red, 16), float(x), float(y)) for x, y, red in cells)
    left, right = sorted({x for _, x, _ in order})
    top, bottom = sorted({y for _, _, y in order})
    assert [(x, y) for _, x, y in order] == [
        *((left, top), (right, bottom), (left, bottom), (right, top))
    ]


def test_an_svg_is_readable_where_none_of_its_fonts_is() -> None:
    fonts = re.findall(r"font-family: ([^;]+);", heat_map(greeting(), None, "", "svg").decode())
    assert fonts
    assert all(each.endswith("sans-serif") for each in fonts)


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_hostile_tokens_are_drawn_as_text_without_a_word_of_warning(
    kind: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    tokens = [*HOSTILE, "今天", "المدرسة", "ü" * 500]
    image = heat_map(made(tokens, tokens), "</svg> $", "", kind)
    assert capfd.readouterr() == ("", "")
    if kind == "svg":
        assert {"</script>", "$x_1$", r"\x00", "</svg> $"} <= set(svg_texts(image))


def test_the_settings_of_the_user_change_nothing() -> None:
    import matplotlib

    before = heat_map(greeting(), None, "", "svg")
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "axes.facecolor": "red"}):
        assert heat_map(greeting(), None, "", "svg") == before
        assert matplotlib.rcParams["font.size"] == 30


# --- labels ---


def test_labels_are_one_line_that_can_be_seen() -> None:
    assert [visible(token) for token in (" the", " ", "\n", "\t ", "", "a\0b", "\u202ex")] == [
        *("the", "␣", "⏎", "⇥␣", "∅", r"a\x00b", r"\u202ex")
    ]
    assert visible("👩\u200d👧") == "👩\u200d👧"
    assert shortened("Donaudampfschifffahrtsgesellschaft", 11) == "Donau…chaft"
    assert shortened("Schiff", 6) == "Schiff"


# --- the page ---


class Outline(HTMLParser):
    """The elements of a page, and what stands in its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.addresses: list[str] = []
        self.scripts: list[str] = []
        self.is_in_script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.addresses += [value or "" for key, value in attrs if key in ("src", "href")]
        self.is_in_script = tag == "script"
        if self.is_in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.is_in_script = False

    def handle_data(self, data: str) -> None:
        if self.is_in_script:
            self.scripts[-1] += data


def in_browser(
    tmp_path: Path, text: str, *events: tuple[object, ...], width: int = 0
) -> dict[str, Any]:
    """What the script of a page draws, and what it shows after these events. Without a width,
    there is room for everything."""
    data, script = Outline(text).scripts
    (tmp_path / "data.json").write_text(data)
    (tmp_path / "script.js").write_text(script, encoding="utf-8")
    program = Path(__file__).with_name("page.mjs")
    files = (tmp_path / "script.js", tmp_path / "data.json")
    command = ["node", str(program), *map(str, files), str(width)]
    done = subprocess.run(
        command, input=json.dumps(events), capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_no_token_breaks_out_of_the_page() -> None:
    plain = Outline(page(greeting()))
    found = Outline(page(made(HOSTILE, HOSTILE), title="</title></script><b>"))
    assert found.elements == plain.elements
    data = json.loads(found.scripts[0])
    known = [each.replace("\ud800", "\ufffd") for each in HOSTILE]  # half a character
    assert data["source_tokens"] == known
    assert data["title"] == "</title></script><b>"
    assert found.scripts[1] == plain.scripts[1]


def test_the_data_in_the_page_is_plain_ascii_without_tags() -> None:
    data = Outline(page(made(HOSTILE, HOSTILE))).scripts[0]
    assert data.isascii()
    assert "<" not in data


def test_the_page_asks_the_network_for_nothing() -> None:
    text = page(greeting())
    found = Outline(text)
    assert found.addresses == ["data:,"]  # an empty icon
    text = text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert re.findall(r"https?://|url\(|@import|import\s|fetch\(", text) == []
    assert "default-src 'none'" in text
    for part in ("styles", "scripts", "data"):
        assert f"/* {part} */" not in text


def test_text_enters_the_page_only_as_text() -> None:
    script = Outline(page(greeting())).scripts[1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)


@needs_node
def test_the_page_draws_words_curves_tiles_and_a_table(tmp_path: Path) -> None:
    found = in_browser(tmp_path, page(greeting(), "Ein Gruß"))
    assert found["title"] == "Ein Gruß"
    assert found["labels"] == ["Guten", "Tag", "Good", "day"]
    assert found["curves"] == 4
    assert found["table"] == [
        ["", "Guten", "Tag"],
        ["Good", "90.0%", "10.0%"],
        ["day", "20.0%", "80.0%"],
    ]
    assert found["axes"] == ["source", "translation"]
    assert found["largest"] == "90%"


@needs_node
def test_the_page_shows_both_sentences_the_model_and_the_score(tmp_path: Path) -> None:
    found = in_browser(tmp_path, page(replace(greeting(), model="translator", score=-0.25)))
    assert found["title"] == found["heading"] == "Guten Tag → Good day"
    assert found["about"] == "translator, score -0.250"


@needs_node
def test_a_word_is_chosen_before_anything_is_pointed_at(tmp_path: Path) -> None:
    found = in_browser(tmp_path, page(greeting()))
    assert (found["chosen"], found["rows"]) == (0, 1)
    assert found["said"] == found["spoken"][0]


def with_heads() -> Alignment:
    """Two layers of two heads; their mean is the greeting's."""
    weights, other = greeting().weights, np.array([[0.5, 0.5], [1.0, 0.0]])
    heads = np.array([[other, 2 * weights - other], [weights, weights]])
    return replace(greeting(), heads=heads)


@needs_node
def test_layers_and_heads_can_be_chosen_on_the_page(tmp_path: Path) -> None:
    text = page(with_heads())
    assert in_browser(tmp_path, text)["table"][1] == ["Good", "90.0%", "10.0%"]
    one = in_browser(tmp_path, text, ("control", 0, "0"), ("control", 1, "0"))
    assert one["table"][1:] == [["Good", "50.0%", "50.0%"], ["day", "100.0%", "0.0%"]]
    assert "50.0%" in one["said"]
    assert one["largest"] == "100%"
    back = in_browser(tmp_path, text, ("control", 0, "0"), ("control", 0, ""))
    assert back["table"][1] == ["Good", "90.0%", "10.0%"]
    assert len(in_browser(tmp_path, page(greeting()))["controls"]) == 1  # only the slider


@needs_node
def test_weak_lines_are_hidden_until_the_slider_shows_them(tmp_path: Path) -> None:
    text = page(made(["s"] * 20, ["t"] * 20))
    few, all_, none = (
        in_browser(tmp_path, text, *events)["curves"]
        for events in ([], [("control", 0, "0")], [("control", 0, "50")])
    )
    assert none == 20 < few < all_ == 400


@needs_node
def test_words_that_do_not_fit_side_by_side_stand_below_each_other(tmp_path: Path) -> None:
    text = page(made([f"s{place}" for place in range(40)], ["word"] * 30))
    found = in_browser(tmp_path, text, width=400)
    heights = [y for _, y in found["places"][:40]]
    assert heights == sorted(set(heights))
    assert found["width"] < 400
    wide = in_browser(tmp_path, text)
    assert {y for _, y in wide["places"][:40]} == {wide["places"][0][1]}


@needs_node
@pytest.mark.parametrize(
    "events", [[(1, "focus")], [(1, "pointerenter")], [(0, "focus"), (0, "keydown", "ArrowRight")]]
)
def test_a_word_that_is_pointed_at_shows_what_it_looked_at(
    tmp_path: Path, events: list[tuple[object, ...]]
) -> None:
    found = in_browser(tmp_path, page(greeting()), *events)
    said = found["said"].replace("\u2068", "").replace("\u2069", "")
    assert said == "day attended to: Tag 80.0%, Guten 20.0%"
    assert found["said"] == found["spoken"][1]
    assert (found["chosen"], found["rows"], found["choosing"]) == (1, 1, "choosing")
    thin, thick = found["chosen_curves"]
    assert thin < thick
    assert found["marks"][0] < found["marks"][1]


@needs_node
def test_a_word_that_is_left_gives_way_to_the_one_that_was_clicked(tmp_path: Path) -> None:
    found = in_browser(tmp_path, page(greeting()), (1, "pointerenter"), (1, "pointerleave"))
    assert found["chosen"] == 0
    for kept in ("focus", "click"):
        events = [(1, kept), (0, "pointerenter"), (0, "pointerleave")]
        assert in_browser(tmp_path, page(greeting()), *events)["chosen"] == 1


@needs_node
def test_hostile_tokens_make_no_elements(tmp_path: Path) -> None:
    plain = in_browser(tmp_path, page(greeting()), (0, "focus"))
    found = in_browser(tmp_path, page(made(HOSTILE, HOSTILE)), (1, "focus"))
    assert found["names"] == plain["names"]
    assert found["table"][0][1:] == [visible(token) for token in HOSTILE]


@needs_node
@pytest.mark.parametrize("number", [1, 60])
def test_few_and_many_words_have_their_places(tmp_path: Path, number: int) -> None:
    text = page(made([f"s{place}" for place in range(number)], ["ü" * 500] * number))
    found = in_browser(tmp_path, text)
    source = [x for x, _ in found["places"][:number]]
    assert source == sorted(set(source))
    assert max(map(len, found["labels"])) == 23
    assert found["table"][1][0] == "ü" * 500
    assert found["curves"] >= number


@needs_node
def test_what_is_written_from_right_to_left_begins_at_the_right(tmp_path: Path) -> None:
    found = in_browser(tmp_path, page(made(["ذهب", "الولد", "إلى"], ["to", "the", "boy"])))
    places = [x for x, _ in found["places"]]
    source, target = places[:3], places[3:]
    assert source == sorted(source, reverse=True)
    assert target == sorted(target)
