"""Models with an image, as `inspect` looks at them: classifiers, captioners and painters.

    of_image      patches → one label
    of_caption    patches → the words of a caption
    of_painting   the colours of the pixels, each predicted from those before it

The tokens of an image lie on a grid: a stream with a `Picture` says which places of the image its
tokens are, so that pages draw maps over it.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.data.images import Pixels, at_most, data_uri, resized
from glassformer.inspect.capture import stacks_of
from glassformer.inspect.inspection import (
    Entry,
    LinearReadOut,
    PixelInput,
    Stream,
    Subject,
    adds_vectors,
    is_rotary,
    position_vectors,
)
from glassformer.inspect.places import Picture, rollout, watch
from glassformer.inspect.residual import linear_read_out
from glassformer.models import name_of
from glassformer.models.image_gpt import ImageGPT
from glassformer.models.sources import CaptionDecoder, ImageClassifier
from glassformer.models.vit import ViT
from glassformer.nn.blocks import Block, Stack
from glassformer.nn.patches import ConvolutionalEmbedding
from glassformer.nn.positions import LearnedPositions
from glassformer.nn.windows import WindowAttention
from glassformer.preprocessing.images import (
    CaptionPreprocessing,
    ImageInput,
    ImagePreprocessing,
    PalettePreprocessing,
)
from glassformer.tasks.alignment import shown_tokens
from glassformer.tasks.subjects import SPARE_STEPS, Search, entry_of

LARGEST_PICTURE = 640  # pixels of the longer side of an image on which attention is drawn
CLASS_TOKEN, START_TOKEN = "class token", "start"
CAPTION_CUT_OFF = "the caption reached the maximum length and was cut off"


def of_image(
    model: ImageClassifier, preprocessing: ImagePreprocessing, image: ImageInput
) -> Subject:
    """An image that a classifier reads: one label for all of it."""
    original = preprocessing.original(image).pixels  # (H, W, C)
    small = resized(original, preprocessing.image_size)
    pixels = preprocessing.pixels(np.stack([small])).to(model.device)
    layers, stack = model.layers, next(iter(stacks_of(model).values()), None)
    grid = layers[0][1]  # of the first layer, which is the finest
    positions = _module(model, "encoder.positions")
    name = preprocessing.shown(image)
    picture = _picture(model, name, original, small, grid, positions, stack, model.num_extra)
    windows = [(layer, grid) for layer, grid in layers if isinstance(layer, WindowAttention)]
    read_out = getattr(model, "read_out", None)
    return Subject(
        model=name_of(model),
        module=model,
        text=picture.name,
        title=picture.title,
        streams=(
            Stream(
                "image",
                picture.names(CLASS_TOKEN),
                [],
                stack,
                blocks=[part for part in model.modules() if isinstance(part, Block)],
                is_rotary=is_rotary(model),
                picture=picture,
                windows=() if stack is not None else windows,
            ),
        ),
        run=lambda: model(pixels) / model.temperature,  # (1, C)
        name_of=model.labels.__getitem__,
        predicts="whole",
        actual=[None],
        read_out=None if read_out is None else lambda x: read_out(x[None]) / model.temperature,
        linear=_read_out_of_vit(model) if isinstance(model, ViT) else "",
        focus=0,
        first_token=0 if model.num_extra else _middle(grid),
        labels=model.labels,
        read_at=[0] if model.num_extra else None,
        pixels=PixelInput(
            pixels, lambda images: model(images)[:, None] / model.temperature, _size(model)
        ),
        rollout=lambda: rollout(*watch(model, pixels)[1:]),
    )


def of_caption(
    model: CaptionDecoder,
    preprocessing: CaptionPreprocessing,
    image: ImageInput,
    original: Pixels,
    ids: Sequence[int],
) -> Subject:
    """An image and its caption, as ids from start to end; each token predicts the next one."""
    small = resized(original, preprocessing.image_size)
    pixels = preprocessing.pixels(np.stack([small])).to(model.device)
    tokenizer, stacks = preprocessing.tokenizer, stacks_of(model)
    encoder, decoder = stacks.get("encoder.blocks"), stacks.get("decoder")
    of_places = _module(model, "encoder.positions") or _module(model, "positions")
    name = preprocessing.shown(image)
    picture = _picture(model, name, original, small, model.grid, of_places, encoder)
    row = torch.tensor([[*ids[:-1]]], device=model.device)
    caption = preprocessing.decode(ids[1:])
    of_words = None if decoder is None else _module(model, "positions")
    final_norm = _module(model, "decoder_norm")

    def named(id: int) -> str:
        return shown_tokens(tokenizer, [id])[0]

    return Subject(
        model=name_of(model),
        module=model,
        text=picture.name,
        title=f"{picture.title} → {caption or '(empty)'}",
        streams=(
            Stream(
                "image",
                picture.names(CLASS_TOKEN),
                [],
                encoder,
                is_rotary=is_rotary(model),
                picture=picture,
            ),
            Stream(
                "caption",
                shown_tokens(tokenizer, ids[:-1]),
                [*ids[:-1]],
                decoder,
                is_rotary=is_rotary(model),
                memory="image",
                memory_taps=() if decoder is not None else model.taps,
                is_causal=True,
            ),
        ),
        run=lambda: model(pixels, row)[0],
        name_of=named,
        predicts="next",
        actual=[*ids[1:]],
        separator="" if tokenizer.keeps_spacing else " ",
        search=lambda: Search(
            decoder=model,
            prompt=ids[:1],
            ends=(preprocessing.end,),
            device=model.device,
            memory=lambda: model.encode(pixels),
            steps=min(len(ids) + SPARE_STEPS, model.context_length),
        ).tree(named),
        read_out=getattr(model, "read_out", None),
        linear="" if final_norm is None else LinearReadOut(final_norm, model.head),
        pixels=PixelInput(
            pixels, lambda images: model(images, row.expand(len(images), -1)), _size(model)
        ),
        embedding=model.token_vectors,
        positions=of_words,
        entry=Entry(adds_positions=adds_vectors(of_words)),
        remarks=() if ids[-1] == preprocessing.end else (CAPTION_CUT_OFF,),
        focus=(len(ids) - 1) // 3,  # what follows a whole caption is only its end
    )


def of_painting(model: ImageGPT, preprocessing: PalettePreprocessing, image: ImageInput) -> Subject:
    """An image as the colours of its pixels, row by row; each token predicts the next pixel."""
    original = preprocessing.original(image).pixels
    (colours,) = preprocessing.encode([original])
    ids = [preprocessing.start, *map(int, colours[:-1])]
    (painted,) = preprocessing.pixels(colours[None])  # (H, W, C)
    grid = preprocessing.image_size
    stack, name = next(iter(stacks_of(model).values())), preprocessing.shown(image)
    picture = _picture(model, name, original, painted, grid, model.positions, stack, 1, "pixel")
    row = torch.tensor([ids], device=model.device)

    def named(id: int) -> str:
        if id == preprocessing.start:
            return START_TOKEN
        shade: list[int] = preprocessing.shades[id].tolist()
        red, green, blue = shade if len(shade) == 3 else shade * 3
        return f"#{red:02x}{green:02x}{blue:02x}"

    names = picture.names(START_TOKEN)[: len(ids)]
    return Subject(
        model=name_of(model),
        module=model,
        text=picture.name,
        title=picture.title,
        streams=(
            Stream(
                "image",
                names,
                ids,
                stack,
                is_causal=True,
                is_rotary=is_rotary(model),
                picture=picture,
                embedding=model.embedding,
            ),
        ),
        run=lambda: model(row)[0],
        run_rows=lambda: model(row),
        name_of=named,
        predicts="next",
        actual=[int(colour) for colour in colours],
        embedding=model.token_vectors,
        entry=entry_of(model),
        read_out=model.read_out,
        linear=linear_read_out(model),
        focus=_middle(grid),
    )


# --- parts ---


def _read_out_of_vit(model: ViT) -> LinearReadOut:
    def shares(states: Tensor) -> Tensor:
        if model.pooler is not None:
            weights: Tensor = model.pooler.score(states).softmax(dim=0)[:, 0]  # (N,)
            return weights
        if model.num_extra:
            return torch.eye(1, len(states), device=states.device)[0]  # the class token
        return torch.full_like(states[:, 0], 1 / len(states))

    return LinearReadOut(model.encoder.final_norm, model.head, float(model.temperature), shares)


def _picture(
    model: nn.Module,
    name: str,
    original: Pixels,
    small: Pixels,
    grid: tuple[int, int],
    positions: Any,
    stack: Stack | None,
    num_extra: int = 0,
    unit: Literal["patch", "pixel"] = "patch",
) -> Picture:
    """An image, what the model read of it, and what is added to each of its places."""
    if stack is None:  # convolutions have learned positions, or none
        table = getattr(getattr(positions, "table", None), "weight", None)
        added = None if table is None else table.detach()
    else:
        # Of pixels, the last one is only predicted.
        count = num_extra + grid[0] * grid[1] - (unit == "pixel")
        width, device = stack.attentions[0].query.in_features, next(stack.parameters()).device
        added = position_vectors(positions, count, width, device)
    return Picture(
        name=name,
        size=(original.shape[0], original.shape[1]),
        image=data_uri(at_most(original, LARGEST_PICTURE)),
        seen=data_uri(at_most(small, LARGEST_PICTURE)),
        seen_size=(small.shape[0], small.shape[1]),
        grid=grid,
        num_extra=num_extra,
        unit=unit,
        positions=added,
        has_learned_positions=isinstance(positions, LearnedPositions),
        reads_around=any(isinstance(part, ConvolutionalEmbedding) for part in model.modules()),
    )


def _size(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def _module(model: nn.Module, name: str) -> nn.Module | None:
    return dict(model.named_modules()).get(name)


def _middle(grid: tuple[int, int]) -> int:
    """The index of the place in the middle of an image."""
    rows, columns = grid
    return (rows // 2) * columns + columns // 2
