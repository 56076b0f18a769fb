"""glassformer generate: continue a prompt."""

import sys
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.complete import paint
from glassformer.cli.output import note, note_unknown, print_candidates, print_json
from glassformer.cli.stdin import read_text
from glassformer.errors import UsageError
from glassformer.options import as_typed
from glassformer.wording import counted

if TYPE_CHECKING:
    from glassformer.predict.language import LanguagePredictor


@options.takes(options.Sampling, options.Beams, options.Writing)
def generate(
    model: options.Model,
    prompt: Annotated[
        str | None, options.argument("PROMPT", "Text or file to continue (default: stdin).")
    ] = None,
    *,
    top: Annotated[
        int | None,
        options.count(
            "Print the N most likely next tokens instead of a text.", rich_help_panel="Output"
        ),
    ] = None,
    out: options.Picture = None,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
    **settings: Any,
) -> None:
    """Continue a prompt, or show the most likely next tokens. An image model paints images.

    Examples:
      glassformer generate runs/gpt-notes "Once upon" --temperature 0.8 --seed 1
      glassformer generate runs/gpt-notes "Once upon" --top 10
      glassformer generate runs/image-gpt-photos --num-return-sequences 16 --out samples.png
    """
    from glassformer.predict.language import LanguagePredictor
    from glassformer.predict.paint import PaintPredictor
    from glassformer.tasks import check_verb, load_for, predictor_of

    if predictor_of(model).draws:
        for what, value in (("the prompt", prompt), ("--top", top)):
            if value is not None:
                raise UsageError(f"{model} paints images without a prompt. Leave out {what}.")
        painter = load_for(model, PaintPredictor, "generate", quantize)
        paint(painter, "generate", settings, out, as_json)
        return
    check_verb(model, LanguagePredictor, "generate")  # before it waits for a prompt on stdin
    if out is not None:
        raise UsageError("--out is for models of images. Text is written to standard output.")
    text = read_text(prompt)
    if top is not None and settings:
        first = as_typed(next(iter(settings)))
        raise UsageError(f"--top shows the model's own probabilities: leave out {first}.")
    predictor = load_for(model, LanguagePredictor, "generate", quantize)
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
    if (number := predictor.num_left_out(prompt)) > 0:
        note(f"the prompt is too long: its first {counted(number, 'token')} will not be read")
    with options.naming_options(predictor, settings):
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
