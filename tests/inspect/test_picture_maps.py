"""Maps over pictures follow one rule, and what is written on them can be read."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from picture_models import SHAPE, captioner, multiscale, painter, picture, shaken, vit
from test_picture_stories import BRIGHTEST, needs_chromium, shown

from glassformer.inspect.attribution import attributions
from glassformer.inspect.story import story_data
from glassformer.inspect.story_data import attribution_data
from glassformer.models.image_gpt import ImageGPT, ImageGPTConfig
from glassformer.preprocessing.images import PalettePreprocessing
from glassformer.tasks.paint.predictor import PaintPredictor

Box = list[float]


def overlap(boxes: list[Box], room: float = 0.5) -> list[tuple[Box, Box]]:
    """Pairs of [left, top, right, bottom] that cover each other."""
    return [
        (a, b)
        for a, b in itertools.combinations(boxes, 2)
        if min(a[2], b[2]) - max(a[0], b[0]) > room and min(a[3], b[3]) - max(a[1], b[1]) > room
    ]


@needs_chromium
def test_small_and_large_maps_have_one_scale_from_zero(tmp_path: Path) -> None:
    seen = vit().inspect(picture())
    body = """choose({ layer: 1, head: 0, token: 2 });
      while (waiting.length) waiting.shift()();
      const thumb = section("attention").querySelector(".thumb.chosen");
      const canvas = thumb.querySelector("canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, 3, 2);
      const keys = section("attention").querySelectorAll(".one-head .picture")[1];
      const scale = keys.parentElement.querySelector(".heat-scale");
      const rollout = [...section("attention").querySelectorAll(".heat-scale")].at(-1);
      return { small: Array.from({ length: 6 }, (_, n) => data[4 * n + 3] / 255),
        large: lightOf(keys.querySelector("svg")), most: thumb.querySelector("span").textContent,
        scale: [...scale.querySelectorAll("span")].map((each) => each.textContent),
        rollout: rollout.querySelector("span").textContent };"""
    found = shown(seen, body, tmp_path)
    places = seen.attention[1, 0, 2][1:]
    light = BRIGHTEST * (places / places.max()) ** 0.6
    assert np.allclose(found["small"], light, atol=1e-2)
    assert np.allclose(found["large"], light, atol=1e-2)
    assert found["scale"] == ["0", found["most"]]
    assert found["most"] == f"{100 * places.max():.1f}%"
    assert found["rollout"] == "0"


@needs_chromium
def test_pointing_at_a_place_shows_its_number_there(tmp_path: Path) -> None:
    seen = painter().inspect(picture(3, 4))
    body = """const box = section("prediction").querySelector(".side .picture");
      const svg = box.querySelector("svg"), tag = svg.querySelector(".place-tag");
      const before = tag.getAttribute("visibility");
      pointAt(svg, 5, 4, 3);
      const figure = box.closest("figure");
      return { before, after: tag.getAttribute("visibility"), said: tag.textContent,
        scale: [...figure.querySelectorAll(".heat-scale span")].map((each) => each.textContent),
        saves: Boolean(figure.querySelector(".save")) };"""
    found = shown(seen, body, tmp_path)
    bits = [-(each.logprob or 0) / np.log(2) for each in seen.predictions]
    assert (found["before"], found["after"]) == ("hidden", "visible")
    assert found["said"] == f"{bits[5]:.1f} bits"
    assert found["scale"] == ["0", f"{max(bits):.1f} bits"]
    assert found["saves"]


@needs_chromium
@pytest.mark.parametrize("shape", [(16, 24), (20, 120), (120, 20)])
def test_numbers_of_patches_never_cover_each_other(shape: tuple[int, int], tmp_path: Path) -> None:
    seen = vit(patch_size=1).inspect(picture(*shape))  # 8 × 12 patches
    body = """return [...document.querySelectorAll("#patches .place-number")].map((each) => {
      const { x, y, width, height } = each.getBBox();
      return [x, y + 0.2 * height, x + width, y + 0.8 * height]; // digits are lower than a line
    });"""
    boxes = shown(seen, body, tmp_path)
    assert len(boxes) > 10
    assert not overlap(boxes)


@needs_chromium
def test_a_painter_shows_all_pixels_and_speaks_of_pixels(tmp_path: Path) -> None:
    seen = painter().inspect(picture(3, 4))
    body = """return { about: section("about").textContent, text: main.innerText,
      tiles: document.querySelectorAll("#pixels .tile-chip").length,
      unread: document.querySelectorAll("#pixels .tile-chip.unread").length };"""
    found = shown(seen, body, tmp_path)
    assert "12 pixels and a start token" in found["about"]
    assert (found["tiles"], found["unread"]) == (1 + 12, 1)
    for words in ("tokens of the text", "each token", "Each token", "likeliest tokens"):
        assert words not in found["text"]


@needs_chromium
@pytest.mark.parametrize("model", [vit, painter, captioner])
def test_no_button_lies_over_a_text(model: Any, tmp_path: Path) -> None:
    seen = model().inspect(picture())
    body = """const sides = ({ left, top, right, bottom }) => [left, top, right, bottom];
      const rects = (node) => {
        const range = document.createRange();
        range.selectNodeContents(node);
        return [...range.getClientRects()].map(sides);
      };
      const texts = [...document.querySelectorAll("main p, main h2, main h3, figcaption, th, td")]
        .filter((each) => each.getClientRects().length && !each.closest(".spoken")).flatMap(rects);
      const buttons = [...document.querySelectorAll(".save")]
        .map((each) => sides(each.getBoundingClientRect()));
      const covers = (a, b) => Math.min(a[2], b[2]) - Math.max(a[0], b[0]) > 1
        && Math.min(a[3], b[3]) - Math.max(a[1], b[1]) > 1;
      return { buttons: buttons.length,
        covered: buttons.filter((button) => texts.some((text) => covers(button, text))).length };"""
    found = shown(seen, body, tmp_path)
    assert found["buttons"] > 5
    assert found["covered"] == 0


# --- what a prediction rests on ---


@pytest.mark.parametrize("model", [vit, multiscale, captioner])
def test_what_patches_add_sums_to_the_change_of_the_prediction(model: Any) -> None:
    (found,) = attributions(model().inspect(picture()))
    assert abs(found.error) < 1e-2
    assert found.integrated_gradients.sum() == pytest.approx(
        found.logprob - found.baseline_logprob, abs=1e-2
    )
    assert found.is_read.sum() >= 6  # all patches, and nothing else


def test_leaving_out_a_patch_is_painting_it_in_the_mean_colour() -> None:
    seen = vit().inspect(picture())
    pixels = seen.subject.pixels
    assert pixels is not None
    painted = pixels.values.clone()
    painted[:, :, 4:, 4:8] = pixels.values.mean((2, 3), keepdim=True)  # patch 4, of 2 × 3
    (found,) = attributions(seen)
    with torch.no_grad():
        logprobs = [
            pixels.run(each)[0, 0].double().log_softmax(-1) for each in (pixels.values, painted)
        ]
    best = int(logprobs[0].argmax())
    change = float(logprobs[0][best] - logprobs[1][best])
    assert found.left_out[1 + 4] == pytest.approx(change, rel=1e-3)
    assert abs(found.left_out[0]) < 1e-6  # the class token is no part of the picture


@needs_chromium
def test_the_maps_of_an_attribution_show_its_numbers(tmp_path: Path) -> None:
    seen = vit().inspect(picture())
    body = """const maps = [...section("attribution").querySelectorAll(".opinion-maps .picture")];
      return maps.map((box) => {
        const svg = box.querySelector("svg");
        pointAt(svg, 4, 3, 2);
        return [svg.querySelector(".place-tag").textContent, lightOf(svg)];
      });"""
    maps = shown(seen, body, tmp_path)
    (found,) = attributions(seen)
    assert len(maps) == len(found.methods) == 5
    for (said, light), values in zip(maps, found.methods.values(), strict=True):
        sizes = np.abs(values[1:])
        assert np.allclose(light, 235 / 255 * (sizes / sizes.max()) ** 0.7, atol=1e-2)
        shown_number = float(said.replace("−", "-").removesuffix("%"))
        scale = 100 if said.endswith("%") else 1
        assert shown_number == pytest.approx(scale * values[5], rel=0.06, abs=0.06 * scale / 100)


def test_of_a_large_painting_only_the_prediction_in_focus_is_explained() -> None:
    palette = tuple((shade,) * 3 for shade in (0, 80, 160, 255))
    known = PalettePreprocessing(image_size=(24, 24), num_channels=3, palette=palette)
    model = ImageGPT(ImageGPTConfig(**SHAPE, image_size=(24, 24), vocab_size=5))
    seen = PaintPredictor(shaken(model), known).inspect(picture(24, 24))
    found = attribution_data(seen)
    assert found is not None
    assert found["explained"] is None or list(found["explained"]) == [str(seen.subject.focus)]


def test_words_on_the_page_say_what_an_image_model_lacks() -> None:
    assert "While it learned" in story_data(vit().inspect(picture()))["absent"]
