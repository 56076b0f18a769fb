"""Llama and Qwen3 models in GGUF files, with their tokenizers.

    metadata                   → a config.json of the same family, and a tokenizer (which is also
                                 written from one)
    blk.0.attn_q.weight …      → model.layers.0.self_attn.q_proj.weight …

The metadata is translated to a config.json of the same family, and the names of tensors to those of
Hugging Face's files, so that the layouts of `families/llama.py` do the rest. llama.cpp stores the
rows of Llama's queries and keys in another order (the two coordinates of a rotation side by side).
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from torch import Tensor

from glassformer.config import Config, Values
from glassformer.data.archives import DataPath
from glassformer.errors import GlassformerError
from glassformer.formats.conversion import ForeignModel, converted, read_model
from glassformer.formats.families import FAMILIES
from glassformer.formats.family import Layout
from glassformer.formats.gguf_file import MAGIC, GGUFFile
from glassformer.formats.vocabulary_files import end_tokens
from glassformer.nn.positions import RotaryPositions, RotaryStretch
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import an, beginning, cause

# --- the tokenizer: a vocabulary and merges, and the name of a rule that cuts words ---

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
        "tokens": [f"[PAD{id}]" if piece is None else piece for id, piece in enumerate(pieces)],
        "token_type": [
            UNUSED if piece is None else kinds[added.get(id)] for id, piece in enumerate(pieces)
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
    cuts = [{key: step[key] for key in step if key != "trim_offsets"} for step in steps if step]
    affixes = [model["continuing_subword_prefix"] or "", model["end_of_word_suffix"] or ""]
    return file["normalizer"], cuts, model["ignore_merges"], affixes


# --- the model ---

ARCHITECTURES = ("llama", "qwen3")
PERMUTED = ("llama",)  # whose queries and keys are in another order
FACTORS = "rope_freqs.weight"  # by how much slower each rotation is (Llama 3.1)
# What llama.cpp does not read, since it needs the factors only.
STRETCH = {
    name: f"glassformer.rotary_stretch.{name}"
    for name in ("factor", "original_length", "low", "high")
}
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def is_gguf(start: bytes) -> bool:
    return start.startswith(MAGIC)


def read_gguf(path: DataPath) -> ForeignModel:
    file = _opened(path)
    layout, config, theirs = _described(file)
    source = _Renamed(file, theirs)
    model, _ = read_model(layout, config, source, str(path))
    tokenizer = read_tokenizer(file.metadata, str(path))
    begin = file.metadata.get(BEGIN)
    template = file.metadata.get("tokenizer.chat_template")
    preprocessing = TextPreprocessing(
        tokenizer=tokenizer,
        end_tokens=_end_tokens(file.metadata, tokenizer, str(path)),
        begin_token=None if begin is None else tokenizer.piece(begin),
        jinja_template=template if isinstance(template, str) else None,
    )
    preprocessing.check_model(config, str(path), "Download it again.")
    types = ", ".join(sorted({stored.type.name for stored in file.tensors.values()}))
    note = f"the weights were stored as {types} and are computed as float32"
    return converted(layout.architecture, model, preprocessing, [note])


def _end_tokens(metadata: Values, tokenizer: Tokenizer, where: str) -> tuple[str, ...]:
    """The tokens that end an answer, apart from the end of a text."""
    keys = [f"tokenizer.ggml.{kind}_token_id" for kind in ("eos", "eot")]
    named = [
        end_tokens([metadata[key]], tokenizer, f"{where}: {key}") for key in keys if key in metadata
    ]
    return tuple(dict.fromkeys(name for names in named for name in names))


def describe_gguf(path: DataPath) -> tuple[str, Config]:
    layout, config, _ = _described(_opened(path))
    return layout.model, config


def _opened(path: DataPath) -> GGUFFile:
    if not isinstance(path, Path):
        raise GlassformerError(f"{path} is in an archive. Unpack it first: it is memory-mapped.")
    return GGUFFile(path)


def _described(file: GGUFFile) -> tuple[Layout, Config, Values]:
    """The layout, our config, and theirs as a config.json would have it."""
    metadata, where = file.metadata, str(file.path)
    family = metadata.get("general.architecture")
    if family not in ARCHITECTURES:
        raise GlassformerError(
            f'{where}: models of the family "{beginning(str(family), 40)}" cannot be imported from '
            f"GGUF. These can: {', '.join(ARCHITECTURES)}."
        )
    (layout,) = FAMILIES[family].layouts
    try:
        theirs = _config(metadata, family, file, where)
        return layout, layout.our_config(theirs, where), theirs
    except (TypeError, KeyError, ValueError, ArithmeticError) as error:
        raise GlassformerError(
            f"{where} cannot be read as {an(layout.architecture)}: {error!r}. Download it again."
        ) from None


def _config(metadata: Values, family: str, file: GGUFFile, where: str) -> Values:
    def value(key: str, otherwise: Any = None) -> Any:
        entry = metadata.get(f"{family}.{key}", otherwise)
        if entry is None:
            raise GlassformerError(f"{where} has no {family}.{key}. Download it again.")
        return entry

    heads, width = value("attention.head_count"), value("embedding_length")
    if not isinstance(heads, int) or not isinstance(width, int) or not heads:
        raise GlassformerError(f"{where}: layers with different numbers of heads are unknown.")
    head_dim = value("attention.key_length", width // heads)
    if value("rope.dimension_count", head_dim) != head_dim:
        raise GlassformerError(f"{where}: rotary positions of a part of each head are unknown.")
    rope: Values = {"rope_type": "default", "rope_theta": value("rope.freq_base", 10000.0)}
    scaling = metadata.get(f"{family}.rope.scaling.type", "none")
    if scaling == "linear":
        rope |= {"rope_type": "linear", "factor": value("rope.scaling.factor")}
    elif scaling == "none" and FACTORS in file.tensors:
        rope |= _llama3(file, head_dim, rope["rope_theta"], where)
    elif scaling != "none":
        raise GlassformerError(
            f"{where}: its rotary positions are scaled in a way that cannot be imported. Use the "
            "model's Hugging Face folder."
        )
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise GlassformerError(f"{where}: token_embd.weight is missing. Download it again.")
    return {
        "vocab_size": embedding.shape[0],
        "max_position_embeddings": value("context_length"),
        "hidden_size": width,
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "intermediate_size": value("feed_forward_length"),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
        "rope_parameters": rope,
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "attention_bias": "blk.0.attn_output.bias" in file.tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in file.tensors,
        "model_type": family,
    }


def _llama3(file: GGUFFile, head_dim: int, base: float, where: str) -> Values:
    """Llama 3.1 and later turn slowly; a file has only by how much slower each rotation is."""
    ((_, factors),) = file.read([FACTORS])
    if bool((factors == 1).all()):
        return {}
    if factors.shape == (head_dim // 2,):
        for stretch in _stretches(file.metadata, head_dim, base, factors):
            if torch.allclose(rotary_factors(head_dim, base, stretch), factors, rtol=1e-4):
                return {
                    "rope_type": "llama3",
                    "factor": stretch.factor,
                    "original_max_position_embeddings": stretch.original_length,
                    "low_freq_factor": stretch.low,
                    "high_freq_factor": stretch.high,
                }
    raise GlassformerError(
        f"{where}: its rotary positions are scaled in a way that cannot be imported. Use the "
        "model's Hugging Face folder."
    )


def _stretches(
    metadata: Values, head_dim: int, base: float, factors: Tensor
) -> Iterator[RotaryStretch]:
    """What may have made these factors: what a file from here says; then the settings that Llama's
    releases have in common, low 1 and high 4, which leave the factor and the original length."""
    if all(key in metadata for key in STRETCH.values()):
        yield RotaryStretch(**{name: metadata[key] for name, key in STRETCH.items()})
    factor = float(factors.max())
    yield from (RotaryStretch(factor, 2**exponent) for exponent in range(8, 24))
    turns = RotaryPositions(head_dim, base).frequencies(head_dim).double() / (2 * math.pi)
    points = [*zip(turns.tolist(), (1 / factors.double()).tolist(), strict=True)]
    between = [(turn, speed) for turn, speed in points if 1 / factor < speed < 1]
    for turn, speed in between:
        share = (speed - 1 / factor) / (1 - 1 / factor)  # as in RotaryStretch
        yield RotaryStretch(factor, round((1 + 3 * share) / turn))
    if between and between[0] != points[-1]:
        # The slowest may be between, too. Then all are on a line that is 1 / factor at low.
        (turn, speed), (other, its) = between[0], points[-1]
        slope = (speed - its) / (turn - other)
        slowest = (3 * (speed - slope * turn) + 1) / 4
        if 0 < slowest < 1:
            yield RotaryStretch(1 / slowest, round(3 * slope / (1 - slowest)))


def rotary_factors(head_dim: int, base: float, stretch: RotaryStretch) -> Tensor:
    """(d/2,) by how much slower each rotation is."""
    plain, slower = (RotaryPositions(head_dim, base, applied) for applied in (None, stretch))
    return plain.frequencies(head_dim) / slower.frequencies(head_dim)


class _Renamed:
    """The tensors of a file by the names of Hugging Face's, with their rows in the usual order."""

    def __init__(self, file: GGUFFile, theirs: Values) -> None:
        self._file = file
        self._own = {_usual(name): name for name in file.tensors if name != FACTORS}
        self.shapes = {usual: file.shapes[stored] for usual, stored in self._own.items()}
        self._heads: dict[str, int] = {}
        if theirs["model_type"] in PERMUTED:
            self._heads = {
                "q_proj": theirs["num_attention_heads"],
                "k_proj": theirs["num_key_value_heads"],
            }

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]:
        usual = {self._own[name]: name for name in names}
        for stored, tensor in self._file.read([*usual]):
            name = usual[stored]
            heads = next((n for part, n in self._heads.items() if f".{part}." in name), None)
            yield name, tensor if heads is None else _halves(tensor, heads)


def _usual(name: str) -> str:
    """blk.0.attn_q.weight → model.layers.0.self_attn.q_proj.weight"""
    module, _, kind = name.rpartition(".")
    block, _, rest = module.partition(".")
    number, _, part = rest.partition(".")
    if block == "blk" and part:  # any other name is refused as one that is not part of the model
        return f"model.layers.{number}.{NAMES.get(part, part)}.{kind}"
    return f"{NAMES.get(module, module)}.{kind}"


def _halves(x: Tensor, heads: int) -> Tensor:
    """Rows of each head from pairs side by side to first halves, then second halves."""
    x = x.unflatten(0, (heads, -1, 2))  # (H, d/2, 2, …)
    return x.transpose(1, 2).flatten(0, 2)  # (H·d, …)


def side_by_side(x: Tensor, heads: int) -> Tensor:
    """The inverse of `_halves`."""
    x = x.unflatten(0, (heads, 2, -1))  # (H, 2, d/2, …)
    return x.transpose(1, 2).flatten(0, 2)  # (H·d, …)
