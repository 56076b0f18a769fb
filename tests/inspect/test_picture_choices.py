"""Windows, palettes and words of a picture under a real pointer, finger and keys: what they show is
what the model computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chromium_pipe import Browser
from page_families import captioner, multiscale, painter, picture
from test_picture_stories import needs_chromium, shown

from glassformer.inspect import story_data
from glassformer.inspect.inspection import Inspection
from glassformer.inspect.story import page
from glassformer.nn.windows import WindowAttention, shifted_mask

WIDTHS = [360, 768, 1280]
CHOSEN = "[...document.querySelectorAll('#words .word')].findIndex((e) => e.ariaPressed === 'true')"


def opened(browser: Browser, seen: Inspection, folder: Path, address: str = "") -> None:
    file = folder / "page.html"
    file.write_text(page(seen), encoding="utf-8")
    browser.open(file.as_uri() + address)
    browser.wait("document.querySelectorAll('section.chapter').length > 0")


def attended(attention: WindowAttention, grid: tuple[int, int]) -> Any:
    """(N, N): which places may look at which."""
    places, mask = attention.places(grid), shifted_mask(grid, *attention.windows(grid))
    allowed = np.zeros((grid[0] * grid[1],) * 2, dtype=bool)
    for number, window in enumerate(places):
        real = window >= 0
        may = real[:, None] & real if mask is None else mask[number] & real[:, None] & real
        for query, key in may.nonzero().tolist():
            allowed[window[query], window[key]] = True
    return allowed


@needs_chromium
@pytest.mark.parametrize("shift", ["each_side", "both_sides"])
def test_windows_show_what_places_attend_to_and_what_two_layers_join(
    shift: str, tmp_path: Path
) -> None:
    predictor = multiscale(window_shift=shift)
    model: Any = predictor.model
    body = """const { layers } = scene.main;
      const places = (n) => Array.from({ length: n }, (_, place) => place);
      return layers.map((layer, n) => ({
        own: places(layer.grid[0] * layer.grid[1]).map((at) => windowPartAt(layer, at).places),
        reached: isShifted(layer) ? places(layer.grid[0] * layer.grid[1])
          .map((at) => reachOf(layers, n, at).flatMap((part) => part.places)) : null }));"""
    found = shown(predictor.inspect(picture()), body, tmp_path)
    for (attention, grid), layer in zip(model.layers, found, strict=True):
        expected = attended(attention, grid)
        assert [sorted(own) for own in layer["own"]] == [list(np.flatnonzero(e)) for e in expected]
    pairs = zip(model.encoder.stages, model.encoder.grids, found[1::2], strict=True)
    for stage, grid, second in pairs:
        if second["reached"] is None:
            continue
        width = stage[0].attention.query.in_features
        states = torch.randn(1, *grid, width, dtype=torch.float64)
        with torch.no_grad():
            before = stage.double()(states).flatten(1, 2)[0]
            for place in range(0, grid[0] * grid[1], 5):
                changed = states.flatten(1, 2).clone()
                changed[0, place] += torch.randn(width)
                moved = (stage(changed.view_as(states)).flatten(1, 2)[0] - before).abs().amax(-1)
                reaching = [place in reached for reached in second["reached"]]
                assert (moved > 0).tolist() == reaching


@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
def test_a_place_lights_its_window_in_place_and_rolled(
    browser: Browser, width: int, tmp_path: Path
) -> None:
    browser.window(width, 740)
    opened(browser, multiscale().inspect(picture()), tmp_path, "#token=0")
    said = "document.querySelector('#windows .said').textContent"
    picked = "document.querySelector('#windows .frame.of-query').getAttribute"
    area = "document.querySelector('#windows .windows svg')"

    def point(row: int, column: int) -> str:
        browser.spot("#windows .windows svg")
        box = browser.value(
            f"(({{x, y, width, height}}) => [x, y, width, height])({area}.getBoundingClientRect())"
        )
        x, y = [
            box[axis] + (at + 0.5) * box[2 + axis] / count
            for axis, at, count in ((0, column, 12), (1, row, 9))
        ]
        browser.move(x, y)
        text: str = browser.value(said)
        return text

    # Windows of 3×3 on 8×12 places: the last row of windows has a row of padding.
    assert point(0, 4) == "Patch 4 may look at the 9 places of its window."
    assert "3 are padding" in point(7, 0)
    browser.leave()
    browser.click("#windows [aria-label='one step further']")
    assert "the one place of its part of the window" in browser.value(said)
    assert "from another side of the picture and are masked" in browser.value(said)
    assert browser.value("document.querySelectorAll('#windows .masked-part').length") == 3
    in_place = point(0, 11)
    browser.click("#windows .window-steps button", 3)
    assert (
        browser.value("document.querySelector('#windows [aria-pressed=true]').textContent")
        == "Layer 1: rolled, as computed"
    )
    assert point(8, 10) == in_place  # rolled by one row up, and one column to the left
    browser.click("#windows .windows svg")
    before = browser.value(f"{picked}('x')")
    browser.key("ArrowRight")
    assert browser.value(f"{picked}('x')") != before
    browser.click("#windows [aria-label='one step further']")
    assert "it may now hold something of" in browser.value(said)
    assert browser.value("document.querySelectorAll('#windows .masked-part').length") == 0


@needs_chromium
@pytest.mark.parametrize("fits", [True, False])
def test_the_palette_has_the_probability_of_every_colour(
    fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fits:
        monkeypatch.setattr(story_data, "MOST_CHANCES", 10)
        monkeypatch.setattr("glassformer.inspect.inspection.TOP", 2)
    seen = painter().inspect(picture(3, 4))
    body = """const picture = section("prediction").querySelector(".palette .picture svg");
      pointAt(picture, 6, 4, 3);
      const tiles = [...section("prediction").querySelectorAll(".colour")];
      const sides = tiles.map((tile) => Number(tile.lastChild.getAttribute("width")));
      const places = [...picture.querySelectorAll(".place")];
      return { token: state.token, said: textOf("prediction"), names: scene.palette.colours, sides,
        logs: [...colourLogs(scene, 6)],
        hidden: places.filter((each) => each.getAttribute("fill-opacity") > 0).length,
        bars: textsOf("#prediction .bars .value") };"""
    found = shown(seen, body, tmp_path)
    assert found["token"] == 6
    assert found["hidden"] == 12 - 6
    assert found["names"] == ["#000000", "#ff0000", "#00ff00", "#ffffff"]
    logprobs = seen.logprobs[6].numpy()
    actual = seen.subject.actual[6]
    assert found["bars"][0] == f"{100 * np.exp(logprobs.max()):.1f}%"
    assert f"surprise of −log₂ p = {-logprobs[actual] / np.log(2):.2f} bits" in found["said"]
    if not fits:
        kept = np.sort(np.argsort(-logprobs)[:2])
        assert [n for n, each in enumerate(found["logs"]) if each is not None] == list(kept)
        assert "The model expected" not in found["said"]
        return
    assert np.allclose(found["logs"], logprobs, atol=1e-5)
    shares = np.exp((logprobs - logprobs.max()) / 2)  # sides; areas are probabilities
    assert np.allclose(np.array(found["sides"]) / max(found["sides"]), np.maximum(shares, 0.16))
    bits = -(np.exp(logprobs) * logprobs).sum() / np.log(2)
    assert f"The model expected {bits:.2f} bits" in found["said"]


@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
def test_words_follow_the_pointer_the_finger_and_the_keys(
    browser: Browser, width: int, tmp_path: Path
) -> None:
    browser.window(width, 740)
    opened(browser, captioner().inspect(picture(), target="a red cat on"), tmp_path)
    places = "[...document.querySelectorAll('#words .place')]"
    light = f"{places}.map((e) => e.getAttribute('fill-opacity')).join()"
    lights = []
    for word in range(5):
        browser.hover("#words .word", word)
        assert browser.value(CHOSEN) == word
        lights.append(browser.value(light))
    assert len(set(lights)) == 5
    browser.leave()
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)

    def touch(kind: str, *spot: float) -> None:
        points = [dict(zip("xy", spot, strict=True))] if spot else []
        browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    spots = [browser.spot("#words .word", word) for word in range(5)]
    touch("touchStart", *spots[1])
    touch("touchEnd")
    assert browser.value(CHOSEN) == 1
    touch("touchStart", *spots[0])  # and slides over the others
    for spot in spots[1:4]:
        touch("touchMove", *spot)
    touch("touchEnd")
    assert browser.value(CHOSEN) == 3
    browser.value("document.querySelector('#words .word[tabindex=\"0\"]').focus()")
    browser.key("Home")
    browser.key("ArrowRight")
    assert browser.value(CHOSEN) == 1
    assert browser.value(light) == lights[1]
