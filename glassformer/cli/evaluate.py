"""glassformer evaluate: how good is a model on data that it has not seen?"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.inputs import count


def evaluate(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    data: options.Data = None,
    source: options.Source = None,
    target: options.Target = None,
    source_column: options.SourceColumn = None,
    target_column: options.TargetColumn = None,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.EncodingToRead = "utf-8",
    context_length: Annotated[
        int | None, typer.Option(parser=count, help="Tokens seen at once; at most the model's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Measure a model: loss and perplexity, accuracy and F1, or whatever its task is judged by."""
    from glassformer.errors import UsageError
    from glassformer.predict import load
    from glassformer.predict.language import LanguagePredictor
    from glassformer.predict.masked import MaskedPredictor
    from glassformer.predict.translator import TranslatePredictor

    if not (data or source or target):
        raise UsageError("no data. Say --data FILE (of a translator also --source, --target).")
    predictor = load(model)
    columns, paths = text_column or (), data or ()
    is_translator = isinstance(predictor, TranslatePredictor)
    is_of_text = isinstance(predictor, LanguagePredictor | MaskedPredictor)
    said: dict[str, Any]
    if not is_translator:
        said = {"source": source, "target": target}
        _refuse(said, f"{model} does not translate: say --data instead of --{{}}.")
        said = {"source-column": source_column, "target-column": target_column}
        _refuse(said, f"{model} does not translate: leave out --{{}}.")
    else:
        said = {"text-column": text_column, "label-column": label_column}
        cure = "say --source-column and --target-column instead of --{}."
        _refuse(said, f"{model} translates: {cure}")
    if is_of_text:
        said = {"label-column": label_column}
        _refuse(said, f"{model} is no model of labels: leave out --{{}}.")
    if not isinstance(predictor, LanguagePredictor):
        said = {"context-length": context_length}
        _refuse(said, f"{model} reads texts as it was trained: leave out --{{}}.")
    found: Any
    match predictor:
        case LanguagePredictor():
            found = predictor.evaluate(paths, columns, encoding, context_length)
        case TranslatePredictor():
            found = predictor.evaluate(
                paths,
                source_paths=source or (),
                target_paths=target or (),
                source_column=source_column,
                target_column=target_column,
                encoding=encoding,
            )
        case MaskedPredictor():
            found = predictor.evaluate(paths, columns, encoding)
        case _:
            found = predictor.evaluate(paths, columns, label_column, encoding)
    for note in getattr(found, "notes", ()):
        typer.echo(f"note: {note}", err=True)
    typer.echo(json.dumps(found.as_json(), ensure_ascii=False) if as_json else found.text())


def _refuse(said: dict[str, Any], why: str) -> None:
    """Options that would have no effect are a misunderstanding, and better said than ignored."""
    from glassformer.errors import UsageError

    for name, value in said.items():
        if value is not None:
            raise UsageError(why.format(name))
