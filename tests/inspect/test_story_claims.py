"""What a page says of its model is what the model does: every equation is evaluated as it stands
there, with the parts that it names, and every sentence about a part is held against a perturbation
of that part."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from picture_models import captioner, multiscale, painter, picture, shaken, vit
from test_inspecting_vectors import encoder
from test_picture_stories import words
from test_story_page import needs_chromium, predictor, shown
from torch import Tensor, nn
from translators import translator

from glassformer.inspect.capture import WindowLayer
from glassformer.inspect.inspection import Inspection
from glassformer.inspect.story import page
from glassformer.models.bag import Bag, BagConfig
from glassformer.models.classifier import Classifier, ClassifierConfig
from glassformer.nn.blocks import Block
from glassformer.nn.positions import RotaryPositions
from glassformer.tasks.classify.task import ClassifyPredictor

Array = np.ndarray[Any, Any]


def language(**more: Any) -> Inspection:
    return predictor("a bad day, said the cat.", **more).inspect("a bad day")


def image(model: Any, **more: Any) -> Inspection:
    seen: Inspection = model(**more).inspect(picture())
    return seen


def classifier(kind: Any, **more: Any) -> Inspection:
    known, labels = words(), ("good", "bad")
    config = kind[1](vocab_size=known.tokenizer.vocab_size, labels=labels, d_model=16, **more)
    return ClassifyPredictor(shaken(kind[0](config)), known).inspect("one two three one")


def encoder_of_labels(**more: Any) -> Inspection:
    shape = {"num_layers": 2, "num_heads": 2, "context_length": 8, "bag": False}
    return classifier((Classifier, ClassifierConfig), **shape | more)


CONVOLUTION = {"embedding": "convolution", "patch_size": 4}
FAMILIES: dict[str, Callable[[], Inspection]] = {
    "gpt": language,
    "gpt, post-norm": lambda: language(pre_norm=False, positions="sinusoidal"),
    "gpt, relative": lambda: language(positions="relative", bias=False),
    "gpt, modern": lambda: language(
        positions="rotary", num_kv_heads=2, qk_norm=True, norm="rms", bias=False
    ),
    "gpt, narrow": lambda: language(positions="none", d_embedding=8, tie_weights=False),
    "bert": lambda: encoder(has_head=True, num_segments=2).inspect("one two"),
    "bert, pre-norm": lambda: encoder(pre_norm=True, embedding_norm=False).inspect("one two"),
    "classifier": encoder_of_labels,
    "translator": lambda: translator(scale_embedding=True).inspect("one two three"),
    "translator, post-norm": lambda: translator(
        pre_norm=False, scale_embedding=False, positions="learned"
    ).inspect("one two three"),
    "vit": lambda: image(vit),
    "vit, convolution": lambda: image(vit, **CONVOLUTION, pooling="mean"),
    "vit, post-norm": lambda: image(vit, pre_norm=False, positions="sinusoidal"),
    "vit, rotary": lambda: image(vit, positions="rotary", qk_norm=True),
    "multiscale-vit": lambda: image(multiscale),
    "multiscale-vit, convolution": lambda: image(multiscale, qk_norm=True, **CONVOLUTION),
    "captioner": lambda: image(captioner),
    "image-gpt": lambda: painter().inspect(picture(3, 4)),
}
# What is not the chapter on a stack of blocks.
OTHERS: dict[str, Callable[[], Inspection]] = {
    "show-attend-tell": lambda: image(lambda: captioner("show-attend-tell")),
    "rnn translator": lambda: translator("rnn").inspect("one two three"),
    "bag": lambda: classifier((Bag, BagConfig)),
    "bag of words": lambda: classifier((Bag, BagConfig), ngrams=1, weighting="mean"),
    "bag of letters": lambda: classifier((Bag, BagConfig), ngrams=3, char_ngrams=4),
    "several labels": lambda: encoder_of_labels(multi_label=True),
}

SPOKEN = """(() => {
  const spoken = (lines) => lines.flat().map((part) => part.text ?? part).join("");
  %s
})()"""
SAID = (
    SPOKEN
    % """
  const text = (id, selector) => [...document.querySelectorAll(`#${id} ${selector}`)]
    .map(({ textContent }) => textContent.replace(/\\s+/g, " ")).join(" ");
  const ids = [...document.querySelectorAll("section.chapter")].map(({ id }) => id);
  scene.projection = null; // as on a page that does not carry the weights
  const looks = scene.main.layers ? looksOf(scene) : [];
  const inHead = (name) => looks.map((_, n) => spoken(operations.get(name).lines(n, 1, 1, 1, 0)));
  return {
    equations: Object.fromEntries(ids.map((id) => [id, text(id, ".equation")])),
    notes: Object.fromEntries(ids.map((id) => [id, text(id, ".lead, .hint")])),
    sums: Object.fromEntries(["query", "key", "value"].map((name) => [name, inHead(name)])),
    sliders: document.querySelectorAll("#prediction input[type=range]").length,
  };"""
)


def said_by(seen: Inspection, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = shown(page(seen), SAID, folder)
    return found


class Ran(list[Any]):
    """What each block of the last stream was given and what it returned, in one more run."""

    def __init__(self, seen: Inspection) -> None:
        stream = seen.stream
        self.blocks = [each for each in stream.stack or stream.blocks if isinstance(each, Block)]
        handles = [
            block.register_forward_hook(
                lambda block, given, more, returned: self.append((block, given, more, returned)),
                with_kwargs=True,
            )
            for block in self.blocks
        ]
        with torch.inference_mode():
            seen.subject.run()
        for handle in handles:
            handle.remove()


# --- the equations ---


@needs_chromium
@pytest.mark.parametrize("family", FAMILIES)
def test_the_equations_give_the_numbers_of_the_model(family: str, tmp_path: Path) -> None:
    seen = FAMILIES[family]()
    said = said_by(seen, tmp_path)
    equations, ran = said["equations"], Ran(seen)
    for block, given, more, returned in ran:
        assert close(stepped(equations["layers"], block, given, more), returned)
    check_attention(seen, equations["attention"])
    inside = re.search(r"/ √d(.*?)\)", equations["computation"])
    assert inside is not None
    assert f"/ √d{inside[1]})" in equations["attention"]
    for kind in ("query", "key", "value"):
        check_projection(seen, kind, said["sums"][kind], ran)
    if "embeddings" in equations and seen.subject.positions is not None:
        check_entry(seen, equations["embeddings"])
    check_prediction(seen, said)


def stepped(equation: str, block: Block, given: Any, more: Any) -> Tensor:
    """A block as the equation of its chapter computes it."""
    arguments = dict(zip(("x", "rules", "cache", "memory"), given, strict=False)) | more
    x, rules, memory = arguments["x"], arguments.get("rules"), arguments.get("memory")
    parts: dict[str, tuple[Any, Any]] = {
        "attention": (
            lambda x: block.attention(x) if rules is None else block.attention(x, rules),
            block.attention_norm,
        ),
        "feed-forward": (block.feedforward, block.feedforward_norm),
    }
    if block.cross_attention is not None:
        cross_attend = block.cross_attention.cross_attend
        part = (lambda x: cross_attend(x, memory), block.cross_attention_norm)
        parts |= {"attention to the source": part, "attention to the picture": part}
    with torch.inference_mode():
        for step in equation.split(";"):
            before = re.fullmatch(r"\s*x ← x \+ ([\w\s-]+)\(norm\(x\)\)\s*", step)
            after = re.fullmatch(r"\s*x ← norm\(x \+ ([\w\s-]+)\(x\)\)\s*", step)
            found = before or after
            assert found, step
            layer, norm = parts[found[1]]
            x = x + layer(norm(x)) if before else norm(x + layer(x))
    return x


def close(one: Any, other: Any) -> bool:
    return bool(torch.allclose(torch.as_tensor(one), torch.as_tensor(other), atol=1e-3, rtol=1e-3))


def normalises_queries(seen: Inspection) -> bool:
    stream = seen.stream
    blocks = [each for each in stream.stack or stream.blocks if isinstance(each, Block)]
    return any(not isinstance(block.attention.query_norm, nn.Identity) for block in blocks)


def check_attention(seen: Inspection, equation: str) -> None:
    """The weights follow from the parts that are named, and from none fewer."""
    parts = {name for name in ("bias", "mask") if f"+ {name}" in equation}
    product = "norm(query) · norm(key)ᵀ" if normalises_queries(seen) else "query · keyᵀ"
    assert re.match(rf"weights = softmax\({re.escape(product)} / √d[^)]*\)$", equation)
    layers = attention_layers(seen)

    def agrees(parts: set[str]) -> bool:
        return all(
            np.allclose(softmax(scores + sum(added[part] for part in parts)), weights, atol=2e-3)
            for scores, added, weights in layers
        )

    assert agrees(parts)
    assert not any(agrees(parts - {part}) for part in parts)


def attention_layers(seen: Inspection) -> list[tuple[Array, dict[str, Array], Array]]:
    """Scores, what may be added to them, and the weights, (H, T, T) of each layer."""
    if windows := seen.windows():
        return [dense(each) for each in windows]
    capture = seen.capture(seen.stream)
    heads, length = capture.queries.shape[1:3]
    found = []
    for query, key, weights in zip(capture.queries, capture.keys, capture.attention, strict=True):
        whole = np.repeat(key, heads // len(key), axis=0)
        scores = query @ whole.swapaxes(1, 2) / math.sqrt(query.shape[-1])
        later = np.triu(np.ones((length, length), bool), 1)
        bias = np.zeros(scores.shape) if capture.bias is None else capture.bias
        mask = np.where(later & seen.stream.is_causal, -np.inf, 0.0)
        found.append((scores, {"bias": bias, "mask": mask}, weights))
    return found


def dense(layer: WindowLayer) -> tuple[Array, dict[str, Array], Array]:
    scores = layer.queries @ layer.keys.swapaxes(1, 2) / math.sqrt(layer.queries.shape[-1])
    bias, weights = np.zeros(scores.shape), np.zeros(scores.shape)
    mask = np.full(scores.shape, -np.inf)
    for places, regions, own in zip(layer.places, layer.regions, layer.weights, strict=True):
        real = np.flatnonzero(places >= 0)
        grid = np.ix_(list(range(len(scores))), places[real], places[real])
        inside = np.ix_(list(range(len(scores))), real, real)
        bias[grid], weights[grid] = layer.bias[inside], own[inside]
        mask[grid] = np.where(regions[real][:, None] == regions[real], 0, -np.inf)
    return scores, {"bias": bias, "mask": mask}, weights


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def check_projection(seen: Inspection, kind: str, sentences: list[str], ran: Ran) -> None:
    """Number 0 of layer 1, head 1 at position 1, from what the sentence names. The first sentence
    is about the last stream itself, the last one about its attention to a source."""
    block, given, more, _ = ran[1]
    x = (given[0] if given else more["x"])[0].flatten(0, -2)  # (T, D)
    own = (
        getattr(seen.windows()[1], {"query": "queries", "key": "keys"}.get(kind, "values"))
        if (seen.windows())
        else getattr(seen.capture(), {"query": "queries", "key": "keys"}.get(kind, "values"))[1]
    )
    attention, sentence = block.attention, sentences[0]
    assert "before layer 1" in sentence
    group = min(1, len(own) - 1) if kind == "query" else len(own) // attention.num_heads
    found = projected(sentence, kind, attention, block.attention_norm, x, group)
    assert found == pytest.approx(float(own[group, 1, 0]), abs=2e-3)
    if block.cross_attention is not None and len(sentences) > 1:
        cross = seen.capture().cross
        assert cross is not None
        assert ("the encoder’s output" in sentences[-1]) == (kind != "query")
        assert ("after self-attention" in sentences[-1]) == (kind == "query")


def projected(
    sentence: str, kind: str, attention: Any, norm: nn.Module, x: Tensor, group: int
) -> float:
    layer = getattr(attention, kind)
    with torch.inference_mode():
        state = norm(x) if "norm(the state" in sentence else x
        rows = slice(group * attention.head_dim, (group + 1) * attention.head_dim)
        found = state @ layer.weight[rows].T
        if "+ bias" in sentence:
            found = found + layer.bias[rows]
        if ", then normalised" in sentence:
            found = getattr(attention, f"{kind}_norm")(found)
        if "turned by its position" in sentence:
            rotate = RotaryPositions(attention.head_dim).rotation(torch.arange(len(found)))
            found = rotate(found[None, None])[0, 0]
    return float(found[1, 0])


def check_entry(seen: Inspection, equation: str) -> None:
    """x = norm(√d · W E[token] + P[position] + S[segment]), or less of it."""
    model, subject = seen.subject.module, seen.subject
    parts = {} if model is None else dict(model.named_modules())
    named = {name.rsplit(".", 1)[-1]: each for name, each in parts.items()}
    ids, table = torch.tensor(subject.streams[-1].ids), subject.embedding
    assert table is not None
    with torch.inference_mode():
        x = table[ids]
        if "W E" in equation:
            x = named["widen"](x)
        if "√d ·" in equation:
            x = x * math.sqrt(x.size(-1))
        if "P[position]" in equation:
            x = subject.positions.add(x, torch.arange(len(ids)))  # type: ignore[union-attr, operator]
        if "S[segment]" in equation:
            x = x + named["segments"].weight[0]
        if "norm(" in equation:
            x = named["embedding_norm"](x)
    assert close(x, seen.hidden[0])


def check_prediction(seen: Inspection, said: dict[str, Any]) -> None:
    if not seen.predictions:
        return
    equation = said["equations"]["prediction"]
    assert ("temperature" in equation) == (said["sliders"] > 0)
    logits = seen.logits[0]
    share = 1 / (1 + np.exp(-logits)) if "e^−logit" in equation else softmax(logits)
    assert seen.predictions[0].options[0].probability == pytest.approx(share.max(), abs=1e-5)


@needs_chromium
@pytest.mark.parametrize("family", ["gpt", "translator"])
def test_the_score_of_a_search_is_the_one_of_its_equation(family: str, tmp_path: Path) -> None:
    seen = FAMILIES[family]()
    assert seen.subject.search is not None
    equation = said_by(seen, tmp_path)["equations"]["beams"]
    assert equation == "score = Σ log p(token) / number of tokens"
    for node in seen.subject.search()["nodes"]:
        assert node["score"] == pytest.approx(node["logprob"] / node["step"])


@needs_chromium
def test_labels_that_exclude_nothing_have_a_probability_each(tmp_path: Path) -> None:
    seen = OTHERS["several labels"]()
    said = said_by(seen, tmp_path)
    assert said["equations"]["prediction"] == "p = 1 / (1 + e^−logit)"
    check_prediction(seen, said)


# --- the sentences ---


@needs_chromium
@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if name.startswith(("vit", "multi", "capt"))]
)
def test_a_patch_is_said_to_be_computed_from_what_moves_it(family: str, tmp_path: Path) -> None:
    seen = FAMILIES[family]()
    notes = said_by(seen, tmp_path)["notes"]
    pixels, moved = seen.subject.pixels, list[Tensor]()
    assert pixels is not None
    model: Any = pixels.run.__closure__[0].cell_contents  # type: ignore[index]
    model = model if isinstance(model, nn.Module) else seen.subject.module
    embeddings = [each for each in model.modules() if hasattr(each, "grid") and each is not model]
    handle = embeddings[-1].register_forward_hook(lambda _, __, found: moved.append(found[0]))
    other = pixels.values.clone()
    other[0, :, 3, 3] += 5.0  # at the corner of a patch of 4
    with torch.inference_mode():
        pixels.run(pixels.values)
        pixels.run(other)
    handle.remove()
    number = int((moved[0] - moved[1]).abs().amax(-1).gt(1e-6).sum())
    said_around = "the pixels around it" in notes["patches"]
    assert said_around == (number > 1)
    if "patch-embeddings" in notes:
        assert ("those around it" in notes["patch-embeddings"]) == (number > 1)


@needs_chromium
@pytest.mark.parametrize("family", [*FAMILIES, "show-attend-tell"])
def test_positions_are_said_to_be_added_where_they_are(family: str, tmp_path: Path) -> None:
    seen = (FAMILIES | OTHERS)[family]()
    notes = " ".join(said_by(seen, tmp_path)["notes"].values())
    for stream in seen.subject.streams:
        if stream.picture is None:
            continue
        is_learned = stream.picture.has_learned_positions
        is_added = stream.picture.positions is not None
        assert ("A learned vector is added" in notes) == (is_added and is_learned)
        assert ("A fixed vector of waves is added" in notes) == (is_added and not is_learned)
        assert ("The model is not told that" in notes) == (
            is_added and is_learned and not stream.picture.reads_around
        )
        if seen.has_capture(stream) and stream.picture.unit == "patch" and not is_added:
            assert family in ("vit, rotary",)


@needs_chromium
@pytest.mark.parametrize("family", ["gpt", "vit", "multiscale-vit", "image-gpt", "bert"])
def test_who_may_be_looked_at_is_said_as_it_is(family: str, tmp_path: Path) -> None:
    seen = FAMILIES[family]()
    note = said_by(seen, tmp_path)["notes"]["attention"]
    weights = np.stack([each[2][0] for each in attention_layers(seen)[:1]])
    later = weights[:, *np.triu_indices(weights.shape[-1], 1)]
    assert ("itself and those before it" in note) == (not later.any())
    assert ("others in its window" in note) == (family == "multiscale-vit")
    if family == "multiscale-vit":
        assert (weights == 0).mean() > 0.5


@needs_chromium
def test_blocks_add_or_also_normalise_and_places_merge(tmp_path: Path) -> None:
    def note(family: str) -> str:
        found: str = said_by(FAMILIES[family](), tmp_path)["notes"]["layers"]
        return found

    assert "Each layer adds to the vector of every token. " in note("gpt")
    after = note("gpt, post-norm")
    assert "adds to the vector of every token and normalises the sum." in after
    merged = note("multiscale-vit")
    assert "four neighbouring places become one: the grids are 8×12, then 4×6." in merged


@needs_chromium
@pytest.mark.parametrize("kind", ["bag", "bag of words", "bag of letters"])
def test_a_bag_names_what_else_adds_to_a_label(kind: str, tmp_path: Path) -> None:
    config: Any = {"bag": (2, 0), "bag of words": (1, 0), "bag of letters": (3, 4)}[kind]
    note = said_by(OTHERS[kind](), tmp_path)["notes"]["prediction"]
    expected = {
        (2, 0): "each token, with the pairs that it is part of, adds",
        (1, 0): "each token adds",
        (3, 4): "with the sequences of up to 3 tokens and letter sequences that it is part of,",
    }
    assert expected[config] in note


@needs_chromium
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_uses_of_a_word_differ_at_first_by_what_is_said(positions: Any, tmp_path: Path) -> None:
    seen = predictor("a bad day, said the cat.", positions=positions).inspect(
        "a bad day", compare=["said a bad cat"], word="bad"
    )
    assert seen.contexts is not None
    note = said_by(seen, tmp_path)["notes"]["layers"]
    is_moved = float(seen.contexts.cosine[0, 0, 1]) < 1 - 1e-5
    assert ("differ only by its position and its spelling" in note) == is_moved
    assert ("differ only by its spelling" in note) == (not is_moved)


@needs_chromium
@pytest.mark.parametrize(
    ("family", "why"),
    [
        ("gpt", "comes later: the causal mask sets its score to −∞"),
        ("multiscale-vit", "is in another window: the mask sets its score to −∞"),
    ],
)
def test_what_cannot_be_seen_is_explained_by_its_mask(
    family: str, why: str, tmp_path: Path
) -> None:
    script = """const last = scene.main.tokens.length - 1;
      return ["weight", "score"]
        .map((name) => spoken(operations.get(name).lines(0, 0, 0, 0, last)));"""
    for sentence in shown(page(FAMILIES[family]()), SPOKEN % script, tmp_path):
        assert why in sentence


@needs_chromium
def test_sums_of_a_coarse_grid_name_its_own_places(tmp_path: Path) -> None:
    script = """const { sources, lines } = operations.get("weight"), place = [0, 2, 0, 3, 5];
      return [spoken(lines(...place)), sources(...place).filter((of) => of.startsWith("token"))];"""
    sentence, lit = shown(page(FAMILIES["multiscale-vit"]()), SPOKEN % script, tmp_path)
    assert "place 5 of 4×6" in sentence
    assert "place 3 of 4×6" in sentence
    assert len(lit) == 8  # four fine places for each
