"""What a run recorded while it learned: the curves in metrics.csv, the texts in samples.txt."""

import math
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from torch import nn

from glassformer.checkpoint.missing_folder import CONFIG
from glassformer.checkpoint.model_folder import file_names, load_model, weights_file
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import write_file

# --- run record ---

METRICS, SAMPLES = "metrics.csv", "samples.txt"  # in a run's folder
HEADING = re.compile(r"--- step (\d+) ---\n")
STEP = re.compile(r"[0-9]{1,18}")
NUMBER = re.compile(r"(-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|-?inf|nan)?")  # or nothing


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a training, and not only of a model."""
    return (folder / "recipe.yaml").is_file()


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The complete rows: a kill may have cut the last one short."""
    return rows_of(path)[0]


def rows_of(path: Path, expected: Sequence[str] = ()) -> tuple[list[dict[str, str]], int]:
    """The complete rows, and the number of lines that are damaged; `expected` are the columns that
    may have a place in a row."""
    if not path.is_file():
        return [], 0
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header, *lines = [line[:-1] for line in file if line.endswith("\n")] or [""]
    columns = header.split(",")
    is_known = "step" in columns and set(columns) <= set(expected or columns)
    cells = [line.split(",") for line in lines]
    whole = [row for row in cells if is_known and len(row) == len(columns)]
    rows = [dict(zip(columns, row, strict=True)) for row in whole]
    rows = [row for row in rows if all(NUMBER.fullmatch(value) for value in row.values())]
    rows = [row for row in rows if STEP.fullmatch(row["step"])]
    return rows, len(lines) - len(rows)


def read_samples(folder: Path) -> list[tuple[int, str]]:
    """The samples of a run: (step, text)."""
    path = folder / SAMPLES
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        _, *parts = HEADING.split(file.read())
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [(int(step), text.removesuffix("\n")) for step, text in pairs]


def curves_of(rows: Sequence[dict[str, str]]) -> dict[str, list[float | None]]:
    """The rows as columns of numbers; columns without any are left out."""
    names = list(rows[0]) if rows else []
    curves = {name: [_number(row[name]) for row in rows] for name in names}
    return {name: values for name, values in curves.items() if any(v is not None for v in values)}


def _number(text: str) -> float | None:
    """A value of metrics.csv; None for a gap, and for what no chart can show."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# --- snapshots ---
# Snapshots: the weights of a model at a few steps of its training, to look at how it learned.
#
#     snapshots/step-0.safetensors       before the first step
#     snapshots/step-1.safetensors …     after some of the others
#
# They contain nothing but weights: training continues from checkpoints, never from these.

SNAPSHOTS = "snapshots"  # in a run's folder
NAME = re.compile(r"step-(\d+)\.safetensors")


def save_snapshot(run: Path, step: int, model: nn.Module) -> None:
    """Write the weights of a model, whole or not at all."""
    write_file(run / SNAPSHOTS / f"step-{step}.safetensors", weights_file(model))


def snapshots_of(run: Path) -> list[tuple[int, Path]]:
    """(step, file), oldest first."""
    folder = run / SNAPSHOTS
    files = folder.iterdir() if folder.is_dir() else ()
    matches = [(NAME.fullmatch(file.name), file) for file in files]
    return sorted((int(match[1]), file) for match, file in matches if match)


def forget_snapshots(run: Path, after: int) -> None:
    """Delete the snapshots of later steps, and what a kill has left half-written."""
    for step, file in snapshots_of(run):
        if step > after:
            file.unlink()
    for left_by_a_kill in (run / SNAPSHOTS).glob(".step-*"):
        left_by_a_kill.unlink()


def load_snapshot(run: Path, file: Path) -> nn.Module:
    """The model of a run with the weights of a snapshot."""
    try:
        return load_model(run, file).model
    except GlassformerError as error:
        raise GlassformerError(
            f"{error} Or delete it: the other snapshots are shown without it."
        ) from None


# --- replaceable ---
# Which folders a model may be written to: those whose loss nobody would regret.

# What our folders and those of Hugging Face, onnxruntime, CTranslate2, llama.cpp and peft hold. A
# name that is missing here costs another --out; one too many could cost somebody's file.
FILES = (
    *("README.md", "LICENSE*", ".gitattributes", ".DS_Store"),
    *("config.json", "*_config.json", "config_*.json", "modules.json", "chat_template.*"),
    *("model.safetensors", "model-*.safetensors", "adapter_model.safetensors", "*.index.json"),
    *("model.bin", "model.gguf", "adapter_model.bin", "pytorch_model*.bin"),
    *("tf_model.h5", "flax_model.msgpack", "rust_model.ot"),
    *("encoder.onnx", "decoder.onnx", "*model*.onnx", "*model*.onnx_data", "*model*.onnx.data"),
    *("tokenizer.*", "vocab.*", "target_vocab.json", "merges.txt", "*vocabulary.*"),
    *("special_tokens_map.json", "added_tokens.json"),
    *("source.spm", "target.spm", "spiece.model", "sentencepiece.bpe.model"),
)
FOLDERS = ("[0-9]_*", "onnx")  # modules of sentence-transformers, such as 1_Pooling; graphs
SHOWN = 3


def check_replaceable(folder: Path, force: bool, *sources: Path, sign: str = CONFIG) -> None:
    """Refuse a folder to write a model to, unless it is empty or, with `force`, a model's alone,
    which is recognised by the file `sign`. What is read from `sources` is never replaced."""
    if folder.is_file():
        raise UsageError(f"{folder} is a file. Choose another --out.")
    for source in sources:
        check_kept(folder, source)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if is_run(folder):
        raise GlassformerError(f"{folder} contains a run. Choose another --out.")
    others = sorted(_others(folder))
    if others or not (folder / sign).is_file():
        names = others or sorted(each.name for each in folder.iterdir())
        shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        raise GlassformerError(f"{folder} contains other files ({shown}). Choose another --out.")
    if not force:
        raise GlassformerError(
            f"{folder} already contains a model. Use --force to replace it, or choose another "
            "--out."
        )


def _others(folder: Path) -> Iterator[str]:
    """The names in a folder that are not a model's."""
    names = (*FILES, *file_names())
    for entry in folder.iterdir():
        if not entry.is_dir():
            if not _matches(entry.name, names):
                yield entry.name
        elif not _matches(entry.name, FOLDERS):
            yield f"{entry.name}/"
        else:
            yield from (f"{entry.name}/{name}" for name in _others(entry))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_kept(folder: Path, source: Path) -> None:
    """Refuse a folder to replace, if what is read from `source` would go with it."""
    out = folder.resolve()
    # A link is lost with the folder around it, and what it leads to with the folder around that.
    for path in (source.resolve(), source.parent.resolve() / source.name):
        if path.is_relative_to(out):
            relation = "is" if path == out else "contains"
            raise UsageError(f"{folder} {relation} the source ({source}). Choose another --out.")
