"""Writing a model with Llama's or Qwen3's layout as a GGUF file: the counterpart of `gguf.py`.

Matrices are stored in the type that was asked for, norms always in F32, as llama.cpp does. Rows
that do not fill blocks of 32 values are stored in F16 instead of Q8_0.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from glassformer import files
from glassformer.checkpoint.model_folder import CARD, Saved
from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.formats import exporting, gguf
from glassformer.formats.conversion import their_tensors
from glassformer.formats.export_hub import layout_for, sample_text
from glassformer.formats.exporting import probe_of, refuse_if_wrong, size
from glassformer.formats.families import FAMILIES
from glassformer.formats.family import Family, Layout
from glassformer.formats.gguf_file import NUMBERS, TYPES, GGUFFile, write_file
from glassformer.preprocessing.text import TextPreprocessing

FILE = "model.gguf"
DTYPES = ("F32", "F16", "Q8_0")
FILE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 7}
ROUNDED = {"F32": 0.0, "F16": 2**-10, "Q8_0": 2**-7}  # of the largest weight, at most
LARGEST_HALF = 65504.0
FILE_TYPE = "general.file_type"
SAMPLE = "It's  2024:\n\n\tnaïve café 中文 🙂 don't 12345"
HEADS_IN_TRANSFORMERS = 128  # width; its reader of Qwen3's GGUF files knows no other
MOST_LAYERS = 512  # LLAMA_MAX_LAYERS


def write_gguf(saved: Saved, folder: Path, rest: str, dtype: str) -> tuple[str, list[str]]:
    """Write the file. Returns the name of the architecture, and notes."""
    family, layout = _layout(saved)
    config: Any = saved.model.config
    preprocessing = saved.preprocessing
    if not isinstance(preprocessing, TextPreprocessing):
        raise GlassformerError(f"a model that reads {preprocessing.kind} has no place in GGUF.")
    special, notes = _special_ids(preprocessing)
    metadata = {
        "general.architecture": family.name,
        "general.name": saved.name,
        FILE_TYPE: FILE_TYPES[dtype],
        "general.quantization_version": 2,
        **{f"{family.name}.{key}": value for key, value in _shape(config).items()},
        **_stretch(config),
        **gguf.tokenizer_metadata(preprocessing.tokenizer, config.vocab_size),
        **special,
    }
    if preprocessing.jinja_template is not None:
        metadata["tokenizer.chat_template"] = preprocessing.jinja_template
    tensors = {
        name: (tensor.numpy(), _type(name, tensor, dtype))
        for name, tensor in _tensors(family, layout, saved.model)
    }
    others = {kind for _, kind in tensors.values()} - {dtype, "F32"}
    if others:
        notes.append(
            "some matrices have rows that do not fill blocks of 32 values and are stored as F16"
        )
    if assumed := [*_assumed_by_transformers(family, config)]:
        notes.append(
            f"transformers reads this file wrongly: its reader of GGUF assumes "
            f"{' and '.join(assumed)}. llama.cpp and glassformer read it correctly"
        )
    write_file(folder / FILE, metadata, tensors)
    prompt = '"Once upon a time"'
    commands = f"llama-cli -m {FILE} -p {prompt}\nglassformer generate {FILE} {prompt}"
    usage = f"{exporting.code(commands, 'sh')}\n\nThe weights are stored in {dtype}."
    about = f"A {layout.architecture} for llama.cpp"
    files.write_file(folder / CARD, exporting.card(saved.name, about, usage, rest))
    return f"{layout.architecture} in {dtype}", notes


def check_gguf(saved: Saved, folder: Path) -> dict[str, float]:
    """The largest difference in logits after loading the file again, by each tool. Rounded weights
    may change logits, but only as far as their type rounds them."""
    family, layout = _layout(saved)
    again = gguf.read_gguf(folder / FILE)
    _check_weights(saved.model, again.model, GGUFFile(folder / FILE).metadata[FILE_TYPE])
    _check_tokens(saved, again.preprocessing)
    probe = probe_of(layout.inputs, saved.model.config)
    expected, rounded = probe.logits(saved.model), probe.logits(again.model)
    differences = {"glassformer": probe.difference(expected, rounded)}
    is_readable = not [*_assumed_by_transformers(family, saved.model.config)]
    if find_spec("gguf") is not None and is_readable:
        theirs = exporting.logits_in_transformers(
            folder, layout.architecture, probe, gguf_file=FILE
        )
        if theirs is not None:
            tool, logits = theirs
            refuse_if_wrong({tool: probe.difference(rounded, logits)}, size(rounded))
            differences[tool] = probe.difference(expected, logits)
    return differences


def _check_weights(one: nn.Module, other: nn.Module, file_type: int) -> None:
    rounded = next(ROUNDED[dtype] for dtype, number in FILE_TYPES.items() if number == file_type)
    again = other.state_dict()
    for name, tensor in one.state_dict().items():
        most = float((tensor.cpu() - again[name]).abs().max())
        if not most <= rounded * float(tensor.abs().max()):
            raise GlassformerError(
                f"the exported model differs from the original: {name} by up to {most:.3g}. "
                "Nothing was written."
            )


def _check_tokens(saved: Saved, again: Any) -> None:
    ours: Any = saved.preprocessing
    for text in (sample_text(saved, "text")[0] or "", SAMPLE):
        ids, others = (
            (*side.tokenizer.begins_with, *side.tokenizer.encode(text)) for side in (ours, again)
        )
        if ids != others:
            raise GlassformerError(
                "the exported tokenizer reads a text as other tokens than the original. Nothing "
                "was written."
            )


def _layout(saved: Saved) -> tuple[Family, Layout]:
    return layout_for(saved, (FAMILIES[name] for name in gguf.ARCHITECTURES), "GGUF", _differs)


def _differs(config: Any) -> Iterator[str]:
    """What llama.cpp refuses to load."""
    if config.num_layers > MOST_LAYERS:
        yield f"num_layers is {config.num_layers}, and llama.cpp reads at most {MOST_LAYERS}"
    stretch = config.rotary_stretch
    if config.qk_norm and stretch is not None and stretch.original_length is not None:
        yield (
            "rotary_stretch has an original_length, which llama.cpp reads only in models without "
            "qk_norm"
        )


def _assumed_by_transformers(family: Family, config: Any) -> Iterator[str]:
    """What its reader of GGUF files takes for granted, and is not so."""
    if config.rotary_stretch is not None:
        yield "plain rotary positions"
    if family.name == "qwen3" and config.width_of_head != HEADS_IN_TRANSFORMERS:
        yield f"heads of {HEADS_IN_TRANSFORMERS} for Qwen3"
    if config.d_model % config.num_heads:
        yield "a d_model that is a multiple of num_heads"
    if config.bias:
        yield "no biases"


def _shape(config: Any) -> Values:
    values: Values = {
        "block_count": config.num_layers,
        "context_length": config.context_length,
        "embedding_length": config.d_model,
        "feed_forward_length": config.d_feedforward or 4 * config.d_model,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.kv_heads,
        "attention.key_length": config.width_of_head,
        "attention.value_length": config.width_of_head,
        "attention.layer_norm_rms_epsilon": float(config.norm_eps),
        "rope.dimension_count": config.width_of_head,
        "rope.freq_base": float(config.rotary_base),
        "vocab_size": config.vocab_size,
    }
    stretch = config.rotary_stretch
    if stretch is not None and stretch.original_length is None:
        values |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(stretch.factor)}
    return values


def _stretch(config: Any) -> Values:
    stretch = config.stretch
    if stretch is None or stretch.original_length is None:
        return {}
    return {key: getattr(stretch, name) for name, key in gguf.STRETCH.items()}


def _special_ids(preprocessing: TextPreprocessing) -> tuple[Values, list[str]]:
    """The tokens that begin a text, and that end a text and an answer; and notes."""
    tokenizer = preprocessing.tokenizer
    if not preprocessing.ends:
        raise GlassformerError(
            "the tokenizer has no token that ends a text, and llama.cpp would take an ordinary one "
            "for it. Use --format hf or onnx."
        )
    # What ends an answer comes first, then the end of text.
    ids = sorted(preprocessing.ends, key=lambda id: id == tokenizer.end_of_text)
    metadata = {
        f"tokenizer.ggml.{kind}_token_id": id for kind, id in zip(("eos", "eot"), ids, strict=False)
    }
    begin = preprocessing.begin
    metadata[gguf.BEGIN] = preprocessing.ends[0] if begin is None else begin
    left = [tokenizer.token(id) for id in ids[2:] if id != tokenizer.end_of_text]
    if not left:
        return metadata, []
    return metadata, [f"GGUF has no place for further tokens that end a text: {', '.join(left)}"]


def _tensors(family: Family, layout: Layout, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a model by llama.cpp's names, in its order of rows."""
    config: Any = model.config
    heads = {"attn_q": config.num_heads, "attn_k": config.kv_heads}
    for usual, tensor in their_tensors(layout, model).items():
        name = _short(usual)
        part = name.split(".")[-2]
        is_permuted = family.name in gguf.PERMUTED and part in heads
        yield name, gguf.side_by_side(tensor, heads[part]) if is_permuted else tensor
    if (stretch := config.stretch) is not None and stretch.original_length is not None:
        yield gguf.FACTORS, gguf.rotary_factors(config.width_of_head, config.rotary_base, stretch)


def _short(usual: str) -> str:
    """model.layers.0.self_attn.q_proj.weight → blk.0.attn_q.weight"""
    module, _, kind = usual.rpartition(".")
    gguf_name = {theirs: ours for ours, theirs in gguf.NAMES.items()}
    if module in gguf_name:
        return f"{gguf_name[module]}.{kind}"
    number, _, part = module.removeprefix("model.layers.").partition(".")
    return f"blk.{number}.{gguf_name[part]}.{kind}"


def _type(name: str, tensor: Tensor, dtype: str) -> str:
    if tensor.dim() < 2:
        return "F32"
    kind = dtype if tensor.size(-1) % TYPES[NUMBERS[dtype]].values == 0 else "F16"
    if kind == "F16" and not float(tensor.abs().max()) <= LARGEST_HALF:
        raise GlassformerError(f"{name} has values that are too large for F16. Use --dtype F32.")
    return kind
