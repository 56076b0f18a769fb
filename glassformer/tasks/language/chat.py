"""Conversations as the prompts of instruct models: their own Jinja template, or our plain one.

A template is a program that came with a model. It runs in a process of its own, in Jinja's
immutable sandbox, which reaches neither files nor attributes of Python, and within limits of time,
memory and length.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from glassformer.data.chats import write_message
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing.text import TextPreprocessing

Message = Mapping[str, str]
ROLES = ("system", "user", "assistant")
SECONDS, LARGEST = 5, 2**20  # of processor time; characters
_MARK = "\ue000{}\ue001"  # in place of a message: characters that no text should contain
_MARKS = re.compile("\ue000([0-9]+)\ue001")


def check_messages(messages: Sequence[Message]) -> None:
    if not messages:
        raise UsageError("there are no messages. Pass at least one of the user.")
    for message in messages:
        if not {"role", "content"} <= message.keys() or message["role"] not in ROLES:
            raise UsageError(
                f"{dict(message)} is not a message. It needs a content, and one of the roles "
                f"{', '.join(ROLES)}."
            )


def prompt_ids(preprocessing: TextPreprocessing, messages: Sequence[Message]) -> list[int]:
    """The tokens of a conversation, up to where the assistant's next message begins.

    The template may write special tokens; the messages may not, whatever they contain.
    """
    check_messages(messages)
    if ids := _ids(preprocessing, messages):
        return ids
    raise GlassformerError(
        "the chat template of the model writes nothing for this conversation. Use generate instead."
    )


def _ids(preprocessing: TextPreprocessing, messages: Sequence[Message]) -> list[int]:
    tokenizer, template = preprocessing.tokenizer, preprocessing.jinja_template
    if template is None:
        return [*tokenizer.begins_with, *tokenizer.encode(_plain(preprocessing, messages))]
    contents = [message["content"] for message in messages]
    is_harmless = not any(name in text for name in tokenizer.special_tokens for text in contents)
    if is_harmless:
        return tokenizer.encode_special(_render(template, preprocessing, messages))
    marks = [_MARK.format(number) for number in range(len(messages))]
    marked = [{**message, "content": mark} for message, mark in zip(messages, marks, strict=True)]
    # A template may leave a message out, or write it twice.
    parts = _MARKS.split(_render(template, preprocessing, marked))
    ids = tokenizer.encode_special(parts[0])
    for number, after in zip(parts[1::2], parts[2::2], strict=True):
        content = contents[int(number)] if int(number) < len(contents) else ""
        ids += [*tokenizer.encode(content), *tokenizer.encode_special(after)]
    return ids


def newest(
    preprocessing: TextPreprocessing, messages: Sequence[Message], room: int
) -> list[Message]:
    """The messages whose prompt has at most so many tokens: an instruction at the beginning, and
    as many exchanges as fit, but at least the last message."""
    check_messages(messages)
    first = 1 if messages[0]["role"] == "system" else 0
    remaining = list(messages)
    while len(remaining) > first + 1 and len(prompt_ids(preprocessing, remaining)) > room:
        del remaining[first]
        while len(remaining) > first + 1 and remaining[first]["role"] != "user":
            del remaining[first]  # the answer to what was left out
    return remaining


def stops(preprocessing: TextPreprocessing) -> tuple[str, ...]:
    """The strings that end an answer: in the plain template, the beginning of the next message."""
    if preprocessing.jinja_template is not None:
        return ()
    before, _, after = "".join(preprocessing.chat_template).partition("{content}")
    next_message, _, _ = before.partition("{role}")
    (stop,) = preprocessing.tokenizer.without_unknown([after + next_message])
    return (stop,) if stop else ()


def _plain(preprocessing: TextPreprocessing, messages: Sequence[Message]) -> str:
    """The conversation in our own template."""
    written = ""
    for message in messages:
        before, after = _around(preprocessing, message["role"])
        written += before + message["content"] + after
    return written + _around(preprocessing, "assistant")[0]


def _around(preprocessing: TextPreprocessing, role: str) -> tuple[str, str]:
    """What stands before and after the content of a message, without the characters that a model of
    characters has never seen."""
    before, _, after = "".join(preprocessing.chat_template).partition("{content}")
    texts = [write_message(role, "", (text,)) for text in (before, after)]
    first, last = preprocessing.tokenizer.without_unknown(texts)
    return first, last


def _render(template: str, preprocessing: TextPreprocessing, messages: Sequence[Message]) -> str:
    """The conversation as the template of the model writes it."""
    tokenizer = preprocessing.tokenizer

    def piece(id: int | None) -> str:
        return "" if id is None else tokenizer.piece(id) or ""

    values = {
        "messages": [dict(message) for message in messages],
        "add_generation_prompt": True,
        "bos_token": piece(preprocessing.begin),
        "eos_token": piece(tokenizer.end_of_text),
    }
    return render(template, values)


# --- a template, in a process of its own ---

# Reads {template, values} from stdin and writes the text to stdout.
_PROGRAM = """
import json, sys
seconds, largest = int(sys.argv[1]), int(sys.argv[2])
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
except (ImportError, ValueError, OSError):
    pass
from datetime import datetime
from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

class Generation(Extension):
    # In training, {% generation %} marks what the assistant wrote. Here it changes nothing.
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body, lineno=line)

def refuse(message):
    raise TemplateError(str(message))

asked = json.load(sys.stdin)
environment = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
)
environment.filters["tojson"] = lambda value, **more: json.dumps(value, ensure_ascii=False)
environment.globals["raise_exception"] = refuse
environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
try:
    pieces, length = [], 0
    for piece in environment.from_string(asked["template"]).generate(**asked["values"]):
        pieces.append(piece)
        length += len(piece)
        if length > largest:
            raise TemplateError("the text is too long")
    json.dump({"text": "".join(pieces)}, sys.stdout)
except MemoryError:
    sys.exit(1)
except Exception as error:
    parts = filter(None, (type(error).__name__, str(error)))
    json.dump({"error": ": ".join(parts)[:300]}, sys.stdout)
"""


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text that a Jinja template writes."""
    return _output(json.dumps({"template": template, "values": dict(values)}))


@lru_cache(maxsize=8)  # a conversation is written to measure it, and again to answer it
def _output(asked: str) -> str:
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _PROGRAM, str(SECONDS), str(LARGEST)],
            input=asked,
            capture_output=True,
            text=True,
            timeout=4 * SECONDS,  # other programs may be running
        )
        output = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise GlassformerError(
            f"the chat template of the model takes more than {SECONDS} seconds or too much memory. "
            "Use generate instead."
        ) from None
    if "error" in output:
        raise GlassformerError(
            f"the chat template of the model fails: {output['error'].rstrip('.')}."
        )
    return str(output["text"])
