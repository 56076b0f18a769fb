"""Pictures of alignments: whole files, equal bytes, and tokens that are only ever text."""

import errno
import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.alignment import Alignment
from glassformer.inspect.figures import label_of, visible
from glassformer.inspect.views import draw

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


def picture(alignment: Alignment, kind: str = "svg") -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{kind}"
        draw(alignment, path)
        return path.read_bytes()


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def svg_texts(svg: bytes) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter() if "text" in each.tag]


# --- files ---


@pytest.mark.parametrize("ending", ["png", "svg", "json", "PNG"])
def test_the_same_alignment_is_drawn_in_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        draw(greeting(), tmp_path / f"{name}.{ending}")
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


@pytest.mark.parametrize("ending", ["png", "svg", "json"])
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
    for ending in ("png", "svg"):
        with pytest.raises(GlassformerError, match="the output is empty"):
            draw(empty, tmp_path / f"a.{ending}")
    draw(empty, tmp_path / "a.json")
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


# --- the heat map ---


def test_an_image_grows_with_its_tokens_and_stays_sensible() -> None:
    images = [picture(made(["w"] * n, ["w"] * n), "png") for n in (1, 9, 40, 60)]
    sides = [max(size(image)) for image in images]
    assert sides == sorted(sides)
    assert sides[0] > 150
    assert sides[-1] < 3500
    wide, high = size(picture(made(["w"] * 60, ["w"]), "png"))
    assert 150 < high < wide < 3500


def test_very_many_tokens_still_make_an_image_that_can_be_opened() -> None:
    assert max(size(picture(made(["w"] * 3, ["w"] * 400), "png"))) < 4000


def test_an_svg_holds_its_labels_as_text_the_source_first() -> None:
    texts = svg_texts(picture(greeting(), "svg"))
    words = [text for text in texts if text in ("Guten", "Tag", "Good", "day")]
    assert words == ["Guten", "Tag", "Good", "day"]
    assert {"attention weight", "source", "translation", "→ Good day"} <= set(texts)


def test_without_a_title_a_picture_has_both_sentences_the_model_and_the_score(
    tmp_path: Path,
) -> None:
    found = replace(greeting(), model="translator", score=-0.25, chosen=(1, None))
    draw(found, tmp_path / "a.svg")
    texts = svg_texts((tmp_path / "a.svg").read_bytes())
    assert {"Guten Tag", "→ Good day"} <= set(texts)
    assert "translator, score -0.250, layer 1, mean of all heads" in texts


def test_the_source_runs_from_left_to_right_and_the_output_downwards() -> None:
    image = picture(greeting(), "svg").decode()
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
    fonts = re.findall(r"font-family: ([^;]+);", picture(greeting(), "svg").decode())
    assert fonts
    assert all(each.endswith("sans-serif") for each in fonts)


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_hostile_tokens_are_drawn_as_text_without_a_word_of_warning(
    kind: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    tokens = [*HOSTILE, "今天", "المدرسة", "ü" * 500]
    image = picture(made(tokens, tokens), kind)
    assert capfd.readouterr() == ("", "")
    if kind == "svg":
        assert {"</script>", "$x_1$", r"\x00"} <= set(svg_texts(image))


def test_the_settings_of_the_user_change_nothing() -> None:
    import matplotlib

    before = picture(greeting(), "svg")
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "axes.facecolor": "red"}):
        assert picture(greeting(), "svg") == before
        assert matplotlib.rcParams["font.size"] == 30


# --- labels ---


def test_labels_are_one_line_that_can_be_seen() -> None:
    assert [visible(token) for token in (" the", " ", "\n", "\t ", "", "a\0b", "\u202ex")] == [
        *("the", "␣", "⏎", "⇥␣", "∅", r"a\x00b", r"\u202ex")
    ]
    assert visible("👩\u200d👧") == "👩\u200d👧"
    assert label_of("Donaudampfschifffahrtsgesellschaft", 11) == "Donau…chaft"
    assert label_of("Schiff", 6) == "Schiff"
