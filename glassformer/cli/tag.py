"""glassformer tag: what is each word of a sentence?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import read_lines, some_at_once


def tag(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    text: Annotated[str | None, typer.Argument(help="A sentence; else each line of stdin.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Give every word of a sentence its tag."""
    from glassformer.predict import load_for
    from glassformer.predict.tagger import TagPredictor

    predictor = load_for(model, TagPredictor, "tag")
    for batch in some_at_once(read_lines(text)):
        for found in predictor.tag_batch(batch):
            if as_json:
                typer.echo(json.dumps(found.as_json(), ensure_ascii=False))
                continue
            for word, label in zip(found.words, found.tags, strict=True):
                typer.echo(f"{word}\t{label}")
            typer.echo("")
