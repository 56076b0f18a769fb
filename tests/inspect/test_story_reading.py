"""Reading the story: every number shows where it comes from, pictures can be saved, and a link
opens the page as it was."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from page_scripts import script
from test_story_page import LIVE, masked_predictor, needs_chromium, predictor, shown, story
from translators import translator

import glassformer
from glassformer.inspect.page import part
from glassformer.inspect.story import SCRIPTS, page, story_data
from glassformer.inspect.story_data import spelling
from glassformer.text.portable import merges_of
from glassformer.text.tokenizer_training import train_tokenizer

TEXT = "low lower lowest, slow slower slowest. the lower the slower"


KINDS = (
    *("token", "place", "cosine", "weight", "query", "key", "product", "score", "value", "output"),
    *("lens", "state", "turn", "effect"),
)


def plain(text: str) -> str:
    """Without the marks that isolate directions of writing, and with a plain minus."""
    return re.sub("[\u2066-\u2069]", "", text).replace("−", "-")


def last_number(text: str) -> float:
    return float(re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", plain(text))[-1])


@needs_chromium
@pytest.mark.parametrize("kind", ["gpt", "bert", "transformer", "rnn"])
def test_every_kind_of_number_writes_its_sum(kind: str, tmp_path: Path) -> None:
    seen: Any
    if kind == "gpt":
        seen = story()
    elif kind == "bert":
        seen = masked_predictor().inspect("one [MASK] three")
    else:
        seen = translator(kind).inspect("one two three", target="two one")
    result = shown(page(seen), script("point_at_all"), tmp_path)
    found = result["found"]
    assert result["faults"] == []
    names = {of.split("/")[0] for of in found}
    own = {"gpt": {"sampled", "surprise", "beam"}, "bert": {"option", "surprise"}}
    own |= {"transformer": {"cross", "sampled", "beam"}, "rnn": {"cross", "sampled"}}
    assert names >= own[kind] | (set() if kind == "rnn" else set(KINDS))
    for of, each in found.items():
        assert len(each["said"]) >= 2, of
        assert "NaN" not in "".join(each["said"]), of
        assert "undefined" not in "".join(each["said"]), of
        assert of in each["lit"] or each["marks"], of


@needs_chromium
def test_a_sum_has_the_numbers_of_the_model_and_lights_its_sources(tmp_path: Path) -> None:
    seen = story()
    weight, score, output, projected = shown(page(seen), LIVE % script("sums"), tmp_path)
    capture = seen.capture()
    query, key, value = capture.queries[1, 2], capture.keys[1, 2], capture.values[1, 2]
    found = query[6] @ key[4] / np.sqrt(query.shape[-1])
    share = re.search(r"= ([\d.]+)%", weight[0])
    assert share
    assert float(share[1]) == pytest.approx(100 * seen.attention[1, 2, 6, 4], abs=0.1)
    assert last_number(score[0]) == pytest.approx(found, abs=1e-2)
    assert last_number(output[0]) == pytest.approx(
        float(seen.attention[1, 2, 6] @ value[:, 3]), abs=1e-2
    )
    assert last_number(projected[0]) == pytest.approx(query[6, 1], abs=1e-2)  # from the weights
    assert {"query/0/1/2/6/*", "key/0/1/2/4/*", "token/0/6", "token/0/4"} <= set(score[1])
    assert "value/0/1/2/4/*" in output[1]


@needs_chromium
def test_a_click_keeps_a_sum_its_terms_lead_on_and_escape_lets_go(tmp_path: Path) -> None:
    found = shown(page(story()), script("kept_sum"), tmp_path)
    assert found == ["weight", "weight", "score", "weight", True, False]


@needs_chromium
def test_prose_and_pictures_share_what_is_chosen(tmp_path: Path) -> None:
    chosen, values, key = shown(page(story()), script("prose"), tmp_path)
    assert chosen == [5, 1, 2, "layer 1, head 0"]
    assert values == ["7", "7"]
    assert key is None


@needs_chromium
def test_every_picture_is_saved_with_its_caption_and_origin(tmp_path: Path) -> None:
    found = shown(page(story()), script("saved_pictures"), tmp_path)
    assert len({each["name"] for each in found}) == len(found) > 12
    for each in found:
        tree = ElementTree.fromstring(each["svg"])
        names = [element.tag.split("}")[1] for element in tree]
        texts = [plain(element.text or "") for element in tree.iter() if "text" in element.tag]
        assert names[:3] == ["title", "desc", "rect"]
        assert tree[2].get("fill") == "#ffffff"  # light, whatever the page is
        lines = " ".join(texts)
        assert plain(each["caption"])[:30] in lines
        assert "gpt · “a bad day”" in lines
        assert f"glassformer {glassformer.__version__}" in lines
        assert glassformer.__version__ in (tree[1].text or "")
        assert each["buttons"] == 1
        assert float(tree.get("width", 0)) > 300
    (lines,) = [each["svg"] for each in found if each["name"] == "gpt-one-head-as-lines.svg"]
    assert "layer 1 · head 2" in lines
    (thumbs,) = [each["svg"] for each in found if each["name"] == "gpt-all-heads.svg"]
    assert thumbs.count("data:image/png") == 8


def opened(html: str, address: str, look: str, folder: Path) -> Any:
    """What a page shows that is opened with an address."""
    start = f'history.replaceState(null, "", {json.dumps(address)});\n'
    place = "// The page: reads its data"
    assert place in html
    return shown(html.replace(place, start + place, 1), look, folder)


@needs_chromium
def test_a_link_restores_text_heads_tokens_sliders_and_chapter(tmp_path: Path) -> None:
    change = """type("said the cat"); choose({ off: "1.2" });
      choose({ token: 4, key: 1, layer: 1, head: 3, temperature: 0.5, topK: 7, topP: 0.9 });
      goToChapter("prediction"); window.dispatchEvent(new Event("scroll"));
      await new Promise((done) => setTimeout(done, 600));
      return [location.hash, scene.predictions.at(-1).options[0].probability];"""
    address, expected = shown(page(story()), LIVE % change, tmp_path)
    found = opened(page(story()), address, LIVE % script("opened_link"), tmp_path)
    assert found["text"] == "said the cat"
    assert found["tokens"] == list("said the cat")
    assert found["off"] == [[1, 2]]
    assert found["said"] == "Switched off: head 2 of layer 1."
    assert found["p"] == pytest.approx(expected, abs=1e-6)
    chosen = {"token": 4, "key": 1, "layer": 1, "head": 3, "temperature": 0.5, "topK": 7}
    assert {name: found["state"][name] for name in chosen} == chosen
    assert found["state"]["chapter"] == "prediction"
    assert found["at"]


HOSTILE_ADDRESSES = (
    *("#token=-1&layer=99&head=1e9&key=NaN&temperature=Infinity&topK=1e3&topP=-2", "#%", "#%00"),
    *("#off=9.9,0.99,1.2.3", "#off=__proto__", "#chapter=__proto__", "#chapter=<img src=x>"),
    *("#__proto__=1&constructor=2&toString=3", "#token=0x1&layer= 1", "#step=999999", "#&&==&"),
    "#text=" + "%3Cimg src=x onerror=hacked=1%3E",
    "#text=" + "a" * 30_000,
    "#off=" + ",".join(["0.0"] * 700),
)


@needs_chromium
def test_hostile_addresses_are_harmless(tmp_path: Path) -> None:
    check = script("addresses").replace("ADDRESSES", json.dumps(HOSTILE_ADDRESSES))
    faults, seen, hacked, images = shown(page(story()), LIVE % check, tmp_path)
    assert faults == []
    assert seen == [[True] * 5] * len(HOSTILE_ADDRESSES)
    assert (hacked, images) == (None, 0)


@needs_chromium
def test_the_keyboard_reaches_everything_with_few_stops(tmp_path: Path) -> None:
    found = shown(page(story()), script("keyboard"), tmp_path)
    assert found["stops"] < 120
    assert found["groups"] == [[1, True]] * 7
    assert found["lens"] == "lens/1/1"
    assert found["token"] == 1
    assert found["cell"] == "position/2/1"


# --- merges ---


def test_words_have_the_merges_that_end_in_their_tokens() -> None:
    tokenizer = train_tokenizer("bpe", [TEXT] * 3, 270)
    ids = tokenizer.encode(TEXT)
    found = spelling(tokenizer, ids)
    assert found is not None
    assert b"".join(bytes(each) for each in found["bytes"]).decode() == TEXT
    for word in found["words"]:
        last = word["steps"][-1]["pieces"] if word["steps"] else word["bytes"]
        tokens = [tokenizer.token(id) for id in ids[word["first"] :][: len(last)]]
        assert last == tokens
        ranks = [step["rank"] for step in word["steps"]]
        assert all(0 <= rank < found["num_merges"] for rank in ranks)
        for step in word["steps"]:
            assert step["pieces"][step["place"]] in "".join(last)
    assert len(found["words"]) == len(tokenizer.parts(TEXT))
    assert spelling(train_tokenizer("char", [TEXT]), [0, 1]) is None


def test_a_word_that_was_cut_off_or_is_too_long_has_no_merges() -> None:
    tokenizer = train_tokenizer("bpe", [TEXT] * 3, 270)
    ids = tokenizer.encode("slower" + " slow" * 2 + " " + "x" * 10_000)
    found = spelling(tokenizer, ids[1:])
    assert found is not None
    firsts = [word["first"] for word in found["words"]]
    assert len(firsts) == 3 - (len(tokenizer.encode("slower")) == 1)
    assert sum(len(each) for each in found["bytes"]) > 10_000


def test_merges_name_their_ranks_and_places() -> None:
    tokenizer = train_tokenizer("bpe", [TEXT] * 3, 270)
    steps = list(merges_of(tokenizer, "low"))
    assert [len(step.pieces) for step in steps] == [2, 1]
    pairs = tokenizer.as_json()["model"]["merges"]
    for step in steps:
        assert step.rank is not None
        assert "".join(pairs[step.rank]) == step.pieces[step.place]


@needs_chromium
def test_the_page_shows_merges_of_the_chosen_word_also_of_typed_text(tmp_path: Path) -> None:
    seen = predictor(TEXT, "bpe").inspect("the slower")
    first, bytes_, python, own, count, coming = shown(page(seen), LIVE % script("merges"), tmp_path)
    assert own == python == story_data(seen)["streams"][0]["spelling"]
    assert first[0].startswith("␣slower|bytes")
    assert re.search(r"merge \d+ of \d+$", first[1])
    assert "stands for" in bytes_
    assert count - 2 == coming > 0


def test_the_scripts_of_the_page_are_short() -> None:
    assert max(len(part(name).splitlines()) for name in SCRIPTS) < 400
