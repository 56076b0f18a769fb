"""glassformer classify: which label does a text have?"""

import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import read_lines, some_at_once
from glassformer.errors import UsageError
from glassformer.wording import shortened

if TYPE_CHECKING:
    from glassformer.predict.classifier import Prediction

SHOWN = 80  # characters of each of many texts


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
    from glassformer.data.examples import read_texts
    from glassformer.data.series import read_values
    from glassformer.predict import checked, load
    from glassformer.predict.classifier import ClassifyPredictor
    from glassformer.predict.series import SeriesPredictor

    if data and text is not None:
        raise UsageError("a text and --data were given. Leave out one.")
    if text is not None and not text.strip():
        raise UsageError("the text is empty.")
    if text_column and not data:
        raise UsageError("--text-column is of tables, and there is no --data. Leave it out.")
    predictor = load(model)
    if isinstance(predictor, SeriesPredictor) and data:
        config = predictor.model.config
        features = text_column or config.text_column
        series = read_values(data, config.label_column, encoding, features)
        found = predictor.classify_batch([each.values for each in series])
        _show(found, as_json, is_one=False, sources=[each.source for each in series])
        return
    predictor = checked(predictor, model, ClassifyPredictor, "classify")
    columns = text_column or predictor.text_column
    if data:  # rows without text are passed over: the source says whose answer this is
        for documents in some_at_once(read_texts(data, columns, encoding)):
            found = predictor.classify_batch([each.text for each in documents])
            _show(found, as_json, is_one=False, sources=[each.source for each in documents])
        return
    for batch in some_at_once(read_lines(text)):
        _show(predictor.classify_batch(batch), as_json, is_one=text is not None)


def _show(
    found: "list[Prediction]", as_json: bool, is_one: bool, sources: Sequence[str] = ()
) -> None:
    for each, source in zip_longest(found, sources):
        if as_json:
            place = {"source": source} if source else {}
            typer.echo(json.dumps(each.as_json() | place, ensure_ascii=False))
            continue
        if not each.scores:  # no words: an empty line, so that all others stay in their places
            typer.echo("")
            continue
        score = next(iter(each.scores.values()))
        shown = "" if is_one else f"  {shortened(each.text, SHOWN)}"
        typer.echo(f"{each.label or '-'}  {score:.3f}{shown}")
    if number := sum(each.is_shortened for each in found):
        typer.echo(
            f"note: too long for the model's context: {number:,} of {len(found):,} texts; of "
            "these, the beginning and the end were read",
            err=True,
        )
