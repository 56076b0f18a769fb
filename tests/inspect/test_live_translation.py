"""The translator that a page carries writes what Python writes."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_models import NO_LIMIT, in_page, needs_chromium, needs_node
from test_story_page import LIVE, shown
from translators import pupil, sentences, translator

from glassformer.inspect.live import live_or_error
from glassformer.inspect.story import page, story_data
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn.observe import without_heads
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.translate.predictor import TranslatePredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Tokenizer

SILENT = [["decoder", 0, 1, "cross"], ["encoder", 1, 0]]


def switched_off(model: Any, silent: list[list[Any]]) -> Any:
    found = {}
    for stack, layer, head, *kind in silent:
        block = getattr(model, stack)[layer]
        found[(block.cross_attention if kind else block.attention).tap] = [head]
    return without_heads(found)


def greedy(predictor: TranslatePredictor, text: str, silent: list[list[Any]]) -> list[int]:
    """The likeliest token at each step, by whole passes."""
    model, pairs = predictor.model, predictor.preprocessing
    (source,) = pairs.encode_source([text])
    ids = [pairs.start]
    with torch.inference_mode(), switched_off(model, silent):
        for _ in range(pairs.longest_target(len(source), model.context_length)):
            best = int(model(torch.tensor([source]), torch.tensor([ids]))[0, -1].argmax())
            if best == pairs.end:
                break
            ids.append(best)
    return ids


@needs_node
@pytest.mark.parametrize("silent", [[], SILENT])
def test_the_page_writes_the_greedy_translation(silent: list[list[Any]]) -> None:
    predictor = pupil()
    texts = sentences(12, seed=99)
    sources = predictor.preprocessing.encode_source(texts)
    carried = live_or_error(predictor.model, predictor.preprocessing, NO_LIMIT, "float32")
    job = {"live": carried, "sources": sources, "silent": silent}
    (found,) = in_page(("translations", job))
    expected = [greedy(predictor, text, silent) for text in texts]
    assert [each["ids"] for each in found] == expected
    assert any(each["isComplete"] for each in found)
    if not silent:
        written = predictor.translate(texts, num_beams=1)
        assert [predictor.preprocessing.decode(ids[1:]) for ids in expected] == [
            each.text for each in written
        ]
    else:
        assert expected != [greedy(predictor, text, []) for text in texts]


@needs_node
def test_a_translation_without_an_end_stops_where_python_stops() -> None:
    predictor = translator(target_length={"ratio": 1.0, "offset": 0})
    with torch.no_grad():
        predictor.model.head.bias[predictor.preprocessing.end] = -100  # type: ignore[index]
    carried = live_or_error(predictor.model, predictor.preprocessing, NO_LIMIT, "float32")
    sources = predictor.preprocessing.encode_source(["one two", "one " * 20])
    (found,) = in_page(("translations", {"live": carried, "sources": sources, "silent": []}))
    limits = [predictor.preprocessing.longest_target(len(each), 24) for each in sources]
    assert [each["isComplete"] for each in found] == [False, False]
    assert [len(each["ids"]) - 1 for each in found] == limits
    assert limits[1] == predictor.model.context_length


@needs_chromium
@pytest.mark.parametrize("silent", [[], [[0, 1, "cross"], [1, 0, "source"], [1, 1]]])
def test_a_typed_source_gives_what_python_computes_for_it(
    silent: list[list[Any]], tmp_path: Path
) -> None:
    predictor = pupil()
    text = "four  three two"
    script = f"""await (async () => {{
      const model = await makeLive(data.live);
      const scene = liveScene(model, data.live, {json.dumps(text)}, {json.dumps(silent)}, written);
      return {{
        streams: scene.streams.map(({{ tokens }}) => tokens), predictions: scene.predictions,
        cross: crossWeightsOf(scene.main, 1, 1), source: weightsOf(looksOf(scene)[1], 1, 0),
        between: weightsOf(looksOf(scene)[2], 1, 1), text: scene.text, lens: scene.lens,
      }};
    }})()"""
    found = shown(page(predictor.inspect("one two three")), script, tmp_path)
    names = {"cross": ["decoder", "cross"], "source": ["encoder"]}
    off = []
    for layer, head, *group in silent:
        stack, *kind = names[group[0]] if group else ["decoder"]
        off.append([stack, layer, head, *kind])
    ids = greedy(predictor, "four three two", off)
    with switched_off(predictor.model, off):
        written = predictor.preprocessing.decode(ids[1:])
        seen = predictor.inspect("four three two", target=written)
        expected = story_data(seen)
    assert found["text"] == "four three two"
    assert found["streams"] == [stream.tokens for stream in seen.subject.streams]
    assert seen.cross_attention is not None
    assert np.abs(np.array(found["cross"]) - seen.cross_attention[1, 1]).max() < 1e-3
    assert np.abs(np.array(found["between"]) - seen.cross_attention[1, 1]).max() < 1e-3
    source = seen.capture(seen.subject.streams[0]).attention[1, 0]
    assert np.abs(np.array(found["source"]) - source).max() < 1e-3
    for ours, theirs in zip(found["predictions"], expected["predictions"], strict=True):
        assert ours["actual"] == theirs["actual"]
        assert ours["logprob"] == pytest.approx(theirs["logprob"], abs=2e-3)
    assert found["lens"][1][0][0][1] == pytest.approx(expected["lens"][1][0][0][1], abs=1e-3)


@needs_chromium
def test_the_page_shows_the_translation_while_the_reader_types(tmp_path: Path) -> None:
    predictor = pupil()
    script = (
        LIVE
        % """const shown = () => document.querySelector(".translation").textContent;
      const first = shown(), heads = () => document.querySelectorAll(".effects").length;
      const before = heads();
      type("five one four");
      const second = shown();
      while (heads() < 3) await new Promise((done) => setTimeout(done, 20));
      const cell = document.querySelectorAll(".effects")[2].querySelector("tbody td");
      cell.click();
      const off = document.querySelector(".said.warning").textContent;
      return [first, second, before, off, location.hash.length > 0];"""
    )
    seen = predictor.inspect("one two three", target="two one")
    first, second, before, off, _ = shown(page(seen), script, tmp_path)
    assert first == "two one"
    ids = greedy(predictor, "five one four", [])
    assert second == predictor.preprocessing.decode(ids[1:])
    assert before == 3
    assert off == "Switched off: head 0 of layer 0 (cross)."


@needs_chromium
def test_the_reader_chooses_whose_attention_is_shown(tmp_path: Path) -> None:
    seen = pupil().inspect("one two three", target="two one")
    script = """[state.token, (choose({ token: 2 }), [0, 1, 2]).map((n) => {
      document.querySelectorAll(".looks button")[n].click();
      const visible = [...document.querySelectorAll(".heads .drawn > div")]
            .filter((each) => !each.hidden && each.querySelector(".thumb"));
      return {
        said: document.querySelector(".one-head .said").textContent,
        asking: document.querySelectorAll(".side-token").length,
        keys: document.querySelectorAll(".side-key").length,
        thumbs: visible.map((each) => each.querySelectorAll(".thumb").length),
        step: document.querySelector(".vector .vector-name").textContent,
        pressed: [...document.querySelectorAll(".looks button")].map((b) => b.ariaPressed),
      };
    })]"""
    opened, (target, source, cross) = shown(page(seen), script, tmp_path)
    assert opened == 1  # "two": what follows the last token is only the end
    assert [(each["asking"], each["keys"]) for each in (target, source, cross)] == [
        (3, 3),
        (4, 4),
        (3, 4),
    ]
    assert [each["thumbs"] for each in (target, source, cross)] == [[4], [4], [4]]
    assert cross["pressed"] == ["false", "false", "true"]
    assert seen.cross_attention is not None
    largest = seen.cross_attention[0, 0, -1].max()
    assert f"{100 * largest:.1f}%" in cross["said"]
    assert "one" in cross["step"]  # the query of the last token of the translation
    read = seen.capture(seen.subject.streams[0]).attention[0, 0, -1].max()
    assert f"{100 * read:.1f}%" in source["said"]


@needs_chromium
def test_the_vectors_of_the_positions_follow_the_text(tmp_path: Path) -> None:
    predictor = pupil()
    script = """await (async () => {
      const model = await makeLive(data.live);
      const scene = liveScene(model, data.live, "four three two", [], written);
      return [scene.embeddings.positions, scene.main.tokens.length];
    })()"""
    found, length = shown(page(predictor.inspect("one")), script, tmp_path)
    ids = greedy(predictor, "four three two", [])
    seen = predictor.inspect("four three two", target=predictor.preprocessing.decode(ids[1:]))
    expected = story_data(seen)["embeddings"]["positions"]
    assert len(found["vectors"]) == length == len(ids)
    assert np.allclose(found["vectors"], expected["vectors"], atol=1e-5)
    assert np.allclose(found["similar"], expected["similar"], atol=1e-5)


def same_tree(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for key in ("num_beams", "best", "greedy", "winner"):
        assert found[key] == expected[key]
    for key in ("score", "greedy_score"):
        assert found[key] == pytest.approx(expected[key], abs=1e-3)
    assert len(found["nodes"]) == len(expected["nodes"])
    for ours, theirs in zip(found["nodes"], expected["nodes"], strict=True):
        for key in ("node", "parent", "step", "token", "fate"):
            assert ours[key] == theirs[key]
        assert ours["logprob"] == pytest.approx(theirs["logprob"], abs=1e-3)
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-3)


TREE = """await (async () => {
  const model = await makeLive(data.live);
  const scene = liveScene(model, data.live, %s, [], written);
  return await new Promise((done) => scene.searchBeams(done));
})()"""


@needs_chromium
@pytest.mark.parametrize("text", ["four three two", "seven"])
def test_the_tree_of_a_typed_source_is_that_of_python(text: str, tmp_path: Path) -> None:
    predictor = pupil()
    found = shown(page(predictor.inspect("one two")), TREE % json.dumps(text), tmp_path)
    ids = greedy(predictor, text, [])
    seen = predictor.inspect(text, target=predictor.preprocessing.decode(ids[1:]))
    same_tree(found, story_data(seen)["beams"])


@needs_chromium
def test_the_page_never_writes_a_forbidden_token(tmp_path: Path) -> None:
    """As Marian's models, whose start is their padding, which they have not learned to avoid."""
    predictor = deepcopy(pupil())
    start = predictor.preprocessing.target.token(predictor.preprocessing.start)
    predictor.preprocessing = predictor.preprocessing.model_copy(update={"start_token": start})
    assert predictor.preprocessing.forbidden == (predictor.preprocessing.start,)
    with torch.no_grad():
        bias = predictor.model.head.bias
        assert bias is not None
        bias[predictor.preprocessing.start] += 30  # now it is the likeliest token everywhere
    text = "four three two"
    script = f"""await (async () => {{
      const model = await makeLive(data.live);
      const scene = liveScene(model, data.live, {json.dumps(text)}, [], written);
      return [scene.main.ids, await new Promise((done) => scene.searchBeams(done))];
    }})()"""
    ids, tree = shown(page(predictor.inspect("one two")), script, tmp_path)
    assert start not in [node["token"] for node in tree["nodes"]]
    written = predictor.preprocessing.decode(ids[1:])
    assert written == predictor.translate(text, num_beams=1).text
    same_tree(tree, story_data(predictor.inspect(text, target=written))["beams"])


def gpt(text: str, folder: Path, start: str | None) -> LanguagePredictor:
    """A small GPT; its tokenizer may begin every text with a token of its own, as Llama's do."""
    own = train_tokenizer("bpe", [text] * 9, 280, () if start is None else (start,))
    if start is not None:
        file = folder / "tokenizer.json"
        own.save(file)
        settings = json.loads(file.read_text(encoding="utf-8"))
        (id,) = [each["id"] for each in settings["added_tokens"] if each["content"] == start]
        settings["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": start, "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {start: {"id": start, "ids": [id], "tokens": [start]}},
        }
        file.write_text(json.dumps(settings), encoding="utf-8")
        own = Tokenizer.load(file)
        assert own.begins_with == (id,)
    torch.manual_seed(3)
    shape: dict[str, Any] = {"num_layers": 2, "d_model": 32, "num_heads": 2, "context_length": 12}
    model = GPT(GPTConfig(vocab_size=own.vocab_size, output_bias=True, tie_weights=False, **shape))
    end = own.end_of_text
    assert end is not None
    assert model.head.bias is not None
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        model.head.bias[end] += 3  # it is likely enough to be written
    return LanguagePredictor(model, TextPreprocessing(tokenizer=own, is_causal=True))


@needs_chromium
@pytest.mark.parametrize("start", [None, "<|startoftext|>"])
@pytest.mark.parametrize("text", ["said", "a bad day, said the cat, a bad day. a bad cat, said he"])
def test_the_tree_of_a_typed_text_is_that_of_python(
    start: str | None, text: str, tmp_path: Path
) -> None:
    """The longer text fills the context: the window moves on."""
    model = gpt("a bad day, said the cat.", tmp_path, start)
    expected = story_data(model.inspect(text))["beams"]
    assert len(model.inspect(text).tokens) in (range(2, 4) if text == "said" else [12])
    assert {"complete", "cut off"} <= {node["fate"] for node in expected["nodes"]}
    same_tree(shown(page(model.inspect("a bad day")), TREE % json.dumps(text), tmp_path), expected)
