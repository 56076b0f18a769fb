"""Tokens per second of a 124M Llama layout, float32 and int8: glassformer, CTranslate2, llama.cpp.

All decode greedily, in turns on the same machine, with the same number of threads and the same
random weights; the ratio of the medians is the figure. llama.cpp (F32 and Q8_0) decodes one row
only. The share of tokens that equal those of glassformer's float32 is printed beside it: random
weights leave the choice of a token to the last digits, so int8 differs there for all.
"""

import argparse
import json
import pydoc_data.topics
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import torch

from benchmarks import llama_cpp_peer
from benchmarks.llama_cpp_peer import LlamaCpp
from benchmarks.machine import describe
from glassformer.checkpoint.model_folder import load_model, save_model
from glassformer.formats.export_ctranslate2 import write_ctranslate2
from glassformer.formats.export_gguf import write_gguf
from glassformer.generation.sampling import Sampling, decode
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn.int8_kernels import int8_kernel
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks import load
from glassformer.text.tokenizer_training import train_tokenizer

SHAPE: dict[str, Any] = {
    "vocab_size": 50257,
    "num_layers": 12,
    "d_model": 768,
    "num_heads": 12,
    "d_feedforward": 2048,
    "activation": "swiglu",
    "norm": "rms",
    "positions": "rotary",
    "bias": False,
    "context_length": 1024,
}
KINDS = ("float32", "int8")
LLAMA_TYPES = ("F32", "Q8_0")
Run = Callable[[Any], list[list[int]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new", type=int, default=48)
    parser.add_argument("--models", type=Path, help="folder to keep the models in")
    given = parser.parse_args()
    torch.manual_seed(0)
    print(f"{describe()}, ctranslate2 {ctranslate2.__version__}; int8 kernel: {int8_kernel()}")
    llama = llama_cpp_peer.version()
    print(f"llama-cpp-python {llama}" if llama else "llama.cpp is not installed: left out")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.models or Path(temporary)
        if not (folder / "ours").exists():
            write_models(folder)
        runs = generators(folder, given.new)
        peers = llamas(folder, given.new) if llama else {}
        for batch in given.batch:
            prompts = torch.randint(SHAPE["vocab_size"], (batch, given.prompt)).tolist()
            named = runs | (peers if batch == 1 else {})
            report(f"batch {batch}", named, prompts, batch * given.new, given.rounds)


def report(what: str, runs: dict[str, Run], inputs: Any, amount: int, rounds: int) -> None:
    """Time all in turns; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    written: dict[str, list[list[int]]] = {}
    for round_ in range(rounds + 1):
        for name, run in runs.items():
            begin = time.perf_counter()
            written[name] = run(inputs)
            if round_:
                times[name].append(time.perf_counter() - begin)
    speed = {name: amount / statistics.median(each) for name, each in times.items()}
    for kind in KINDS:
        ours, *theirs = [name for name in runs if name.endswith(kind)]
        print(f"{what}, {kind}: {ours} {speed[ours]:.1f}/s ({same(written, ours):.0%})", end="")
        for name in theirs:
            ratio = f"ratio {speed[ours] / speed[name]:.2f}"
            print(f"; {name} {speed[name]:.1f}/s ({same(written, name):.0%}), {ratio}", end="")
        print("; in brackets: tokens as in float32", flush=True)


def same(written: dict[str, list[list[int]]], name: str) -> float:
    """The share of tokens that glassformer writes in float32, too."""
    rows = zip(written["glassformer float32"], written[name], strict=True)
    pairs = [pair for one, other in rows for pair in zip(one, other, strict=False)]
    return sum(one == other for one, other in pairs) / len(pairs)


def write_models(folder: Path) -> None:
    """The same model for each peer, without the tests of an export, which take minutes."""
    lines = "\n".join(pydoc_data.topics.topics.values()).splitlines()
    tokenizer = train_tokenizer("bpe", lines, 1000)
    save_model(folder / "ours", GPT(GPTConfig(**SHAPE)), TextPreprocessing(tokenizer=tokenizer))
    saved = load_model(folder / "ours")
    for name in ("ctranslate2", *LLAMA_TYPES):
        (folder / name).mkdir()
    write_ctranslate2(saved, folder / "ctranslate2", "")
    for dtype in LLAMA_TYPES:
        write_gguf(saved, folder / dtype, "", dtype)


def generators(folder: Path, new: int) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for kind in KINDS:
        ours: Any = load(folder / "ours", None if kind == "float32" else kind)
        runs[f"glassformer {kind}"] = ours_with(ours.model, new)
        generator = ctranslate2.Generator(
            str(folder / "ctranslate2"), compute_type=kind, intra_threads=torch.get_num_threads()
        )
        names = json.loads((folder / "ctranslate2" / "vocabulary.json").read_text())
        runs[f"CTranslate2 {kind}"] = theirs_with(generator, names, new)
    return runs


def llamas(folder: Path, new: int) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for kind, dtype in zip(KINDS, LLAMA_TYPES, strict=True):
        model = LlamaCpp(folder / dtype / "model.gguf", new, torch.get_num_threads())
        runs[f"llama.cpp {kind}"] = model
    return runs


def ours_with(model: GPT, new: int) -> Run:
    def run(prompts: list[list[int]]) -> list[list[int]]:
        greedy = Sampling(do_sample=False)
        steps = decode(model, prompts, sampling=greedy, max_new_tokens=new, seed=0)
        return torch.tensor([*steps]).T.tolist()

    return run


def theirs_with(generator: Any, names: list[str], new: int) -> Run:
    def run(prompts: list[list[int]]) -> list[list[int]]:
        found = generator.generate_batch(
            [[names[id] for id in prompt] for prompt in prompts],
            max_length=new,
            min_length=new,
            sampling_topk=1,
            include_prompt_in_result=False,
            end_token=[],
        )
        return [each.sequences_ids[0] for each in found]

    return run


if __name__ == "__main__":
    main()
