"""The tokenizer in a GGUF file: a vocabulary and merges, and the name of a rule that cuts words."""

import json
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import beginning, cause

BEGIN = "tokenizer.ggml.bos_token_id"
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # types of tokens
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
    kind, rule = metadata.get("tokenizer.ggml.model"), _rule(metadata)
    tokens, merges = (metadata.get(f"tokenizer.ggml.{key}") for key in ("tokens", "merges"))
    if kind != "gpt2" or not isinstance(merges, list) or not isinstance(tokens, list):
        raise GlassformerError(
            f'{where}: tokenizers of the kind "{beginning(str(kind), 40)}" cannot be imported from '
            'GGUF, only "gpt2" (byte-level BPE). '
            "Use the model's Hugging Face folder."
        )
    if not isinstance(rule, str) or rule not in RULES:
        raise GlassformerError(
            f'{where}: the rule "{beginning(str(rule), 40)}" of its tokenizer is unknown. These '
            f"are known: {', '.join(RULES)}. Use the model's Hugging Face folder."
        )
    try:
        backend = _backend(tokens, merges, rule)
        _add_special_tokens(backend, tokens, metadata)
    except Exception as error:  # the library has no narrower one
        raise GlassformerError(f"{where}: its tokenizer is damaged: {cause(error)}.") from None
    return Tokenizer(backend)


def _rule(metadata: dict[str, Any]) -> Any:
    return metadata.get("tokenizer.ggml.pre", "default")


def _add_special_tokens(backend: Backend, tokens: list[str], metadata: dict[str, Any]) -> None:
    types = metadata.get("tokenizer.ggml.token_type") or []
    for number, name in zip(types, tokens, strict=False):
        if number == CONTROL:
            backend.add_special_tokens([AddedToken(name, normalized=False, special=True)])
        elif number == USER_DEFINED:
            backend.add_tokens([AddedToken(name, normalized=False)])
    first = metadata.get(BEGIN)
    backend.post_processor = processors.ByteLevel(trim_offsets=False)  # which adds nothing
    if first is None:
        return
    if not isinstance(first, int) or not 0 <= first < len(tokens):
        raise ValueError(f"no token has the number {first} of bos_token_id")
    # What llama.cpp does if a file does not say.
    adds = metadata.get("tokenizer.ggml.add_bos_token", _rule(metadata) == "llama-bpe")
    if adds:
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


# --- writing ---


def tokenizer_metadata(tokenizer: Tokenizer, num_tokens: int) -> dict[str, Any]:
    """What `read_tokenizer` reads, for a model with `num_tokens` rows of embeddings."""
    file = tokenizer.as_json()
    rule = _rule_of(file)
    if rule is None:
        raise GlassformerError(
            f"the tokenizer (kind {tokenizer.kind}) cannot be exported to GGUF, which holds only "
            f"byte-level BPE with one of the rules {', '.join(RULES)}. Train with tokenizer kind "
            "bpe, or use --format hf or onnx."
        )
    pieces = [tokenizer.piece(id) for id in range(num_tokens)]
    added = {token["id"]: token["special"] for token in file["added_tokens"]}
    kinds = {True: CONTROL, False: USER_DEFINED, None: NORMAL}
    metadata: dict[str, Any] = {
        "model": "gpt2",
        "pre": rule,
        "tokens": [f"[PAD{id}]" if each is None else each for id, each in enumerate(pieces)],
        "token_type": [
            UNUSED if each is None else kinds[added.get(id)] for id, each in enumerate(pieces)
        ],
        "merges": [
            merge if isinstance(merge, str) else " ".join(merge)
            for merge in file["model"]["merges"]
        ],
        "add_bos_token": bool(tokenizer.begins_with),
    }
    before = tokenizer.begins_with
    if len(before) > 1:
        raise GlassformerError(
            f"the tokenizer puts {len(before)} tokens before every text, but GGUF has room for "
            "one. Use --format hf or onnx."
        )
    return {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}


def _rule_of(file: dict[str, Any]) -> str | None:
    """The name of the rule by which a tokenizer.json cuts words; None: GGUF has none for it."""
    if file["model"]["type"] != "BPE" or file["model"]["byte_fallback"]:
        return None
    ours = {rule: json.loads(_backend([], [], rule).to_str()) for rule in RULES}
    return next((rule for rule, example in ours.items() if _cuts(file) == _cuts(example)), None)


def _cuts(file: dict[str, Any]) -> Any:
    """The parts of a tokenizer.json that decide how a text is cut."""
    model, split = file["model"], file["pre_tokenizer"]
    steps = split["pretokenizers"] if split and split["type"] == "Sequence" else [split]
    known = [{key: step[key] for key in step if key != "trim_offsets"} for step in steps if step]
    affixes = [model["continuing_subword_prefix"] or "", model["end_of_word_suffix"] or ""]
    return file["normalizer"], known, model["ignore_merges"], affixes
