"""glassformer classify: which label does a text have?"""

from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import note, noting_files, print_sourced
from glassformer.cli.stdin import check_text_or_data, in_batches, read_lines, text_of
from glassformer.errors import UsageError
from glassformer.wording import shortened

if TYPE_CHECKING:
    from glassformer.predict.classify import Prediction

SHOWN = 80  # characters of each of many texts


def classify(
    model: options.Model,
    text: Annotated[
        str | None,
        options.argument("TEXT", "Text or file to classify (default: each line of stdin)."),
    ] = None,
    paths: options.Data = None,
    text_column: options.TextColumn = None,
    encoding: options.Encoding = None,
    as_json: options.JsonLines = False,
) -> None:
    """Predict the labels of texts or time series.

    Examples:
      glassformer classify runs/bag-reviews "a fine film"
      glassformer classify runs/bag-reviews --data test.csv --json
    """
    from glassformer.predict.classify import ClassifyPredictor
    from glassformer.tasks import load_for

    check_text_or_data(text, paths, text_column)
    if text is not None and not text.strip():
        raise UsageError("the text is empty.")
    predictor = load_for(model, ClassifyPredictor, "classify")
    inputs = predictor.preprocessing
    # A file is one text; the lines of stdin are one each.
    given = read_lines(None) if text is None else [text_of(text)]
    lines = ((inputs.from_line(line), "") for line in given)
    files = inputs.read_inputs(paths or (), text_column or (), encoding or "utf-8")
    with noting_files():
        for batch in in_batches(files if paths else lines):
            found = predictor.classify_batch([content for content, _ in batch])
            for prediction, (_, source) in zip(found, batch, strict=True):
                if as_json:
                    print_sourced(prediction.as_json(), source)
                else:
                    typer.echo(_line(prediction, with_text=text is None))
            if number := sum(each.is_shortened for each in found):
                note(predictor.shortened(number, len(found)))


def _line(prediction: "Prediction", with_text: bool) -> str:
    if not prediction.scores:  # a text without words: an empty line keeps the others in place
        return ""
    score = next(iter(prediction.scores.values()))
    shown = f"  {shortened(prediction.text, SHOWN)}" if with_text else ""
    return f"{prediction.label or '-'}  {score:.3f}{shown}"
