"""glassformer classify: which label does a text, a time series or an image have?"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import KnownWords, note, noting_files, print_sourced
from glassformer.cli.stdin import check_text_or_data, in_batches, read_lines, text_of
from glassformer.errors import UsageError
from glassformer.wording import shortened

if TYPE_CHECKING:
    from glassformer.predict.classify import Prediction

SHOWN = 80  # characters of each of many texts


def classify(
    model: options.Model,
    text: Annotated[
        list[str] | None,
        options.argument(
            "TEXT", "Texts or files to classify, such as images (default: each line of stdin)."
        ),
    ] = None,
    paths: options.Data = None,
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    encoding: options.Encoding = None,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
) -> None:
    """Predict the labels of texts, time series or images.

    Examples:
      glassformer classify runs/bag-reviews "a fine film"
      glassformer classify runs/vit-images photo.jpg more/*.png
      glassformer classify runs/bag-reviews --data test.csv --json
    """
    from glassformer.predict.classify import LabelPredictor
    from glassformer.tasks import load_for

    check_text_or_data(text, paths, text_column)
    if image_column and not paths:
        raise UsageError("--image-column needs --data: it names a column of a table.")
    if not all(each.strip() for each in text or ()):
        raise UsageError("the text is empty.")
    predictor = load_for(model, LabelPredictor, "classify", quantize)
    inputs = predictor.preprocessing
    # A file is one input, or contains one text; the lines of stdin are one each.
    content = str if inputs.reads_files else text_of
    texts = map(content, text) if text else read_lines(None)
    lines = ((inputs.from_line(line), "") for line in texts)
    columns = [image_column] if image_column else text_column or ()
    files = inputs.read_inputs(paths or (), columns, encoding or "utf-8")
    known_words = KnownWords(getattr(inputs, "tokenizer", None))
    with noting_files():
        for batch in in_batches(files if paths else lines):
            known_words.look([content for content, _ in batch])
            predictions = predictor.classify_batch([content for content, _ in batch])
            for prediction, (_, source) in zip(predictions, batch, strict=True):
                if source and inputs.reads_files:  # the name of an image, not its size
                    prediction = replace(prediction, text=source)
                if as_json:
                    print_sourced(prediction.as_json(), source)
                else:
                    typer.echo(_line(prediction, with_text=text is None or len(text) > 1))
            if number := sum(each.is_shortened for each in predictions):
                note(predictor.shortened(number, len(predictions)))
    known_words.note("its label says", "their labels say")


def _line(prediction: "Prediction", with_text: bool) -> str:
    if not prediction.scores:  # a text without words: an empty line keeps the others in place
        return ""
    score = next(iter(prediction.scores.values()))
    shown = f"  {shortened(prediction.text, SHOWN)}" if with_text else ""
    return f"{prediction.label or '-'}  {score:.3f}{shown}"
