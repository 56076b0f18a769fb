"""glassformer score: how likely is a text?"""

from typing import Annotated

from glassformer.cli import options
from glassformer.cli.output import note, note_unknown, print_result
from glassformer.cli.stdin import read_text


def score(
    model: options.Model,
    text: Annotated[
        str | None, options.argument("TEXT", "Text or file to score (default: stdin).")
    ] = None,
    quantize: options.Quantize = None,
    as_json: options.JsonObject = False,
) -> None:
    """Show how likely a text is.

    Prints the log-probability of every token, their total, the perplexity and the bits per byte.

    Examples:
      glassformer score runs/gpt-notes "It takes great courage."
      glassformer score runs/gpt-notes --json < held_out.txt
    """
    from glassformer.predict.language import LanguagePredictor
    from glassformer.tasks import load_for

    text = read_text(text)
    predictor = load_for(model, LanguagePredictor, "score", quantize)
    note_unknown(predictor.tokenizer, text)
    result = predictor.score(text)
    note(*result.notes)
    print_result(result, as_json)
