"""Small models of every kind that can run in a page, and the jobs that run them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.inspect.live import LIVE_SCRIPTS, live_or_error
from glassformer.inspect.page import embedded, part
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import ENCODER_PRESETS, GPT_PRESETS
from glassformer.models.transformer import Transformer, TransformerConfig
from glassformer.preprocessing import Preprocessing
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS, START, Tokenizer

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
TEXT = "It was the best of times, it was the worst of times. Café “déjà vu”, 3.14 naïve!\n" * 4
NO_LIMIT = 10**9

_TINY: dict[str, Any] = {"num_layers": 2, "d_model": 16, "num_heads": 4, "context_length": 12}
_WITH = {"d_feedforward": 24, "dropout": 0.1}
_MODERN: dict[str, Any] = {"positions": "rotary", "norm": "rms", "qk_norm": True, "bias": False}
_MODERN |= {"activation": "swiglu"}

GPTS: dict[str, dict[str, Any]] = {
    "gpt2": _TINY | {"activation": "gelu_tanh"},
    "modern": _TINY | _WITH | _MODERN | {"num_kv_heads": 2, "tie_weights": False},
    "one group": _TINY | _MODERN | {"num_kv_heads": 1, "rotary_base": 1234.5678},
    "relative": _TINY | {"positions": "relative", "bias": False, "output_bias": True},
    "sinusoidal, odd width": _TINY | {"positions": "sinusoidal", "d_model": 15, "num_heads": 3},
    "no positions": _TINY | {"positions": "none", "final_norm": False, "activation": "relu"},
    "post-norm": _TINY | {"pre_norm": False, "head_dim": 5, "activation": "gelu"},
    "narrow": _TINY | {"d_embedding": 9, "tie_weights": False, "norm": "rms", "pre_norm": False},
    "layer qk-norm": _TINY | {"qk_norm": True, "norm_eps": 1e-3, "activation": "swiglu"},
}
BERTS: dict[str, dict[str, Any]] = {
    "bert": _TINY | _WITH,
    "segments": _TINY | {"num_segments": 2, "bias": False, "tie_weights": False},
    "modern bert": _TINY
    | _MODERN
    | {"pre_norm": True, "final_norm": True}
    | {"embedding_norm": False, "norm_eps": 1e-6},
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "translator": _TINY | _WITH,
    "paper": _TINY | {"pre_norm": False, "final_norm": False, "num_encoder_layers": 3},
    "two vocabularies": _TINY
    | {"target_vocab_size": 23, "positions": "learned", "scale_embedding": False},
    "modern translator": _TINY | _MODERN | {"tie_weights": False, "output_bias": True},
}
PRESETS: dict[str, dict[str, Any]] = {
    "nano": GPT_PRESETS["nano"],
    "lecture": GPT_PRESETS["lecture"] | {"num_layers": 3, "d_feedforward": 256},
}
BERT_PRESETS: dict[str, dict[str, Any]] = {
    "lecture's BERT": ENCODER_PRESETS["lecture"],
    "small BERT": ENCODER_PRESETS["xs"],
}


def randomized(model: nn.Module) -> Any:
    """No weight is zero or one, so that none can be left out."""
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += (0.03 if parameter.dim() > 1 else 0.1) * torch.randn_like(parameter)
    return model.eval()


@cache
def made(name: str) -> Any:
    torch.manual_seed(1)
    if name in GPTS | PRESETS:
        return randomized(GPT(GPTConfig(**{"vocab_size": 31} | (GPTS | PRESETS)[name])))
    if name in BERTS | BERT_PRESETS:
        return randomized(Bert(BertConfig(**{"vocab_size": 31} | (BERTS | BERT_PRESETS)[name])))
    return randomized(Transformer(TransformerConfig(vocab_size=31, **TRANSLATORS[name])))


@cache
def tokenizer(kind: str, *special: str) -> Tokenizer:
    return train_tokenizer(kind, [TEXT], None if kind == "char" else 300, special)  # type: ignore[arg-type]


def preprocessing_of(model: nn.Module) -> Preprocessing:
    if isinstance(model, GPT):
        return TextPreprocessing(tokenizer=tokenizer("char"), is_causal=True)
    if isinstance(model, Bert):
        return MaskedTextPreprocessing(tokenizer=tokenizer("wordpiece", *BERT_TOKENS))
    return PairPreprocessing(tokenizer=tokenizer("bpe", START))


@cache
def packed(name: str, dtype: Any = "float32") -> dict[str, Any]:
    model = made(name)
    return live_or_error(model, preprocessing_of(model), NO_LIMIT, dtype)


Job = tuple[str, dict[str, Any]]


def in_page(*jobs: Job) -> list[Any]:
    """The results of jobs (see live_jobs.mjs) on a model that a page carries."""
    return by_node("live.mjs", LIVE_SCRIPTS, jobs)


def by_node(program: str, scripts: Iterable[str], jobs: Iterable[Job]) -> list[Any]:
    """The results of jobs that a program beside this file does with scripts of a page."""
    with TemporaryDirectory() as folder:
        script = Path(folder) / "script.js"
        script.write_text("\n".join(map(part, scripts)), encoding="utf-8")
        done = subprocess.run(
            ["node", str(Path(__file__).with_name(program)), str(script)],
            input=json.dumps([*jobs]),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def in_chromium(*jobs: tuple[str, dict[str, Any]]) -> list[Any]:
    """The same by Chromium, from a page on disk with the policy of our pages."""
    scripts = "\n".join(map(part, LIVE_SCRIPTS))
    program = Path(__file__).with_name("live_jobs.mjs").read_text(encoding="utf-8")
    api = "{ makeLive, agreement, makeTokenizer, readText, greedyTranslation, cacheSteps }"
    page = f"""<!DOCTYPE html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<pre id="out">not done</pre><script type="application/json" id="data">{embedded(jobs)}</script>
<script type="module">
{scripts}
{program.replace("export const", "const")}
const jobs = JSON.parse(document.getElementById("data").textContent), found = [];
try {{
  for (const [job, given] of jobs) found.push(await JOBS[job]({api}, given));
  document.getElementById("out").textContent = JSON.stringify(found);
}} catch (error) {{
  document.getElementById("out").textContent = String(error.stack);
}}
</script>"""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page, encoding="utf-8")
        done = subprocess.run(
            [
                *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
                *("--disable-background-networking", "--disable-component-update"),
                *(
                    "--disable-sync",
                    "--virtual-time-budget=60000",
                    f"--user-data-dir={folder}/user",
                ),
                file.as_uri(),
            ],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    shown = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert shown, done.stderr
    found: list[Any] = json.loads(unescape(shown[1]))
    return found
