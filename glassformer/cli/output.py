"""What verbs print alike: JSON and texts to stdout, notes and progress to stderr."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import typer

from glassformer.wording import counted

if TYPE_CHECKING:
    from glassformer.inspect.inspection import LikelyToken
    from glassformer.tasks.answers import WrittenTexts
    from glassformer.text.tokenizers import Tokenizer


class Printable(Protocol):
    """Something to print."""

    def as_json(self) -> dict[str, Any]: ...
    def text(self) -> str: ...


def print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_texts(written: "WrittenTexts", as_json: bool, name: str = "") -> None:
    """What was written about a source, a line each; several with their scores."""
    if as_json:
        print_json(written.as_json())
        return
    for text in written.ranked:
        score = f"{text.score:.4f}\t" if len(written.ranked) > 1 else ""
        typer.echo(f"{name}{score}{text.text}")


def print_sourced(value: dict[str, Any], source: str) -> None:
    """Only the place in a file identifies an input: rows without text are skipped."""
    print_json(value | ({"source": source} if source else {}))


def print_result(result: Printable, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json())
    else:
        typer.echo(result.text())


def notify(text: str) -> None:
    """Print a message to stderr."""
    typer.echo(text, err=True)


@contextmanager
def showing_progress(what: str) -> Iterator[None]:
    """A bar on a terminal while something is read; nothing in a log, and nothing at the end."""
    from glassformer.progress import ProgressLine, bar
    from glassformer.tasks.evaluating import reporting_progress

    def show(share: float) -> None:
        line.show(f"{what} {bar(share)} {share:.0%}" if share < 1 else "")

    with ProgressLine(sys.stderr) as line, reporting_progress(show):
        yield


def note(*texts: str) -> None:
    for text in texts:
        typer.echo(f"note: {text}", err=True)


@contextmanager
def noting_files() -> Iterator[None]:
    """Report at the end what was read, skipped and detected in files."""
    from glassformer.data.text_files import collecting

    with collecting() as files:
        yield
    note(*files.notes())


def print_candidates(candidates: "Sequence[LikelyToken]") -> None:
    for candidate in candidates:
        bar = "█" * round(40 * candidate.probability)
        typer.echo(f"{candidate.probability:7.2%}  {candidate.token!r:16} {bar}")


class KnownWords:
    """Counts the texts in which the model knows no word: its answer says nothing about them. Only
    some kinds of tokenizers have words that they do not know."""

    def __init__(self, tokenizer: "Tokenizer | None") -> None:
        self._tokenizer = tokenizer
        self._total = self._without = 0

    def look(self, texts: Sequence[str]) -> None:
        tokenizer = self._tokenizer
        if tokenizer is None or (tokenizer.unknown is None and tokenizer.kind != "char"):
            return  # without a tokenizer they are no texts
        texts = [text for text in texts if text.strip()]
        self._total += len(texts)
        for ids in tokenizer.encode_batch(tokenizer.without_unknown(texts)):
            words = (tokenizer.token(id) for id in ids if id != tokenizer.unknown)
            self._without += not any(any(map(str.isalnum, word)) for word in words)

    def note(self, answer: str, answers: str) -> None:
        """A note if there are such texts; "its label says", "their labels say"."""
        if self._without and self._total == 1:
            note(f"the text has no word that the model knows: {answer} nothing about it")
        elif self._without:
            note(
                f"{self._without:,} of {counted(self._total, 'text')} have no word that the model "
                f"knows: {answers} nothing about them"
            )


def note_unknown(tokenizer: "Tokenizer", text: str) -> None:
    """A note if words of `text` are read as the unknown token."""
    if tokenizer.unknown is None:
        return
    ids = tokenizer.encode(text)
    if unknown := ids.count(tokenizer.unknown):
        note(
            f"{unknown:,} of the text's {counted(len(ids), 'token')} are words that the model does "
            f"not know ({tokenizer.token(tokenizer.unknown)})."
        )
