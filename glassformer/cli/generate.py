"""glassformer generate: continue a prompt."""

import sys
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.arguments import naming_options, option, passed
from glassformer.cli.output import note_unknown, print_candidates, print_json
from glassformer.cli.stdin import read_text
from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.predict.language import LanguagePredictor


def generate(
    model: options.Model,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Text to continue (default: stdin).")
    ] = None,
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    repetition_penalty: options.RepetitionPenalty = None,
    seed: options.SampleSeed = None,
    num_beams: options.NumBeams = None,
    length_penalty: options.LengthPenalty = None,
    max_new_tokens: options.MaxNewTokens = None,
    no_repeat_ngram_size: options.NoRepeatNgramSize = None,
    num_return_sequences: options.NumReturnSequences = None,
    stop: options.Stop = None,
    top: options.Top = None,
    as_json: options.JsonLines = False,
) -> None:
    """Continue a prompt, or show the likeliest next tokens.

    Examples:
      glassformer generate runs/gpt-notes "Once upon" --temperature 0.8 --seed 1
      glassformer generate runs/gpt-notes --num-beams 4 --max-new-tokens 50 < prompt.txt
      glassformer generate runs/gpt-notes "Once upon" --top 10
    """
    settings = passed(locals(), without=("model", "prompt", "top", "as_json"))

    from glassformer.predict.language import LanguagePredictor
    from glassformer.tasks import load_for

    text = read_text(prompt)
    if top is not None and settings:
        raise UsageError(
            f"--top shows the model's own probabilities: leave out {option(next(iter(settings)))}."
        )
    predictor = load_for(model, LanguagePredictor, "generate")
    note_unknown(predictor.tokenizer, text)
    if top is None:
        _print_texts(predictor, text, settings, as_json)
        return
    candidates = predictor.next_tokens(text, top)
    if as_json:
        print_json({"candidates": [each.as_json() for each in candidates]})
    else:
        print_candidates(candidates)


def _print_texts(
    predictor: "LanguagePredictor", prompt: str, settings: dict[str, Any], as_json: bool
) -> None:
    with naming_options(predictor, settings):
        if settings.get("num_return_sequences", 1) == 1 and not as_json:
            for piece in chain([prompt], predictor.stream(prompt, **settings), ["\n"]):
                sys.stdout.write(piece)
                sys.stdout.flush()
            return
        completions = predictor.generate_batch([prompt], **settings)
    for number, completion in enumerate(completions, 1):
        if as_json:
            print_json(completion.as_json())
        else:
            typer.echo(f"--- {number} ---\n{prompt}{completion.text}")
