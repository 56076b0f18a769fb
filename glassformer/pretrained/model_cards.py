"""The README.md of an exported model: what it is, how it is used, and the card that it had."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any

import yaml

from glassformer import __version__
from glassformer.text.tokenizers import Tokenizer

FENCE = "```"
PROMPT = "Once upon a time"
MOST = 64  # tokens to write


def card(title: str, about: str, usage: str, rest: str, **metadata: Any) -> str:
    """`about` is a sentence without a full stop, `usage` Markdown, `rest` the card that the model
    had. Its metadata (licence, languages, data) stay, except those that are given."""
    had, text = _split(rest)
    had.pop("library_name", None)  # of the tool that the model was for before
    before = had.get("tags") or []
    tags = [*(before if isinstance(before, list) else [before]), *metadata.pop("tags", ())]
    metadata["tags"] = [*dict.fromkeys(map(str, [*tags, "glassformer"]))]
    head = yaml.safe_dump(had | metadata, sort_keys=False, allow_unicode=True)
    return (
        f"---\n{head}---\n\n# {title}\n\n{about}, exported with glassformer {__version__}.\n\n"
        f"{usage.strip()}\n\n{_below(text)}".rstrip()
        + "\n"
    )


def program(name: str, code: Mapping[str, str] | None = None, **values: Any) -> str:
    """A program in `cards/` with these values, which are written as Python writes them, and with
    these parts of its code."""
    file = resources.files(__package__) / "cards" / f"{name}.py.txt"
    literals = {key: repr(value) for key, value in values.items()}
    return Template(file.read_text(encoding="utf-8")).substitute(literals | dict(code or {}))


def known_text(tokenizer: Tokenizer, text: str) -> str:
    """The text, or another one if the vocabulary cannot spell it."""
    if not tokenizer.unknown_characters(text):
        return text
    pieces = (tokenizer.token(id) for id in range(tokenizer.vocab_size) if not tokenizer.hides(id))
    plain = [piece for piece in pieces if piece.isalnum()]
    joined = "" if tokenizer.kind == "char" else " "
    return joined.join(plain[:3])


def code(text: str, language: str = "python") -> str:
    return f"{FENCE}{language}\n{text.strip()}\n{FENCE}"


def trial(verb: str, *arguments: str) -> str:
    """A command that runs in the folder of the model."""
    return code(f"glassformer {shlex.join([verb, '.', *arguments])}", "")


def own_card(name: str, about: str, command: Sequence[str]) -> str:
    """The card of a model folder of ours that was not trained here. `command` is a verb and what
    follows the folder."""
    return f"# {name}\n\n{about}.\n\n{trial(*command)}\n"


def _split(text: str) -> tuple[dict[str, Any], str]:
    """The metadata at the top of a card, as the Hugging Face hub reads them, and the rest."""
    found = re.match(r"---\s*\n(.*?\n)---\s*\n", text, re.DOTALL)
    if not found:
        return {}, text
    try:
        values = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError):
        return {}, text
    return (values, text[found.end() :]) if isinstance(values, dict) else ({}, text)


def _below(text: str) -> str:
    """An older card as a part of a new one: its title is no longer one, and the commands that were
    meant for the folder that it described are left out."""
    extra = "#" if re.search("^# ", text, re.MULTILINE) else ""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_lowered(text.splitlines(), extra))).strip()


def _lowered(lines: Iterable[str], extra: str) -> Iterator[str]:
    block: list[str] = []
    for line in lines:
        is_fence = line.startswith(FENCE)
        if block or is_fence:
            block.append(line)
            if is_fence and len(block) > 1:
                is_trial = all(inner.startswith("glassformer ") for inner in block[1:-1])
                if not (is_trial and block[1:-1]):
                    yield from block
                block = []
        else:
            yield f"{extra}{line}" if re.match("#{1,5} ", line) else line
    yield from block  # that was never closed
