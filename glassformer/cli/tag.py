"""glassformer tag: what is each word of a sentence?"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.inputs import read_lines, some_at_once
from glassformer.errors import UsageError

Sourced = tuple[str | Sequence[str], str]  # a sentence, and where it stood


def tag(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    text: Annotated[str | None, typer.Argument(help="A sentence; else each line of stdin.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Instead: files with a sentence per line, or tables."),
    ] = None,
    text_column: options.TextColumn = None,
    encoding: options.EncodingToRead = "utf-8",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Give every word of a sentence its tag."""
    from glassformer.predict import load_for
    from glassformer.predict.tagger import TagPredictor

    if data and text is not None:
        raise UsageError("a text and --data were given. Leave out one.")
    if text_column and not data:
        raise UsageError("--text-column is of tables, and there is no --data. Leave it out.")
    predictor = load_for(model, TagPredictor, "tag")
    sentences: Iterator[Sourced] = (
        _sentences(data, text_column or (), encoding)
        if data
        else ((line, "") for line in read_lines(text))
    )
    total = in_pieces = 0
    for batch in some_at_once(sentences):
        tagged = predictor.tag_batch([sentence for sentence, _ in batch])
        total += len(tagged)
        in_pieces += sum(found.is_in_pieces for found in tagged)
        for found, (_, source) in zip(tagged, batch, strict=True):
            if as_json:
                place = {"source": source} if source else {}
                typer.echo(json.dumps(found.as_json() | place, ensure_ascii=False))
                continue
            for word, label in zip(found.words, found.tags, strict=True):
                typer.echo(f"{word}\t{label}")
            typer.echo("")
    if in_pieces:
        typer.echo(f"note: {predictor.in_pieces(in_pieces, total)}", err=True)


def _sentences(paths: list[str], text_column: Sequence[str], encoding: str) -> Iterator[Sourced]:
    """Of text files every line; of tables every row with text in it; of tagged files the words."""
    from glassformer.data import tables
    from glassformer.data.examples import read_texts
    from glassformer.data.tagged import read_sentences

    tables.check_encoding(encoding)
    for name in paths:
        path = tables.local_path(name)
        if path.is_dir():
            raise UsageError(f"{name} is a folder. Name the files in it.")
        if tables.ending(path) in (".conll", ".conllu"):
            yield from (
                (each.words, each.source) for each in read_sentences([name], None, encoding)
            )
        elif path.is_file() and tables.ending(path) not in tables.TABLE_ENDINGS:
            with tables.reading(name):
                for number, line in enumerate(tables.read_lines(path, encoding), 1):
                    yield line.rstrip("\r\n"), f"{path}:{number}"
        else:
            for document in read_texts([name], text_column, encoding):
                yield document.text, document.source
