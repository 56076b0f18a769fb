"""The tokenizer in a GGUF file: a vocabulary and merges, and the name of a rule that cuts words."""

from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import cause

CONTROL, USER_DEFINED = 3, 4  # types of tokens
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def _gpt2() -> list[Any]:
    return [pre_tokenizers.ByteLevel(add_prefix_space=False)]


def _digits() -> list[Any]:
    return [pre_tokenizers.Digits(individual_digits=True), *_gpt2()]


def _split(pattern: str) -> list[Any]:
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return [pre_tokenizers.Split(Regex(pattern), "isolated"), bytes_only]


# How words are cut, by the name in tokenizer.ggml.pre.
RULES: dict[str, Any] = {
    "gpt-2": _gpt2,
    "default": _gpt2,
    "smollm": _digits,
    "llama-bpe": lambda: _split(LLAMA3),
    "qwen2": lambda: _split(QWEN2),
}


def read_tokenizer(metadata: dict[str, Any], where: str) -> Tokenizer:
    """The tokenizer that the metadata of a file describes."""
    kind, rule = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    tokens, merges = (metadata.get(f"tokenizer.ggml.{key}") for key in ("tokens", "merges"))
    if kind != "gpt2" or not isinstance(merges, list) or not isinstance(tokens, list):
        raise GlassformerError(
            f'{where}: tokenizers of the kind "{kind}" cannot be imported from GGUF, only "gpt2" '
            "(byte-level BPE). Use the model's Hugging Face folder."
        )
    if not isinstance(rule, str) or rule not in RULES:
        raise GlassformerError(
            f'{where}: the rule "{rule}" of its tokenizer is unknown. These are known: '
            f"{', '.join(RULES)}. Use the model's Hugging Face folder."
        )
    try:
        backend = _backend(tokens, merges, rule)
        _add_special_tokens(backend, tokens, metadata)
    except Exception as error:  # the library has no narrower one
        raise GlassformerError(f"{where}: its tokenizer is damaged: {cause(error)}.") from None
    return Tokenizer(backend)


def _add_special_tokens(backend: Backend, tokens: list[str], metadata: dict[str, Any]) -> None:
    types = metadata.get("tokenizer.ggml.token_type") or []
    for number, name in zip(types, tokens, strict=False):
        if number == CONTROL:
            backend.add_special_tokens([AddedToken(name, normalized=False, special=True)])
        elif number == USER_DEFINED:
            backend.add_tokens([AddedToken(name, normalized=False)])
    first = metadata.get("tokenizer.ggml.bos_token_id")
    backend.post_processor = processors.ByteLevel(trim_offsets=False)  # which adds nothing
    if metadata.get("tokenizer.ggml.add_bos_token") and first is not None:
        if not isinstance(first, int) or not 0 <= first < len(tokens):
            raise ValueError(f"no token has the number {first} of bos_token_id")
        name = tokens[first]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{name} $A", special_tokens=[(name, first)]
        )


def _backend(tokens: list[str], merges: list[str], rule: str) -> Backend:
    vocabulary = {piece: id for id, piece in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise ValueError("a token stands twice in the vocabulary")
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    whole_first = rule == "llama-bpe"
    backend = Backend(models.BPE(vocabulary, pairs, ignore_merges=whole_first))
    if rule == "qwen2":
        backend.normalizer = normalizers.NFC()
    steps = RULES[rule]()
    backend.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    return backend
