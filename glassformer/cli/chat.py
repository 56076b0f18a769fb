"""glassformer chat: a conversation with a language model."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.arguments import naming_options, passed
from glassformer.cli.output import note, print_json
from glassformer.cli.stdin import read_lines


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
    as_json: options.JsonLines = False,
    **values: Any,
) -> None:
    """Talk to a language model: a published instruct model, or one trained on conversations.

    Messages are written as the model saw them in training, by its own template. End with Ctrl-D.

    Examples:
      glassformer chat SmolLM2-135M-Instruct.Q4_1.gguf
      glassformer chat Qwen/Qwen3-0.6B "What is a lake?" --temperature 0.7 --seed 1
    """
    from glassformer.predict.language import LanguagePredictor
    from glassformer.tasks import load_for

    settings = passed(values)
    predictor = load_for(model, LanguagePredictor, "chat")
    if predictor.preprocessing.jinja_template is None:
        shown = "".join(predictor.preprocessing.chat_template)
        note(f"the model has no chat template of its own: messages are written as {shown!r}")
    conversation = [] if system is None else [{"role": "system", "content": system}]
    for text in _messages(message):
        conversation.append({"role": "user", "content": text})
        answer = ""
        with naming_options(predictor, settings):
            for piece in predictor.chat(conversation, **settings):
                answer += piece
                if not as_json:
                    sys.stdout.write(piece)
                    sys.stdout.flush()
        if as_json:
            print_json({"message": text, "answer": answer})
        else:
            typer.echo("")
        conversation.append({"role": "assistant", "content": answer})


def _messages(message: str | None) -> Iterator[str]:
    if message is not None or not sys.stdin.isatty():
        yield from (line for line in read_lines(message) if line.strip())
        return
    while True:
        try:
            text = input("> ")
        except EOFError:
            return
        if text.strip():
            yield text
