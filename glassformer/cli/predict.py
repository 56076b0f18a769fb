"""The verbs of models that read: classify, tag, fill, embed and neighbours.

Inputs are an argument, the lines of stdin, or files (--data). They are read and answered in
batches, in their order. A text in which the model knows no word is answered, too, but a note
reports it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import (
    KnownWords,
    note,
    noting_files,
    print_candidates,
    print_json,
    print_result,
    print_sourced,
)
from glassformer.cli.stdin import check_text_or_data, in_batches, read_lines, text_of
from glassformer.errors import UsageError
from glassformer.wording import counted, shortened

if TYPE_CHECKING:
    from glassformer.tasks.labels.predictor import Prediction

SHOWN = 80  # characters of each of many texts


def classify(
    model: options.Model,
    text: Annotated[
        list[str] | None,
        options.argument(
            "TEXT", "Texts or files to classify, such as images (default: each line of stdin)."
        ),
    ] = None,
    paths: options.Data = None,
    text_column: options.TextColumn = None,
    image_column: options.ImageColumn = None,
    encoding: options.Encoding = None,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
) -> None:
    """Predict the labels of texts, time series or images.

    Examples:
      glassformer classify runs/bag-reviews "a fine film"
      glassformer classify runs/vit-images photo.jpg more/*.png
      glassformer classify runs/bag-reviews --data test.csv --json
    """
    from glassformer.tasks import load_for
    from glassformer.tasks.labels.predictor import LabelPredictor

    check_text_or_data(text, paths, text_column)
    if image_column and not paths:
        raise UsageError("--image-column needs --data: it names a column of a table.")
    if not all(map(str.strip, text or ())):
        raise UsageError("the text is empty.")
    predictor = load_for(model, LabelPredictor, "classify", quantize)
    inputs = predictor.preprocessing
    # A file is one input, or contains one text; the lines of stdin are one each.
    content = str if inputs.reads_files else text_of
    texts = map(content, text) if text else read_lines(None)
    lines = ((inputs.from_line(line), "") for line in texts)
    columns = [image_column] if image_column else text_column or ()
    files = inputs.read_inputs(paths or (), columns, encoding or "utf-8")
    known_words = KnownWords(getattr(inputs, "tokenizer", None))
    with noting_files():
        for batch in in_batches(files if paths else lines):
            known_words.look([content for content, _ in batch])
            predictions = predictor.classify_batch([content for content, _ in batch])
            for prediction, (_, source) in zip(predictions, batch, strict=True):
                if source and inputs.reads_files:  # the name of an image, not its size
                    prediction = replace(prediction, text=source)
                if as_json:
                    print_sourced(prediction.as_json(), source)
                else:
                    typer.echo(_line(prediction, with_text=text is None or len(text) > 1))
            if num_shortened := sum(prediction.is_shortened for prediction in predictions):
                note(predictor.shortened(num_shortened, len(predictions)))
    known_words.note("its label says", "their labels say")


def _line(prediction: "Prediction", with_text: bool) -> str:
    if not prediction.scores:  # a text without words: an empty line keeps the others in place
        return ""
    score = next(iter(prediction.scores.values()))
    shown = f"  {shortened(prediction.text, SHOWN)}" if with_text else ""
    return f"{prediction.label or '-'}  {score:.3f}{shown}"


# --- tag ---

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
    from glassformer.tasks import load_for
    from glassformer.tasks.tag.predictor import TagPredictor

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
    from glassformer.data.archives import ending, local_path
    from glassformer.data.folders import read_all
    from glassformer.data.labelled_texts import read_texts
    from glassformer.data.tables import is_table
    from glassformer.data.tagged_sentences import read_sentences

    def read(name: str) -> Iterator[Sourced]:
        path = local_path(name)
        if ending(path) in (".conll", ".conllu"):
            for sentence in read_sentences([name], None, encoding):
                yield sentence.words, sentence.source
        elif path.is_file() and not is_table(path, encoding):
            for number, line in enumerate(text_files.read_lines(path, encoding), 1):
                yield line.rstrip("\r\n"), f"{path}:{number}"
        else:
            for document in read_texts([name], text_column, encoding):
                yield document.text, document.source

    text_files.check_encoding(encoding)
    return read_all(paths, read, cure="Text files and tables are read.")


# --- fill ---


def fill(
    model: options.Model,
    text: Annotated[
        str | None,
        options.argument(
            "TEXT",
            "Text that contains [MASK], or file of such lines (default: each line of stdin).",
        ),
    ] = None,
    top: Annotated[
        int, options.count("Number of most likely tokens to print.", rich_help_panel="Output")
    ] = 5,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
) -> None:
    """Predict the token hidden by each [MASK].

    Examples:
      glassformer fill runs/bert-corpus "The smooth blue [MASK]."
      glassformer fill runs/bert-corpus --top 10 --json < masked.txt
    """
    from glassformer.tasks import load_for
    from glassformer.tasks.masked.predictor import MaskedPredictor

    predictor = load_for(model, MaskedPredictor, "fill", quantize)
    for number, line in enumerate(read_lines(text), 1):
        if len(predictor.parts(line)) < 2 and (text is None or text != line):
            # The other lines are still worth an answer.
            name = predictor.preprocessing.mask_name
            note(f"{'stdin' if text is None else text}, line {number:,}: no {name} found.")
            masks = []
        else:
            masks = predictor.fill(line, top)
        if as_json:
            guesses = [[guess.as_json() for guess in mask] for mask in masks]
            print_json({"text": line, "guesses": guesses})
            continue
        if not masks:
            typer.echo("")
        for position, mask in enumerate(masks, 1):
            if len(masks) > 1:
                typer.echo(f"--- {position} ---")
            print_candidates(mask)


# --- embed ---


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
    """Turn texts into vectors, with a BERT or a sentence encoder.

    Texts with similar meanings have vectors with a large dot product.

    Examples:
      glassformer embed sentence-transformers/all-MiniLM-L6-v2 "a sentence" --json
      glassformer embed runs/minilm < sentences.txt > vectors.txt
    """
    from glassformer.tasks import load_for
    from glassformer.tasks.masked.predictor import MaskedPredictor

    predictor = load_for(model, MaskedPredictor, "embed", quantize)
    lines = list(read_lines(text))
    vectors = predictor.embed(lines)
    known_words = KnownWords(predictor.preprocessing.tokenizer)
    known_words.look(lines)
    known_words.note("its vector says", "their vectors say")
    if num_too_long := sum(map(predictor.is_too_long, lines)):
        limit = predictor.embedding_length
        note(
            f"{num_too_long:,} of {counted(len(lines), 'text')}: only the first {limit:,} tokens "
            "are read"
        )
    for line, vector in zip(lines, vectors.tolist(), strict=True):
        if as_json:
            print_json({"text": line, "embedding": vector})
        else:
            typer.echo(" ".join(f"{value:.6g}" for value in vector))


# --- neighbours ---

_context = partial(options.option, rich_help_panel="Context")


def neighbours(
    model: options.Model,
    word: Annotated[str, options.argument("WORD", "Word whose neighbours to print.")],
    context: Annotated[
        str | None,
        _context("TEXT", "Sentence with the word: also print its neighbours after attention."),
    ] = None,
    temperature: Annotated[
        float,
        _context(
            "X", "Divide the scores by √d · X before the softmax; higher gives more equal weights."
        ),
    ] = 1.0,
    top: Annotated[
        int, options.count("Number of neighbours to print.", rich_help_panel="Output")
    ] = 10,
    as_json: options.JsonObject = False,
) -> None:
    """Print the words with the most similar vectors.

    With a context, attention weights the words of the sentence by their dot products with the
    word, and the neighbours of the weighted sum show what the word means there. For a Transformer,
    the neighbours of the word's state after each layer follow.

    Examples:
      glassformer neighbours runs/word-vectors-notes station
      glassformer neighbours runs/glove station --context "The train slowly left the station"
    """
    from glassformer.tasks import load_for
    from glassformer.tasks.neighbours import NeighbourFinder

    # mypy expects a class that can be made; this one is only asked for.
    finder = load_for(model, NeighbourFinder, "show neighbours")  # type: ignore[type-abstract]
    result = finder.neighbours(word, context, top, temperature)
    print_result(result, as_json)
    note(*result.notes)
