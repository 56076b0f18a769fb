"""glassformer export: a model in the format of another tool."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import note, print_json


def export(
    model: options.Model,
    *,
    format: Annotated[
        str,
        options.output(
            "FORMAT",
            "hf: a folder that Hugging Face's transformers loads; onnx: graphs for onnxruntime; "
            "ctranslate2: a folder for CTranslate2; gguf: a file for llama.cpp; peft: the adapter "
            "of a run with LoRA; safetensors: the model without its run.",
            "--format",
        ),
    ] = "hf",
    dtype: Annotated[
        str | None,
        options.output(
            "DTYPE",
            "How a GGUF file stores weights: F32, F16 or Q8_0 (default: F32).",
            "--dtype",
        ),
    ] = None,
    out: Annotated[
        Path | None, options.output("FOLDER", "Folder to write (default: exports/MODEL-FORMAT).")
    ] = None,
    quantize: options.Quantize = None,
    data: options.Data = None,
    force: options.ForceFolder = False,
    as_json: options.JsonObject = False,
) -> None:
    """Write a model in the format of another tool, load it back and compare.

    With --quantize, what 8-bit weights cost is measured on --data, or on the validation data of a
    run, and noted in the model card.

    Examples:
      glassformer export runs/gpt-notes --format hf --out exports/gpt-notes
      glassformer export runs/gpt-notes --format gguf --dtype Q8_0
      glassformer export runs/gpt-notes --format safetensors --quantize int8 --data held_out.txt
    """
    from glassformer import api

    exported = api.export_model(
        model, format, out, dtype=dtype, quantize=quantize, data=data, force=force
    )
    note(*exported.notes)
    if as_json:
        print_json(exported.as_json())
    else:
        typer.echo(exported.summary())
