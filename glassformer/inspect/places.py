"""The places of an image: where a model looked, which tokens they are, and images that it painted.

    attention   a = p · A                              one layer: what its places take from others
    rollout     p ← (p + p · A) / 2   layer by layer   from the last layer to the first

p is how much each place counts: at the end, its share in the pooled vector (all of it at the class
token, if there is one). A is the attention of a layer (rows sum to one), and half of what a place
passes on is its own, since attention is added to its input (Abnar and Zuidema, 2020). What is left
at the first layer is how much each patch of the image contributed. `watch` observes the attention.

A text is followed in the same way, from the position of a prediction to the tokens (`rolled_out`).
A decoder passes on half of what reaches its attention to the source, which the encoder's layers
follow further.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from glassformer.data.images import data_uri
from glassformer.inspect import Floats, Ids, Pixels
from glassformer.inspect.alignment import WordPlaces
from glassformer.inspect.capture import select
from glassformer.inspect.chapters import Chapter
from glassformer.models.sources import ImageClassifier
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.observe import listening
from glassformer.nn.patches import Grid
from glassformer.nn.windows import WindowAttention
from glassformer.wording import counted


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """The attention of a layer for one image, in windows; a layer without windows has one."""

    weights: Floats
    """(W, H, T, T): of each window and head; rows sum to one."""
    places: Ids
    """(W, T): the place of each position of a window; -1 is padding."""
    grid: Grid
    """Rows and columns of its places."""
    num_extra: int = 0
    """Positions before those of the image that are no place of it: a class token."""

    @property
    def num_places(self) -> int:
        return self.num_extra + self.grid[0] * self.grid[1]

    def attended(self, shares: Floats) -> Floats:
        """(H, N): how much of each place the others take, if they count by `shares` (N,)."""
        queries = np.where(self.places < 0, 0, shares[self.places])  # (W, T)
        keys = np.einsum("wq,whqk->hwk", queries, self.weights)  # (H, W, T)
        totals = np.zeros((self.weights.shape[1], self.num_places + 1))
        for total, values in zip(totals, keys, strict=True):
            np.add.at(total, self.places, values)  # padding is at -1, the last one
        return totals[:, :-1]


@torch.inference_mode()
def watch(model: ImageClassifier, pixels: Tensor) -> tuple[Tensor, list[LayerAttention], Floats]:
    """The logits (C,) of an image (1, C, H, W), the attention of every layer, and how much each
    place (N,) counts in the pooled vector."""
    layers, tap = model.layers, model.pooling_tap
    taps = [attention.tap for attention, _ in layers]
    with listening([*taps, *([tap] if tap else [])]) as heard:
        logits = model(pixels.to(model.device))[0].float().cpu()
    observed = [
        _layer(attention, grid, weights[0][0], model.num_extra)
        for (attention, grid), weights in zip(layers, heard, strict=False)
    ]
    num_places = observed[-1].num_places
    if tap is not None:
        pooled: Floats = heard[-1][0][0].double().cpu().numpy()  # (N,)
    elif model.num_extra:
        pooled = np.eye(1, num_places)[0]  # the class token
    else:
        pooled = np.full(num_places, 1 / num_places)
    return logits, observed, pooled


def _layer(
    attention: MultiHeadAttention, grid: Grid, weights: Tensor, num_extra: int
) -> LayerAttention:
    """The attention of a layer, from its weights (H, N, N), or (W·H, T, T) of windows."""
    heads = weights.double().cpu().numpy()
    if isinstance(attention, WindowAttention):
        places = attention.places(grid).numpy()  # (W, T)
        heads = heads.reshape(len(places), attention.num_heads, *heads.shape[1:])
        return LayerAttention(heads, places, grid)
    return LayerAttention(heads[None], np.arange(heads.shape[-1])[None], grid, num_extra)


def attention_maps(layers: Sequence[LayerAttention], pooled: Floats) -> list[Floats]:
    """(H, rows, columns) for each layer: what is looked at by the places that count. In the last
    grid these are the pooled ones; in finer grids all places count the same."""
    maps = []
    for layer in layers:
        is_last = layer.num_places == len(pooled)
        shares = pooled if is_last else np.full(layer.num_places, 1 / layer.num_places)
        maps.append(np.stack([_on_grid(head, layer) for head in layer.attended(shares)]))
    return maps


def chosen_map(maps: Sequence[Floats], layer: int | None, head: int | None) -> Floats:
    """The map of one layer and head, (rows, columns); without `layer` or `head`, the mean of all.
    Layers with a coarser grid are spread over the finest."""
    layers = select("layer", None if layer is None else [layer], len(maps))
    maps = [maps[index] for index in layers]
    heads = None if head is None else select("head", [head], min(map(len, maps)))
    grid: Grid = (maps[0].shape[1], maps[0].shape[2])  # the first is the finest
    means = [refine(values[heads or slice(None)].mean(axis=0), grid) for values in maps]
    mean: Floats = np.mean(means, axis=0)
    return mean


def rollout(layers: Sequence[LayerAttention], pooled: Floats) -> Floats:
    """(rows, columns) of the first layer: how much each place contributed to the pooled vector."""
    shares: Floats = np.asarray(pooled, dtype=np.float64)
    for number in reversed(range(len(layers))):
        layer = layers[number]
        shares = (shares + layer.attended(shares).mean(axis=0)) / 2
        if number and layers[number - 1].grid != layer.grid:
            shares = refine(shares.reshape(layer.grid), layers[number - 1].grid).ravel()
    return _on_grid(shares, layers[0])


def rolled_out(
    shares: Floats, attention: Floats, cross: Floats | None = None
) -> tuple[Floats, Floats | None]:
    """How much each token contributed to the last states of a text, which count by `shares` (T,),
    and how much each position of a source, if there is one. The weights, (L, T, T) and (L, T, S),
    are means over the heads; all contributions together sum to one."""
    within: Floats = np.asarray(shares, dtype=np.float64)
    memory = None if cross is None else np.zeros(cross.shape[-1])
    for number in reversed(range(len(attention))):
        if cross is not None and memory is not None:  # comes after self-attention in a block
            memory = memory + within @ cross[number] / 2
            within = within / 2
        within = (within + within @ attention[number]) / 2
    return within, memory


def refine(coarse: Floats, grid: Grid) -> Floats:
    """What counts on a coarse grid, divided equally among the places of a finer one."""
    rows, columns = (
        np.arange(count) // -(-count // side)
        for count, side in zip(grid, coarse.shape, strict=True)
    )  # merging pads at the end, so the last coarse place may stand for fewer
    sizes = np.outer(*map(np.bincount, (rows, columns)))
    fine: Floats = (coarse / sizes)[np.ix_(rows, columns)]
    return fine


def _on_grid(values: Floats, layer: LayerAttention) -> Floats:
    """(rows, columns), without the extra positions; the sum is one."""
    places = values[layer.num_extra :].reshape(layer.grid)
    return places / max(float(places.sum()), 1e-300)


# --- an image whose places are tokens ---


@dataclass(frozen=True, eq=False)
class Picture:
    """An image as a page shows it, and how its places and tokens belong together. A stream that has
    one is drawn as maps over the image.

        class  0   1   2      tokens before the places (`num_extra`), then the places: patches or
               3   4   5      single pixels, row by row
    """

    name: str
    """What the user calls it: the name of a file."""
    size: tuple[int, int]
    """Height and width of the original."""
    image: str
    """The original in its own aspect ratio, as a data URI of bounded size."""
    seen: str
    """What the model read: resized, in its colours."""
    seen_size: tuple[int, int]
    grid: Grid
    """The places cover the image evenly, in both."""
    num_extra: int = 0
    """Tokens before the first place: a class token, or the start token of a painter."""
    unit: Literal["patch", "pixel"] = "patch"
    positions: Tensor | None = None
    """(T, D) what is added to each token to say where it is, if anything is."""
    has_learned_positions: bool = False
    """Whether positions are learned, not fixed waves."""
    reads_around: bool = False
    """Convolutions compute the vector of a patch, also from the pixels around it."""

    @property
    def num_places(self) -> int:
        rows, columns = self.grid
        return rows * columns

    @property
    def title(self) -> str:
        """The name without its folders."""
        return PurePath(self.name).name or self.name

    def names(self, extra: str) -> list[str]:
        """The names of all tokens; `extra` is that of those before the places."""
        places = [f"{self.unit} {number}" for number in range(self.num_places)]
        return [extra] * self.num_extra + places

    def as_json(self) -> dict[str, Any]:
        return {"size": list(self.size), "grid": list(self.grid)}


# --- painted images ---


@dataclass(frozen=True)
class Completed:
    """An image, and what the model painted below its upper rows."""

    name: str
    original: Pixels
    """(H, W, C) in the model's size and colours."""
    num_rows: int
    """How many rows were given."""
    paintings: list[Pixels]
    """(H, W, C) each: the given rows, and what was painted."""

    @property
    def given(self) -> Pixels:
        """The original without the rows that were to be painted: they are grey."""
        pixels = self.original.copy()
        pixels[self.num_rows :] = 128
        return pixels

    def as_json(self) -> dict[str, Any]:
        return {
            "image": self.name,
            "num_rows": self.num_rows,
            "original": self.original.tolist(),
            "completions": [painting.tolist() for painting in self.paintings],
        }


@dataclass(frozen=True)
class Paintings:
    """New images, or completed ones."""

    images: list[Pixels]
    """(H, W, C) each; empty if images were completed."""
    completed: list[Completed]
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[str, list[Pixels]]]:
        """The rows of the picture: a name, the original, the given part, the completions."""
        return [
            (image.name, [image.original, image.given, *image.paintings])
            for image in self.completed
        ]

    def as_json(self) -> dict[str, Any]:
        if self.completed:
            return {"completed": [image.as_json() for image in self.completed]}
        return {"images": [image.tolist() for image in self.images]}

    def text(self) -> str:
        if self.completed:
            per_image = counted(len(self.completed[0].paintings), "completion")
            return f"{counted(len(self.completed), 'image')}, {per_image} each"
        return counted(len(self.images), "image")


# --- chapters of a report: the image again, bright where the model looked ---

LARGEST = 128  # pixels of a side of an image in a report
MOST_WORDS = 24  # of a caption whose panels are shown


def caption_places(looks: Iterable[WordPlaces]) -> list[Chapter]:
    """A chapter with the attention map of every word; long captions are left out."""
    scenes = [
        _scene(look.caption, look.pixels, zip(look.words, look.weights, strict=True))
        for look in looks
        if len(look.words) <= MOST_WORDS
    ]
    note = "Panels are bright where the model looked before it wrote that word. The frame is the "
    note += "place with the largest weight, which is given below."
    return [Chapter("Where each word looked", "places", {"scenes": scenes}, note)] if scenes else []


def image_places(rollouts: Iterable[tuple[str, Any, Any]]) -> list[Chapter]:
    """Attention rollout for images: a title, the pixels (H, W, C), and what `rollout` returned."""
    scenes = [
        _scene(title, pixels, [(rollout.label, rollout.weights)])
        for title, pixels, rollout in rollouts
    ]
    note = "Attention followed back through all layers (rollout): the second image is bright where "
    note += "patches contributed most. The frame is the place with the largest weight, given below."
    return [Chapter("Where it looked", "places", {"scenes": scenes}, note)] if scenes else []


def _scene(title: str, pixels: Any, panels: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An image, and for each label where the model looked."""
    return {
        "title": title,
        "image": data_uri(pixels, LARGEST),
        "size": [*pixels.shape[:2]],
        "panels": [
            {"label": label, "weights": weights.round(4).tolist()} for label, weights in panels
        ],
    }
