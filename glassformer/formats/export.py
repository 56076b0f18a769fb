"""From a model to the files of another tool, loaded again and compared.

A format is a file that writes and checks, `export_….py`, and a row of the table here.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.checkpoint.model_folder import (
    CARD,
    GENERATION,
    Saved,
    check_replaceable,
    load_model,
    save_model,
)
from glassformer.checkpoint.model_names import CONFIG
from glassformer.checkpoint.open import ModelPath, located, open_model
from glassformer.errors import UsageError
from glassformer.files import new_folder, write_json
from glassformer.formats import export_gguf, exporting, peft_adapter
from glassformer.formats.conversion import command_to_try
from glassformer.formats.export_ctranslate2 import SIGN, check_ctranslate2, write_ctranslate2
from glassformer.formats.export_gguf import check_gguf, write_gguf
from glassformer.formats.export_hub import check_hub, write_hub
from glassformer.formats.export_onnx import check_onnx, write_onnx
from glassformer.formats.export_peft import check_peft, write_peft
from glassformer.formats.open_model import default_name, origin_of
from glassformer.nn.int8 import is_quantized, quantize
from glassformer.wording import an


@dataclass(frozen=True)
class ExportFormat:
    """A row of the table."""

    about: str
    sign: str
    """The file by which such a folder is recognised, so that --force replaces nothing else."""
    write: Callable[..., tuple[str, list[str]]]
    """Write a model into a folder, with the model card that it has, and one of the `dtypes` if
    there are any. Returns what was written, in a word, and notes."""
    check: Callable[[Saved, Path], dict[str, float]]
    """The largest difference in logits after loading it again, by the tool that loaded it."""
    dtypes: tuple[str, ...] = ()
    """How weights can be stored; the first is the default."""
    can_be_quantized: bool = False
    """Whether it holds weights of 8 bits as `nn/int8.py` has them."""

    def arguments(self, format: str, dtype: str | None) -> dict[str, str]:
        """What `write` is told about the type of weights."""
        if not self.dtypes:
            if dtype is not None:
                raise UsageError(f"--dtype has no meaning for --format {format}. Leave it out.")
            return {}
        name = self.dtypes[0] if dtype is None else dtype.upper()
        if name not in self.dtypes:
            raise UsageError(
                f'there is no dtype "{dtype}" for --format {format}. These are known: '
                f"{', '.join(self.dtypes)}."
            )
        return {"dtype": name}


def write_own(saved: Saved, folder: Path, card: str) -> tuple[str, list[str]]:
    if saved.folder is None:  # the card of another tool has its commands, or there is none
        about = f"{an(saved.name, 'A')} for glassformer"
        usage = exporting.trial(*command_to_try(saved.model, saved.preprocessing))
        card = exporting.card(saved.name, about, usage, card)
    save_model(folder, saved.model, saved.preprocessing, card)
    if saved.generation:
        write_json(folder / GENERATION, saved.generation)
    return saved.name, []


def check_own(saved: Saved, folder: Path) -> dict[str, float]:
    again = load_model(folder).model.state_dict()
    pairs = [(tensor.cpu(), again[name]) for name, tensor in saved.model.state_dict().items()]
    most = max(
        float((one.float() - other.float()).abs().max()) for one, other in pairs if one.numel()
    )
    return exporting.refuse_if_wrong({"glassformer": most})


FORMATS = {
    "hf": ExportFormat("a folder that transformers loads", CONFIG, write_hub, check_hub),
    "onnx": ExportFormat("graphs that onnxruntime runs", CONFIG, write_onnx, check_onnx),
    "ctranslate2": ExportFormat(
        "a folder that CTranslate2 loads", SIGN, write_ctranslate2, check_ctranslate2
    ),
    "gguf": ExportFormat(
        "a file that llama.cpp loads", export_gguf.FILE, write_gguf, check_gguf, export_gguf.DTYPES
    ),
    "peft": ExportFormat(
        "the adapter of a run with LoRA, for peft", peft_adapter.CONFIG, write_peft, check_peft
    ),
    "safetensors": ExportFormat(
        "weights and configs with our names", CONFIG, write_own, check_own, can_be_quantized=True
    ),
}


@dataclass(frozen=True)
class ExportedModel:
    """What was written. It is a path: pass it wherever one is expected."""

    folder: Path
    format: str
    architecture: str
    differences: dict[str, float]
    """The largest difference in logits after loading it again, by the tool that loaded it."""
    notes: tuple[str, ...] = ()

    def __fspath__(self) -> str:
        return str(self.folder)

    def summary(self) -> str:
        parts = (f"{value:.2g} ({tool})" for tool, value in self.differences.items())
        return (
            f"{self.folder}: {self.architecture}. Largest difference in logits after loading it "
            f"back: {', '.join(parts)}."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "format": self.format,
            "architecture": self.architecture,
            "differences": self.differences,
            "notes": list(self.notes),
        }


def export_model(
    source: ModelPath,
    format: str,
    out: Path | None = None,
    force: bool = False,
    dtype: str | None = None,
    quantized: bool = False,
    cost: Callable[[], str | None] = lambda: None,
) -> ExportedModel:
    """Write the model of a source to `out` in a format of the table, perhaps with 8-bit weights.
    `cost` measures what that costs, in a line for the model card."""
    if format not in FORMATS:
        raise UsageError(
            f'there is no format "{format}" to export to. These are known: {", ".join(FORMATS)}.'
        )
    row = FORMATS[format]
    arguments = row.arguments(format, dtype)
    if quantized and not row.can_be_quantized:
        able = " or ".join(name for name, other in FORMATS.items() if other.can_be_quantized)
        raise UsageError(f"a model is quantised with --format {able}, not {format}.")
    path = located(source)
    name = default_name(os.fspath(source), is_file=path.is_file())
    folder = out or Path("exports") / f"{name}-{format}"
    check_replaceable(folder, force, Path(str(path)), sign=row.sign)
    saved = open_model(source)
    if is_quantized(saved.model) and not row.can_be_quantized:
        raise UsageError(f"{source} has 8-bit weights. Export the original to {format}.")
    card, notes_on_cost = _card_of(path, source), list[str]()
    if quantized and not is_quantized(saved.model):
        card, notes_on_cost = _quantized(saved, card, cost())
    with new_folder(folder, has_own_manifest=True) as partial:
        architecture, notes = row.write(saved, partial, card, **arguments)
        differences = row.check(saved, partial)
    return ExportedModel(folder, format, architecture, differences, (*notes, *notes_on_cost))


def _quantized(saved: Saved, card: str, cost: str | None) -> tuple[str, list[str]]:
    """Quantise a model. Returns its card, which says so, and notes."""
    quantize(saved.model)
    about = "The weights of linear layers are rounded to 8 bits (int8, one scale per row)."
    if cost is None:
        notes = ["what 8-bit weights cost was not measured: pass --data with held-out text"]
    else:
        about, notes = f"{about} On held-out data: {cost}.", [f"on held-out data: {cost}"]
    return f"{card.rstrip()}\n\n## Quantisation\n\n{about}\n".lstrip(), notes


def _card_of(path: Any, source: ModelPath) -> str:
    """The card of a model, or where it came from."""
    card = Path(str(path)) / CARD
    if card.is_file():
        return card.read_text(encoding="utf-8", errors="replace")
    return f"Source: `{origin_of(os.fspath(source))}`\n"
