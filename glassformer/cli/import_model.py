"""glassformer import: a model in another format becomes a model folder."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import note, print_json


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

    Other commands also read Hugging Face folders, names, adapters and GGUF files directly. No code
    from them is run. An adapter is merged into its base model.
    Compressed files of word vectors and those in archives can be imported as they are.

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
