"""The tokens that end a generated text, as files of other tools give them: by their ids."""

from typing import Any

from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import Tokenizer


def end_tokens(value: Any, tokenizer: Tokenizer, where: str) -> tuple[str, ...]:
    """Their names, without the end of text, which always ends one. `value` is an id, a list of
    ids or None."""
    several = value if isinstance(value, list) else [] if value is None else [value]
    names = dict[str, None]()
    for id in several:
        if not isinstance(id, int) or isinstance(id, bool):
            raise GlassformerError(
                f"{where} is {id!r} instead of the number of a token. Copy the file again."
            )
        name = tokenizer.piece(id) if id >= 0 else None
        if name is None:
            raise GlassformerError(
                f"{where} is {id}, but the vocabulary has only {tokenizer.vocab_size:,} tokens. "
                "Copy the tokenizer of this model."
            )
        if id != tokenizer.end_of_text:
            names[name] = None
    return tuple(names)
