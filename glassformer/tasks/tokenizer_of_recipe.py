"""The tokenizer that a recipe describes, learned from the texts of a training."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from glassformer.runtime.host import silently
from glassformer.tasks.recipe import TokenizedRecipe
from glassformer.text.tokenizer_sample import TextSample, num_bytes
from glassformer.text.tokenizer_training import TokenizerConfig, default_vocab_size, train_tokenizer
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import readable_size


def learn_tokenizer(
    recipe: TokenizedRecipe,
    default: TokenizerConfig,
    texts: Iterable[str],
    special_tokens: Sequence[str] = (),
    prefix: str = "",
    is_rich: bool = False,
    one_in: int = 1,
    say: Callable[[str], None] = silently,
) -> Tokenizer:
    """Learn the tokenizer that the recipe describes; `default` fills in what it leaves open.

    `texts` are all texts, one in `one_in` of them, or a `TextSample`; `prefix` is put before each.
    A rich tokenizer has as many pieces as whole words would need.
    """
    given = {key: getattr(recipe.tokenizer, key) for key in TokenizerConfig.model_fields}
    config = default.model_copy(
        update={key: value for key, value in given.items() if value not in (None, "auto")}
    )
    if config.kind == "auto":
        raise TypeError("the kind is still open")
    size_of_text, known = _known_texts(texts, config.kind, say)
    kind = "word" if is_rich and config.kind != "char" else config.kind
    size = config.vocab_size or getattr(recipe.architecture(), "vocab_size", None)
    size = size or default_vocab_size(kind, one_in * size_of_text)
    return train_tokenizer(config, (prefix + text for text in known), size, special_tokens)


def _known_texts(
    texts: Iterable[str], kind: str, say: Callable[[str], None]
) -> tuple[int, Iterable[str]]:
    """The bytes of all texts, and those to learn from."""
    if not isinstance(texts, TextSample):
        if kind == "char":  # which may be many: they are read once, and their size does not matter
            return 0, texts
        texts = list(texts)
        return sum(map(num_bytes, texts)), texts
    if kind == "char":  # the characters of every text, in the sample or not
        return texts.num_bytes, ["".join(sorted(texts.alphabet))]
    if texts.is_partial:
        say(f"tokenizer: trained on a sample of {readable_size(texts.num_kept_bytes)}")
    return texts.num_bytes, texts


def decided_by_tokenizer(recipe: Any, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """The sections of a recipe as a tokenizer decides them: its own, and the model's vocab_size."""
    section = {
        "kind": tokenizer.kind,
        "vocab_size": recipe.tokenizer.vocab_size or tokenizer.vocab_size,
        "lowercase": tokenizer.folds_case,
    }
    model = {} if recipe.model.get("vocab_size") else {"vocab_size": tokenizer.vocab_size}
    return {"model": model, "tokenizer": section}
