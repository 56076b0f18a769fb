"""How a text becomes the tokens that a model reads, as plain data: a page can do it, too."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TextInput:
    """What `readText` in `story/static/live/tokenizer.js` needs to know."""

    tokenizer: str
    """The name of the tokenizer among those of the preprocessing."""
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    """Ids around the text."""
    mask: int | None = None
    """The id in place of each `mask_name` in the text."""
    mask_name: str | None = None
    if_empty: int | None = None
    """The id in place of an empty text."""
    is_read_as_a_whole: bool = False
    """As `framing.readable` does it."""
    carries_blanks: bool = False
    end: int | None = None
    """The id that completes a text that the model writes."""
    forbidden: tuple[int, ...] = ()
    """Ids that are never written."""
