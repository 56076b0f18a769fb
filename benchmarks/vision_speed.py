"""Training speed of a ViT beside transformers' ViTForImageClassification, and the cost of windows.

    make bench-vision-speed            writes runs/window_cost.png

Both ViTs have one shape (ViT-Ti on 32×32 images with patches of 4: 12 layers, 192 wide, 3 heads, 65
tokens), read the same images in batches of 64 and learn by AdamW; ours also shifts and flips its
images. Images a second, in turns, the median of several rounds: ours in float32, ours in the
precision that `glassformer train` chooses on this machine, and theirs in float32, their default.
Their logits are checked to agree before the measurement starts.

Then the time and the operations of one layer of attention are measured for images of growing area:
in windows, and over the whole image.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count
from transformers import ViTConfig as TheirConfig
from transformers import ViTForImageClassification

from benchmarks.machine import describe
from benchmarks.steps import Step, in_turns, step_of
from glassformer.data.augmentation import AugmentationConfig, augment
from glassformer.machine.host import set_up
from glassformer.models.vit import ViT, ViTConfig
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.windows import WindowAttention
from glassformer.training.optimizer_and_schedule import make_optimizer

LAYERS, WIDTH, HEADS, PATCH, SIDE, BATCH, LABELS = 12, 192, 3, 4, 32, 64, 10
ROUNDS, STEPS = 5, 6
WINDOW, SIDES = 8, (16, 24, 32, 48, 64, 80, 96)  # places of a window, and of the grids


def theirs() -> ViTForImageClassification:
    config = TheirConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        image_size=SIDE,
        patch_size=PATCH,
        num_labels=LABELS,
        layer_norm_eps=1e-6,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return ViTForImageClassification(config)


NAMES = {
    "vit.embeddings.patch_embeddings.projection": "encoder.embedding.projection",
    "vit.embeddings.cls_token": "encoder.class_token",
    "vit.embeddings.position_embeddings": "encoder.positions.table.weight",
    "vit.layers.": "encoder.blocks.",
    "attention.q_proj": "attention.query",
    "attention.k_proj": "attention.key",
    "attention.v_proj": "attention.value",
    "attention.o_proj": "attention.output",
    "layernorm_before": "attention_norm",
    "layernorm_after": "feedforward_norm",
    "mlp.fc1": "feedforward.up",
    "mlp.fc2": "feedforward.down",
    "vit.layernorm": "encoder.final_norm",
    "classifier": "head",
}


def ours_like(other: nn.Module) -> ViT:
    """Our ViT with the same weights."""
    config = ViTConfig(
        image_size=(SIDE, SIDE),
        num_channels=3,
        patch_size=PATCH,
        num_layers=LAYERS,
        d_model=WIDTH,
        num_heads=HEADS,
        labels=tuple(map(str, range(LABELS))),
        head_dropout=0.0,
    )
    model, weights = ViT(config), {}
    shapes = model.state_dict()
    for name, weight in other.state_dict().items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        weights[name] = weight.reshape(shapes[name].shape)
    model.load_state_dict(weights, strict=False)
    return model


def batches() -> Any:
    random = torch.Generator().manual_seed(0)
    images = torch.rand(16 * BATCH, 3, SIDE, SIDE, generator=random)
    targets = torch.randint(LABELS, (16 * BATCH,), generator=random)
    while True:
        for first in range(0, len(images), BATCH):
            yield images[first : first + BATCH], targets[first : first + BATCH]


def ours(other: nn.Module, precision: str) -> Step:
    model = ours_like(other).train()
    settings: dict[str, Any] = {"learning_rate": 1e-4, "weight_decay": 0.1, "betas": (0.9, 0.99)}
    optimizer = make_optimizer("adamw", model, **settings)
    varied, random = AugmentationConfig(shift=0.125, flip=0.5), torch.Generator().manual_seed(0)

    def loss(batch: tuple[Tensor, Tensor]) -> Tensor:
        images = augment(batch[0], varied, random)
        with torch.autocast("cpu", getattr(torch, precision), enabled=precision != "float32"):
            logits = model(images)
        return F.cross_entropy(logits.float(), batch[1])

    return step_of(model, optimizer, batches(), loss, lambda batch: len(batch[0]))


def training(other: nn.Module, precision: str) -> list[Step]:
    """Ours in float32, ours in another precision, theirs."""
    optimizer = torch.optim.AdamW(other.parameters(), lr=1e-4)

    def loss(batch: tuple[Tensor, Tensor]) -> Any:
        return other(pixel_values=batch[0], labels=batch[1]).loss

    their_step = step_of(other.train(), optimizer, batches(), loss, lambda batch: len(batch[0]))
    return [ours(other, "float32"), ours(other, precision), their_step]


def compare_training() -> None:
    torch.manual_seed(0)
    other = theirs().eval()
    pixels = torch.rand(4, 3, SIDE, SIDE)
    with torch.no_grad():
        gap = (ours_like(other).eval()(pixels) - other(pixels).logits).abs().max()
    print(f"largest difference of the logits: {gap:.1e}")
    precision = set_up().precision
    plain, mine, their_speed = in_turns(training(other, precision), STEPS, ROUNDS)
    print(f"transformers {their_speed:.0f} images/s")
    for name, speed in (("float32", plain), (precision, mine)):
        print(f"glassformer in {name} {speed:.0f} images/s: ratio {speed / their_speed:.2f}")


def _operations(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    count: int = sdpa_flop_count(query, key, value)
    return count


# On a CPU, torch counts no operations of fused attention by itself.
FUSED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _operations}


def cost(layer: nn.Module, x: Tensor) -> tuple[float, float]:
    """Median milliseconds, and billions of operations."""
    times = []
    with torch.no_grad():
        with FlopCounterMode(display=False, custom_mapping=FUSED) as counter:
            layer(x)
        for _ in range(7):
            begin = time.perf_counter()
            layer(x)
            times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times), counter.get_total_flops() / 1e9


def window_cost(out: Path) -> None:
    """How the cost of attention grows with the area of an image."""
    windows = WindowAttention(64, 2, window_size=WINDOW, is_shifted=True).eval()
    whole = MultiHeadAttention(64, 2).eval()
    areas = [side * side for side in SIDES]
    found: dict[str, list[tuple[float, float]]] = {"windows": [], "whole image": []}
    print("places   windows: ms, GFLOP   whole image: ms, GFLOP")
    for side in SIDES:
        x = torch.randn(4, side, side, 64)
        found["windows"].append(cost(windows, x))
        found["whole image"].append(cost(whole, x.flatten(1, 2)))
        (ms, flop), (whole_ms, whole_flop) = (each[-1] for each in found.values())
        print(f"{side * side:6,}  {ms:8.1f} {flop:7.3f}  {whole_ms:18.1f} {whole_flop:7.3f}")
    for name, values in found.items():
        for what, column in zip(("time", "operations"), np.array(values).T, strict=True):
            power = np.polyfit(np.log(areas), np.log(column), 1)[0]
            print(f"{name}: {what} grows with the area to the power of {power:.2f}")
    draw(areas, found, out)
    print(f"wrote {out}")


def draw(areas: list[int], found: dict[str, list[tuple[float, float]]], out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6))
    for number, what in enumerate(("milliseconds", "billion operations")):
        axes = figure.add_subplot(1, 2, 1 + number)
        for name, values in found.items():
            axes.plot(areas, [each[number] for each in values], marker="o", label=name)
        axes.set_xlabel("places of the image")
        axes.set_ylabel(what)
        axes.set_ylim(bottom=0)
        axes.legend()
    figure.suptitle(f"One layer of attention, windows of {WINDOW}×{WINDOW} and whole")
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("runs/window_cost.png"))
    options = parser.parse_args()
    print(describe())
    compare_training()
    window_cost(options.out)


if __name__ == "__main__":
    main()
