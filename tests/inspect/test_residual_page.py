"""The chapters on the feed-forward layer and the residual stream, as a reader uses them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium_pipe import Browser
from page_families import picture, vit
from test_residual import array, gpt, needs_node, outputs
from test_story_page import needs_chromium, shown
from translators import translator

from glassformer.inspect import story
from glassformer.inspect.inspection import Inspection
from glassformer.inspect.live import live_or_error
from glassformer.inspect.residual import residual_data
from glassformer.inspect.story import page
from glassformer.nn.observe import without_heads

LOGITS = """await (async () => {
  for (let n = 0; n < 400 && !document.querySelector(".ask"); n += 1) {
    await new Promise((done) => setTimeout(done, 20));
  }
  choose(CHANGES);
  const at = scene.predictions.length - 1, parts = scene.insides.added(0);
  const heads = parts.map(({ kind, layer }, n) => {
    const { directions } = scene.insides.logit(at, 0);
    if (kind !== "attention" && kind !== "cross_attention") return null;
    const bias = scene.insides.outputBias(layer, kind, directions[n]);
    return headShares(at, directions[n], kind, layer).reduce((sum, [value]) => sum + value, bias);
  });
  const all = scene.logitsAt(at), ids = [...all.keys()];
  const named = outputsAt(scene, at).map((name) => ids.filter((id) => scene.nameOf(id) === name));
  const own = named.map((each) => each.map((id) => all[id]));
  return { heads, own, names: outputsAt(scene, at), logits: named.map((_, option) => {
    const { values, constant, logit } = scene.insides.logit(at, option);
    return [...values, constant, logit];
  }) };
})()"""


def in_page(seen: Inspection, changes: str, folder: Path) -> Any:
    return shown(page(seen), LOGITS.replace("CHANGES", changes), folder)


@needs_chromium
@needs_node
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("kind", ["gpt", "post-norm", "translator"])
def test_a_head_that_is_switched_off_changes_the_parts_as_in_torch(
    kind: str, tmp_path: Path
) -> None:
    more = {} if kind == "gpt" else {"pre_norm": False, "bias": False}
    seen = gpt(**more) if kind != "translator" else translator().inspect("one two", target="two")
    stack: Any = seen.stream.stack
    with without_heads({stack.attentions[0].tap: [1]}):
        changed = Inspection(seen.subject)
        data = residual_data(changed, is_live=False)
    assert data is not None

    found = in_page(seen, '{ off: "0.1" }', tmp_path)
    if kind == "translator":  # the page translates anew: only the sums can be compared
        for row in found["logits"]:
            assert abs(sum(row[:-1]) - row[-1]) < 1e-4
    else:
        values = array(data["logits"]["values"])[-1][: len(found["logits"])]
        assert np.abs(np.array(found["logits"])[:, :-1] - values).max() < 1e-4
        logits = changed.logits[-1][outputs(changed)[-1].numpy()][: len(values)]
        assert np.abs(np.array(found["logits"])[:, -1] - logits).max() < 1e-4
    parts = zip(found["logits"][0][:-2], found["heads"], strict=True)
    errors = [abs(heads - whole) for whole, heads in parts if heads is not None]
    assert len(errors) == (4 if kind == "translator" else 2)
    assert max(errors) < 1e-4  # with the bias of the output matrix


@needs_chromium
def test_a_logit_has_the_name_of_its_output_if_rounded_weights_rank_others_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(story, "live_or_error", partial(live_or_error, dtype="int8"))
    seen = gpt()
    found = in_page(seen, "{}", tmp_path)
    ranked = [likely.token for likely in seen.predictions[-1].options]
    assert found["names"] != ranked  # otherwise this shows nothing
    for own, (*_, logit) in zip(found["own"], found["logits"], strict=True):
        assert logit in own


@needs_chromium
@pytest.mark.usefixtures("exact")
def test_a_sum_says_what_it_leaves_out_and_in_which_direction_it_reads(tmp_path: Path) -> None:
    script = LOGITS.replace("CHANGES", "{}").replace(
        "return {",
        """const lines = (kind) => readRef(ref("logit-part", at, 0, partNumber(kind, 0)));
  const written = (kind) => lines(kind).operation.lines(...lines(kind).place)
    .map((line) => line.map((each) => each.text ?? each).join(""));
  return { attention: written("attention"), feed: written("feedforward"),""",
        1,
    )
    found = shown(page(gpt()), script, tmp_path)
    scaled = "direction: row of the output layer · weight of the norm / its scale"
    assert f"{scaled}, minus its mean" in found["attention"]
    assert "; bias of the output matrix " in found["attention"][-1]
    assert "; all others and the bias " in found["feed"][-1]
    found = shown(page(gpt(norm="rms", bias=False)), script, tmp_path)
    assert scaled in found["attention"]
    assert "bias" not in found["attention"][-1]
    assert "; all others " in found["feed"][-1]
    found = shown(page(gpt(final_norm=False)), script, tmp_path)
    assert "direction: row of the output layer" in found["attention"]


@needs_chromium
@pytest.mark.parametrize("width", [1280, 360])
def test_a_reader_takes_a_logit_apart_with_pointer_and_keys(width: int, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(gpt()), encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.window(width)
        browser.open(file.as_uri())
        browser.wait("document.querySelectorAll('#residual .total').length === 1")
        caption = "document.querySelector('#residual figure:nth-child(2) figcaption').textContent"
        first = browser.value(caption)
        difference = float(first.split("difference ")[1].split(")")[0])
        assert difference < 1e-4
        browser.value("""(() => {
          const pick = document.querySelector("#residual select[aria-label=output]");
          pick.value = "3";
          pick.dispatchEvent(new Event("input"));
        })()""")
        assert browser.value(caption) != first
        assert browser.value("location.hash") == "#option=3"
        said = "document.querySelector('#sum').textContent"
        browser.hover("#residual tr.of-value[data-of^=logit-part] .value")
        assert "Of its strongest units" in browser.value(said)
        assert browser.value("document.querySelectorAll('#residual .lit').length") > 1
        browser.hover("#residual tr.of-output[data-of^=logit-part] .value")
        assert "By head: head" in browser.value(said)
        browser.click("#feedforward .units tbody tr th", 3)
        assert browser.value("document.querySelectorAll('#feedforward tr.chosen').length") == 1
        unit = browser.value("document.querySelector('#feedforward tr.chosen th').textContent")
        assert f"row {unit} of W_up" in browser.value(
            "document.querySelector('#feedforward .sum').textContent"
        )
        browser.value("document.querySelector('#feedforward .units tr.chosen').focus()")
        browser.key("ArrowDown")
        assert "hidden unit" in browser.value(said)
        browser.key("Enter")
        chosen = browser.value("document.querySelector('#feedforward tr.chosen th').textContent")
        assert chosen != unit
        wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        assert browser.value(wide)
        assert browser.problems == []


@needs_chromium
def test_a_page_without_a_model_has_what_python_computed(tmp_path: Path) -> None:
    seen = vit().inspect(picture())
    script = """({
      total: document.querySelector("#residual .total .value").textContent,
      units: document.querySelectorAll("#feedforward .units tbody tr").length,
      pushes: scene.insides.pushed(0, 0, scene.insides.units(0, 0).order[0]).flat().length,
    })"""
    found = shown(page(seen), script, tmp_path)
    assert float(found["total"].replace("−", "-")) == pytest.approx(seen.logits.max(), abs=0.01)
    assert (found["units"], found["pushes"]) == (12, 6)
