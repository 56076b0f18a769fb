"""What a page marks is what it says: masked cells, repeated names, scales, shapes, steps."""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_scripts import script
from picture_models import captioner, multiscale, painter, picture, vit
from test_story_page import needs_chromium, predictor, shown, story

from glassformer.checkpoint.model_folder import save_model, save_snapshot
from glassformer.inspect.story import page
from glassformer.tasks import load

GREY = """const grey = (canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const at = (n) => data[4 * n] === data[4 * n + 1] && data[4 * n] > 100 && data[4 * n + 3] > 0;
  return Array.from({ length: data.length / 4 }, (_, n) => at(n));
};
const texts = (selector) => [...document.querySelectorAll(selector)]
  .map((each) => each.textContent.replace(/[\\u2068\\u2069]/g, ""));
"""


def run(body: str) -> str:
    return f"(() => {{ {GREY} {body} }})()"


# --- masks ---


@needs_chromium
def test_the_causal_mask_can_be_seen_in_every_map(tmp_path: Path) -> None:
    seen = story()
    body = """while (waiting.length) waiting.shift()();
      const [thumb] = document.querySelectorAll("#attention .thumb canvas");
      const map = document.querySelector("#attention .matrix canvas");
      choose({ token: 3 });
      const masked = document.querySelectorAll("#attention .side-key.masked").length;
      return [grey(thumb), grey(map), masked, texts("#attention .masked-key")];"""
    thumb, whole, masked, scales = shown(page(seen), run(body), tmp_path)
    length = len(seen.tokens)
    later = np.triu(np.ones((length, length), bool), 1).ravel().tolist()
    assert thumb == whole == later
    assert masked == length - 4
    assert set(scales) == {"masked: later tokens"}


@needs_chromium
def test_nothing_is_grey_where_nothing_is_masked(tmp_path: Path) -> None:
    body = """while (waiting.length) waiting.shift()();
      return [document.querySelectorAll(".masked-key").length,
        grey(document.querySelector("#attention .thumb canvas")).filter(Boolean).length];"""
    assert shown(page(vit().inspect(picture())), run(body), tmp_path) == [0, 0]


@needs_chromium
@pytest.mark.parametrize("kind", ["image-gpt", "multiscale-vit"])
def test_masked_places_of_a_picture_are_covered(kind: str, tmp_path: Path) -> None:
    seen = (
        painter().inspect(picture(3, 4)) if kind == "image-gpt" else multiscale().inspect(picture())
    )
    body = """choose({ token: 5, layer: 0, head: 0 });
      const [, answers] = document.querySelectorAll("#attention .one-head .picture svg");
      const covered = [...answers.querySelectorAll(".place")]
        .map((each) => each.getAttribute("fill") === "rgb(128 128 128)");
      return [covered, texts("#attention .one-head .masked-key")[0],
        weightsAt(scene.main, 0, 0, 5)];"""
    covered, scale, weights = shown(page(seen), run(body), tmp_path)
    first = seen.stream.picture.num_extra if seen.stream.picture else 0
    hidden = [weight == 0 for weight in weights][first:]
    assert covered[: len(hidden)] == hidden
    assert covered[-1]  # the last pixel is never read
    assert scale == f"masked: {'later pixels' if kind == 'image-gpt' else 'other windows'}"


# --- names ---


@needs_chromium
def test_a_token_that_occurs_twice_is_named_with_its_position(tmp_path: Path) -> None:
    body = """choose({ token: 8, layer: 0, head: 0 });
      return [texts("#computation .bars tbody th"), texts("#attention .one-head .said")[0]];"""
    names, said = shown(page(story("a bad day")), run(body), tmp_path)
    repeated = {name for name in names if " at " in name}
    assert repeated
    assert all(name.split(" at ")[0] in ("a", "d", "␣") for name in repeated)
    assert {"b", "y"} & set(names)  # these occur once
    assert re.search(r"looks at “.”( at \d)? [\d.]+%", said)


# --- scales and shapes ---


@needs_chromium
def test_what_the_model_read_is_drawn_in_its_own_shape(tmp_path: Path) -> None:
    seen = vit().inspect(picture(40, 20))  # it reads 8×12 pixels
    body = """return [...document.querySelectorAll("#patches .picture svg")]
      .map(({ viewBox: { baseVal: { width, height } } }) => width / height);"""
    original, read = shown(page(seen), run(body), tmp_path)
    assert original == pytest.approx(0.5, abs=0.01)
    assert read == pytest.approx(12 / 8, abs=0.01)


@needs_chromium
def test_the_caption_of_signed_maps_names_both_sides(tmp_path: Path) -> None:
    body = """return [texts("#attribution .opinion-maps .heat-scale"),
      texts("#attribution figcaption")[0]];"""
    scales, caption = shown(page(vit().inspect(picture())), run(body), tmp_path)
    is_signed = any(each.startswith("-") for each in scales) or any("−" in each for each in scales)
    assert is_signed
    assert "symmetric around 0" in caption
    assert "Orange: against it." in caption


@needs_chromium
@pytest.mark.parametrize("kind", ["vit", "captioner"])
def test_captions_on_a_phone_have_room_for_words(kind: str, tmp_path: Path) -> None:
    seen = (vit() if kind == "vit" else captioner()).inspect(picture(64, 12))  # narrow pictures
    inside = html.escape(page(seen))
    outside = f"""<!doctype html><body><main id="main"></main>
<iframe id="phone" srcdoc="{inside}" width="390" height="844"></iframe>
<script type="module">
{script("phone")}
const lines = [...phone.querySelectorAll("figcaption:not([hidden])")].map((each) => {{
  const range = document.createRange();
  range.selectNodeContents(each);
  const rows = new Set([...range.getClientRects()].map(({{ top }}) => Math.round(top / 6))).size;
  return [each.textContent, each.textContent.trim().split(/\\s+/).length / rows];
}});
</script>"""
    for caption, words_in_a_line in shown(outside, "lines", tmp_path):
        assert words_in_a_line >= 2, caption


# --- steps ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose best model is that of step 5, with snapshots of three steps."""
    model = predictor("a bad day, said the cat.")
    for number, step in enumerate((0, 5, 20)):
        torch.manual_seed(number)
        for parameter in model.model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        save_snapshot(tmp_path, step, model.model)
        if step == 5:
            save_model(tmp_path, model.model, model.preprocessing)
    (tmp_path / "recipe.yaml").write_text("model: {name: gpt}\n")
    (tmp_path / "metrics.csv").write_text("step,train_loss,val_loss\n5,3.5,3.25\n20,2.5,3.75\n")
    return tmp_path


STEPS = """return [2, 1].map((moment) => {
  choose({ moment });
  return texts("#history .chapter-body > .hint")[0];
}).concat([texts("#history .over-time .name")[0], texts("#history figcaption")[0]]);"""


@needs_chromium
def test_the_last_chapter_says_when_its_step_is_not_that_of_the_others(
    folder: Path, tmp_path: Path
) -> None:
    model: Any = load(folder)
    last, same, axis, loss = shown(page(model.inspect("a bad day")), run(STEPS), tmp_path)
    assert last == (
        "The chapters above show the model of step 5, which the run kept; below is step 20, whose "
        "probabilities differ."
    )
    assert same == "The chapters above show the same model, of step 5."
    assert axis == "step (logarithmic)"
    assert "with dropout, augmentation and smoothed targets if the recipe has them" in loss


@needs_chromium
def test_a_model_between_two_snapshots_is_said_to_be_that(folder: Path, tmp_path: Path) -> None:
    (folder / "snapshots" / "step-5.safetensors").unlink()
    model: Any = load(folder)
    body = 'return texts("#history .chapter-body > .hint")[0];'
    said = shown(page(model.inspect("a bad day")), run(body), tmp_path)
    assert "from a step without a snapshot" in said
