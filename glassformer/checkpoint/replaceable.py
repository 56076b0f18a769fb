"""Which folders a model may be written to: those whose loss nobody would regret."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from glassformer.checkpoint.missing_folder import CONFIG
from glassformer.checkpoint.model_folder import file_names
from glassformer.checkpoint.run_record import is_run
from glassformer.errors import GlassformerError, UsageError

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
