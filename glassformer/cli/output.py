"""What verbs print alike: JSON to stdout, notes to stderr, probabilities as bars."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import typer

if TYPE_CHECKING:
    from glassformer.predict.predictor import LikelyToken
    from glassformer.text.tokenizers import Tokenizer


class Result(Protocol):
    """Something to print."""

    def as_json(self) -> dict[str, Any]: ...
    def text(self) -> str: ...


def print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_sourced(value: dict[str, Any], source: str) -> None:
    """Only the place in a file identifies an input: rows without text are skipped."""
    print_json(value | ({"source": source} if source else {}))


def print_result(found: Result, as_json: bool) -> None:
    if as_json:
        print_json(found.as_json())
    else:
        typer.echo(found.text())


def note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)


def print_candidates(candidates: "Sequence[LikelyToken]") -> None:
    for each in candidates:
        bar = "█" * round(40 * each.probability)
        typer.echo(f"{each.probability:7.2%}  {each.token!r:16} {bar}")


def note_unknown(tokenizer: "Tokenizer", text: str) -> None:
    """A note if words of `text` are read as the unknown token."""
    if tokenizer.unknown is None:
        return
    ids = tokenizer.encode(text)
    if unknown := ids.count(tokenizer.unknown):
        note(
            f"{unknown} of the text's {len(ids)} tokens are words that the model does not know "
            f"({tokenizer.token(tokenizer.unknown)})."
        )
