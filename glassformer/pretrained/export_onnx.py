"""Writing a model as ONNX graphs, which onnxruntime and other runtimes run without torch."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.atomic_files import write_file, write_json
from glassformer.checkpoint.model_folder import Saved
from glassformer.errors import GlassformerError, require
from glassformer.pretrained.differences import refuse_if_wrong, size
from glassformer.pretrained.exported_inputs import write_inputs
from glassformer.pretrained.model_cards import card, code
from glassformer.pretrained.onnx_graphs import Graph, OnnxModel, onnx_model
from glassformer.pretrained.onnx_usage import usage
from glassformer.wording import an, cause

CONFIG = "config.json"
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
LARGEST = 2**30  # bytes of weights in one file: a protocol buffer has at most 2**31


def write_onnx(saved: Saved, folder: Path, rest: str) -> tuple[str, list[str]]:
    """Write the graphs of a model. Returns their names, and no notes."""
    require(*PACKAGES, problem=f"ONNX is written and compared with {', '.join(PACKAGES)}.")
    model = _model(saved)
    write_json(folder / CONFIG, write_inputs(folder, saved))
    graphs = model.graphs()
    for graph in graphs:
        _write(graph, folder / graph.file)
    about = f"{an(saved.name, 'A')} as ONNX"
    text = "\n\n".join([code(usage(saved)), *map(_table, graphs)])
    write_file(folder / "README.md", card(saved.name, about, text, rest))
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
        differences = [(size(one - other), size(one)) for one, other in pairs]
    most, largest = map(max, zip(*differences, strict=True))
    return refuse_if_wrong({f"onnxruntime {onnxruntime.__version__}": most}, largest)


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
    weights = sum(each.numel() * each.element_size() for each in graph.module.parameters())
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
