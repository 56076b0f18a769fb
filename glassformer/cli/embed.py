"""glassformer embed: texts as vectors."""

from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import KnownWords, note, print_json
from glassformer.cli.stdin import read_lines
from glassformer.wording import counted


def embed(
    model: options.Model,
    text: Annotated[
        str | None,
        options.argument("TEXT", "Text, or file of texts (default: each line of stdin)."),
    ] = None,
    *,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
) -> None:
    """Turn each text into a vector, with a BERT or a model of sentence-transformers.

    Texts with similar meanings have vectors with a large dot product.

    Examples:
      glassformer embed sentence-transformers/all-MiniLM-L6-v2 "a sentence" --json
      glassformer embed runs/minilm < sentences.txt > vectors.txt
    """
    from glassformer.predict.masked import MaskedPredictor
    from glassformer.tasks import load_for

    predictor = load_for(model, MaskedPredictor, "embed", quantize)
    lines = list(read_lines(text))
    vectors = predictor.embed(lines)
    known_words = KnownWords(predictor.preprocessing.tokenizer)
    known_words.look(lines)
    known_words.note("its vector says", "their vectors say")
    if number := sum(map(predictor.is_too_long, lines)):
        limit = predictor.embedding_length
        note(
            f"{number:,} of {counted(len(lines), 'text')}: only the first {limit:,} tokens are read"
        )
    for line, vector in zip(lines, vectors.tolist(), strict=True):
        if as_json:
            print_json({"text": line, "embedding": vector})
        else:
            typer.echo(" ".join(f"{value:.6g}" for value in vector))
