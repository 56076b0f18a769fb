"""The verbs of models that write: generate, chat and score; complete, which paints; translate and
caption.

What is wrong with the options is reported before anything is read from stdin. Texts go to stdout as
they are written, notes to stderr.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.output import (
    KnownWords,
    note,
    note_unknown,
    notify,
    noting_files,
    print_candidates,
    print_json,
    print_result,
    print_texts,
)
from glassformer.cli.stdin import file_named, in_batches, read_lines, read_text
from glassformer.cli.verb import interruptible
from glassformer.errors import UsageError
from glassformer.options import as_typed
from glassformer.progress import ProgressLine
from glassformer.wording import counted

if TYPE_CHECKING:
    from glassformer.tasks.language.predictor import LanguagePredictor
    from glassformer.tasks.paint.predictor import PaintPredictor
    from glassformer.tasks.translate.predictor import TranslatePredictor, Translations


# --- generate ---


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
    from glassformer.tasks import check_verb, load_for, predictor_of
    from glassformer.tasks.language.predictor import LanguagePredictor
    from glassformer.tasks.paint.predictor import PaintPredictor

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
    note_unknown(predictor.preprocessing.tokenizer, text)
    if top is None:
        _print_texts(predictor, text, settings, as_json)
        return
    candidates = predictor.next_tokens(text, top)
    if as_json:
        print_json({"candidates": [token.as_json() for token in candidates]})
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


# --- chat ---


class ChatWriting(options.Group, heading="Output"):
    max_new_tokens: options.Integer = options.count(
        "Maximum number of tokens of an answer (default: 200)."
    )
    stop: options.Strings = options.Writing.stop


@options.takes(options.Sampling, ChatWriting)
def chat(
    model: options.Model,
    message: Annotated[
        str | None,
        options.argument("MESSAGE", "Message to answer (default: each line of stdin, in turn)."),
    ] = None,
    *,
    system: Annotated[
        str | None, options.output("TEXT", "Instruction at the beginning of the conversation.")
    ] = None,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
    **settings: Any,
) -> None:
    """Talk to an instruct model, or one trained on conversations.

    Messages are formatted with the model's own template. Ctrl-C stops an answer, Ctrl-D ends the
    conversation.

    Examples:
      glassformer chat SmolLM2-135M-Instruct.Q4_1.gguf
      glassformer chat Qwen/Qwen3-0.6B "What is a lake?" --temperature 0.7 --seed 1
    """
    from glassformer.tasks import load_for
    from glassformer.tasks.language.predictor import LanguagePredictor

    predictor = load_for(model, LanguagePredictor, "chat", quantize)
    if predictor.preprocessing.jinja_template is None:
        shown = "".join(predictor.preprocessing.chat_template)
        note(f"messages are written as {shown!r}; only a model trained on such texts answers well")
    conversation: list[Mapping[str, str]] = []
    if system is not None:
        conversation.append({"role": "system", "content": system})
    is_live = message is None and sys.stdin.isatty()
    for text in _typed_messages() if is_live else _messages(message):
        conversation.append({"role": "user", "content": text})
        answer = ""
        with options.naming_options(predictor, settings):
            pieces = predictor.chat(conversation, **settings)
            remembered = predictor.remembered(conversation, **settings)
            num_forgotten = len(conversation) - len(remembered)
            _note_losses(predictor, num_forgotten, predictor.num_left_out(remembered))
            conversation = remembered
            with interruptible(is_live):
                for piece in pieces:
                    answer += piece
                    if not as_json:
                        sys.stdout.write(piece)
                        sys.stdout.flush()
        if as_json:
            print_json({"message": text, "answer": answer})
        else:
            typer.echo("")
        conversation.append({"role": "assistant", "content": answer})


def _note_losses(predictor: "LanguagePredictor", messages: int, tokens: int) -> None:
    """Notes on messages and tokens at the beginning that the model does not read."""
    context = f"the context of {counted(predictor.model.context_length, 'token')}"
    if messages:
        note(
            f"the conversation no longer fits in {context}: the oldest "
            f"{counted(messages, 'message')} {'is' if messages == 1 else 'are'} left out"
        )
    if tokens:
        note(
            f"the message is too long for {context}: the first {counted(tokens, 'token')} of the "
            "conversation will not be read"
        )


def _messages(message: str | None) -> Iterator[str]:
    yield from (line for line in read_lines(message) if line.strip())


def _typed_messages() -> Iterator[str]:
    with suppress(ImportError):  # with it, input() edits lines; there is none on Windows
        import readline  # noqa: F401
    while True:
        try:
            text = input("> ")
        except EOFError:
            typer.echo("")  # what follows begins on a line of its own
            return
        if text.strip():
            yield text


# --- score ---


def score(
    model: options.Model,
    text: Annotated[
        str | None, options.argument("TEXT", "Text or file to score (default: stdin).")
    ] = None,
    quantize: options.Quantize = None,
    as_json: options.JsonObject = False,
) -> None:
    """Show how likely a text is.

    Prints the log-probability of every token, their total, the perplexity and the bits per byte.

    Examples:
      glassformer score runs/gpt-notes "It takes great courage."
      glassformer score runs/gpt-notes --json < held_out.txt
    """
    from glassformer.tasks import load_for
    from glassformer.tasks.language.predictor import LanguagePredictor

    text = read_text(text)
    predictor = load_for(model, LanguagePredictor, "score", quantize)
    note_unknown(predictor.tokenizer, text)
    result = predictor.score(text)
    note(*result.notes)
    print_result(result, as_json)


# --- complete ---


class Completions(options.Group, heading="Output"):
    keep: options.Float = options.option(
        "X", "Share of the rows to keep, from the top (default: 0.5)."
    )
    num_return_sequences: options.Integer = options.count(
        "Number of completions of each image (default: 4)."
    )


@options.takes(options.Sampling, Completions)
def complete(
    model: options.Model,
    images: Annotated[list[str], options.argument("IMAGE", "Image files to complete.")],
    *,
    out: options.Picture = None,
    quantize: options.Quantize = None,
    as_json: options.JsonObject = False,
    **settings: Any,
) -> None:
    """Paint the lower part of images.

    Shows the original in the size and colours of the model, the rows that were given, and the
    completions.

    Examples:
      glassformer complete runs/image-gpt-photos photo.png --out grid.png
      glassformer complete runs/image-gpt-photos photos/*.png --keep 0.3 --seed 1 --out grid.png
    """
    from glassformer.tasks import load_for
    from glassformer.tasks.paint.predictor import PaintPredictor

    predictor = load_for(model, PaintPredictor, "complete", quantize)
    paint(predictor, "complete", settings, out, as_json, images)


def paint(
    predictor: "PaintPredictor",
    verb: str,
    settings: dict[str, Any],
    out: Path | None,
    as_json: bool,
    *inputs: Any,
) -> None:
    """Call a verb of a painter, `complete` or `generate`, and draw or print what it returns."""
    from glassformer.files import check_ending
    from glassformer.inspect.views import PAINTINGS, draw

    if out is None and not as_json:
        raise UsageError("images need a file. Pass --out FILE.png, or --json for their pixels.")
    if out is not None:
        check_ending(out, PAINTINGS)
    with options.naming_options(predictor, settings), noting_files():
        painted = getattr(predictor, verb)(*inputs, **settings)
    note(*painted.notes)
    if out is not None:
        draw(painted, out)
        notify(f"wrote {out}: {painted.text()}")
    if as_json:
        print_json(painted.as_json())


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
                note(*_translation_notes(predictor, result, where))
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


def _translation_notes(
    predictor: "TranslatePredictor", result: "Translations", where: str
) -> Iterator[str]:
    if result.num_pieces > 1:
        yield (
            f"{where} is longer than the model's context and was translated in {result.num_pieces} "
            "pieces."
        )
    tokenizer = predictor.preprocessing.source
    if tokenizer.kind == "char" and (unknown := tokenizer.unknown_characters(result.source)):
        yield f"{where} has characters that the model does not know: {' '.join(unknown[:10])}"


# --- caption ---


@options.takes(options.CaptionBeams, options.Captions)
def caption(
    model: options.Model,
    images: Annotated[list[str], options.argument("IMAGE", "Image files to describe.")],
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
    from glassformer.files import check_ending
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
        for written in captions:
            print_texts(written, as_json, f"{written.image}\t" if len(captions) > 1 else "")
        if num_cut_off := sum(written.is_cut_off for written in captions):
            length = predictor.model.context_length
            note(cut_off_note(num_cut_off, len(captions), length, "caption"))
        if attention is not None:
            draw(predictor.look(images[0], **settings), attention)
            notify(f"wrote {attention}")
