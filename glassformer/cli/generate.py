"""glassformer generate: continue a prompt."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import count, note_unknown, options_named, read_text, unescape
from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.predict.language import LanguagePredictor


def generate(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    prompt: Annotated[
        str | None, typer.Argument(help="Text to continue; read from stdin if not given.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(parser=count, help="Write at most so many tokens; 200.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 safer, above 1 bolder, 0 greedy.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(parser=count, help="Choose among the k likeliest tokens.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Choose among the likeliest that have probability p.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Choose among those p times as likely as the likeliest.")
    ] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Above 1: repeat less.")] = None,
    no_repeat_ngram_size: Annotated[
        int | None, typer.Option(parser=count, help="No run of n tokens twice.")
    ] = None,
    num_return_sequences: Annotated[
        int | None, typer.Option(parser=count, help="Write so many texts; 1.")
    ] = None,
    num_beams: Annotated[
        int | None, typer.Option(parser=count, help="Instead: the likeliest text of N beams.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Of beams: above 0, longer texts gain; 1.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help=r"End before this text (\n is a line break); repeat.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed writes the same text.")] = None,
    top: Annotated[
        int | None, typer.Option(parser=count, help="Only show the N likeliest next tokens.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Continue a prompt, or show what may come next (--top 10)."""
    from glassformer.predict import load_for
    from glassformer.predict.language import LanguagePredictor

    text = read_text(prompt)
    said: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "no_repeat_ngram_size": no_repeat_ngram_size,
        "num_return_sequences": num_return_sequences,
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "stop": tuple(unescape(text) for text in stop) if stop else None,
        "seed": seed,
    }
    settings = {name: value for name, value in said.items() if value is not None}
    if top is not None and settings:
        flag = next(iter(settings)).replace("_", "-")
        raise UsageError(f"--top shows the model's own probabilities: leave out --{flag}.")
    predictor = load_for(model, LanguagePredictor, "generate")
    note_unknown(predictor.tokenizer, text)
    if top is not None:
        _show_candidates(predictor.next_tokens(text, top), as_json)
        return
    with options_named(said):
        _show_texts(predictor, text, settings, as_json)


def _show_texts(
    predictor: "LanguagePredictor", text: str, settings: dict[str, Any], as_json: bool
) -> None:
    if as_json:
        for completion in predictor.generate_batch([text], **settings):
            typer.echo(json.dumps(completion.as_json(), ensure_ascii=False))
    elif settings.get("num_return_sequences", 1) == 1:
        pieces = predictor.stream(text, **settings)
        sys.stdout.write(text)
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
    else:
        for number, completion in enumerate(predictor.generate_batch([text], **settings), 1):
            typer.echo(f"--- {number} ---\n{text}{completion.text}")


def _show_candidates(candidates: list[Any], as_json: bool) -> None:
    if as_json:
        rows = [candidate.as_json() for candidate in candidates]
        typer.echo(json.dumps({"candidates": rows}, ensure_ascii=False))
        return
    for candidate in candidates:
        bar = "█" * round(40 * candidate.probability)
        typer.echo(f"{candidate.probability:7.2%}  {candidate.token!r:16} {bar}")
