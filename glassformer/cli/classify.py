"""glassformer classify: which label does a text have?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import read_lines, some_at_once
from glassformer.errors import UsageError


def classify(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    text: Annotated[
        str | None, typer.Argument(help="Text to classify; else each line of stdin.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Instead: the texts of files, tables or hub data sets."),
    ] = None,
    text_column: Annotated[
        list[str] | None, typer.Option(help="Of a table; those of the training if not said.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Of text files.")] = "utf-8",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Name the label of a text, and how sure the model is."""
    from glassformer.data.corpus import read_documents
    from glassformer.predict import load_for
    from glassformer.predict.classifier import ClassifyPredictor

    if data and text is not None:
        raise UsageError("a text and --data were given. Leave out one.")
    predictor = load_for(model, ClassifyPredictor, "classify")
    columns = text_column or predictor.text_column
    texts = (
        (document.text for document in read_documents(data, columns, encoding))
        if data
        else read_lines(text)
    )
    for batch in some_at_once(texts):
        for found in predictor.classify_batch(batch):
            if as_json:
                typer.echo(json.dumps(found.as_json(), ensure_ascii=False))
                continue
            score = next(iter(found.scores.values()))
            shown = "" if text is not None else f"  {' '.join(found.text.split())[:80]}"
            typer.echo(f"{found.label or '-'}  {score:.3f}{shown}")
