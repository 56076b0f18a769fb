"""The verbs that measure: evaluate, on data that a model has not seen; compare, several models on
the same data; report, a page about runs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from glassformer.cli import options
from glassformer.cli.output import note, print_json, print_result, showing_progress
from glassformer.cli.verb import existing_model, existing_run


def evaluate(
    model: options.Model,
    data: options.Data = None,
    source: options.Source = None,
    target: options.Target = None,
    source_column: options.SourceColumn = None,
    target_column: options.TargetColumn = None,
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.Encoding = None,
    context_length: Annotated[
        int | None,
        options.count(
            "Context length of a language model, in tokens (default: its maximum).",
            rich_help_panel="Evaluation",
        ),
    ] = None,
    bleu_tokenizer: Annotated[
        Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] | None,
        typer.Option(
            help="Tokenizer of sacreBLEU (default: depends on the script of the references).",
            rich_help_panel="Evaluation",
        ),
    ] = None,
    max_new_tokens: Annotated[int | None, options.Translations.max_new_tokens] = None,
    errors: Annotated[
        int | None,
        options.count(
            "Also print the N worst answers: wrong labels or tags, the most confident first, or "
            "translations with the lowest chrF.",
            rich_help_panel="Output",
        ),
    ] = None,
    quantize: options.Quantize = None,
    as_json: options.JsonObject = False,
) -> None:
    """Evaluate a model on held-out data.

    Depending on the task, prints loss and perplexity, accuracy and F1, or BLEU and chrF. With
    --quantize, prints the scores before and after.

    Examples:
      glassformer evaluate runs/bag-reviews --data test.csv --errors 10
      glassformer evaluate runs/vit-images --data test/ --json
      glassformer evaluate runs/translator-pairs --source test.en --target test.fr
    """
    values = {k: v for k, v in locals().items() if k not in ("model", "as_json")}

    from glassformer import api

    with showing_progress("evaluating"):
        result = api.evaluate(model, **values)
    print_result(result, as_json)


# --- compare ---


def compare(
    models: Annotated[
        list[Path],
        options.argument(
            "MODELS", "Runs or model folders, all for the same task.", callback=existing_model
        ),
    ],
    data: options.DataToRead,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.Encoding = None,
    baseline: Annotated[
        bool,
        options.output(
            None, "Add logistic regression on TF-IDF or pixels, for classifiers (default: yes)."
        ),
    ] = True,
    as_json: options.JsonLines = False,
) -> None:
    """Compare models on the same data.

    Prints a table with confidence intervals; the best model comes first.

    Examples:
      glassformer compare runs/bag-reviews runs/bert-reviews --data test.csv
      glassformer compare runs/gpt-notes runs/rnn-lm-notes --data held_out.txt --json
    """
    values = {k: v for k, v in locals().items() if k not in ("models", "as_json")}

    from glassformer import api

    with showing_progress("evaluating"):
        table = api.compare(models, **values)
    if as_json:
        for line in table.as_json():
            print_json(line)
    else:
        typer.echo(table.text())


# --- report ---


def report(
    runs: Annotated[
        list[Path], options.argument("RUNS", "Run folders, one or several.", callback=existing_run)
    ],
    out: Annotated[
        Path | None,
        options.output(
            "FILE",
            "File to write, .html or .json (default: report.html in the folder of a single run).",
        ),
    ] = None,
    as_json: options.JsonObject = False,
) -> None:
    """Write a page about a run: curves, samples, scores, mistakes.

    Several runs are shown side by side. The page works offline.

    Examples:
      glassformer report runs/bag-reviews
      glassformer report runs/bag-reviews runs/bert-reviews --out both.html
    """
    from glassformer import api

    only_json = as_json and out is None
    page = api.read_report(runs, None) if only_json else api.report(runs, out)
    if page.path is not None:
        typer.echo(f"wrote {page.path}", err=as_json)
    for name, run in zip(page.names, page.runs, strict=True):
        note(*(f"{name}: {text}" for text in run["notes"]))
    if as_json:
        print_json(page.as_json())
