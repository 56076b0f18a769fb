"""What a classifier of images attends to, observed while it reads one image."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from glassformer.inspection.capture import chosen
from glassformer.inspection.rollout import Array, LayerAttention, spread
from glassformer.models.image_classifier import ImageClassifier
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.observe import listening
from glassformer.nn.patches import Grid
from glassformer.nn.windows import WindowAttention


@torch.inference_mode()
def watch(model: ImageClassifier, pixels: Tensor) -> tuple[Tensor, list[LayerAttention], Array]:
    """The logits (C,) of an image (1, C, H, W), the attention of every layer, and how much each
    place (N,) counts in the pooled vector."""
    layers, tap = model.layers, model.pooling_tap
    taps = [attention.tap for attention, _ in layers]
    with listening([*taps, *([tap] if tap else [])]) as heard:
        logits = model(pixels.to(model.device))[0].float().cpu()
    found = [
        _layer(attention, grid, seen[0][0], model.num_extra)
        for (attention, grid), seen in zip(layers, heard, strict=False)
    ]
    number = found[-1].num_places
    if tap is not None:
        pooled: Array = heard[-1][0][0].double().cpu().numpy()  # (N,)
    elif model.num_extra:
        pooled = np.eye(1, number)[0]  # the class token
    else:
        pooled = np.full(number, 1 / number)
    return logits, found, pooled


def _layer(
    attention: MultiHeadAttention, grid: Grid, heard: Tensor, num_extra: int
) -> LayerAttention:
    """From the weights of a layer: (H, N, N), or (W·H, T, T) of windows."""
    heads = heard.double().cpu().numpy()
    if isinstance(attention, WindowAttention):
        places = attention.places(grid).numpy()  # (W, T)
        heads = heads.reshape(len(places), attention.num_heads, *heads.shape[1:])
        return LayerAttention(heads, places, grid)
    return LayerAttention(heads[None], np.arange(heads.shape[-1])[None], grid, num_extra)


def chosen_map(maps: Sequence[Array], layer: int | None, head: int | None) -> Array:
    """(rows, columns): of one layer and head; without `layer` or `head`, the mean of all. Layers
    with a coarser grid are spread over the finest."""
    layers = chosen("layer", None if layer is None else [layer], len(maps))
    maps = [maps[number] for number in layers]
    heads = None if head is None else chosen("head", [head], min(map(len, maps)))
    grid: Grid = (maps[0].shape[1], maps[0].shape[2])  # the first is the finest
    means = [spread(values[heads or slice(None)].mean(axis=0), grid) for values in maps]
    mean: Array = np.mean(means, axis=0)
    return mean
