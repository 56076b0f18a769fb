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
    _refuse_useless(
        predictor,
        model,
        {
            "source": source,
            "target": target,
            "source-column": source_column,
            "target-column": target_column,
            "text-column": text_column,
            "label-column": label_column,
            "context-length": context_length,
        },
    )
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


def _refuse_useless(predictor: Any, model: Path, said: dict[str, Any]) -> None:
    """An option that would have no effect is a misunderstanding, better said than ignored."""
    from glassformer.errors import UsageError
    from glassformer.predict.language import LanguagePredictor
    from glassformer.predict.masked import MaskedPredictor
    from glassformer.predict.translator import TranslatePredictor

    is_language_model = isinstance(predictor, LanguagePredictor)
    reasons: dict[str, str] = {}
    if isinstance(predictor, TranslatePredictor):
        cure = "say --source-column and --target-column instead of"
        reasons |= dict.fromkeys(("text-column", "label-column"), f"translates: {cure}")
    else:
        reasons |= dict.fromkeys(("source", "target"), "does not translate: say --data instead of")
        columns = ("source-column", "target-column")
        reasons |= dict.fromkeys(columns, "does not translate: leave out")
    if is_language_model or isinstance(predictor, MaskedPredictor):
        reasons["label-column"] = "is no model of labels: leave out"
    if not is_language_model:
        reasons["context-length"] = "reads texts as it was trained: leave out"
    for name, why in reasons.items():
        if said[name] is not None:
            raise UsageError(f"{model} {why} --{name}.")
