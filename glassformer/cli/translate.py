"""glassformer translate: a sentence in another language."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import count, options_named, read_lines, some_at_once

if TYPE_CHECKING:
    from glassformer.predict.translator import TranslatePredictor, Translations

AT_ONCE = 512  # lines that are sorted by length together


def translate(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    text: Annotated[
        str | None, typer.Argument(help="Text to translate; else each line of stdin.")
    ] = None,
    num_beams: Annotated[
        int | None, typer.Option(parser=count, help="Beams of the search; 1 is greedy; 5.")
    ] = None,
    num_return_sequences: Annotated[
        int | None, typer.Option(parser=count, help="How many translations, best first; 1.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Scores are divided by length to this power; 1.")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="How the translation is to begin.")] = None,
    no_repeat_ngram_size: Annotated[
        int | None, typer.Option(parser=count, help="No run of N tokens occurs twice.")
    ] = None,
    num_beam_groups: Annotated[
        int | None, typer.Option(parser=count, help="Groups of beams that differ; 1.")
    ] = None,
    diversity_penalty: Annotated[
        float | None, typer.Option(help="How much groups shy away from each other's words; 0.5.")
    ] = None,
    copy_unknown: Annotated[
        bool | None,
        typer.Option("--copy-unknown/--keep-unknown", help="Copy words not known; so if unsaid."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Translate a sentence, or every line of stdin; the order is kept."""
    from glassformer.predict import load_for
    from glassformer.predict.translator import TranslatePredictor

    said = {
        "num_beams": num_beams,
        "num_return_sequences": num_return_sequences,
        "length_penalty": length_penalty,
        "prefix": prefix,
        "no_repeat_ngram_size": no_repeat_ngram_size,
        "num_beam_groups": num_beam_groups,
        "diversity_penalty": diversity_penalty,
        "copy_unknown": copy_unknown,
    }
    settings = {name: value for name, value in said.items() if value is not None}
    predictor = load_for(model, TranslatePredictor, "translate")
    with options_named(said):
        predictor.settings(settings)  # what is wrong with them is said before anything is read
    done, begun = 0, time.perf_counter()
    for lines in some_at_once(read_lines(text), AT_ONCE):
        for number, found in enumerate(predictor.translate_batch(lines, **settings), done + 1):
            where = "the text" if text is not None else f"line {number:,}"
            for note in _notes(predictor, found, where):
                typer.echo(f"note: {note}", err=True)
            _show(found, as_json)
        done += len(lines)
        if sys.stderr.isatty() and text is None:
            _show_progress(done, time.perf_counter() - begun)
    if sys.stderr.isatty() and text is None:
        typer.echo(err=True)


def _show_progress(done: int, seconds: float) -> None:
    typer.echo(f"\r{done:,} lines, {done / seconds:.1f} per second", err=True, nl=False)


def _notes(predictor: "TranslatePredictor", found: "Translations", where: str) -> Iterator[str]:
    if found.num_pieces > 1:
        yield (
            f"{where} is longer than the model's context and was translated in {found.num_pieces} "
            "pieces."
        )
    tokenizer = predictor.languages.source
    if tokenizer.kind == "char" and (unknown := tokenizer.unknown_characters(found.source)):
        yield f"{where} has characters that the model does not know: {' '.join(unknown[:10])}"


def _show(found: "Translations", as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.as_json(), ensure_ascii=False))
    elif len(found.translations) == 1:
        typer.echo(found.text)
    else:
        for each in found.translations:
            typer.echo(f"{each.score:.4f}\t{each.text}")
