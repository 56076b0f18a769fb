"""Model folders that somebody else made, with bad intent. Each is refused with a sentence, nothing
in it runs, and no memory is taken for what it only claims to hold."""

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from glassformer.checkpoint.model_folder import load_model, save_model
from glassformer.errors import GlassformerError
from glassformer.models.gpt import GPT
from glassformer.preprocessing.text import TextPreprocessing

Make = Callable[..., GPT]


class Payload:
    """Unpickling this leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def safetensors(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def zipped(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def tensor(shape: list[int], offsets: list[int], dtype: str = "F32") -> dict[str, Any]:
    return {"embedding.weight": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


TERABYTE = 2**40
FILES = ["model.safetensors", "config.json", "tokenizer.json", "preprocessor_config.json"]

WEIGHTS: dict[str, bytes] = {
    "a zip, as torch.save writes it": zipped("archive/data.pkl", pickle.dumps({"a": 1})),
    "a zip with a path out of it": zipped("../../../evil.py", b"print('evil')"),
    "a script": b"#!/bin/sh\ntouch evil\n",
    "an empty file": b"",
    "less than a header": b"\x08\x00\x00",
    "a header of a terabyte": struct.pack("<Q", TERABYTE) + b"{}",
    "a header of the largest number": struct.pack("<Q", 2**64 - 1) + b"{}",
    "a header that is no JSON": safetensors(b"{]"),
    "a header that is a list": safetensors([]),
    "a header nested without end": safetensors(b"[" * 100_000),
    "a header that is not UTF-8": safetensors(b'{"\xff": 1}'),
    "a tensor of a terabyte": safetensors(tensor([TERABYTE // 4], [0, TERABYTE])),
    "a tensor of more than there is": safetensors(tensor([2**62, 4], [0, 8]), bytes(8)),
    "a tensor that ends before it begins": safetensors(tensor([2], [8, 0]), bytes(8)),
    "a tensor beyond the file": safetensors(tensor([2], [100, 108]), bytes(8)),
    "a tensor of negative size": safetensors(tensor([-2], [0, 8]), bytes(8)),
    "a tensor of an unknown type": safetensors(tensor([2], [0, 8], "PICKLE"), bytes(8)),
    "two tensors in one place": safetensors(
        tensor([2], [0, 8]) | {"b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
        bytes(8),
    ),
    "nothing but metadata": safetensors({"__metadata__": {"sha256": "0"}}),
}

CONFIGS: dict[str, dict[str, Any]] = {
    "names a module to import": {"auto_map": {"AutoModel": "evil--model.Evil"}},
    "names a class": {"architectures": ["os.system"]},
    "names a type by its path": {"model_type": "glassformer.models.gpt.GPT"},
    "names a file as type": {"model_type": "../../evil"},
    "asks for remote code": {"trust_remote_code": True},
    "has a registered object": {"registered_name": "builtins>eval", "class_name": "Lambda"},
    "wants a million layers": {"num_layers": 10**6},
    "wants a terabyte of embeddings": {"vocab_size": TERABYTE},
    "wants more than its file has": {"vocab_size": 2**24, "d_model": 2**17},
    "is infinite": {"norm_eps": float("inf")},
    "has code for a number": {"d_model": "__import__('os').system('true')"},
}


PREPROCESSING: dict[str, dict[str, Any]] = {
    "names a class": {"kind": "glassformer.preprocessing.Preprocessing"},
    "names a file as kind": {"kind": "../../evil"},
    "has a list as kind": {"kind": ["text"]},
    "is of another model": {"kind": "masked_text"},
    "names a module to import": {"auto_map": {"AutoProcessor": "evil--model.Evil"}},
    "brings a tokenizer along": {"tokenizer": {"model": "evil"}, "target_tokenizer": "/etc/passwd"},
    "asks for remote code": {"trust_remote_code": True},
    "has code for a column": {"text_column": [{"__reduce__": "os.system"}]},
    "is nested": {"label_column": [[[[["label"]]]]]},
}


@pytest.fixture
def folder(tmp_path: Path, gpt: Make, preprocessing: TextPreprocessing) -> Path:
    save_model(tmp_path / "model", gpt(), preprocessing)
    return tmp_path / "model"


def refusal(folder: Path) -> str:
    with pytest.raises(GlassformerError) as error:
        load_model(folder)
    assert str(error.value).endswith((".", "?"))
    return str(error.value)


@pytest.mark.parametrize("content", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_weights_that_are_none(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    assert "model.safetensors" in refusal(folder)


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_config_with_ideas_of_its_own(folder: Path, changes: dict[str, Any]) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize("changes", PREPROCESSING.values(), ids=PREPROCESSING.keys())
@pytest.mark.parametrize("is_checksummed", [True, False])
def test_preprocessing_with_ideas_of_its_own(
    folder: Path, changes: dict[str, Any], is_checksummed: bool
) -> None:
    if not is_checksummed:  # as another tool writes it
        weights = load_file(folder / "model.safetensors")
        save_file(weights, folder / "model.safetensors")
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert "preprocessor_config.json" in refusal(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_is_never_opened(folder: Path, tmp_path: Path, name: str, protocol: int) -> None:
    mark = tmp_path / "it-ran"
    (folder / name).write_bytes(pickle.dumps(Payload(mark), protocol))
    assert name in refusal(folder)
    assert not mark.exists()


def test_other_files_of_weights_are_not_even_looked_at(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "it-ran"
    for name in ("pytorch_model.bin", "model.pt", "training_args.bin", "modeling_gpt.py"):
        (folder / name).write_bytes(pickle.dumps(Payload(mark)))
    index = {"weight_map": {"embedding.weight": "../../../../etc/passwd"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    assert "model.safetensors does not exist" in refusal(folder)
    assert not mark.exists()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "/etc", "/nowhere", "itself"])
def test_a_link_to_what_is_no_file(folder: Path, name: str, target: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to(name if target == "itself" else target)
    refusal(folder)


@pytest.mark.parametrize("name", ["model.safetensors", *FILES[2:]])
def test_a_link_to_somebody_elses_file_tells_nothing_of_it(
    folder: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "secret").write_text("the password is swordfish")
    (folder / name).unlink()
    (folder / name).symlink_to(tmp_path / "secret")
    assert "swordfish" not in refusal(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_that_nobody_writes_to(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refusal(folder)


@pytest.mark.parametrize("name", FILES[1:])
def test_a_file_too_large_to_be_true(folder: Path, name: str) -> None:
    with (folder / name).open("r+b") as file:
        file.truncate(2**33)  # a hole: it takes no room on the disk
    assert "too large" in refusal(folder)
