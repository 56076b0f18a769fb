"""Where words begin among tokens, for every kind of tokenizer."""

from glassformer.text.tokenizers import Tokenizer


def begins_word(tokenizer: Tokenizer, id: int) -> bool | None:
    """True if a token begins a word, False if it continues one. None if it may do either: where
    tokens include the blank before a word, such as a comma, which has none."""
    token = tokenizer.token(id)
    if not tokenizer.carries_blanks:
        return not (tokenizer.kind == "wordpiece" and token.startswith("##"))
    if token.startswith(" "):
        return True
    return False if token[:1].isalnum() else None
