"""glassformer chat: a conversation with a language model."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.output import note, print_json
from glassformer.cli.signals import interruptible
from glassformer.cli.stdin import read_lines
from glassformer.wording import counted

if TYPE_CHECKING:
    from glassformer.predict.language import LanguagePredictor


class ChatWriting(options.Group, heading="Output"):
    max_new_tokens: options.Whole = options.count(
        "Maximum number of tokens of an answer (default: 200)."
    )
    stop: options.Texts = options.Writing.stop


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
    """Talk to a language model: a published instruct model, or one trained on conversations.

    Messages are written as the model saw them in training, by its own template. Ctrl-C stops an
    answer, Ctrl-D ends the conversation.

    Examples:
      glassformer chat SmolLM2-135M-Instruct.Q4_1.gguf
      glassformer chat Qwen/Qwen3-0.6B "What is a lake?" --temperature 0.7 --seed 1
    """
    from glassformer.predict.language import LanguagePredictor
    from glassformer.tasks import load_for

    predictor = load_for(model, LanguagePredictor, "chat", quantize)
    if predictor.preprocessing.jinja_template is None:
        shown = "".join(predictor.preprocessing.chat_template)
        note(f"messages are written as {shown!r}; only a model trained on such texts answers well")
    conversation: list[Mapping[str, str]] = []
    if system is not None:
        conversation.append({"role": "system", "content": system})
    is_live = message is None and sys.stdin.isatty()
    for text in _typed() if is_live else _given(message):
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


def _given(message: str | None) -> Iterator[str]:
    yield from (line for line in read_lines(message) if line.strip())


def _typed() -> Iterator[str]:
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
