"""Writing a model as ONNX graphs, which onnxruntime and other runtimes run without torch.

    decoder      input_ids, attention_mask, past_key_values.0.key …  →  logits, present.0.key …
    encoder      input_ids, attention_mask                           →  logits
    images       pixel_values                                        →  logits
    translator   input_ids, attention_mask          →  memory.0.key, memory.0.value …
                 input_ids, encoder_attention_mask, memory.0.key …, past_key_values.0.key …
                                                    →  logits, present.0.key …

A graph is traced from the model itself: plain tensors in, plain tensors out, and no state in
between. A cache is a tensor of each layer that a call takes and returns longer; the first call
passes tensors of length 0. Where the path that runs depends on values, such as whether there is
padding, the model asks `torch.compiler.is_exporting()` and takes the general one.

Names are those of Hugging Face's tools. Texts of a decoder are padded on the left, those of an
encoder on the right.
"""

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoint.model_folder import CARD, Saved
from glassformer.checkpoint.model_names import CONFIG
from glassformer.errors import GlassformerError, require
from glassformer.files import write_file, write_json
from glassformer.formats import exporting
from glassformer.formats.exporting import MOST, known_text, program
from glassformer.formats.hugging_face import TOKENIZER
from glassformer.models.bert import Bert
from glassformer.models.captioner import Captioner
from glassformer.models.gpt import GPT
from glassformer.models.heads import Labeller, TokenTagger
from glassformer.models.image_gpt import ImageGPTProbe
from glassformer.models.sources import ImageClassifier
from glassformer.models.transformer import Transformer
from glassformer.nn.attention import KeysAndValues
from glassformer.nn.blocks import StackMemory
from glassformer.nn.cache import KVCache
from glassformer.preprocessing import images
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.wording import an, cause

# --- graphs ---

ROWS, NEW, PAST, SOURCE = 2, 3, 5, 7  # of the example with which a graph is traced
# Rows and lengths with which a graph is compared, none of which were used to trace it.
TRIED = ((1, 1), (3, 8), (4, 23))
Run = Callable[[str, Mapping[str, Tensor]], list[Tensor]]
"""Runs a graph by the name of its file."""
Axes = dict[int, str]


@dataclass(frozen=True)
class Graph:
    """What becomes one file."""

    file: str
    module: nn.Module
    inputs: dict[str, Tensor]
    """An example."""
    axes: list[Axes]
    """The dimensions of each input that are free, and their names."""
    outputs: list[str]


class _Function(nn.Module):
    """A function of tensors, as a module that holds its model."""

    def __init__(self, model: nn.Module, compute: Callable[..., Any]) -> None:
        super().__init__()
        self.model = model
        self.compute = compute

    def forward(self, *tensors: Tensor) -> Any:
        return self.compute(*tensors)


class GrowingCache(KVCache):
    """A cache that appends by making longer tensors, so that each call is a function."""

    def __init__(self, past: Sequence[Tensor], padding: Tensor) -> None:
        self.layers = list(zip(past[::2], past[1::2], strict=True))
        self.padding = padding
        self.length = past[0].size(2)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        before = self.layers[layer]
        keys, values = (torch.cat(pair, 2) for pair in zip(before, (key, value), strict=True))
        self.layers[layer] = keys, values
        return keys, values

    def present(self) -> list[Tensor]:
        return [tensor for layer in self.layers for tensor in layer]


class OnnxModel(ABC):
    """A model, the graphs that it consists of, and what they must compute."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = model.config

    @abstractmethod
    def graphs(self) -> list[Graph]: ...

    @abstractmethod
    def pairs(self, run: Run) -> Iterator[tuple[Tensor, Tensor]]:
        """What the model computes, and what the graphs do, on inputs of several sizes."""

    def _ids(self, *shape: int, target: bool = False) -> Tensor:
        vocab_size = getattr(self.config, "target_vocab_size", None) if target else None
        return torch.randint(0, vocab_size or self.config.vocab_size, shape, generator=_random())

    def _fits(self, length: int) -> int:
        return min(length, self.model.context_length or length)

    def _with_mask(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Rows of texts or series and a mask, after which only the first row is of full length."""
        rows, length = next(iter(values.values())).shape[:2]
        lengths = torch.linspace(length, 1, rows).round()[:, None]
        return values | {"attention_mask": (torch.arange(length) < lengths).long()}

    def _images(self, rows: int) -> dict[str, Tensor]:
        shape = (rows, self.config.channels, *self.config.size)
        return {"pixel_values": torch.randn(shape, generator=_random())}


# --- decoders ---


class Decoder(OnnxModel):
    """A language model with a cache."""

    model: GPT

    def graphs(self) -> list[Graph]:
        cache = _cache(self.config, ROWS, PAST, "past_key_values")
        mask = torch.ones(ROWS, PAST + NEW, dtype=torch.long)
        inputs = {"input_ids": self._ids(ROWS, NEW), "attention_mask": mask, **cache}
        axes = [{0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}, *_past(cache)]
        return [
            Graph("model.onnx", _Function(self.model, self._compute), inputs, axes, _written(cache))
        ]

    def _compute(self, ids: Tensor, mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        cache = GrowingCache(past, mask.size(1) - mask.sum(dim=1))
        return (self.model.head(self.model.hidden(ids, cache)), *cache.present())

    def pairs(self, run: Run) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, length in TRIED:
            length = self._fits(length)
            ids = self._ids(rows, length)
            expected = self.model(ids)
            for before in sorted({0, length // 2, length - 1}):
                yield expected, torch.cat(self._continued(run, ids, before), dim=1)
        padded = torch.cat([ids[:, :1], ids[:, :-1]], dim=1)  # one token of padding
        logits = self._continued(run, padded, 0, padding=1)[0]
        yield expected[:, : length - 1], logits[:, 1:]

    def _continued(self, run: Run, ids: Tensor, before: int, padding: int = 0) -> list[Tensor]:
        """The logits of the first `before` tokens, and of the rest after them."""
        cache = _cache(self.config, len(ids), 0, "past_key_values")
        parts = []
        for first, last in ((0, before), (before, ids.size(1))):
            if first == last:
                continue
            mask = (torch.arange(last) >= padding).long().expand(len(ids), last)
            inputs = {"input_ids": ids[:, first:last], "attention_mask": mask, **cache}
            logits, *present = run("model.onnx", inputs)
            cache = dict(zip(cache, present, strict=True))
            parts.append(logits)
        return parts


# --- one pass over a text, a series or an image ---


class OnePass(OnnxModel):
    """A model that reads a whole text at once."""

    is_image = False

    def graphs(self) -> list[Graph]:
        inputs = self._inputs(ROWS, self._fits(SOURCE))
        axes = [{0: "batch"} if self.is_image else {0: "batch", 1: "sequence"} for _ in inputs]
        function = _Function(self.model, self._compute)
        return [Graph("model.onnx", function, inputs, axes, self._outputs())]

    def _inputs(self, rows: int, length: int) -> dict[str, Tensor]:
        if getattr(self.config, "num_features", None) is None:
            return self._with_mask({"input_ids": self._ids(rows, length)})
        series = torch.randn(rows, length, self.config.num_features, generator=_random())
        return self._with_mask({"input_values": series})

    def _outputs(self) -> list[str]:
        return ["logits"]

    def _compute(self, *inputs: Tensor) -> Any:
        ids, mask = inputs
        return self.model(ids, mask.bool()) / self.model.temperature

    def pairs(self, run: Run) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, length in TRIED:
            inputs = self._inputs(rows, self._fits(length))
            expected = self._compute(*inputs.values())
            several = expected if isinstance(expected, tuple) else (expected,)
            for one, other in zip(several, run("model.onnx", inputs), strict=True):
                is_per_token = one.dim() == 3 and not self.is_image
                compared = inputs["attention_mask"].bool() if is_per_token else slice(None)
                yield one[compared], other[compared]


class Masked(OnePass):
    """A BERT: logits, or the states if it has no head, and the vector of each text."""

    def _outputs(self) -> list[str]:
        return ["logits" if self.config.has_head else "last_hidden_state", "sentence_embedding"]

    def _compute(self, *inputs: Tensor) -> Any:
        ids, mask = inputs
        states = self.model.hidden(ids, mask.bool())
        first = self.model.predict(states) if self.config.has_head else states
        return first, self.model.pooled(states, mask.bool())


class Images(OnePass):
    """A classifier of images."""

    is_image = True

    def _inputs(self, rows: int, length: int) -> dict[str, Tensor]:
        return self._images(rows)

    def _compute(self, *inputs: Tensor) -> Any:
        (pixels,) = inputs
        return self.model(pixels) / self.model.temperature


# --- an encoder, and a decoder that attends to it ---


class EncoderDecoder(OnnxModel):
    """Two graphs: one that reads the source, and one that writes with a cache."""

    is_image = False

    def graphs(self) -> list[Graph]:
        source = self._source(ROWS, self._fits(SOURCE))
        with torch.no_grad():
            states = self._encode(*source.values())
        memory = self._memory([torch.zeros(state.shape) for state in states])
        cache = _cache(self.config, ROWS, PAST, "past_key_values")
        mask = self._mask(source)
        inputs = {"input_ids": self._ids(ROWS, NEW, target=True), **mask, **memory, **cache}
        axes = [
            {0: "batch", 1: "sequence"},
            *({0: "batch", 1: "source"} for _ in mask),
            *({0: "batch", 2: "source"} if mask else {0: "batch"} for _ in memory),
            *_past(cache),
        ]
        reads = _Function(self.model, self._encode)
        writes = _Function(self.model, self._decode)
        read_axes: list[Axes] = [
            {0: "batch"} if self.is_image else {0: "batch", 1: "source"} for _ in source
        ]
        return [
            Graph("encoder.onnx", reads, source, read_axes, [*memory]),
            Graph("decoder.onnx", writes, inputs, axes, _written(cache)),
        ]

    def _source(self, rows: int, length: int) -> dict[str, Tensor]:
        return self._with_mask({"input_ids": self._ids(rows, length)})

    def _mask(self, source: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {} if self.is_image else {"encoder_attention_mask": source["attention_mask"]}

    def _memory(self, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
        return dict(zip(_names(self.config, "memory"), tensors, strict=True))

    def _encode(self, source: Tensor, *mask: Tensor) -> list[Tensor]:
        memory = self.model.encode(source, *(part.bool() for part in mask))
        return [tensor for layer in memory.layers for tensor in (layer.key, layer.value)]

    def _decode(self, ids: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        mask = None
        if not self.is_image:
            mask, rest = rest[0].bool()[:, None, None], rest[1:]
        half = len(rest) // 2
        remembered, past = rest[:half], rest[half:]
        layers = zip(remembered[::2], remembered[1::2], strict=True)
        memory = StackMemory([KeysAndValues(key, value, mask) for key, value in layers])
        cache = GrowingCache(past, torch.zeros(ids.size(0), dtype=torch.long))
        return (self.model.head(self.model.hidden(ids, memory, cache)), *cache.present())

    def pairs(self, run: Run) -> Iterator[tuple[Tensor, Tensor]]:
        for rows, length in TRIED:
            source = self._source(rows, self._fits(length + 2))
            target = self._ids(rows, self._fits(length), target=True)
            first, *mask = source.values()
            expected = self.model(first, target, *(part.bool() for part in mask))
            memory = self._memory(run("encoder.onnx", source))
            cache = _cache(self.config, rows, 0, "past_key_values")
            parts = []
            for part in target.split(max(1, target.size(1) // 2), dim=1):
                inputs = {"input_ids": part, **self._mask(source), **memory, **cache}
                logits, *present = run("decoder.onnx", inputs)
                cache = dict(zip(cache, present, strict=True))
                parts.append(logits)
            yield expected, torch.cat(parts, dim=1)


class Captions(EncoderDecoder):
    """The source is an image."""

    is_image = True

    def _source(self, rows: int, length: int) -> dict[str, Tensor]:
        return self._images(rows)


def _random() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _names(config: Any, name: str) -> list[str]:
    layers = range(config.num_layers)
    return [f"{name}.{layer}.{part}" for layer in layers for part in ("key", "value")]


def _cache(config: Any, rows: int, length: int, name: str) -> dict[str, Tensor]:
    """Keys and values of each layer: (B, G, S, d)."""
    shape = (rows, config.kv_heads, length, config.width_of_head)
    return {part: torch.zeros(shape) for part in _names(config, name)}


def _past(cache: Mapping[str, Tensor]) -> list[Axes]:
    return [{0: "batch", 2: "past"} for _ in cache]


def _written(cache: Mapping[str, Tensor]) -> list[str]:
    return ["logits", *(name.replace("past_key_values", "present") for name in cache)]


KINDS: tuple[tuple[type[nn.Module], type[OnnxModel] | None], ...] = (
    (ImageGPTProbe, None),  # which chooses its layer while it runs
    (GPT, Decoder),
    (Bert, Masked),
    (ImageClassifier, Images),
    (Labeller, OnePass),
    (Transformer, EncoderDecoder),
    (Captioner, Captions),
)


def onnx_model(model: nn.Module) -> OnnxModel | None:
    """None: it has recurrent layers, or is of another kind, and cannot be written."""
    if any(isinstance(module, nn.RNNBase | nn.RNNCellBase) for module in model.modules()):
        return None
    writer = next((writer for kind, writer in KINDS if isinstance(model, kind)), None)
    return None if writer is None else writer(model)


# --- writing the graphs, and comparing them ---

ONLY_BEGINNING = (
    "# Of a text that is too long, this reads the beginning; glassformer reads the beginning and "
    "the end."
)
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
LARGEST = 2**30  # bytes of weights in one file: a protocol buffer has at most 2**31


def write_onnx(saved: Saved, folder: Path, rest: str) -> tuple[str, list[str]]:
    """Write the graphs of a model. Returns their names, and no notes."""
    require(*PACKAGES, problem=f"ONNX is written and compared with {', '.join(PACKAGES)}.")
    model = _model(saved)
    write_json(folder / CONFIG, exporting.write_inputs(folder, saved))
    graphs = model.graphs()
    for graph in graphs:
        _write(graph, folder / graph.file)
    about = f"{an(saved.name, 'A')} as ONNX"
    text = "\n\n".join([exporting.code(usage(saved)), *map(_table, graphs)])
    write_file(folder / CARD, exporting.card(saved.name, about, text, rest))
    return f"{saved.name} in {' and '.join(graph.file for graph in graphs)}", []


def check_onnx(saved: Saved, folder: Path) -> dict[str, float]:
    """The largest difference in logits, and in vectors of texts, after loading the graphs."""
    import onnxruntime

    sessions: dict[str, Any] = {}

    def run(file: str, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        if file not in sessions:
            providers = ["CPUExecutionProvider"]
            sessions[file] = onnxruntime.InferenceSession(folder / file, providers=providers)
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        return [torch.from_numpy(array) for array in sessions[file].run(None, arrays)]

    with torch.no_grad():
        pairs = _model(saved).pairs(run)
        differences = [(exporting.size(one - other), exporting.size(one)) for one, other in pairs]
    most, largest = map(max, zip(*differences, strict=True))
    return exporting.refuse_if_wrong({f"onnxruntime {onnxruntime.__version__}": most}, largest)


def _model(saved: Saved) -> OnnxModel:
    graphs = onnx_model(saved.model.cpu().eval())
    if graphs is None:
        raise GlassformerError(
            f"{an(saved.name)} cannot be exported to ONNX, only Transformers and bags of words "
            "can. Use --format safetensors."
        )
    return graphs


def _write(graph: Graph, path: Path) -> None:
    examples = tuple(graph.inputs.values())
    weights = sum(x.numel() * x.element_size() for x in graph.module.parameters())
    try:
        with torch.no_grad():  # once as usual: tensors that are kept for later are no symbols then
            graph.module(*examples)
        with _quietly():
            program: Any = torch.onnx.export(
                graph.module,
                examples,
                dynamo=True,
                input_names=[*graph.inputs],
                output_names=graph.outputs,
                dynamic_shapes={"tensors": tuple(graph.axes)},
                verbose=False,
            )
            program.save(path, external_data=weights > LARGEST)
    except OSError:  # of the disk, with a name that says so
        raise
    except Exception as error:  # of many kinds
        raise GlassformerError(
            f"the model cannot be exported to ONNX: {cause(error).splitlines()[0]}. Use --format "
            "safetensors."
        ) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """The exporter warns about packages that are not needed, and about itself."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _table(graph: Graph) -> str:
    """Inputs and outputs; those of every layer in one row."""
    rows = []
    for (name, example), axes in zip(graph.inputs.items(), graph.axes, strict=True):
        shape = [axes.get(dim, str(size)) for dim, size in enumerate(example.shape)]
        rows.append((_every_layer(name), f"({', '.join(shape)})", str(example.dtype)[6:]))
    lines = [f"| {name} | {shape} | {kind} |" for name, shape, kind in dict.fromkeys(rows)]
    outputs = ", ".join(dict.fromkeys(map(_every_layer, graph.outputs)))
    head = f"`{graph.file}` computes {outputs} from:\n\n| input | shape | type |\n|---|---|---|\n"
    return head + "\n".join(lines)


def _every_layer(name: str) -> str:
    return ".".join("N" if part.isdigit() else part for part in name.split("."))


# --- a program for the model card, which runs in the folder of the graphs ---


def usage(saved: Saved) -> str:
    """Python code that runs in the folder of the graphs."""
    model: Any = saved.model
    preprocessing: Any = saved.preprocessing
    match preprocessing:
        case images.PalettePreprocessing():
            rows, columns = preprocessing.image_size
            values = _cache_shape(model) | {"rows": rows, "columns": columns}
            return program("onnx_paint", **values, start=preprocessing.start)
        case PairPreprocessing():
            values = _answer(model, preprocessing)
            values["text"] = known_text(preprocessing.source, "how are you")
            is_shared = preprocessing.target_tokenizer is None
            return program(
                "onnx_translate", **values, writer=TOKENIZER if is_shared else exporting.TARGET
            )
        case images.CaptionPreprocessing():
            return program(
                "onnx_caption", **_answer(model, preprocessing), **_pixels(preprocessing)
            )
        case images.ImagePreprocessing() if isinstance(model, ImageClassifier):
            return program("onnx_image", **_pixels(preprocessing))
        case SeriesPreprocessing():
            return program("onnx_series", features=preprocessing.width)
    tokenizer = preprocessing.tokenizer
    if isinstance(model, GPT):
        limit, text = model.context_length + 1, known_text(tokenizer, exporting.PROMPT)
        values = _cache_shape(model) | {"ends": list(preprocessing.ends), "limit": limit}
        return program("onnx_write", **values, text=text, most=MOST)
    first, second = known_text(tokenizer, "a short text"), known_text(tokenizer, "another one")
    if not isinstance(model, Bert):
        return _labels(model, [first, second])
    if model.config.has_head:
        mask = preprocessing.mask_name
        return program("onnx_fill", text=f"{first} {mask}", mask=mask)
    context = model.config.sentence_length or model.context_length
    return program("onnx_embed", texts=[first, second], context=context)


def _labels(model: Any, texts: list[str]) -> str:
    cut = "tokenizer.no_truncation()"
    if model.context_length is not None:
        cut = f"tokenizer.enable_truncation({model.context_length})"
    if isinstance(model, TokenTagger):
        return program("onnx_tag", {"cut": cut}, texts=texts)
    if model.context_length is not None:
        cut = f"{ONLY_BEGINNING}\n{cut}"
    kind = "onnx_labels" if model.config.multi_label else "onnx_label"
    return program(kind, {"cut": cut}, texts=texts)


def _cache_shape(model: Any) -> dict[str, Any]:
    """The shape of the keys and values of a position."""
    return {"heads": model.config.kv_heads, "width": model.config.width_of_head}


def _answer(model: Any, preprocessing: Any) -> dict[str, Any]:
    """What a text that answers a memory begins and ends with, and how long it may be."""
    limit, ends = min(MOST, model.context_length) + 1, [preprocessing.end]
    return _cache_shape(model) | {"start": preprocessing.start, "ends": ends, "limit": limit}


def _pixels(preprocessing: images.ImagePreprocessing) -> dict[str, Any]:
    rows, columns = preprocessing.image_size
    return {
        "mode": "L" if preprocessing.num_channels == 1 else "RGB",
        "rows": rows,
        "columns": columns,
        "channels": preprocessing.num_channels,
        "mean": list(preprocessing.image_mean),
        "std": list(preprocessing.image_std),
    }
