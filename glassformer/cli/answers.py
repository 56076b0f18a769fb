"""glassformer translate: a sentence in another language."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from glassformer.cli import options
from glassformer.cli.output import KnownWords, note, noting_files, print_texts, say
from glassformer.cli.stdin import file_named, in_batches, read_lines
from glassformer.errors import UsageError
from glassformer.wording import counted

if TYPE_CHECKING:
    from glassformer.tasks.translate.predictor import TranslatePredictor, Translations


# --- translate ---

BATCH = 512  # lines that are sorted by length together


@options.takes(options.TranslationBeams, options.Translations)
def translate(
    model: options.Model,
    text: Annotated[
        str | None,
        options.argument(
            "TEXT", "Text, or file of lines, to translate (default: each line of stdin)."
        ),
    ] = None,
    *,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
    **settings: Any,
) -> None:
    """Translate a text, or every line of stdin.

    Examples:
      glassformer translate runs/translator-pairs "A man sleeps."
      glassformer translate runs/translator-pairs < test.en > test.fr
      glassformer translate runs/translator-pairs "A man sleeps." --num-return-sequences 3
    """
    from glassformer.progress import ProgressLine
    from glassformer.tasks import load_for
    from glassformer.tasks.answers import cut_off_note
    from glassformer.tasks.translate.predictor import TranslatePredictor

    predictor = load_for(model, TranslatePredictor, "translate", quantize)
    with options.naming_options(predictor, settings):
        predictor.settings(settings)  # errors are reported before anything is read
    is_text = text is not None and file_named(text) is None
    done, begun = 0, time.perf_counter()
    cut_off: list[str] = []
    known_words = KnownWords(predictor.preprocessing.source)
    with ProgressLine(sys.stderr, keeps_last=True) as line:
        for lines in in_batches(read_lines(text), BATCH):
            known_words.look(lines)
            results = predictor.translate_batch(lines, **settings)
            line.show("")  # makes room for notes and translations
            for number, result in enumerate(results, done + 1):
                where = "the text" if is_text else f"line {number:,}"
                note(*_notes(predictor, result, where))
                if result.is_cut_off:
                    cut_off.append(where)
                print_texts(result, as_json)
            done += len(lines)
            if not is_text:
                speed = done / (time.perf_counter() - begun)
                line.show(f"{counted(done, 'line')}, {speed:.1f} lines/s")
    known_words.note("its translation says", "their translations say")
    if cut_off:
        where = "" if is_text else f" (first: {cut_off[0]})"
        length = predictor.model.context_length
        note(cut_off_note(len(cut_off), done, length, "translation", where))


def _notes(predictor: "TranslatePredictor", result: "Translations", where: str) -> Iterator[str]:
    if result.num_pieces > 1:
        yield (
            f"{where} is longer than the model's context and was translated in {result.num_pieces} "
            "pieces."
        )
    tokenizer = predictor.preprocessing.source
    if tokenizer.kind == "char" and (unknown := tokenizer.unknown_characters(result.source)):
        yield f"{where} has characters that the model does not know: {' '.join(unknown[:10])}"


# --- caption ---
# glassformer caption: what is in an image?


@options.takes(options.CaptionBeams, options.Captions)
def caption(
    model: options.Model,
    images: Annotated[list[str], options.argument("IMAGE…", "Image files to describe.")],
    *,
    attention: Annotated[
        Path | None,
        options.output(
            "FILE",
            "Also draw where the model looked for each word of the caption of a single image: "
            ".png, .svg, .html or .json.",
        ),
    ] = None,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
    **settings: Any,
) -> None:
    """Describe images.

    Examples:
      glassformer caption runs/captioner-photos photo.jpg --num-beams 4
      glassformer caption runs/captioner-photos photo.jpg --attention words.png
      glassformer caption runs/captioner-photos photos/*.jpg --json
    """
    from glassformer.inspect.figures import check_ending
    from glassformer.inspect.views import draw
    from glassformer.tasks import load_for
    from glassformer.tasks.answers import cut_off_note
    from glassformer.tasks.caption.predictor import CaptionPredictor

    if attention is not None:
        check_ending(attention)
        if len(images) > 1:
            raise UsageError("--attention draws the words of one image. Pass a single image.")
    predictor = load_for(model, CaptionPredictor, "caption", quantize)
    with noting_files():
        with options.naming_options(predictor, settings):
            captions = predictor.caption_batch(images, **settings)
        for each in captions:
            print_texts(each, as_json, f"{each.image}\t" if len(captions) > 1 else "")
        if number := sum(each.is_cut_off for each in captions):
            length = predictor.model.context_length
            note(cut_off_note(number, len(captions), length, "caption"))
        if attention is not None:
            draw(predictor.look(images[0], **settings), attention)
            say(f"wrote {attention}")
