"""Swin's windows stop shifting along both sides as soon as one side is a single window wide."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn

import glassformer
from glassformer.checkpoint.model_folder import save_model
from glassformer.errors import GlassformerError
from glassformer.formats.export_hub import write_hub
from glassformer.formats.exporting import refuse_if_wrong
from glassformer.formats.hugging_face import read_folder
from glassformer.models import row
from glassformer.preprocessing.images import ImagePreprocessing

# One side of a stage's grid is one window, the other is longer; then neither or both are.
MIXED = {"image_size": [8, 32], "patch_size": 2, "window_size": 4, "depths": [2], "num_heads": [2]}


def drawn(seed: int) -> dict[str, Any]:
    """A random shape whose grids are whole windows in every stage."""
    draw = random.Random(seed)
    patch, window, stages = draw.choice([1, 2, 4]), draw.choice([2, 3, 4]), draw.randint(1, 3)
    unit = patch * window * 2 ** (stages - 1)
    return {
        "image_size": [unit * draw.randint(1, 3), unit * draw.randint(1, 3)],
        "num_channels": draw.choice([1, 3]),
        "patch_size": patch,
        "window_size": window,
        "embed_dim": 8,
        "depths": [draw.randint(1, 4) for _ in range(stages)],
        "num_heads": [draw.choice([1, 2, 4]) for _ in range(stages)],
        "mlp_ratio": draw.choice([1.0, 2.5, 4.0]),
    }


def published(folder: Path, **shape: Any) -> Any:
    """A Swin of transformers with random weights, saved in a folder."""
    torch.manual_seed(0)
    labels = {0: "bad", 1: "good", 2: "other"}
    theirs = hf.SwinForImageClassification(hf.SwinConfig(**shape, id2label=labels))
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.2)
    theirs.save_pretrained(folder)
    return theirs.eval()


@torch.inference_mode()
def logits(model: Any, pixels: torch.Tensor) -> torch.Tensor:
    found = model.eval()(pixels)
    return found.logits if hasattr(found, "logits") else found


@pytest.mark.parametrize("shape", [MIXED, *map(drawn, range(48))], ids=str)
def test_any_shape_is_computed_as_in_transformers(tmp_path: Path, shape: dict[str, Any]) -> None:
    theirs = published(tmp_path / "theirs", **shape)
    pixels = torch.randn(3, shape.get("num_channels", 3), *shape["image_size"])
    expected = logits(theirs, pixels)
    read = read_folder(tmp_path / "theirs")
    assert (logits(read.model, pixels) - expected).abs().max() <= 1e-5
    (tmp_path / "ours").mkdir()
    write_hub(read, tmp_path / "ours", "")
    again = hf.SwinForImageClassification.from_pretrained(tmp_path / "ours")
    assert (logits(again, pixels) - expected).abs().max() <= 1e-5


def test_the_random_shapes_have_all_kinds_of_grids() -> None:
    kinds = {
        tuple(
            side // shape["patch_size"] // 2**stage > shape["window_size"]
            for side in shape["image_size"]
        )
        for shape in map(drawn, range(48))
        for stage, blocks in enumerate(shape["depths"])
        if blocks > 1
    }
    assert len(kinds) == 4


def ours(folder: Path, **values: Any) -> Path:
    """A model that was trained here, with random weights."""
    torch.manual_seed(0)
    known = row("multiscale-vit")
    config = {"image_size": (8, 32), "num_channels": 3, "patch_size": 2, "d_model": 8}
    config |= {"window_size": 4, "num_layers": (2,), "num_heads": (2,), "labels": ("a", "b")}
    model = known.model(known.config(**config | values))
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.2)
    size = model.config.image_size
    scale = {"image_mean": (0.5,) * 3, "image_std": (0.5,) * 3}
    save_model(folder, model, ImagePreprocessing(image_size=size, num_channels=3, **scale))
    return folder


def test_windows_that_shift_along_one_side_are_not_written_as_swin(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match=r"stage 1.*4×16") as caught:
        glassformer.export_model(ours(tmp_path / "model"), "hf", tmp_path / "out")
    assert "window_shift" in str(caught.value)
    assert not (tmp_path / "out").exists()
    for number, other in enumerate([{"num_layers": (1,)}, {"image_size": (16, 32)}]):
        model = ours(tmp_path / f"{number}", **other)
        assert glassformer.export_model(model, "hf", tmp_path / f"{number}-out").differences


def test_differences_beyond_float32_are_noticed() -> None:
    """Windows that shift along one side changed the logits of some models by less than 1e-3."""
    for difference, largest in ((3e-4, 0.5), (5e-3, 33.5), (torch.nan, 1.0)):
        with pytest.raises(GlassformerError, match="differs from the original"):
            refuse_if_wrong({"transformers": difference}, largest)
    refuse_if_wrong({"onnxruntime": 6.1e-4}, 34.2)  # as measured with SmolLM2
