"""Tiny models of images with random weights, ready to be looked into."""

from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.models.captioner import Captioner, CaptionerConfig
from glassformer.models.image_gpt import ImageGPT, ImageGPTConfig
from glassformer.models.multiscale_vit import MultiscaleViT, MultiscaleViTConfig
from glassformer.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from glassformer.models.vit import ViT, ViTConfig
from glassformer.preprocessing.images import (
    CaptionPreprocessing,
    ImagePreprocessing,
    PalettePreprocessing,
)
from glassformer.tasks.caption.predictor import CaptionPredictor
from glassformer.tasks.images.predictor import ClassifyImagesPredictor
from glassformer.tasks.paint.predictor import PaintPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import START

SIZE = (8, 12)  # height and width; with patches of 4, the grid is 2 × 3
SCALE = {"image_mean": (0.5,) * 3, "image_std": (0.5,) * 3}
IMAGES: dict[str, Any] = {"image_size": SIZE, "num_channels": 3}
SHAPE: dict[str, Any] = {"num_layers": 2, "d_model": 16, "num_heads": 2}
LABELS = ("cat", "dog", "owl")


def picture(height: int = 16, width: int = 24, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


def shaken(model: nn.Module, std: float = 0.4) -> Any:
    """With weights that are large enough for attention to differ from place to place."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    return model.eval()


def vit(**more: Any) -> ClassifyImagesPredictor:
    config = ViTConfig(**SHAPE | IMAGES | {"patch_size": 4, "labels": LABELS} | more)
    return ClassifyImagesPredictor(shaken(ViT(config)), ImagePreprocessing(**IMAGES, **SCALE))


def multiscale(**more: Any) -> ClassifyImagesPredictor:
    """Stages of 8 × 12 and 4 × 6 places, in windows of 3 × 3: some are padded, some shifted."""
    shape = {"patch_size": 1, "num_layers": (2, 2), "num_heads": (2, 4), "d_model": 8}
    config = MultiscaleViTConfig(**IMAGES | shape | {"window_size": 3, "labels": LABELS} | more)
    model = shaken(MultiscaleViT(config))
    return ClassifyImagesPredictor(model, ImagePreprocessing(**IMAGES, **SCALE))


def captioner(kind: str = "captioner") -> CaptionPredictor:
    tokenizer = train_tokenizer("word", ["a red cat on a dog"] * 3, None, [START])
    sizes: dict[str, Any] = {"vocab_size": tokenizer.vocab_size, "patch_size": 4}
    if kind == "captioner":
        config = CaptionerConfig(**SHAPE | IMAGES | sizes, context_length=8)
        model: Any = Captioner(config)
    else:
        small = ShowAttendTellConfig(**IMAGES | sizes, d_model=16, d_embedding=16, context_length=8)
        model = ShowAttendTell(small)
    known = CaptionPreprocessing(**IMAGES, **SCALE, tokenizer=tokenizer)
    return CaptionPredictor(shaken(model), known)


def painter() -> PaintPredictor:
    palette = ((0, 0, 0), (255, 0, 0), (0, 255, 0), (255, 255, 255))
    known = PalettePreprocessing(image_size=(3, 4), num_channels=3, palette=palette)
    model = ImageGPT(ImageGPTConfig(**SHAPE, image_size=(3, 4), vocab_size=5))
    return PaintPredictor(shaken(model), known)
