"""The story of a text: what the page shows is what the model computed, and nothing is markup."""

import base64
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
from page_families import FAMILIES
from test_alignment_pictures import HOSTILE
from translators import translator

from glassformer.errors import UsageError
from glassformer.inspect.inspection import Inspection
from glassformer.inspect.page import part
from glassformer.inspect.story import CHAPTERS, SCRIPTS, page, story_data
from glassformer.inspect.views import draw
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn.observe import without_heads
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")


def predictor(text: str, kind: Any = "char", **more: Any) -> LanguagePredictor:
    tokenizer = train_tokenizer(kind, [text] * 3)
    torch.manual_seed(0)
    shape = {"num_layers": 2, "d_model": 16, "num_heads": 4, "context_length": 64}
    config = GPTConfig(vocab_size=tokenizer.vocab_size, **shape | more)
    model = GPT(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return LanguagePredictor(model, TextPreprocessing(tokenizer=tokenizer, is_causal=True))


def story(text: str = "a bad day", **more: Any) -> Inspection:
    return predictor("a bad day, said the cat.", **more).inspect(text)


def unpacked(packed: dict[str, Any]) -> Any:
    values = np.frombuffer(base64.b64decode(packed["data"]), packed["dtype"])
    return values.reshape(packed["shape"])


def shown(html: str, script: str, folder: Path) -> Any:
    """The value of an expression in the page, computed by Chromium from a file on disk."""
    place = f'\nadd(main, "pre", {{ id: "out" }}, JSON.stringify({script}));\n</script>'
    file = folder / "page.html"
    file.write_text(place.join(html.rsplit("\n</script>", 1)), encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--disable-sync")
    quiet = ("--disable-background-networking", "--disable-component-update")
    user = f"--user-data-dir={folder}/user"
    budget = "--virtual-time-budget=20000"
    done = subprocess.run(
        ["chromium", *flags, *quiet, user, budget, file.as_uri()],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found[1]))


def test_the_queries_and_keys_of_the_page_give_the_attention_of_the_model() -> None:
    seen = story()
    (stream,) = story_data(seen)["streams"]
    assert stream["causal"]
    for layer, arrays in enumerate(stream["layers"]):
        query, key = (unpacked(arrays[name]).astype(np.float64) for name in ("query", "key"))
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
        scores = np.where(np.tri(len(seen.tokens), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        assert np.abs(weights - seen.attention[layer]).max() < 3e-3  # float16


@needs_chromium
@pytest.mark.parametrize(
    "more", [{}, {"positions": "relative"}, {"positions": "rotary", "num_kv_heads": 2}]
)
def test_a_browser_shows_the_weights_of_the_model(more: dict[str, Any], tmp_path: Path) -> None:
    seen = story(**more)
    script = "[0, 1].map((l) => [0, 1, 2, 3].map((h) => weightsOf(scene.main, l, h)))"
    found = np.array(shown(page(seen), script, tmp_path))
    assert np.abs(found - seen.attention).max() < 3e-3


@needs_chromium
def test_a_browser_draws_every_chapter_and_follows_the_chosen_token(tmp_path: Path) -> None:
    seen = story()
    script = """(choose({ token: 3, layer: 1, head: 2 }), {
      sections: [...document.querySelectorAll("section.chapter")].map(({ id }) => id),
      said: document.querySelector(".one-head .said").textContent,
      chosen: document.querySelectorAll(".chip.chosen").length,
      address: location.hash,
      step: [...document.querySelectorAll(".step")].map(({ textContent }) => textContent),
    })"""
    found = shown(page(seen), script, tmp_path)
    expected = [name for name in CHAPTERS if name not in ("alignment", "history")]
    assert found["sections"] == expected
    weights = seen.attention[1, 2, 3]
    assert f"{100 * weights.max():.1f}%" in found["said"].replace("\u2068", "")
    assert "token=3" in found["address"]
    assert "layer=1" in found["address"]
    assert found["chosen"] == 1
    assert any("softmax over 4 tokens" in each for each in found["step"])


@needs_chromium
def test_the_sliders_change_the_probabilities_as_the_maths_says(tmp_path: Path) -> None:
    seen = story()
    script = "sampled(distributionAt(scene, 8).logits.data, 0.5, 4, 0.8)"
    found = shown(page(seen), script, tmp_path)
    logits = np.sort(seen.logits[-1].astype(np.float64))[::-1] / 0.5
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    assert np.allclose(found["shares"], shares, atol=1e-6)
    top = shares[:4] / shares[:4].sum()
    kept = int(np.argmax(np.cumsum(top) >= 0.8)) + 1
    assert found["kept"] == kept
    assert np.allclose(found["after"][:kept], shares[:kept] / shares[:kept].sum(), atol=1e-6)
    assert sum(found["after"][kept:]) == 0


@needs_chromium
def test_styles_of_one_chapter_leave_the_others_alone(tmp_path: Path) -> None:
    for name in ("gpt", "translator"):
        script = """[...document.querySelectorAll("tr, .rung-piece")]
          .map((each) => [each.tagName, getComputedStyle(each)])
          .filter(([tag, { display, position }]) => position !== "static"
            || (tag === "TR" && display !== "table-row")).length"""
        assert shown(page(FAMILIES[name]()), script, tmp_path) == 0


@needs_chromium
def test_two_streams_have_a_chapter_on_the_source(tmp_path: Path) -> None:
    seen = translator("transformer").inspect("one two three", target="two one")
    script = "[crossWeightsOf(scene.main, 1, 0), scene.main.causal, scene.streams[0].causal]"
    weights, is_causal, source = shown(page(seen), script, tmp_path)
    assert seen.cross_attention is not None
    assert np.abs(np.array(weights) - seen.cross_attention[1, 0]).max() < 1e-3
    assert (is_causal, source) == (True, False)


@needs_chromium
def test_a_recurrent_translator_has_only_the_chapters_that_make_sense(tmp_path: Path) -> None:
    seen = translator("rnn").inspect("one two three", target="two one")
    script = '[...document.querySelectorAll("section.chapter")].map(({ id }) => id)'
    assert shown(page(seen), script, tmp_path) == [
        "tokens",
        "embeddings",
        "prediction",
        "attribution",
        "beams",
        "alignment",
    ]


@needs_chromium
def test_tokens_that_look_like_markup_stay_text(tmp_path: Path) -> None:
    payloads = [each.encode(errors="replace").decode() for each in HOSTILE]
    seen = story("a bad day, said the cat"[: len(payloads)])
    seen.tokens[:] = (payloads * 20)[: len(seen.tokens)]
    object.__setattr__(seen.subject, "text", payloads[0])
    object.__setattr__(seen.subject, "name_of", lambda id: payloads[id % len(payloads)])
    script = """[document.images.length, document.scripts.length, globalThis.hacked ?? null,
      document.getElementById("title").textContent, scene.main.tokens]"""
    images, scripts, hacked, title, tokens = shown(page(seen), script, tmp_path)
    assert (images, scripts, hacked) == (0, 2, None)
    assert title == payloads[0]
    assert tokens == seen.tokens


def test_equal_stories_are_equal_bytes_and_load_nothing() -> None:
    html = page(story())
    assert html == page(story())
    assert not re.search(r"(src|href)=[\"']?https?:", html)
    assert "default-src 'none'" in html


def test_no_name_is_defined_twice_in_the_scripts_of_the_page() -> None:
    defined = re.compile(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
    names = [name for each in SCRIPTS for name in defined.findall(part(each))]
    assert len(names) == len(set(names)) > 30


@pytest.mark.parametrize("view", ["heads", "lens", "ablation", "prediction", "attribution"])
@pytest.mark.parametrize("ending", ["png", "svg", "html", "json"])
def test_every_view_is_drawn_in_every_format(view: str, ending: str, tmp_path: Path) -> None:
    seen = getattr(predictor("a bad day, said the cat."), view)("a bad day")
    path = tmp_path / f"picture.{ending}"
    draw(seen, path)
    content = path.read_bytes()
    assert len(content) > 500
    draw(seen, path)
    assert path.read_bytes() == content
    if ending == "json":
        assert json.loads(content)["tokens"] == list("a bad day")
    if ending == "svg":
        assert b"a bad day" in content
    assert len(seen.text().splitlines()) > 2


def test_the_story_itself_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the story is a page. Let the name end in \.html"):
        draw(story(), tmp_path / "story.png")


def test_a_long_lens_is_refused_as_a_picture(tmp_path: Path) -> None:
    seen = predictor("ab", context_length=128).lens("ab" * 40)
    with pytest.raises(UsageError, match="the lens of 80 tokens does not fit into a picture"):
        draw(seen, tmp_path / "lens.png")


@needs_chromium
@pytest.mark.parametrize("silent", [[], [(1, 2)]])
def test_another_text_in_the_page_gives_what_python_computes_for_it(
    silent: list[tuple[int, int]], tmp_path: Path
) -> None:
    model = predictor("a bad day, said the cat.")
    script = f"""await (async () => {{
      const model = await makeLive(data.live);
      const scene = liveScene(model, data.live, "said the cat", {json.dumps(silent)}, written);
      const effects = await new Promise((done) => effectsOfHeads(scene, done));
      return {{
        tokens: scene.main.tokens, effects, near: scene.embeddings.neighbours,
        predictions: scene.predictions, lens: scene.lens, path: scene.path,
        weights: weightsOf(scene.main, 1, 3),
      }};
    }})()"""
    found = shown(page(model.inspect("a bad day")), script, tmp_path)
    stack = model.model.blocks
    with without_heads({stack.attentions[layer].tap: [head] for layer, head in silent}):
        seen = model.inspect("said the cat")
        expected = story_data(seen)
    assert found["tokens"] == seen.tokens
    assert np.abs(np.array(found["weights"]) - seen.attention[1, 3]).max() < 1e-3
    for ours, theirs in zip(found["predictions"], expected["predictions"], strict=True):
        assert ours["actual"] == theirs["actual"]
        assert ours["logprob"] == pytest.approx(theirs["logprob"], abs=2e-3)
        assert ours["options"][0]["probability"] == pytest.approx(
            theirs["options"][0]["probability"], abs=1e-3
        )
    assert found["lens"][1][4][0][1] == pytest.approx(expected["lens"][1][4][0][1], abs=1e-3)
    assert np.allclose(found["path"]["norms"], expected["path"]["norms"], rtol=1e-3)
    assert np.allclose(found["path"]["similar"], expected["path"]["similar"], atol=1e-3)
    assert found["path"]["share"] == pytest.approx(expected["path"]["share"], abs=0.02)
    assert found["near"][0][0][1] == pytest.approx(
        expected["embeddings"]["neighbours"][0][0][1], abs=1e-3
    )
    if not silent:
        divergence = np.array(found["effects"]["divergence"])
        assert np.abs(divergence - seen.effects().divergence).max() < 1e-2


def masked_predictor() -> MaskedPredictor:
    tokenizer = train_tokenizer("word", ["one two three four five"] * 3, None, list(BERT_TOKENS))
    torch.manual_seed(0)
    shape = {"num_layers": 2, "d_model": 16, "num_heads": 4, "context_length": 12}
    model = Bert(BertConfig(vocab_size=tokenizer.vocab_size, **shape))
    return MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=tokenizer))


@needs_chromium
@pytest.mark.parametrize("text", ["one two three four five " * 4, "one [MASK] three", "one two"])
def test_the_page_reads_a_text_for_a_masked_model_as_python_does(text: str, tmp_path: Path) -> None:
    model = masked_predictor()
    script = f"""await (async () => {{
      const model = await makeLive(data.live);
      const scene = liveScene(model, data.live, {json.dumps(text)}, [], written);
      return [scene.main.tokens, scene.focus, scene.notes];
    }})()"""
    seen = model.inspect(text)
    tokens, focus, notes = shown(page(model.inspect("three")), script, tmp_path)
    assert tokens == seen.tokens
    assert focus == story_data(seen)["focus"]
    assert notes == list(seen.notes)


LIVE = """await (async () => {
  while (!document.querySelector(".ask")) await new Promise((done) => setTimeout(done, 20));
  const box = document.querySelector(".ask textarea");
  const type = (text) => { box.value = text; box.dispatchEvent(new Event("input")); };
  const tokens = () => scene.main.tokens;
  %s
})()"""


@needs_chromium
def test_the_page_keeps_the_line_breaks_of_its_text(tmp_path: Path) -> None:
    seen = predictor("a bad\n\tday").inspect("a bad\n\tday")
    script = LIVE % 'const first = tokens(); type("bad\\nday"); return [first, tokens()];'
    assert shown(page(seen), script, tmp_path) == [list("a bad\n\tday"), list("bad\nday")]


@needs_chromium
def test_a_head_switched_off_and_on_again_leaves_the_numbers_of_python(tmp_path: Path) -> None:
    seen = story()
    script = (
        LIVE
        % """const click = () => document.querySelector(".effects tbody td").click();
      const best = () => scene.predictions.at(-1).options[0].probability;
      const found = [best()];
      click();
      while (!document.querySelector(".effects")) await new Promise((d) => setTimeout(d, 20));
      found.push(best());
      click();
      return [...found, best()];"""
    )
    before, without, after = shown(page(seen), script, tmp_path)
    assert before == after
    assert before == pytest.approx(seen.predictions[-1].options[0].probability, rel=1e-5)
    model = predictor("a bad day, said the cat.")
    with without_heads({model.model.blocks.attentions[0].tap: [0]}):
        expected = model.inspect("a bad day").predictions[-1].options[0].probability
    assert without == pytest.approx(expected, abs=1e-3)


@needs_chromium
def test_only_tokens_that_the_pictures_follow_can_be_chosen(tmp_path: Path) -> None:
    seen = translator("transformer").inspect("one two three", target="two one")
    script = """(document.querySelectorAll(".chip").forEach((chip) => chip.click()),
      [state.token, document.querySelectorAll(".chip.chosen").length])"""
    assert shown(page(seen), script, tmp_path) == [len(seen.tokens) - 1, 1]


@needs_chromium
def test_the_keyboard_stays_at_the_token_that_it_chose(tmp_path: Path) -> None:
    sides = 'document.querySelectorAll(".side-token")'
    script = f"({sides}[2].focus(), [state.token, [...{sides}].indexOf(document.activeElement)])"
    assert shown(page(story()), script, tmp_path) == [2, 2]


@needs_chromium
def test_an_address_with_numbers_that_are_no_places_is_ignored(tmp_path: Path) -> None:
    script = """(location.hash = "#token=0.5&layer=9&temperature=0.5",
      fromAddress({ token: 3, layer: 1, temperature: 2 }),
      [state.token, state.layer, state.temperature])"""
    assert shown(page(story()), script, tmp_path) == [8, 0, 0.5]


@needs_chromium
def test_the_page_says_how_far_it_agrees_with_python(tmp_path: Path) -> None:
    script = """await (async () => {
      while (!document.querySelector(".ask")) await new Promise((done) => setTimeout(done, 20));
      return document.querySelector(".stamp").textContent;
    })()"""
    said = shown(page(story()), script, tmp_path)
    found = re.search(r"agree with Python's to ([\d.e-]+) \(weights as int16\)", said)
    assert found, said
    assert float(found[1]) < 1e-3


@pytest.mark.parametrize("kind", ["gpt", "transformer", "rnn"])
def test_the_tree_is_the_record_of_the_search(kind: str) -> None:
    if kind == "gpt":
        model = predictor("a bad day, said the cat.")
        seen = model.inspect("a bad day")
        best = model.generate("a bad day", num_beams=4, max_new_tokens=10)
        greedy = model.generate("a bad day", temperature=0, max_new_tokens=10)
        ours, text = story_data(seen)["beams"], "".join
    else:
        translates = translator(kind)
        seen = translates.inspect("one two three", target="two one")
        limit = len(seen.tokens) + 1 + 4
        best = translates.translate("one two three", num_beams=4, max_new_tokens=limit)
        greedy = translates.translate("one two three", num_beams=1, max_new_tokens=limit)
        ours, text = story_data(seen)["beams"], " ".join
    assert text(ours["best"]) == best.text
    assert text(ours["greedy"]) == greedy.text
    nodes = ours["nodes"]
    assert [nodes[node]["token"] for node in ours["winner"]][: len(ours["best"])] == ours["best"]
    by_step: dict[int, list[dict[str, Any]]] = {}
    for node in nodes:
        by_step.setdefault(node["step"], []).append(node)
        if node["parent"] is not None:
            assert nodes[node["parent"]]["step"] == node["step"] - 1
            assert nodes[node["parent"]]["fate"] == "kept"
            assert node["logprob"] <= nodes[node["parent"]]["logprob"]
    assert all(len(each) <= 8 for each in by_step.values())


@needs_chromium
def test_a_browser_draws_every_candidate_and_marks_the_winner(tmp_path: Path) -> None:
    seen = story()
    script = """[document.querySelectorAll(".candidate").length,
      document.querySelectorAll(".candidate.winner").length]"""
    beams = story_data(seen)["beams"]
    assert shown(page(seen), script, tmp_path) == [len(beams["nodes"]), len(beams["winner"])]
