"""Tokens per second of GPT-2's 124M shape in float32: glassformer against transformers' generate.

Both decode greedily with a cache, in turns on the same machine, with the same number of threads and
the same weights; the ratio of the medians is the figure.
"""

import argparse
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.machine import describe
from glassformer.generation.sampling import Sampling, decode
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import GPT_PRESETS
from glassformer.nn.attention import merge_projections

PROMPT, NEW = 32, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.manual_seed(0)
    print(describe())
    theirs = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None)).eval()
    ours = with_weights_of(theirs)
    for batch in given.batch:
        prompts = torch.randint(50257, (batch, PROMPT))
        times: dict[str, list[float]] = {"glassformer": [], "transformers": []}
        for round_ in range(given.rounds + 1):  # the first round warms up
            for name, run in (("glassformer", generate_ours), ("transformers", generate_theirs)):
                begin = time.perf_counter()
                ids = run(ours if name == "glassformer" else theirs, prompts)
                if round_:
                    times[name].append(time.perf_counter() - begin)
                assert ids.shape == (batch, NEW)
        speed = {name: batch * NEW / statistics.median(t) for name, t in times.items()}
        print(
            f"batch {batch}: glassformer {speed['glassformer']:.1f} tokens/s, "
            f"transformers {speed['transformers']:.1f} tokens/s, "
            f"ratio {speed['glassformer'] / speed['transformers']:.2f}"
        )


def generate_ours(model: GPT, prompts: torch.Tensor) -> torch.Tensor:
    steps = decode(
        model,
        prompts.tolist(),
        sampling=Sampling(do_sample=False),
        max_new_tokens=NEW,
        seed=0,
    )
    return torch.tensor(list(steps)).T


@torch.inference_mode()
def generate_theirs(model: GPT2LMHeadModel, prompts: torch.Tensor) -> torch.Tensor:
    ids = model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=NEW,
        min_new_tokens=NEW,
        do_sample=False,
        pad_token_id=0,
    )
    return ids[:, PROMPT:]


def with_weights_of(theirs: GPT2LMHeadModel) -> GPT:
    """The same model in our names, so that both do the same work on the same numbers."""
    ours = GPT(GPTConfig(**GPT_PRESETS["gpt2"])).eval()
    source = theirs.transformer
    with torch.no_grad():
        ours.embedding.weight.copy_(source.wte.weight)
        ours.positions.table.weight.copy_(source.wpe.weight)
        ours.final_norm.load_state_dict(source.ln_f.state_dict())
        for block, layer in zip(ours.blocks, source.h, strict=True):
            block.attention_norm.load_state_dict(layer.ln_1.state_dict())
            block.feedforward_norm.load_state_dict(layer.ln_2.state_dict())
            weights = layer.attn.c_attn.weight.T.chunk(3)
            biases = layer.attn.c_attn.bias.chunk(3)
            attention = block.attention
            for part, weight, bias in zip(
                (attention.query, attention.key, attention.value), weights, biases, strict=True
            ):
                part.weight.copy_(weight)
                part.bias.copy_(bias)
            for part, conv in (
                (attention.output, layer.attn.c_proj),
                (block.feedforward.up, layer.mlp.c_fc),
                (block.feedforward.down, layer.mlp.c_proj),
            ):
                part.weight.copy_(conv.weight.T)
                part.bias.copy_(conv.bias)
    ids = torch.randint(50257, (1, 16))
    torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=1e-3, rtol=1e-3)
    merge_projections(ours)  # as glassformer.load does
    return ours


if __name__ == "__main__":
    main()
