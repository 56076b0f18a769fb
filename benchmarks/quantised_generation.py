"""Tokens per second of GPT-2's 124M shape, float32 and int8: glassformer against CTranslate2.

Both decode greedily, in turns on the same machine, with the same number of threads and the same
random weights; the ratio of the medians is the figure. The share of tokens that equal those of
glassformer's float32 is printed beside it: random weights leave the choice of a token to the last
digits, so int8 differs there for both.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from benchmarks.generation import with_weights_of
from benchmarks.machine import describe
from glassformer.generation.logits import Sampling
from glassformer.generation.sample import decode
from glassformer.models.gpt import GPT
from glassformer.nn.attention import merge_projections
from glassformer.nn.int8 import int8_kernel
from glassformer.nn.linear import pack_weights
from glassformer.nn.quantized import quantize

VOCABULARY = 50257
KINDS = ("float32", "int8")
Run = Callable[[Any], list[list[int]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new", type=int, default=48)
    given = parser.parse_args()
    torch.manual_seed(0)
    print(f"{describe()}, ctranslate2 {ctranslate2.__version__}; int8 kernel: {int8_kernel()}")
    with tempfile.TemporaryDirectory() as folder:
        runs = generators(Path(folder), given.new)
        for batch in given.batch:
            prompts = torch.randint(VOCABULARY, (batch, given.prompt)).tolist()
            report(f"batch {batch}", runs, prompts, batch * given.new, given.rounds)


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
        ours, theirs = f"glassformer {kind}", f"CTranslate2 {kind}"
        print(
            f"{what}, {kind}: glassformer {speed[ours]:.1f}/s, CTranslate2 {speed[theirs]:.1f}/s, "
            f"ratio {speed[ours] / speed[theirs]:.2f}; tokens as in float32: "
            f"{same(written, ours):.0%} and {same(written, theirs):.0%}",
            flush=True,
        )


def same(written: dict[str, list[list[int]]], name: str) -> float:
    """The share of tokens that glassformer writes in float32, too."""
    rows = zip(written["glassformer float32"], written[name], strict=True)
    pairs = [pair for one, other in rows for pair in zip(one, other, strict=False)]
    return sum(one == other for one, other in pairs) / len(pairs)


def generators(folder: Path, new: int) -> dict[str, Run]:
    theirs = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None)).eval()
    theirs.save_pretrained(folder / "hf")
    write_tokenizer(folder / "hf")
    runs: dict[str, Run] = {}
    for kind in KINDS:
        ours = with_weights_of(theirs)
        if kind == "int8":
            quantize(ours)
            merge_projections(ours)
        pack_weights(ours)
        runs[f"glassformer {kind}"] = ours_with(ours, new)
        converter = ctranslate2.converters.TransformersConverter(str(folder / "hf"))
        converter.convert(str(folder / kind), quantization=kind)
        generator = ctranslate2.Generator(
            str(folder / kind), compute_type=kind, intra_threads=torch.get_num_threads()
        )
        runs[f"CTranslate2 {kind}"] = theirs_with(generator, new)
    return runs


def write_tokenizer(folder: Path) -> None:
    """CTranslate2 names tokens: token 7 is t7."""
    names = Tokenizer(models.WordLevel({f"t{i}": i for i in range(VOCABULARY)}, unk_token="t0"))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=names, unk_token="t0", bos_token="t0", eos_token="t0"
    )
    fast.save_pretrained(folder)


def ours_with(model: GPT, new: int) -> Run:
    def run(prompts: list[list[int]]) -> list[list[int]]:
        greedy = Sampling(do_sample=False)
        steps = decode(model, prompts, sampling=greedy, max_new_tokens=new, seed=0)
        return torch.tensor([*steps]).T.tolist()

    return run


def theirs_with(generator: Any, new: int) -> Run:
    def run(prompts: list[list[int]]) -> list[list[int]]:
        found = generator.generate_batch(
            [[f"t{id}" for id in prompt] for prompt in prompts],
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
