"""Models of other tools: export writes one, import reads one into a model folder."""

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
            "DTYPE", "How a GGUF file stores weights: F32, F16 or Q8_0 (default: F32).", "--dtype"
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
    """Write a model in the format of another tool.

    The result is loaded back and compared. With --quantize, the cost of 8-bit weights is measured
    on --data, or on the validation data of a run, and written to the model card.

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


# --- import ---


def import_model(
    path: Annotated[
        str,
        options.argument(
            "SOURCE",
            "Hugging Face folder, name on its hub, LoRA adapter of peft, GGUF file, or file of "
            "word vectors (GloVe, word2vec, fastText).",
        ),
    ],
    out: Annotated[
        Path | None, options.output("FOLDER", "Model folder to write (default: runs/NAME).")
    ] = None,
    base: Annotated[
        str | None,
        options.option("MODEL", "Base model of an adapter (default: the one that it names)."),
    ] = None,
    force: options.ForceFolder = False,
    as_json: options.JsonObject = False,
) -> None:
    """Import a published model into a model folder.

    Other commands also read Hugging Face folders, names, adapters and GGUF files directly. Their
    code is never run. An adapter is merged into its base model. Files of word vectors may be
    compressed or in archives.

    Examples:
      glassformer import openai-community/gpt2
      glassformer import my-adapter --base openai-community/gpt2
      glassformer import glove.6B.zip/glove.6B.100d.txt --out runs/glove
    """
    from glassformer import api

    imported = api.import_model(path, out, base=base, force=force)
    note(*imported.notes)
    if as_json:
        print_json(imported.as_json())
    else:
        typer.echo(imported.summary())
