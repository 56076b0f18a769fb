"""GGUF files are read exactly, and damaged ones are refused before memory is allocated."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from published import LLAMA, their_logits
from torch import nn

import glassformer
from glassformer.errors import GlassformerError
from glassformer.formats import gguf_file as gguf_types
from glassformer.formats.gguf import read_gguf, rotary_factors
from glassformer.formats.gguf_file import GGUFFile
from glassformer.nn.positions import RotaryStretch

ALPHABET = [chr(code) for code in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x144))]
TOKENS = ["<|endoftext|>", "<|im_end|>", *ALPHABET, "Ġt", "he", "Ġthe"]
MERGES = ["Ġ t", "h e", "Ġt he"]
BEGINS = {"tokenizer.ggml.add_bos_token": True}


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value(what: Any) -> bytes:
    """A value with its type."""
    if isinstance(what, bool):
        return struct.pack("<I?", 7, what)
    if isinstance(what, int):
        return struct.pack("<II", 4, what)
    if isinstance(what, float):
        return struct.pack("<If", 6, what)
    if isinstance(what, str):
        return struct.pack("<I", 8) + string(what)
    if isinstance(what[0], int):
        return struct.pack("<IIQ", 9, 5, len(what)) + struct.pack(f"<{len(what)}i", *what)
    return struct.pack("<IIQ", 9, 8, len(what)) + b"".join(map(string, what))


def encode_f32(x: Any) -> bytes:
    return x.astype("<f4").tobytes()


def encode_f16(x: Any) -> bytes:
    return x.astype("<f2").tobytes()


def encode_bf16(x: Any) -> bytes:
    return (x.astype("<f4").view(np.uint32) >> 16).astype("<u2").tobytes()


def encode_q8_0(x: Any) -> bytes:
    found = b""
    for block in x.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 127 or 1)
        found += scale.tobytes() + np.rint(block / scale).clip(-128, 127).astype("i1").tobytes()
    return found


def encode_q4_0(x: Any) -> bytes:
    found = b""
    for block in x.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7 or 1)
        q = (np.rint(block / scale) + 8).clip(0, 15).astype("u1")
        found += scale.tobytes() + (q[:16] | q[16:] << 4).tobytes()
    return found


def encode_q4_1(x: Any) -> bytes:
    found = b""
    for block in x.reshape(-1, 32):
        low = np.float16(block.min())
        scale = np.float16((block.max() - block.min()) / 15 or 1)
        q = np.rint((block - low) / scale).clip(0, 15).astype("u1")
        found += scale.tobytes() + low.tobytes() + (q[:16] | q[16:] << 4).tobytes()
    return found


TYPES: dict[str, tuple[int, Callable[[Any], bytes], float]] = {
    "F32": (0, encode_f32, 0.0),
    "F16": (1, encode_f16, 1e-3),
    "BF16": (30, encode_bf16, 8e-3),
    "Q8_0": (8, encode_q8_0, 6e-3),
    "Q4_0": (2, encode_q4_0, 0.08),
    "Q4_1": (3, encode_q4_1, 0.08),
}


def written(path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[Any, str]]) -> Path:
    """A GGUF file; each tensor with the name of its type."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(string(key) + value(each) for key, each in metadata.items())
    data = b""
    for name, (array, kind) in tensors.items():
        number, encode, _ = TYPES[kind]
        shape = array.shape[::-1]
        head += string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", number, len(data))
        data += encode(array)
        data += b"\0" * (-len(data) % 32)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path


NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers.": "blk.",
}


def model_file(
    path: Path, family: str = "llama", more: dict[str, Any] | None = None, **metadata: Any
) -> tuple[Path, Any]:
    """A small model of transformers, and the file that llama.cpp's converter would write."""
    size = {"vocab_size": len(TOKENS), "tie_word_embeddings": False}
    name = {"llama": "Llama", "qwen3": "Qwen3"}[family]
    kind = getattr(hf, f"{name}ForCausalLM")
    config = kind.config_class(**LLAMA | size, head_dim=8)
    theirs = kind(config).eval()
    torch.manual_seed(0)
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.2)
    tensors = {}
    for own, weight in theirs.state_dict().items():
        name, array = own, weight.detach().numpy()
        for old, new in NAMES.items():
            name = name.replace(old, new)
        heads = {"attn_q.weight": 4, "attn_k.weight": 2}.get(name.split(".", 2)[-1])
        if heads and family == "llama":  # pairs of coordinates side by side
            array = array.reshape(heads, 2, -1, 32).swapaxes(1, 2).reshape(array.shape)
        tensors[name] = (np.ascontiguousarray(array), "F32")
    tensors |= {name: (array, "F32") for name, array in (more or {}).items()}
    values = {
        "general.architecture": family,
        f"{family}.block_count": 2,
        f"{family}.context_length": 64,
        f"{family}.embedding_length": 32,
        f"{family}.feed_forward_length": 48,
        f"{family}.attention.head_count": 4,
        f"{family}.attention.head_count_kv": 2,
        f"{family}.attention.key_length": 8,
        f"{family}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{family}.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3, 3, *([1] * (len(TOKENS) - 2))],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": "{{ messages }}",
    }
    return written(path, values | metadata, tensors), theirs


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_tensor_is_decoded(tmp_path: Path, kind: str) -> None:
    array = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    file = GGUFFile(written(tmp_path / "x.gguf", {"a": 1}, {"x": (array, kind)}))
    ((name, found),) = file.read(["x"])
    assert (name, found.dtype, tuple(found.shape)) == ("x", torch.float32, (3, 64))
    scale = np.abs(array).max()
    assert np.abs(found.numpy() - array).max() <= TYPES[kind][2] * scale


@pytest.mark.parametrize("number", gguf_types.TYPES)
def test_every_type_is_decoded_as_by_llama_cpp(number: int) -> None:
    type = gguf_types.TYPES[number]
    raw = np.random.default_rng(0).integers(0, 256, (40, type.bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):  # random bytes can be any scale
        found = type.decode(raw).reshape(40, -1)
        expected = dequantize(raw, GGMLQuantizationType(number)).reshape(40, -1)
    np.testing.assert_array_equal(found, expected)
    assert np.isfinite(found).mean() > 0.5


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0"])
def test_every_type_is_encoded_as_by_llama_cpp(kind: str) -> None:
    array = np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32)
    array[2, 32:] = 0  # a block without a scale
    encode = gguf_types.TYPES[gguf_types.NUMBERS[kind]].encode
    assert encode is not None
    assert encode(array) == quantize(array, GGMLQuantizationType[kind]).tobytes()


def test_slower_rotations_of_llama_3_are_recognised(tmp_path: Path) -> None:
    stretch = RotaryStretch(8.0, 2048)
    path, _ = model_file(
        tmp_path / "model.gguf",
        more={"rope_freqs.weight": rotary_factors(8, 10000.0, stretch).numpy()},
    )
    config: Any = glassformer.load(path).model.config  # type: ignore[attr-defined]
    assert config.stretch == stretch
    factors = np.array([1, 2, 1, 2], np.float32)
    path, _ = model_file(tmp_path / "other.gguf", more={"rope_freqs.weight": factors})
    with pytest.raises(GlassformerError, match="scaled in a way that cannot be imported"):
        glassformer.load(path)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_model_computes_the_logits_of_transformers(tmp_path: Path, family: str) -> None:
    path, theirs = model_file(tmp_path / "model.gguf", family)
    model: Any = glassformer.load(path)
    ids = torch.randint(0, len(TOKENS), (2, 20))
    expected = their_logits(theirs, {"input_ids": ids})
    with torch.no_grad():
        assert (model.model(ids) - expected).abs().max() <= 1e-4
    assert expected.std() > 0.1


def test_its_tokenizer_and_template_are_read(tmp_path: Path) -> None:
    path, _ = model_file(tmp_path / "model.gguf")
    model: Any = glassformer.load(path)
    assert [model.tokenizer.piece(id) for id in model.tokenizer.encode("the the12")] == [
        *("t", "he", "Ġthe", "1", "2"),
    ]
    assert model.tokenizer.special_tokens == {"<|endoftext|>": 0, "<|im_end|>": 1}
    assert model.preprocessing.end_tokens == ("<|im_end|>",)
    assert model.preprocessing.jinja_template == "{{ messages }}"
    imported = glassformer.import_model(path, tmp_path / "folder")
    again: Any = glassformer.load(imported)
    assert again.preprocessing.model_dump() == model.preprocessing.model_dump()
    assert "stored as F32" in imported.notes[0]


def test_a_begin_of_text_is_read_before_every_prompt(tmp_path: Path) -> None:
    path, theirs = model_file(tmp_path / "model.gguf", **BEGINS)
    model: Any = glassformer.load(path)
    ids = [0, *model.tokenizer.encode("the")]
    likely = their_logits(theirs, {"input_ids": torch.tensor([ids])})[0, -1].argmax()
    assert model.next_tokens("the", top=1)[0].token == model.tokenizer.token(int(likely))


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"general.architecture": "rwkv"}, 'family "rwkv" cannot be imported from GGUF'),
        ({"tokenizer.ggml.model": "llama"}, 'tokenizers of the kind "llama"'),
        ({"tokenizer.ggml.pre": "viking"}, 'the rule "viking"'),
        ({"llama.rope.scaling.type": "yarn"}, "rotary positions are scaled"),
        ({"llama.block_count": 3}, "missing"),
        ({"llama.block_count": [2, 2]}, "num_hidden_layers"),
        ({"llama.attention.head_count_kv": [2, 2]}, "num_key_value_heads"),
        ({"llama.attention.key_length": "wide"}, "head_dim"),
        ({"llama.rope.freq_base": "high"}, "cannot be read as a LlamaForCausalLM"),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": "x"}, "factor"),
        ({"llama.attention.layer_norm_rms_epsilon": "small"}, "norm_eps"),
        ({"tokenizer.ggml.pre": ["smollm"]}, "the rule"),
        ({"tokenizer.ggml.token_type": 3}, "its tokenizer is damaged"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "its tokenizer is damaged"),
        ({"tokenizer.ggml.eos_token_id": [1, 2]}, "eos_token_id is [1, 2] instead of"),
        ({"tokenizer.ggml.eot_token_id": "<|im_end|>"}, "eot_token_id is '<|im_end|>' instead of"),
        (BEGINS | {"tokenizer.ggml.bos_token_id": 9999}, "no token has the number 9999"),
        (BEGINS | {"tokenizer.ggml.bos_token_id": [0, 1]}, "no token has the number [0, 1]"),
        ({"llama.feed_forward_length": 64}, "has shape (48, 32); config.json expects (64, 32)"),
    ],
)
def test_what_cannot_be_imported_is_refused(tmp_path: Path, metadata: Any, said: str) -> None:
    path, _ = model_file(tmp_path / "model.gguf", **metadata)
    with pytest.raises(GlassformerError) as caught:
        glassformer.load(path)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["blk.0.weight", "blk.weight", "blk", "blk.x.y.z"])
def test_a_tensor_with_an_unknown_name_is_refused(tmp_path: Path, name: str) -> None:
    path, _ = model_file(tmp_path / "model.gguf")
    content = path.read_bytes()
    known = string("blk.0.attn_norm.weight")
    assert content.count(known) == 1
    (tmp_path / "other.gguf").write_bytes(  # of the same length, so that nothing else moves
        content.replace(known, string(name.ljust(len(known) - 8, "_")))
    )
    with pytest.raises(GlassformerError, match=r"attn_norm|input_layernorm"):
        glassformer.load(tmp_path / "other.gguf")


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    path, _ = model_file(tmp_path / "model.gguf")
    content = path.read_bytes()
    for size in (4, 10, 30, 400, len(content) // 2, len(content) - 40):
        path.write_bytes(content[:size])
        with pytest.raises(GlassformerError, match="damaged or truncated"):
            glassformer.load(path)


@pytest.mark.parametrize(
    "content",
    [
        b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**60) + b"key",
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("k") + struct.pack("<IIQ", 9, 4, 2**58),
        b"GGUF"
        + struct.pack("<IQQ", 3, 1, 0)
        + string("x")
        + struct.pack("<IQQIQ", 2, 2**20, 2**20, 0, 0),
    ],
)
def test_lengths_that_do_not_fit_are_refused_before_allocating(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(GlassformerError, match="damaged or truncated"):
        GGUFFile(tmp_path / "x.gguf")


def a_tensor(name: str, *shape: int, kind: int = 0, offset: int = 0) -> bytes:
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return string(name) + sizes + struct.pack("<IQ", kind, offset)


def a_file(*tensors: bytes, keys: bytes = b"", number: int = 0, data: bytes = b"") -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), number) + keys + b"".join(tensors)
    return head + b"\0" * (-len(head) % 32) + data


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (a_file(a_tensor("x", 2**63, 2**63)), "needs"),
        (a_file(a_tensor("x", 4, offset=2**63), data=b"\0" * 64), "needs"),
        (a_file(a_tensor("x", 0), data=b"\0" * 64), "no whole blocks"),
        (a_file(a_tensor("x", 33, kind=8), data=b"\0" * 128), "no whole blocks"),
        (a_file(a_tensor("x", 32, kind=12), data=b"\0" * 256), "no whole blocks"),
        (a_file(a_tensor("x", 4), a_tensor("y", 4), data=b"\0" * 64), "same place"),
        (a_file(a_tensor("x", 4), a_tensor("x", 4, offset=32), data=b"\0" * 64), "twice"),
        (a_file(a_tensor("x", 1, 1, 1, 1, 1), data=b"\0" * 64), "5 dimensions"),
        (a_file(keys=(string("k") + value(1)) * 2, number=2), "the key 'k' twice"),
        (a_file(keys=string("general.alignment") + value(0), number=1), "alignment is 0"),
        (
            a_file(keys=string("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9, number=1)
            + b"\0" * 64,
            "unknown type 9",  # arrays within arrays without end
        ),
    ],
)
def test_hostile_headers_are_refused_in_one_sentence(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(GlassformerError, match="damaged or truncated") as caught:
        GGUFFile(tmp_path / "x.gguf")
    assert said in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, bad: float) -> None:
    array = np.array([[1.0, bad]], np.float32)
    file = GGUFFile(written(tmp_path / "x.gguf", {"a": 1}, {"x": (array, "F32")}))
    with pytest.raises(GlassformerError, match="x has values that are not finite"):
        list(file.read(["x"]))


def test_two_thousand_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    path, _ = model_file(tmp_path / "model.gguf")
    content = path.read_bytes()
    random = np.random.default_rng(0)
    head = content.index(b"blk.1.ffn_norm") + 100  # where most of the damage is done
    numbers = [2**63, 2**64 - 1, 2**40, 2**31, 2**20, 0, 255, 9]
    said = []
    for trial in range(2000):
        damaged = bytearray(content)
        for _ in range(random.integers(1, 4)):
            place = int(random.integers(4, head))
            if random.random() < 0.5:
                damaged[place] = random.integers(256)
            else:
                damaged[place : place + 8] = struct.pack(
                    "<Q", numbers[random.integers(len(numbers))]
                )
        if random.random() < 0.2:
            damaged = damaged[: random.integers(len(damaged))]
        path.write_bytes(damaged)
        try:
            if trial % 40:
                file = GGUFFile(path)
                assert sum(tensor.numel() for _, tensor in file.read([*file.tensors])) < 10**6
            else:
                read_gguf(path)
        except GlassformerError as error:
            said.append(str(error))
    assert 500 < len(said) < 2000
    assert not any("\n" in each for each in said)
