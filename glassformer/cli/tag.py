"""glassformer tag: what is each word of a sentence?"""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import KnownWords, note, noting_files, print_sourced
from glassformer.cli.stdin import check_text_or_data, in_batches, read_lines

Sourced = tuple[str | Sequence[str], str]  # a sentence or its words, and its place in a file


def tag(
    model: options.Model,
    text: Annotated[
        str | None,
        options.argument(
            "TEXT", "Sentence, or file of sentences, to tag (default: each line of stdin)."
        ),
    ] = None,
    paths: options.Data = None,
    text_column: options.TextColumn = None,
    encoding: options.Encoding = None,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
) -> None:
    """Tag every word of a text.

    Examples:
      glassformer tag runs/tagger-train "Ada lives in London"
      glassformer tag runs/tagger-train --data test.conll --json
    """
    from glassformer.predict.tag import TagPredictor
    from glassformer.tasks import load_for

    check_text_or_data(text, paths, text_column)
    predictor = load_for(model, TagPredictor, "tag", quantize)
    lines: Iterator[Sourced] = ((line, "") for line in read_lines(text))
    columns = text_column or predictor.preprocessing.text_column
    files = _sentences(paths or [], columns, encoding or "utf-8")
    total = in_pieces = 0
    known_words = KnownWords(predictor.preprocessing.tokenizer)
    with noting_files():
        for batch in in_batches(files if paths else lines):
            tagged = predictor.tag_batch([sentence for sentence, _ in batch])
            total += len(tagged)
            known_words.look([" ".join(sentence.words) for sentence in tagged])
            in_pieces += sum(sentence.is_in_pieces for sentence in tagged)
            for sentence, (_, source) in zip(tagged, batch, strict=True):
                if as_json:
                    print_sourced(sentence.as_json(), source)
                    continue
                for word, label in zip(sentence.words, sentence.tags, strict=True):
                    typer.echo(f"{word}\t{label}")
                typer.echo("")
    if in_pieces:
        note(predictor.in_pieces(in_pieces, total))
    known_words.note("its tags say", "their tags say")


def _sentences(paths: list[str], text_column: Sequence[str], encoding: str) -> Iterator[Sourced]:
    """Every line of a text file, every row of a table, every sentence of a tagged file."""
    from glassformer.data import text_files
    from glassformer.data.folders import read_all
    from glassformer.data.labelled_examples import read_texts
    from glassformer.data.tables import is_table
    from glassformer.data.tagged_sentences import read_sentences

    def read(name: str) -> Iterator[Sourced]:
        path = text_files.local_path(name)
        if text_files.ending(path) in (".conll", ".conllu"):
            for each in read_sentences([name], None, encoding):
                yield each.words, each.source
        elif path.is_file() and not is_table(path, encoding):
            for number, line in enumerate(text_files.read_lines(path, encoding), 1):
                yield line.rstrip("\r\n"), f"{path}:{number}"
        else:
            for document in read_texts([name], text_column, encoding):
                yield document.text, document.source

    text_files.check_encoding(encoding)
    return read_all(paths, read, cure="Text files and tables are read.")
