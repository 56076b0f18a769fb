"""The story of an image in a browser: maps are the model's numbers, at the right places."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from picture_models import captioner, multiscale, painter, picture, shaken, vit
from PIL import Image

from glassformer.inspect.inspection import Inspection
from glassformer.inspect.story import page, story_data
from glassformer.inspect.views import draw
from glassformer.models.bag import Bag, BagConfig
from glassformer.models.classifier import Classifier, ClassifierConfig, Tagger, TaggerConfig
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.tag.predictor import TagPredictor
from glassformer.text.tokenizer_training import train_tokenizer

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")

BRIGHTEST = 0.8  # opacity of the largest weight
SECTIONS = '[...document.querySelectorAll("section.chapter")].map(({ id }) => id)'
POINT = """const pointAt = (svg, place, columns, rows, kind = "pointermove") => {
  svg.scrollIntoView();
  const box = svg.getBoundingClientRect();
  const [row, column] = [Math.floor(place / columns), place % columns];
  svg.dispatchEvent(new PointerEvent(kind, { bubbles: true,
    clientX: box.left + ((column + 0.5) * box.width) / columns,
    clientY: box.top + ((row + 0.5) * box.height) / rows }));
};
const section = (id) => document.getElementById(id);
const lightOf = (svg) => [...svg.querySelectorAll(".place")]
  .map((each) => Number(each.getAttribute("fill-opacity")));
const textOf = (id, selector = ".said") => section(id).querySelector(selector).textContent;
const textsOf = (selector) => [...document.querySelectorAll(selector)]
  .map(({ textContent }) => textContent);
"""


def shown(seen: Inspection, body: str, folder: Path) -> Any:
    """What the body of a function returns in the page, opened from disk by Chromium. An error or a
    warning on its console fails."""
    script = f"JSON.stringify((() => {{ {POINT} {body} }})())"
    place = f'\nadd(main, "pre", {{ id: "out" }}, {script});\n</script>'
    file = folder / "page.html"
    file.write_text(place.join(page(seen).rsplit("\n</script>", 1)), encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--disable-sync")
    quiet = ("--disable-background-networking", "--disable-component-update")
    more = (f"--user-data-dir={folder}/user", "--virtual-time-budget=20000")
    done = subprocess.run(
        ["chromium", *flags, *quiet, *more, "--enable-logging=stderr", file.as_uri()],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found[1]))


@needs_chromium
def test_pointing_at_a_patch_lights_what_it_looks_at(tmp_path: Path) -> None:
    seen = vit().inspect(picture())
    body = """choose({ layer: 1, head: 1 });
      const [asks, answers] = section("attention").querySelectorAll(".one-head .picture svg");
      pointAt(asks, 4, 3, 2);
      const frame = asks.querySelector(".frame.of-query");
      return { token: state.token, light: lightOf(answers), said: textOf("attention"),
        frame: ["x", "y"].map((name) => Number(frame.getAttribute(name))), sections: %s,
        weights: weightsAt(scene.main, 1, 1, 5) };"""
    found = shown(seen, body % SECTIONS, tmp_path)
    assert found["token"] == 5  # patch 4, after the class token
    weights = seen.attention[1, 1, 5]
    assert np.abs(np.array(found["weights"]) - weights).max() < 3e-3
    places = weights[1:]
    assert np.allclose(found["light"], BRIGHTEST * (places / places.max()) ** 0.6, atol=5e-3)
    assert "Layer 1, head 1: patch 4 looks at" in found["said"]
    assert f"{100 * weights.max():.1f}%" in found["said"]
    assert found["frame"] == pytest.approx([320 / 3 + 1, 213 / 2 + 1], abs=1)  # column 1, row 1
    first = ["patches", "patch-embeddings", "attention", "computation", "feedforward", "residual"]
    assert found["sections"] == [*first, "layers", "prediction", "attribution"]


@needs_chromium
def test_the_class_token_looks_first_and_arrow_keys_move_over_the_picture(tmp_path: Path) -> None:
    body = """const first = state.token;
      const box = section("attention").querySelector(".one-head .picture");
      const press = (key) => box.dispatchEvent(new KeyboardEvent("keydown", { key }));
      press("ArrowRight"); press("ArrowDown"); press("ArrowRight");
      return [first, state.token, textOf("attention", ".extra.of-key")];"""
    seen = vit().inspect(picture())
    first, token, key = shown(seen, body, tmp_path)
    assert (first, token) == (0, 1 + 4)
    assert key == f"class token {100 * seen.attention[0, 0, 5, 0]:.1f}%"


@needs_chromium
def test_windows_in_the_page_give_the_weights_of_the_model(tmp_path: Path) -> None:
    seen = multiscale().inspect(picture())
    body = """choose({ layer: 3, head: 3 });
      const heads = (layer) => Array.from({ length: layer.query.shape[0] }, (_, head) => head);
      return { sections: %s, about: section("about").textContent,
        coarse: positionIn(scene.main, 2, 95),
        weights: scene.main.layers.map((layer, n) => heads(layer)
          .map((head) => weightsOf(scene.main, n, head))) };"""
    found = shown(seen, body % SECTIONS, tmp_path)
    chapters = ["patches", "windows", "attention", "computation", "layers", "prediction"]
    assert found["sections"] == [*chapters, "attribution"]
    assert "there is no lens" in found["about"]
    assert found["coarse"] == 23
    for layer, ours in zip(seen.windows(), found["weights"], strict=True):
        size = layer.grid[0] * layer.grid[1]
        dense = np.zeros((len(layer.heads), size, size))
        for places, weights in zip(layer.places, layer.weights, strict=True):
            real = np.flatnonzero(places >= 0)
            own = places[real]
            dense[:, own[:, None], own[None]] = weights[:, real[:, None], real[None]]
        assert np.abs(np.array(ours) - dense).max() < 5e-3


@needs_chromium
def test_a_layer_with_fewer_heads_can_be_chosen(tmp_path: Path) -> None:
    seen = multiscale().inspect(picture())
    body = """choose({ layer: 3, head: 3 });
      const pick = section("computation").querySelector("select[aria-label=layer]");
      pick.value = "0";
      pick.dispatchEvent(new Event("input"));
      return [state.layer, state.head, textOf("attention")];"""
    layer, head, said = shown(seen, body, tmp_path)
    assert (layer, head) == (0, 1)
    assert "looks at" in said


@needs_chromium
@pytest.mark.parametrize("kind", ["captioner", "show-attend-tell"])
def test_a_word_lights_its_places_and_a_place_its_words(kind: str, tmp_path: Path) -> None:
    seen = captioner(kind).inspect(picture(), target="a red cat")
    body = """const words = section("words").querySelectorAll(".word");
      const svg = section("words").querySelector(".picture svg");
      words[1].dispatchEvent(new PointerEvent("pointerenter"));
      const word = { light: lightOf(svg), said: textOf("words") };
      words[1].dispatchEvent(new PointerEvent("pointerleave"));
      pointAt(svg, 4, 3, 2);
      const shares = [...words]
        .map((each) => Number(each.querySelector(".share-of").style.opacity));
      const place = textOf("words");
      const fill = words[1].querySelector(".share-of").getBoundingClientRect();
      const covers = fill.width > 20 && fill.height > 15; // the word, not nothing
      svg.dispatchEvent(new PointerEvent("pointerleave"));
      words[0].click();
      words[2].click();
      writeAddress(); // it would wait a moment
      return { word, shares, place, covers, kept: state.token, address: location.hash, sections: %s,
        labels: textsOf("#words .word") };"""
    found = shown(seen, body % SECTIONS, tmp_path)
    assert seen.cross_attention is not None
    mean = seen.cross_attention.mean((0, 1))  # (T, N)
    assert found["labels"] == ["a", "red", "cat", "<end>"]
    light = BRIGHTEST * (mean[1] / mean[1].max()) ** 0.6
    assert np.allclose(found["word"]["light"], light, atol=5e-3)
    row, column = divmod(int(mean[1].argmax()), 3)
    said = found["word"]["said"].replace("\u2068", "").replace("\u2069", "")
    assert said.startswith(f"“red” looked most at row {row + 1}, column {column + 1}: ")
    assert np.allclose(found["shares"], 0.55 * mean[:, 4] / mean[:, 4].max(), atol=5e-3)
    assert found["covers"]
    assert found["place"].startswith("Row 2, column 2: looked at most by")
    assert found["kept"] == 2
    assert "token=2" in found["address"]
    assert ("seeing" in found["sections"]) == (kind == "captioner")
    assert found["sections"][:2] == ["patches", "words"]


@needs_chromium
def test_a_painter_has_its_pixels_its_lens_and_their_bits(tmp_path: Path) -> None:
    seen = painter().inspect(picture(3, 4))
    body = """const bits = section("prediction").querySelector(".side .picture svg");
      pointAt(bits, 5, 4, 3);
      return { sections: %s, said: textsOf("#prediction .side .said")[1],
        paintings: section("layers").querySelectorAll(".paintings canvas").length };"""
    found = shown(seen, body % SECTIONS, tmp_path)
    assert found["sections"][0] == "pixels"
    assert "tokens" not in found["sections"]
    assert found["paintings"] == 4  # the input, two layers and the picture
    expected = seen.predictions[5]
    assert found["said"].startswith(f"pixel 5 (row 2, column 2): {expected.actual} had ")


@needs_chromium
@pytest.mark.parametrize("shape", [(1, 1), (1, 400), (700, 3)])
def test_pictures_of_any_shape_are_drawn(shape: tuple[int, int], tmp_path: Path) -> None:
    seen = vit().inspect(picture(*shape))
    body = """return [...document.querySelectorAll(".picture svg")]
      .map(({ viewBox: { baseVal: { width, height } } }) => [width, height]);"""
    boxes = shown(seen, body, tmp_path)
    # Cut up, as read (8×12), query, keys, rollout; then a map for each method of attribution.
    longest = (
        [640, 320, *[640] * 3, *[560] * 5] if shape[1] > 2 * shape[0] else [320] * 5 + [200] * 5
    )
    assert [max(box) for box in boxes] == longest
    assert all(min(box) > 30 for box in boxes)


@needs_chromium
def test_hostile_names_of_files_stay_text(tmp_path: Path) -> None:
    name = "<img src=x onerror=hacked=1>&amp;\u202e\"'.png"
    Image.fromarray(picture()).save(tmp_path / name)
    seen = vit().inspect(tmp_path / name)
    body = """return [document.images.length, globalThis.hacked ?? null,
      document.getElementById("title").textContent, document.scripts.length];"""
    images, hacked, title, scripts = shown(seen, body, tmp_path)
    assert (images, hacked, scripts) == (0, None, 2)
    assert title == name


def test_the_page_of_an_image_is_the_same_every_time_and_loads_nothing() -> None:
    html = page(vit().inspect(picture()))
    assert html == page(vit().inspect(picture()))
    assert not re.search(r"(src|href)=[\"']?https?:", html)
    assert "img-src data:" in html


def test_a_large_picture_is_made_smaller_for_the_page() -> None:
    data = story_data(vit().inspect(np.zeros((3000, 2000, 3), np.uint8)))
    shown_picture = data["streams"][0]["picture"]
    assert shown_picture["size"] == [3000, 2000]
    assert len(shown_picture["image"]) < 50_000


@pytest.mark.parametrize("model", [vit, multiscale, painter])
def test_a_story_is_written_as_page_and_as_json(model: Any, tmp_path: Path) -> None:
    seen = model().inspect(picture())
    draw(seen, tmp_path / "a.html")
    draw(seen, tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["tokens"] == seen.tokens
    assert ("windows" in found) == (model is multiscale)


# --- labels of texts ---


def words() -> TextPreprocessing:
    return TextPreprocessing(tokenizer=train_tokenizer("word", ["one two three four"] * 3))


@needs_chromium
def test_a_bag_shows_what_each_word_adds_and_says_what_it_lacks(tmp_path: Path) -> None:
    known = words()
    config = BagConfig(vocab_size=known.tokenizer.vocab_size, labels=("good", "bad"), d_model=4)
    seen = ClassifyPredictor(shaken(Bag(config)), known).inspect("one two one")
    body = """return { sections: %s, about: section("about").textContent,
      step: textOf("prediction", ".step"), data: scene.contributions };"""
    found = shown(seen, body % SECTIONS, tmp_path)
    assert found["sections"] == ["tokens", "embeddings", "prediction"]
    assert "This model has no layers of self-attention" in found["about"]
    best = ["good", "bad"].index(seen.predictions[0].options[0].token)
    data = found["data"]
    total = sum(data["values"][best]) + data["bias"][best]
    assert total == pytest.approx(float(seen.logits[0, best]), abs=1e-4)
    assert f"score {total:.3g}"[:9] in found["step"]


@needs_chromium
@pytest.mark.parametrize("multi_label", [False, True])
def test_an_ensemble_shows_whose_answer_it_is(multi_label: bool, tmp_path: Path) -> None:
    known, labels = words(), ("good", "bad", "fair")
    shape = {"num_layers": 1, "d_model": 16, "num_heads": 2, "context_length": 8, "bag": True}
    config = ClassifierConfig(
        **shape,
        vocab_size=known.tokenizer.vocab_size,
        labels=labels,
        multi_label=multi_label,
    )
    model = shaken(Classifier(config))
    model.weigh([0.75, 0.5])
    model.temperature.fill_(1.5)
    predictor = ClassifyPredictor(model, known)
    seen = predictor.inspect("one two one")
    body = """return { logits: memberLogits(scene), shares: memberShares(scene),
      rows: section("prediction").querySelectorAll(".of-labels tbody tr").length,
      cells: textsOf(".of-labels [data-of^='member/2']"),
      sums: ["member", "member-share"].map((name) => operations.get(name).lines(0, 1)) };"""
    found = shown(seen, body, tmp_path)
    layers, bag, both = found["logits"]
    with torch.no_grad():
        logits = model(torch.tensor([seen.subject.streams[0].ids]))[0] / 1.5
    assert both == pytest.approx(logits.tolist(), abs=1e-4)
    assert [a + b for a, b in zip(layers, bag, strict=True)] == pytest.approx(both, abs=1e-4)
    together = dict(zip(labels, found["shares"][2], strict=True))
    assert together == pytest.approx(predictor.classify("one two one").scores, abs=1e-4)
    assert found["rows"] == len(found["cells"]) == 3
    assert "the layers" in str(found["sums"])


@needs_chromium
def test_a_tagger_colours_its_tags_and_parts_of_an_entity_alike(tmp_path: Path) -> None:
    known = words()
    shape = {"num_layers": 1, "d_model": 16, "num_heads": 2, "context_length": 8}
    labels = ("B-NAME", "I-NAME", "B-PLACE", "O")
    config = TaggerConfig(**shape, vocab_size=known.tokenizer.vocab_size, labels=labels)
    seen = TagPredictor(shaken(Tagger(config)), known).inspect("one two three four")
    body = """const colour = tagColours(scene.labels);
      return [scene.labels.map(colour), textsOf(".tag-chip .tag-name")];"""
    colours, tags = shown(seen, body, tmp_path)
    assert colours == [0, 0, 1, -1]
    best = [each.options[0].token for each in seen.predictions]
    assert tags == ["·" if tag == "O" else tag for tag in best]
