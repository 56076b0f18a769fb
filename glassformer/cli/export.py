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
            "hf: a folder that Hugging Face's transformers loads; safetensors: the model without "
            "its run.",
            "--format",
        ),
    ] = "hf",
    out: Annotated[
        Path | None, options.output("FOLDER", "Folder to write (default: exports/MODEL-FORMAT).")
    ] = None,
    force: Annotated[
        bool, options.switch("--force", "Overwrite an existing folder.", rich_help_panel="Output")
    ] = False,
    as_json: options.JsonObject = False,
) -> None:
    """Write a model in the format of another tool, load it back and compare.

    Examples:
      glassformer export runs/gpt-notes --format hf --out exports/gpt-notes
      glassformer export runs/bert-reviews --format safetensors --out exports/reviews
    """
    from glassformer import api

    found = api.export_model(model, format, out, force=force)
    note(*found.notes)
    if as_json:
        print_json(found.as_json())
    else:
        typer.echo(found.summary())
