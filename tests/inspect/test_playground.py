"""The model that learns in a page: its steps are torch's, its folders are glassformer's."""

import base64
import json
import re
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from live_models import Job, by_node, needs_node, randomized
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F
from typer.testing import CliRunner

import glassformer
from glassformer.checkpoint.model_folder import save_model
from glassformer.cli.main import app
from glassformer.inspect.page import part
from glassformer.inspect.playground import POEM, playground
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import GPT_PRESETS
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

pytestmark = needs_node

COMPUTES = (
    *("elements.js", "random.js", "live/tensors.js", "live/attention.js"),
    *("playground/learning.js", "playground/text.js", "playground/folder.js"),
)
SHAPE = {"num_layers": 2, "num_heads": 3, "d_model": 12, "head_dim": 5, "d_feedforward": 18}
SHAPE |= {"vocab_size": 17, "context_length": 10}
EPS = 1e-5
BETAS, DECAY, RATE = (0.9, 0.99), 0.01, 0.003
WHOLE = {"mask": True, "positions": True, "scale": True, "residuals": True}
TEXT = "It was the best of times, it was the worst of times.\n" * 8


def in_page(*jobs: Job) -> list[Any]:
    """The results of jobs (see playground.mjs) on the model that learns in the page."""
    return by_node("playground.mjs", COMPUTES, jobs)


@cache
def small() -> GPT:
    torch.manual_seed(1)
    model: GPT = randomized(GPT(GPTConfig(**SHAPE, norm_eps=EPS))).double()
    return model


def job(model: GPT, **more: Any) -> dict[str, Any]:
    state = {name: value.flatten().tolist() for name, value in model.named_parameters()}
    return {"shape": SHAPE | {"norm_eps": EPS}, "state": state, **more}


def batch(seed: int = 0, count: int = 3) -> dict[str, Any]:
    """Sequences in which each token is followed by one that depends on it."""
    torch.manual_seed(seed)
    rows = torch.randint(0, 17, (count, 11))
    rows[:, 1::2] = rows[:, :-1:2] * 5 % 17
    ids, following = rows[:, :-1].flatten().tolist(), rows[:, 1:].flatten().tolist()
    return {"ids": ids, "next": following, "length": 10}


def difference(numbers: list[float], expected: Tensor) -> float:
    return (torch.tensor(numbers, dtype=torch.float64) - expected.flatten()).abs().max().item()


# --- learning ---


def test_200_steps_are_those_of_torch() -> None:
    model = small()
    batches = [batch(seed) for seed in range(200)]
    given = job(model, length=10, rate=RATE, batches=[[b["ids"], b["next"]] for b in batches])
    learner = GPT(GPTConfig(**SHAPE, norm_eps=EPS)).double()
    learner.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(learner.parameters(), RATE, BETAS, weight_decay=DECAY)
    (page,) = in_page(("train", given))
    for step, (each, loss_of_page) in enumerate(zip(batches, page["losses"], strict=True)):
        logits = learner(torch.tensor(each["ids"]).view(-1, 10)).flatten(0, 1)
        loss = F.cross_entropy(logits, torch.tensor(each["next"]))
        optimizer.zero_grad()
        loss.backward()
        assert loss_of_page == pytest.approx(loss.item(), abs=1e-6)
        if step == 0:
            for name, value in learner.named_parameters():
                assert value.grad is not None
                assert difference(page["gradient"][name], value.grad) < 1e-9, name
        optimizer.step()
    assert page["losses"][-1] < page["losses"][0] - 0.5


def equation(
    state: dict[str, Tensor],
    ids: Tensor,
    mask: bool = True,
    positions: bool = True,
    scale: bool = True,
    residuals: bool = True,
) -> Tensor:
    """The logits of a GPT, (B, T) → (B, T, V), with parts of it left out."""
    length, heads, d = ids.size(1), SHAPE["num_heads"], SHAPE["head_dim"]

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        standard = centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt()
        return standard * state[f"{name}.weight"] + state[f"{name}.bias"]

    x = state["embedding.weight"][ids]
    if positions:
        x = x + state["positions.table.weight"][:length]
    for layer in range(SHAPE["num_layers"]):
        block = f"blocks.{layer}"
        read = norm(x, f"{block}.attention_norm")
        q, k, v = (
            linear(read, f"{block}.attention.{name}").unflatten(-1, (heads, d)).transpose(1, 2)
            for name in ("query", "key", "value")
        )  # (B, H, T, d)
        scores = q @ k.mT / (d**0.5 if scale else 1)
        if mask:
            scores = scores.masked_fill(~torch.ones(length, length).tril().bool(), -torch.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = linear(mixed, f"{block}.attention.output") + (x if residuals else 0)
        hidden = linear(norm(x, f"{block}.feedforward_norm"), f"{block}.feedforward.up")
        hidden = F.gelu(hidden, approximate="tanh")
        x = linear(hidden, f"{block}.feedforward.down") + (x if residuals else 0)
    return norm(x, "final_norm") @ state["embedding.weight"].T


@pytest.mark.parametrize("off", [(), *((name,) for name in WHOLE), tuple(WHOLE)])
def test_a_model_without_a_part_is_its_equation_without_it(off: tuple[str, ...]) -> None:
    model, given = small(), batch()
    parts = {name: name not in off for name in WHOLE}
    (page,) = in_page(("pass", job(model, **given, parts=parts)))
    state = {name: value.detach().clone() for name, value in model.named_parameters()}
    for value in state.values():
        value.requires_grad_()
    ids = torch.tensor(given["ids"]).view(-1, 10)
    logits = equation(state, ids, **parts)
    F.cross_entropy(logits.flatten(0, 1), torch.tensor(given["next"])).backward()
    assert difference(page["logits"], logits) < 1e-9
    for name, value in state.items():
        gradient = torch.zeros_like(value) if value.grad is None else value.grad
        assert difference(page["gradient"][name], gradient) < 1e-9, name
    if not off:
        assert (model(ids) - logits).abs().max() < 1e-9


@pytest.mark.parametrize(
    ("name", "index", "count"),
    [
        ("blocks.0.attention.query.weight", 31, 30),
        ("blocks.1.feedforward.up.weight", 200, 30),
        ("blocks.1.feedforward.down.weight", 3, 30),
        ("embedding.weight", 4, 30),
        ("positions.table.weight", 7 * 12 + 2, 3),
    ],
)
def test_the_terms_of_a_number_sum_to_its_gradient(name: str, index: int, count: int) -> None:
    given = batch()
    if name == "embedding.weight":  # the head multiplies it for every token, the lookup for one
        index += 12 * given["ids"][0]
        count += given["ids"].count(given["ids"][0])
    (page,) = in_page(("watch", job(small(), **given, name=name, index=index)))
    assert len(page["terms"]) == count
    assert sum(page["terms"]) == pytest.approx(page["gradient"], abs=1e-12)
    assert page["slope"] == pytest.approx(page["gradient"], abs=1e-8)
    assert abs(page["gradient"]) > 1e-6


# --- texts ---

TEXTS = {
    "emoji": "👍🏽 and 👨‍👩‍👧 went 🏃 " * 12,
    "combining marks": "e\u0301 a\u0308 o\u0302\u0323 x\u20dd " * 20,
    "right to left": "שלום עולם، مرحبا بالعالم " * 10,
    "line ends": "one\r\ntwo\rthree\n\n" * 15,
    "controls": "\x00\x01\u2028\u200b\ufeff\ufffd\x7f. " * 30,
    "one character": "a" * 200,
    "200 characters": TEXT[:200],
    "Chinese": "".join(chr(0x4E00 + n) for n in range(5000)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_has_the_tokens_that_python_gives_it(name: str) -> None:
    text = TEXTS[name]
    shape = SHAPE | {"norm_eps": EPS}
    (page,) = in_page(("read", {"shape": shape, "text": text, "begin": f"{text[:2]}€"}))
    tokenizer = train_tokenizer("char", [text])
    assert page["ids"] == tokenizer.encode(text)
    assert "".join(page["characters"][n] for n in page["ids"]) == text
    assert page["unknown"] == ["€"]
    assert len(page["written"]) == 20
    assert set(page["written"]) <= set(page["characters"])
    guessing = torch.tensor(float(len(page["characters"]) + 1)).log().item()
    assert page["loss"] == pytest.approx(guessing, abs=0.5)
    assert page["judged"] == pytest.approx(guessing, abs=0.7)


# --- folders ---


def templates() -> Any:
    data = re.search(r'id="data">(.*?)</script>', playground(), re.DOTALL)
    assert data
    return json.loads(data[1])["templates"]


def saved(folder: Path, parts: dict[str, bool]) -> Any:
    """The logits of a model that was saved, or why it was not."""
    alphabet = sorted(set(TEXT))
    shape = SHAPE | {"vocab_size": len(alphabet) + 1}
    torch.manual_seed(2)
    model = randomized(GPT(GPTConfig(**shape, norm_eps=EPS)))
    ids = [alphabet.index(one) for one in TEXT[:10]]
    given = job(model) | {"shape": shape | {"norm_eps": EPS}, "text": TEXT, "ids": ids}
    given |= {"path": str(folder / "a.zip"), "parts": parts, "templates": templates()}
    (found,) = in_page(("save", given))
    return found


@pytest.mark.parametrize("off", [(), ("positions",), ("scale",), ("positions", "scale")])
def test_a_saved_model_is_one_of_glassformer(off: tuple[str, ...], tmp_path: Path) -> None:
    logits = saved(tmp_path, dict.fromkeys(off, False))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path)
    predictor: Any = glassformer.load(tmp_path / "saved")
    ids = predictor.preprocessing.tokenizer.encode(TEXT[:10])
    assert difference(logits, predictor.model(torch.tensor([ids])).detach()) < 1e-5
    generate = ["generate", str(tmp_path / "saved"), "It was", "--max-new-tokens", "5"]
    result = CliRunner().invoke(app, generate, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.startswith("It was")


@pytest.mark.parametrize("part", ["mask", "residuals"])
def test_a_model_that_python_does_not_have_is_not_saved(part: str, tmp_path: Path) -> None:
    assert re.search(r"[Ss]witch (the mask|them) on to save", saved(tmp_path, {part: False}))
    assert not (tmp_path / "a.zip").exists()


def folder_of(folder: Path, model: Any = None, tokenizer: Any = None, **config: Any) -> Path:
    """A folder of a random GPT of the preset nano that reads characters, with these changes."""
    tokenizer = tokenizer or train_tokenizer("char", [TEXT])
    config = GPT_PRESETS["nano"] | {"vocab_size": tokenizer.vocab_size} | config
    model = model or randomized(GPT(GPTConfig(**config)))
    kind = MaskedTextPreprocessing if isinstance(model, Bert) else TextPreprocessing
    causal = {} if isinstance(model, Bert) else {"is_causal": True}
    save_model(folder, model, kind(tokenizer=tokenizer, **causal))
    return folder


def load_job(folder: Path, ids: list[int]) -> tuple[str, dict[str, Any]]:
    files = [path for path in folder.iterdir() if path.is_file()]
    encoded = {path.name: base64.b64encode(path.read_bytes()).decode() for path in files}
    return "load", {"files": encoded, "ids": ids}


@pytest.mark.parametrize("positions", ["learned", "none"])
def test_a_folder_of_python_is_the_same_model_in_the_page(positions: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, positions=positions)
    predictor: Any = glassformer.load(folder)
    ids = predictor.preprocessing.tokenizer.encode(TEXT)[:128]
    (page,) = in_page(load_job(folder, ids))
    assert "".join(page["characters"][n] for n in ids) == TEXT[:128]
    assert difference(page["logits"], predictor.model(torch.tensor([ids])).detach()) < 1e-4


def bert(folder: Path) -> None:
    tokenizer = train_tokenizer("wordpiece", [TEXT], 60, list(BERT_TOKENS))
    folder_of(folder, Bert(BertConfig(vocab_size=tokenizer.vocab_size, d_model=8)), tokenizer)


def config_with(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder_of(folder) / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def json_of(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: void((folder_of(folder) / name).write_text(text))


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder_of(folder) / name).unlink()


def weights(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder_of(folder) / "model.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return changed


def void(_: object) -> None:
    pass


def header(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder_of(folder) / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return changed


def moved(*offsets: Any) -> Callable[[Path], None]:
    """A header in which the numbers of the final norm are elsewhere."""

    def change(data: bytes) -> bytes:
        end = 8 + int.from_bytes(data[:8], "little")
        values = json.loads(data[8:end])
        values["final_norm.bias"]["data_offsets"] = list(offsets)
        text = json.dumps(values).encode()
        return struct.pack("<Q", len(text)) + text + data[end:]

    return header(change)


def halved(tensors: dict[str, Tensor]) -> None:
    tensors.update({name: value.bfloat16() for name, value in tensors.items()})


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a BERT": (bert, "its model is bert"),
    "rotary": (lambda folder: folder_of(folder, positions="rotary"), "positions of its GPT is"),
    "shared keys": (lambda folder: folder_of(folder, num_kv_heads=1), "shares keys among heads"),
    "tokens": (
        lambda folder: folder_of(folder, tokenizer=train_tokenizer("bpe", [TEXT], 280)),
        "its tokens are not the characters .* --set tokenizer.kind=char",
    ),
    "no config": (without("config.json"), "it has no config.json"),
    "no weights": (without("model.safetensors"), "it has no model.safetensors"),
    "no tokenizer": (without("tokenizer.json"), "it has no tokenizer.json"),
    "no JSON": (json_of("config.json", "{"), "its config.json is damaged"),
    "null": (json_of("config.json", "null"), "its config.json is damaged"),
    "no vocabulary": (json_of("tokenizer.json", '{"model": 3}'), "its tokens are not"),
    "half a layer": (config_with(num_layers=1.5), "sizes that the preset nano does not have"),
    "width in words": (config_with(d_model="48"), "sizes that the preset nano does not have"),
    "wider": (config_with(d_feedforward=100), "feedforward.up.weight .* does not have the shape"),
    "huge": (config_with(num_layers=10**15), "parameters: the page can train up to 2,000,000"),
    "long": (config_with(context_length=5000), "attention weights: .* up to 2,000,000"),
    "truncated": (header(lambda data: data[:-9]), "damaged: it does not hold all of"),
    "empty": (header(lambda _: b""), "damaged: it ends within its header"),
    "long header": (header(lambda data: b"\xff" * 8 + data[8:]), "it ends within its header"),
    "header of noise": (header(lambda data: data[:8] + b"\xff" * len(data[8:])), "JSON object"),
    "far offsets": (moved(10**15, 10**15 + 192), "does not hold all of final_norm.bias"),
    "long offsets": (moved(0, 10**12), "does not hold all of final_norm.bias"),
    "turned offsets": (moved(192, 0), "does not hold all of final_norm.bias"),
    "offsets before it": (moved(-192, 0), "does not hold all of final_norm.bias"),
    "offsets in words": (moved("a", "b"), "does not hold all of final_norm.bias"),
    "not a number": (
        weights(lambda tensors: tensors["final_norm.bias"].fill_(torch.nan)),
        "final_norm.bias .* not finite",
    ),
    "no matrix": (weights(lambda tensors: tensors.pop("final_norm.bias")), "final_norm.bias in"),
    "bf16": (weights(halved), "holds BF16 numbers: the page reads F32"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    jobs = []
    for name, (make, _) in BAD.items():
        folder = tmp_path_factory.mktemp(name)
        make(folder)
        jobs.append(load_job(folder, [0]))
    return dict(zip(BAD, in_page(*jobs), strict=True))


@pytest.mark.parametrize("name", BAD)
def test_a_folder_that_cannot_learn_here_gets_a_sentence(
    name: str, answers: dict[str, Any]
) -> None:
    found = answers[name]
    assert isinstance(found, str), "it was loaded"
    assert re.search(BAD[name][1], found)
    assert not re.search(r"undefined|NaN|null|Cannot|Invalid|\[object", found)


def test_the_end_of_the_poem_is_new() -> None:
    """It is held out: of a line that occurred before, the loss would say nothing."""
    text = part(POEM)
    assert text.isascii()
    cut = round(0.9 * len(text))
    assert set(text[cut:].splitlines()[1:]) & set(text[:cut].splitlines()) == {""}


def test_the_page_is_the_same_every_time_and_loads_nothing() -> None:
    html = playground()
    assert html == playground()
    assert "default-src 'none'" in html
    assert not [line for line in html.splitlines() if re.search(r"https?://(?!www\.w3\.org)", line)]
