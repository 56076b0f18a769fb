"""Tokens per second of training, GPT-2's shape at 6 × 384, against transformers' GPT2LMHeadModel in
a plain loop; and the share of what the machine can multiply at all, measured in the same run.

    python -m benchmarks.throughput
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.machine import describe
from benchmarks.steps import update
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn.loss import next_token_loss
from glassformer.training.optimizer_and_schedule import make_optimizer

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, VOCABULARY = 6, 6, 384, 256, 16, 65
ROUNDS, STEPS = 5, 3
SIDE = 4096


def theirs() -> Callable[[Tensor], None]:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids: Tensor) -> None:
        model(input_ids=ids[:, :-1], labels=ids[:, :-1]).loss.backward()
        update(model, optimizer)

    return step


def ours(kind: str) -> Callable[[Tensor], None]:
    config = GPTConfig(
        vocab_size=VOCABULARY,
        context_length=CONTEXT,
        d_model=WIDTH,
        num_layers=LAYERS,
        num_heads=HEADS,
    )
    model = GPT(config)
    optimizer = make_optimizer(
        "muon" if kind == "muon" else "adamw",
        model,
        learning_rate=1e-3,
        weight_decay=0.1,
        betas=(0.9, 0.99),
    )

    def step(ids: Tensor) -> None:
        next_token_loss(model.hidden(ids[:, :-1]), model.head, ids[:, 1:]).backward()
        update(model, optimizer)

    return step


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    torch.manual_seed(0)
    print(describe())
    steps = {"transformers": theirs(), "glassformer": ours("adamw"), "with Muon": ours("muon")}
    ids = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
    square = torch.randn(SIDE, SIDE)
    times: dict[str, list[float]] = {name: [] for name in (*steps, "product")}
    for step in steps.values():
        step(ids)  # warms up
    for _ in range(ROUNDS):  # in turn, so that a slow moment of the machine hits all alike
        times["product"].append(seconds(lambda: square @ square))
        for name, step in steps.items():
            times[name] += [seconds(lambda step=step: step(ids)) for _ in range(STEPS)]
    peak = 2 * SIDE**3 / min(times["product"])
    weights = 12 * LAYERS * WIDTH**2 + VOCABULARY * WIDTH
    products = 6 * BATCH * CONTEXT * (weights + LAYERS * CONTEXT * WIDTH)  # causal: half the scores
    for name in steps:
        taken = median(times[name])
        print(
            f"{name:13} {BATCH * CONTEXT / taken:7,.0f} tokens/s  {taken:.3f} s a step  "
            f"{products / taken / peak:.0%} of {peak / 1e12:.3f} TFLOP/s  "
            f"ratio {median(times['transformers']) / taken:.2f}"
        )


if __name__ == "__main__":
    main()
