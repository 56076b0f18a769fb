"""While it learned: the page shows the numbers of the snapshots, and follows its slider."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_alignment_pictures import HOSTILE
from test_story_page import needs_chromium, predictor, shown, unpacked

from glassformer.checkpoint.model_folder import save_model, save_snapshot
from glassformer.inspect import story
from glassformer.inspect.history import SCRIPTS, history_data, page
from glassformer.inspect.over_time import OverTime
from glassformer.inspect.page import part
from glassformer.inspect.views import draw
from glassformer.tasks import load

STEPS = (0, 1, 5, 20)
METRICS = "step,train_loss,learning_rate,val_loss\n10,3.5,0.1,\n20,2.5,0.1,2.75\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder like that of a run, whose weights change from step to step."""
    folder, model = tmp_path / "run", predictor("a bad day, said the cat.")
    for number, step in enumerate(STEPS):
        torch.manual_seed(number)
        for parameter in model.model.parameters():
            torch.nn.init.normal_(parameter, std=0.15 * (number + 1))
        save_snapshot(folder, step, model.model)
    save_model(folder, model.model, model.preprocessing)
    (folder / "recipe.yaml").write_text("model: {name: gpt}\n")
    (folder / "metrics.csv").write_text(METRICS)
    (folder / "samples.txt").write_text("--- step 20 ---\nthe cat <b>sat</b>\n")
    return folder


@pytest.fixture
def found(run: Path) -> OverTime:
    model: Any = load(run)
    history: OverTime = model.inspect_over_time("a bad day")
    return history


def test_the_data_of_the_page_are_the_numbers_of_the_snapshots(found: OverTime) -> None:
    data = history_data(found)
    assert data["steps"] == list(STEPS)
    weights = unpacked(data["maps"]["own"]["weights"])
    for moment, maps, options in zip(found.moments, weights, data["options"], strict=True):
        assert moment.attention is not None
        assert np.abs(maps - moment.attention).max() < 1e-3  # float16
        best = moment.predictions[3].options[0]
        assert options[3][0] == [best.token, best.probability]
    assert data["metrics"]["val_loss"] == [None, 2.75]
    assert data["samples"] == [[20, "the cat <b>sat</b>"]]


@needs_chromium
def test_the_slider_changes_the_bars_to_the_numbers_of_its_step(
    found: OverTime, tmp_path: Path
) -> None:
    script = """[0, 1, 2, 3].map((moment) => {
      const weightsOn = (canvas) => { // back from the opacity of its pixels
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const isMasked = (n) => data[4 * n] === data[4 * n + 2] && data[4 * n + 3] > 0; // grey
        const { most } = scene.history.maps.own;
        const weightOf = (n) => (isMasked(n) ? -1 : most * (data[4 * n + 3] / 255) ** 2);
        return Array.from({ length: data.length / 4 }, (_, n) => weightOf(n));
      };
      const all = (name) => [...document.querySelectorAll(name)];
      const slider = document.querySelector(".timeline input");
      slider.value = moment;
      slider.dispatchEvent(new Event("input"));
      choose({ token: 3 });
      writeAddress(); // it would wait a moment
      return {
        said: document.querySelector(".timeline .said").textContent,
        bars: all(".options .bars tbody tr").map((row) => row.lastChild.textContent),
        names: all(".options .bars tbody th").map((name) => name.textContent),
        weights: weightsOn(document.querySelector(".past-head canvas")),
        own: document.querySelector(".own-words").textContent,
        address: location.hash,
      };
    })"""
    seen = shown(page(found), script, tmp_path)
    layer, head = history_data(found)["maps"]["own"]["opens"]
    for number, (moment, now) in enumerate(zip(found.moments, seen, strict=True)):
        assert now["said"].startswith(f"step {moment.step} of 20")
        best = moment.predictions[3].options[:8]
        assert now["bars"] == [f"{100 * each.probability:.1f}%" for each in best]
        assert now["names"][0] == (best[0].token.strip() or "␣")
        assert moment.attention is not None
        weights = moment.attention[layer, head]
        masked = np.triu(np.ones(weights.shape, bool), 1)
        expected = np.where(masked, -1, weights).ravel()
        assert np.allclose(now["weights"], expected, atol=5e-3)  # 255 shades
        assert now["own"] == moment.written
        assert f"moment={number}" in now["address"]


@needs_chromium
def test_the_buttons_move_step_by_step_and_a_chart_can_be_pressed(
    found: OverTime, tmp_path: Path
) -> None:
    script = """(() => {
      const press = (name) => document.querySelector(`.timeline [aria-label="${name}"]`).click();
      const seen = [state.moment];
      press("one snapshot on"); seen.push(state.moment);
      press("one snapshot back"); seen.push(state.moment);
      press("one snapshot back"); seen.push(state.moment);
      const chart = document.querySelector(".over-time"), box = chart.getBoundingClientRect();
      chart.dispatchEvent(new PointerEvent("pointerdown", { clientX: box.left + CHART.left }));
      seen.push(state.moment);
      document.querySelectorAll(".past-frame")[2].click(); seen.push(state.moment);
      document.querySelectorAll(".thumb")[5].click();
      const chosen = document.querySelectorAll(".past-frame.chosen").length;
      return [seen, state.layer, state.head, chosen];
    })()"""
    assert shown(page(found), script, tmp_path) == [[3, 3, 2, 1, 0, 2], 1, 1, 1]


@needs_chromium
def test_playing_goes_through_all_steps_and_less_motion_has_no_play(
    found: OverTime, tmp_path: Path
) -> None:
    script = """await (async () => {
      const play = document.querySelector(".timeline button"), seen = [];
      followers.push({ names: new Set(["moment"]), draw: () => seen.push(state.moment) });
      play.click();
      const during = play.textContent;
      while (player !== null) await new Promise((done) => setTimeout(done, 50));
      return [seen, during, play.textContent, play.hidden];
    })()"""
    seen = shown(page(found), script, tmp_path)
    assert seen == [[0, 1, 2, 3], "❚❚ Pause", "▶ Play", False]
    calm = "globalThis.matchMedia = () => ({ matches: true, addEventListener() {} });\n"
    html = page(found).replace('<script type="module">\n', f'<script type="module">\n{calm}')
    hidden = 'document.querySelector(".timeline button").hidden'
    assert shown(html, hidden, tmp_path) is True


@needs_chromium
def test_the_story_has_the_chapter_and_keeps_it_while_another_text_is_typed(
    run: Path, tmp_path: Path
) -> None:
    model: Any = load(run)
    script = """await (async () => {
      while (!document.querySelector(".ask")) await new Promise((done) => setTimeout(done, 20));
      const box = document.querySelector(".ask textarea");
      const about = () => {
        const chapter = document.querySelector("section#history");
        const isOther = chapter.textContent.includes("stays with the text");
        return [chapter.querySelectorAll(".past-frame").length, isOther];
      };
      const before = about();
      box.value = "said the cat, a bad";
      box.dispatchEvent(new Event("input"));
      while (waiting.length) waiting.shift()();
      return [before, about()];
    })()"""
    seen = model.inspect("a bad day")
    assert shown(story.page(seen), script, tmp_path) == [[4, False], [4, True]]
    assert story.page(seen) == story.page(model.inspect("a bad day"))


@needs_chromium
def test_a_run_without_snapshots_still_shows_its_curves_and_samples(
    run: Path, tmp_path: Path
) -> None:
    for file in (run / "snapshots").iterdir():
        file.unlink()
    model: Any = load(run)
    script = """(() => {
      const chapter = document.querySelector("section#history");
      const count = (name) => chapter.querySelectorAll(name).length;
      return [count("path.line"), chapter.querySelector(".sample").textContent, count(".timeline")];
    })()"""
    lines, sample, sliders = shown(story.page(model.inspect("a bad day")), script, tmp_path)
    assert (lines, sliders) == (2, 0)
    assert sample == "Sample of the run, from step 20the cat <b>sat</b>"


@needs_chromium
def test_the_page_opens_without_errors_and_texts_are_never_markup(
    run: Path, tmp_path: Path
) -> None:
    payloads = [each.encode(errors="replace").decode() for each in HOSTILE]
    samples = "".join(f"--- step {n} ---\n{each}\n" for n, each in enumerate(payloads))
    (run / "samples.txt").write_text(samples, encoding="utf-8")
    model: Any = load(run)
    history = model.inspect_over_time("a bad day")
    history.tokens[:] = (payloads * 9)[: len(history.tokens)]
    object.__setattr__(history.subject, "text", payloads[0])
    script = "[document.images.length, document.scripts.length, globalThis.hacked ?? null]"
    assert shown(page(history), script, tmp_path) == [0, 2, None]
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0")
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
    more = (f"--user-data-dir={tmp_path}/user", "--dump-dom", "--virtual-time-budget=5000")
    done = subprocess.run(
        ["chromium", *flags, *quiet, *more, (tmp_path / "page.html").as_uri()],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert "While it learned" in done.stdout
    assert "CONSOLE" not in done.stderr


def test_equal_histories_are_equal_bytes_and_load_nothing(run: Path) -> None:
    model: Any = load(run)
    html = page(model.inspect_over_time("a bad day"))
    assert html == page(model.inspect_over_time("a bad day"))
    assert not re.search(r"(src|href)=[\"']?https?:", html)
    assert str(run) not in html


def test_no_name_is_defined_twice_in_the_scripts_of_the_page() -> None:
    defined = re.compile(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
    names = [name for each in SCRIPTS for name in defined.findall(part(each))]
    assert len(names) == len(set(names)) > 30


def test_a_long_text_is_shown_with_fewer_pixels_whose_rows_still_sum_to_one(tmp_path: Path) -> None:
    model = predictor("ab", context_length=150)
    save_model(tmp_path, model.model, model.preprocessing)
    save_snapshot(tmp_path, 3, model.model)
    (tmp_path / "recipe.yaml").touch()
    loaded: Any = load(tmp_path)
    maps = history_data(loaded.inspect_over_time("ab" * 75))["maps"]["own"]
    weights = unpacked(maps["weights"]).astype(np.float64)
    assert weights.shape == (1, 2, 4, 64, 64)
    assert np.allclose(weights.sum(-1), 1, atol=5e-3)


@needs_chromium
def test_one_curve_stands_out_with_its_name_even_after_the_last_token(
    found: OverTime, tmp_path: Path
) -> None:
    script = """[8, 3].map((token) => {
      choose({ token });
      const chart = [...document.querySelectorAll(".over-time")]
        .find((each) => each.querySelector(".chosen-line"));
      const lines = [...chart.querySelectorAll("path.many")];
      const chosen = lines.filter((each) => each.matches(".chosen"));
      return { chosen: chosen.length, isOnTop: lines.at(-1) === chosen[0],
        name: chart.querySelector(".chosen-line").textContent,
        caption: chart.closest("figure").querySelector("figcaption").textContent };
    })"""
    last, fourth = shown(page(found), script, tmp_path)
    assert (last["chosen"], last["isOnTop"], last["name"]) == (1, True, "y")  # of "a bad day"
    assert (fourth["chosen"], fourth["isOnTop"], fourth["name"]) == (1, True, "d")
    assert "d” stands out" in fourth["caption"].replace("\u2069", "")


@needs_chromium
def test_one_token_and_one_snapshot_are_enough(run: Path, tmp_path: Path) -> None:
    for step in STEPS[:-1]:
        (run / "snapshots" / f"step-{step}.safetensors").unlink()
    model: Any = load(run)
    history = model.inspect_over_time("a")
    draw(history, tmp_path / "history.png")
    script = """[document.querySelectorAll(".past-frame").length, state.moment,
      document.querySelectorAll(".options .bars tbody tr").length]"""
    assert shown(page(history), script, tmp_path) == [1, 0, 8]


@pytest.mark.parametrize("ending", ["png", "svg", "html", "json"])
def test_a_history_is_drawn_in_every_format(ending: str, found: OverTime, tmp_path: Path) -> None:
    path = tmp_path / f"history.{ending}"
    draw(found, path)
    content = path.read_bytes()
    assert len(content) > 3000
    draw(found, path)
    assert path.read_bytes() == content
    if ending == "json":
        assert json.loads(content)["steps"] == list(STEPS)
    if ending == "svg":
        assert b"probability of each token of the text, by step" in content
