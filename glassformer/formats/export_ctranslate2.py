"""Writing a model for CTranslate2, a fast engine for CPUs and GPUs: language models, translators
and encoders.

    model → its specification with our weights (`spec_of`) → its vocabulary (`Engine.register`)

The files are written from CTranslate2's own specifications, not through transformers, so that
models which no family of Hugging Face has can be exported, too.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.checkpoint.model_folder import CARD, Saved
from glassformer.errors import GlassformerError, require
from glassformer.files import write_file
from glassformer.formats import exporting
from glassformer.formats.exporting import MOST, known_text, program, size
from glassformer.formats.hugging_face import TOKENIZER
from glassformer.models.bert import Bert
from glassformer.models.gpt import GPT
from glassformer.models.transformer import Transformer
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Block, Stack
from glassformer.nn.positions import Positions, sinusoids
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import an

# --- specifications: its own names for the same tensors ---
#
# self_attention.linear[0]     query, key and value, one below the other
# self_attention.linear[1]     output
# attention.linear[0], [1]     query; key and value, one below the other    (cross-attention)
# ffn.linear_0, linear_1       up (with SwiGLU: gate, and linear_0_noact: up), down

ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "quick_gelu": "GELUSigmoid",
    "relu": "RELU",
    "silu": "SWISH",
    "swiglu": "SWISH",
}


def differences(config: Any) -> Iterator[str]:
    """What of a config CTranslate2 does not compute, in words."""
    if config.positions == "relative":
        yield "positions is relative"
    if config.final_norm and not config.pre_norm:
        yield "final_norm is true although pre_norm is false"
    if config.qk_norm and config.norm != "rms":
        yield f"qk_norm is true and norm is {config.norm} instead of rms"
    if (getattr(config, "d_embedding", None) or config.d_model) != config.d_model:
        yield f"d_embedding is {config.d_embedding} instead of d_model"
    stretch = getattr(config, "rotary_stretch", None)
    if stretch is not None and stretch.original_length is not None:
        yield "rotary_stretch has an original_length"


def spec_of(model: nn.Module) -> Any:
    """The specification of a model, with its weights."""
    from ctranslate2 import specs

    match model:
        case GPT():
            decoder = _decoder(model.config, with_encoder_attention=False)
            _fill_decoder(decoder, model, model.blocks, model.embedding, model.final_norm)
            return specs.TransformerDecoderModelSpec(decoder)
        case Bert():
            body = model.encoder
            encoder = _encoder(model.config, model.config.num_layers)
            _fill_stack(encoder, body.blocks, body.final_norm)
            tables = [body.embedding, *([] if body.segments is None else [body.segments])]
            for embedding, table in zip(encoder.embeddings, tables, strict=True):
                embedding.weight = _own(table.get_parameter("weight"))
            if model.config.embedding_norm:
                _fill_norm(encoder.layernorm_embedding, body.embedding_norm)
            encoder.scale_embeddings = False
            _fill_positions(encoder, model.config, body.positions)
            return specs.TransformerEncoderModelSpec(encoder)
        case Transformer():
            config = model.config
            encoder = _encoder(config, config.num_encoder_layers or config.num_layers)
            _fill_stack(encoder, model.encoder, model.encoder_norm)
            encoder.embeddings[0].weight = _own(model.embedding.weight)
            encoder.scale_embeddings = config.scale_embedding
            _fill_positions(encoder, config, model.positions)
            decoder = _decoder(config, with_encoder_attention=True)
            table = model.target_embedding
            _fill_decoder(decoder, model, model.decoder, table, model.decoder_norm)
            decoder.scale_embeddings = config.scale_embedding
            return specs.TransformerSpec(encoder, decoder)
    raise TypeError(type(model).__name__)


def _options(config: Any) -> dict[str, Any]:
    """What encoders and decoders have in common."""
    from ctranslate2.specs import attention_spec, common_spec

    options: dict[str, Any] = {
        "pre_norm": config.pre_norm,
        "no_final_norm": not config.final_norm,
        "activation": common_spec.Activation[ACTIVATIONS[config.activation]],
        "ffn_glu": config.activation == "swiglu",
        "rms_norm": config.norm == "rms",
        "head_dim": config.width_of_head,
        "qk_norm": config.qk_norm,
    }
    if config.kv_heads != config.num_heads:
        options["num_heads_kv"] = config.kv_heads
    if config.positions == "rotary":
        options |= {
            "rotary_dim": config.width_of_head,
            "rotary_interleave": False,
            "rotary_base": getattr(config, "rotary_base", 10000.0),
        }
        stretch = getattr(config, "rotary_stretch", None)
        if stretch is not None:
            options |= {
                "rotary_scaling_type": attention_spec.RotaryScalingType.Linear,
                "rotary_scaling_factor": stretch.factor,
            }
    return options


def _encoder(config: Any, num_layers: int) -> Any:
    from ctranslate2 import specs

    has_segments = bool(getattr(config, "num_segments", 0))
    return specs.TransformerEncoderSpec(
        num_layers,
        config.num_heads,
        layernorm_embedding=getattr(config, "embedding_norm", False),
        num_source_embeddings=2 if has_segments else 1,
        embeddings_merge=specs.common_spec.EmbeddingsMerge.ADD,
        **_options(config),
    )


def _decoder(config: Any, with_encoder_attention: bool) -> Any:
    from ctranslate2 import specs

    return specs.TransformerDecoderSpec(
        config.num_layers,
        config.num_heads,
        with_encoder_attention=with_encoder_attention,
        **_options(config),
    )


def _fill_decoder(
    spec: Any, model: Any, stack: Stack, table: nn.Embedding, final_norm: nn.Module
) -> None:
    _fill_stack(spec, stack, final_norm)
    spec.embeddings.weight = _own(table.weight)
    spec.scale_embeddings = False
    if hasattr(spec, "position_encodings"):
        _fill_positions(spec, model.config, model.positions)
    _fill_linear(spec.projection, model.head)


def _fill_stack(spec: Any, stack: Stack, final_norm: nn.Module) -> None:
    for layer, block in zip(spec.layer, stack, strict=True):
        _fill_block(layer, block)  # type: ignore[arg-type]
    if hasattr(spec, "layer_norm"):
        _fill_norm(spec.layer_norm, final_norm)


def _fill_block(spec: Any, block: Block) -> None:
    _fill_attention(spec.self_attention, block.attention)
    _fill_norm(spec.self_attention.layer_norm, block.attention_norm)
    if block.cross_attention is not None:
        _fill_attention(spec.attention, block.cross_attention)
        _fill_norm(spec.attention.layer_norm, block.cross_attention_norm)
    hidden = block.feedforward
    _fill_linear(spec.ffn.linear_0, hidden.up if hidden.gate is None else hidden.gate)
    if hidden.gate is not None:
        _fill_linear(spec.ffn.linear_0_noact, hidden.up)
    _fill_linear(spec.ffn.linear_1, hidden.down)
    _fill_norm(spec.ffn.layer_norm, block.feedforward_norm)


def _fill_attention(spec: Any, attention: MultiHeadAttention) -> None:
    query, key, value = attention.query, attention.key, attention.value
    if len(spec.linear) == 2:  # self-attention
        _fill_linear(spec.linear[0], query, key, value)
    else:
        _fill_linear(spec.linear[0], query)
        _fill_linear(spec.linear[1], key, value)
    _fill_linear(spec.linear[-1], attention.output)
    if hasattr(spec, "q_norm"):
        _fill_norm(spec.q_norm, attention.query_norm)
        _fill_norm(spec.k_norm, attention.key_norm)


def _fill_linear(spec: Any, *layers: nn.Linear) -> None:
    """Layers with the same input become one, their outputs one after the other."""
    spec.weight = _own(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        spec.bias = _own(torch.cat([layer.bias for layer in layers]))


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _own(norm.weight)
    if hasattr(spec, "beta"):
        bias = getattr(norm, "bias", None)
        spec.beta = _own(torch.zeros_like(norm.weight) if bias is None else bias)


def _fill_positions(spec: Any, config: Any, positions: Positions) -> None:
    """What is added to the embeddings, as a table; zeros if nothing is."""
    table = torch.zeros(config.context_length, config.d_model)
    if config.positions == "learned":
        table = positions.get_parameter("table.weight")
    elif config.positions == "sinusoidal":
        table = sinusoids(torch.arange(config.context_length), config.d_model)
    spec.position_encodings.encodings = _own(table)


def _own(tensor: Tensor) -> Any:
    return tensor.detach().cpu().float().contiguous().numpy()


# --- engines: the classes of CTranslate2 that run them ---

SIGN = "model.bin"
LENGTHS = (1, 8, 23)  # of the texts that are compared


class Engine(ABC):
    """A class of CTranslate2 that runs a kind of model."""

    name: ClassVar[str]
    notes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, saved: Saved) -> None:
        self.model: Any = saved.model
        self.preprocessing: Any = saved.preprocessing

    @abstractmethod
    def register(self, spec: Any) -> None:
        """Add the vocabulary and the special tokens to a specification."""

    @abstractmethod
    def difference(self, engine: Any, length: int) -> tuple[float, float]:
        """The largest difference on a random text of this length, and the size of the logits."""

    @abstractmethod
    def usage(self) -> str:
        """Python code that runs in the folder."""

    def _register_vocabulary(self, spec: Any) -> list[str]:
        tokenizer = self.preprocessing.tokenizer
        tokens = pieces(tokenizer, self.model.config.vocab_size)
        spec.register_vocabulary(tokens)
        spec.config.unk_token = tokens[tokenizer.unknown or 0]
        return tokens

    def _ids(self, size: int, length: int) -> list[int]:
        random = torch.Generator().manual_seed(length)
        return torch.randint(0, size, (length,), generator=random).tolist()


class Generator(Engine):
    name = "Generator"

    def register(self, spec: Any) -> None:
        tokens = self._register_vocabulary(spec)
        tokenizer = self.preprocessing.tokenizer
        end = tokenizer.end_of_text
        first = (*tokenizer.begins_with, end)[0]
        spec.config.bos_token = tokens[0 if first is None else first]
        spec.config.eos_token = tokens[0 if end is None else end]

    def difference(self, engine: Any, length: int) -> tuple[float, float]:
        ids = self._ids(self.model.config.vocab_size, length)
        theirs = torch.from_numpy(np.array(engine.forward_batch([ids])))
        logits = self.model(torch.tensor([ids]))
        return size(logits - theirs), size(logits)

    def usage(self) -> str:
        ends = [self.preprocessing.tokenizer.piece(id) for id in self.preprocessing.ends]
        limit = min(MOST, self.model.context_length // 2)
        text = known_text(self.preprocessing.tokenizer, exporting.PROMPT)
        return program("ctranslate2_generator", text=text, limit=limit, ends=ends)


class Translator(Engine):
    name = "Translator"

    def register(self, spec: Any) -> None:
        source, target = self._vocabularies()
        spec.register_source_vocabulary(source)
        spec.register_target_vocabulary(target)
        spec.config.decoder_start_token = target[self.preprocessing.start]
        spec.config.eos_token = target[self.preprocessing.end]
        spec.config.bos_token = target[self.preprocessing.start]
        spec.config.unk_token = target[self.preprocessing.target.unknown or 0]

    def _vocabularies(self) -> tuple[list[str], list[str]]:
        config = self.model.config
        source = pieces(self.preprocessing.source, config.vocab_size)
        target_size = config.target_vocab_size or config.vocab_size
        return source, pieces(self.preprocessing.target, target_size)

    def difference(self, engine: Any, length: int) -> tuple[float, float]:
        """In log-probabilities of the tokens of a translation, which is all that it gives."""
        source, target = self._vocabularies()
        length = min(length, self.model.context_length - 1)
        ids = self._ids(len(source), length)
        written = [id for id in self._ids(len(target), length) if id != self.preprocessing.end]
        (scored,) = engine.score_batch(
            [[source[id] for id in ids]], [[target[id] for id in written]]
        )
        read = torch.tensor([[self.preprocessing.start, *written]])
        logits = self.model(torch.tensor([ids]), read)[0]  # (T + 1, V)
        wanted = torch.tensor([*written, self.preprocessing.end])
        expected = logits.log_softmax(dim=-1).gather(1, wanted[:, None])[:, 0]  # (T + 1,)
        return size(expected - torch.tensor(scored.log_probs)), size(logits)

    def usage(self) -> str:
        never = [self.preprocessing.target.piece(id) for id in self.preprocessing.forbidden]
        return program(
            "ctranslate2_translator",
            text=known_text(self.preprocessing.source, "how are you"),
            writer=TOKENIZER if self.preprocessing.target_tokenizer is None else exporting.TARGET,
            limit=min(MOST, self.model.context_length - 1),
            never=[never] if never else None,
        )


class Encoder(Engine):
    name = "Encoder"
    notes = (
        "CTranslate2 computes the states of the encoder, without an output layer and without "
        "pooling",
    )

    def register(self, spec: Any) -> None:
        self._register_vocabulary(spec)

    def difference(self, engine: Any, length: int) -> tuple[float, float]:
        vocab_size = self.model.config.vocab_size
        rows = [self._ids(vocab_size, n) for n in (length, max(1, length // 2))]
        states = np.array(engine.forward_batch(rows).last_hidden_state)
        most = largest = 0.0
        for ids, theirs in zip(rows, states, strict=True):
            expected = self.model.hidden(torch.tensor([ids]))[0]
            most = max(most, size(expected - torch.from_numpy(theirs[: len(ids)])))
            largest = max(largest, size(expected))
        return most, largest

    def usage(self) -> str:
        text = known_text(self.preprocessing.tokenizer, "a short text")
        return program("ctranslate2_encoder", text=text)


ENGINES: dict[str, type[Engine]] = {"gpt": Generator, "translator": Translator, "bert": Encoder}


def write_ctranslate2(saved: Saved, folder: Path, rest: str) -> tuple[str, list[str]]:
    """Write the model. Returns what it is for CTranslate2, and notes."""
    require("ctranslate2", problem="CTranslate2's files are written by ctranslate2.")
    engine = _engine(saved)
    spec = spec_of(saved.model)
    exporting.write_inputs(folder, saved)
    engine.register(spec)
    config: Any = saved.model.config
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(folder))
    about = f"{an(saved.name, 'A')} for CTranslate2"
    usage = exporting.code(engine.usage())
    write_file(folder / CARD, exporting.card(saved.name, about, usage, rest))
    return f"{saved.name} for ctranslate2.{engine.name}", list(engine.notes)


def check_ctranslate2(saved: Saved, folder: Path) -> dict[str, float]:
    """The largest difference in logits, log-probabilities or states after loading it again."""
    import ctranslate2

    kind = _engine(saved)
    engine = getattr(ctranslate2, kind.name)(str(folder), device="cpu", compute_type="float32")
    context = kind.model.context_length
    with torch.no_grad():
        differences = [kind.difference(engine, min(length, context)) for length in LENGTHS]
    most, largest = map(max, zip(*differences, strict=True))
    return exporting.refuse_if_wrong({f"ctranslate2 {ctranslate2.__version__}": most}, largest)


def _engine(saved: Saved) -> Engine:
    if saved.name not in ENGINES:
        raise GlassformerError(
            f"{an(saved.name)} cannot be exported to CTranslate2, which runs {', '.join(ENGINES)}. "
            "Use --format onnx or safetensors."
        )
    if differs := [*differences(saved.model.config)]:
        raise GlassformerError(
            f"this {saved.name} cannot be exported to CTranslate2: {'; '.join(differs)}. Use "
            "--format onnx."
        )
    return ENGINES[saved.name](saved)


def pieces(tokenizer: Tokenizer, vocab_size: int) -> list[str]:
    """The entries of a vocabulary, with a name for each id that has none."""
    entries = enumerate(tokenizer.piece(id) for id in range(vocab_size))
    return [f"<unused {id}>" if piece is None else piece for id, piece in entries]
