"""What LoRA has learned, as two thin matrices for each layer, in a file beside the merged model.

    encoder.blocks.0.attention.query.A        (rank, in)
    encoder.blocks.0.attention.query.B        (out, rank)

The model folder is complete without it; it is what an adapter is written from.
"""

from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from glassformer.checkpoint.model_folder import LORA, in_order
from glassformer.checkpoint.safetensors_file import SafetensorsFile, reading_safetensors
from glassformer.errors import GlassformerError
from glassformer.nn.lora import lora_scale


@dataclass(frozen=True)
class LoRAUpdate:
    """The updates of some layers of a model."""

    base: str
    """The model that was fine-tuned: a folder, a file or a name of the hub."""
    rank: int
    alpha: float
    dropout: float
    use_rslora: bool
    factors: dict[str, tuple[Tensor, Tensor]]
    """A and B of each layer, by name."""

    @property
    def scale(self) -> float:
        return lora_scale(self.rank, self.alpha, self.use_rslora)

    def file(self) -> bytes:
        tensors = dict[str, Tensor]()
        for name, (a, b) in self.factors.items():
            tensors |= {f"{name}.A": a, f"{name}.B": b}
        about = {
            "base": self.base,
            "rank": str(self.rank),
            "alpha": repr(self.alpha),
            "dropout": repr(self.dropout),
            "use_rslora": str(self.use_rslora).lower(),
        }
        weights = {name: each.detach().cpu().contiguous() for name, each in tensors.items()}
        return in_order(save(weights, metadata={"format": "pt"} | about))


def load_lora(folder: Path) -> LoRAUpdate:
    """The updates beside the model in a folder."""
    path = folder / LORA
    missing = f"{folder} was not trained with LoRA: there is no {LORA} in it. Train it with --lora."
    with reading_safetensors(path, missing):
        file = SafetensorsFile(path)
        about, tensors = file.metadata, dict(file.read([*file.shapes]))
    try:
        names = sorted({name.rsplit(".", 1)[0] for name in tensors})
        return LoRAUpdate(
            base=about["base"],
            rank=int(about["rank"]),
            alpha=float(about["alpha"]),
            dropout=float(about["dropout"]),
            use_rslora=about["use_rslora"] == "true",
            factors={name: (tensors[f"{name}.A"], tensors[f"{name}.B"]) for name in names},
        )
    except (KeyError, ValueError):
        raise GlassformerError(f"{path} is damaged. Copy it again.") from None
