"""Training state: any nesting of dicts, lists, numbers and tensors as safetensors and JSON.

Tensors go to `state.safetensors`, each only once; everything else goes to `state.json`, which names
tensors by their number.
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from glassformer.atomic_files import check_folder, new_folder
from glassformer.errors import GlassformerError

TENSORS = "state.safetensors"
VALUES = "state.json"
Tensors = dict[tuple[Any, ...], tuple[int, Tensor]]  # what identifies it → its number, itself


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Write `state` to `folder`, whole or not at all."""
    tensors: Tensors = {}
    values = _pack(state, tensors)
    numbered = {str(number): tensor for number, tensor in tensors.values()}
    with new_folder(folder) as partial:
        (partial / TENSORS).write_bytes(save(numbered))
        (partial / VALUES).write_text(json.dumps(values))


def load_state(folder: Path) -> dict[str, Any]:
    """The state as it was saved, bit for bit; an error if anything in the folder has changed."""
    check_folder(folder, cure=f"Delete {folder} to continue from an earlier checkpoint.")
    return _load(folder, with_tensors=True)


def load_values(folder: Path) -> dict[str, Any]:
    """A state that is known to be undamaged, with tensors that have a shape and no content."""
    return _load(folder, with_tensors=False)


def _load(folder: Path, with_tensors: bool) -> dict[str, Any]:
    try:
        found = load_file(folder / TENSORS).items()
        # Copies: on Windows, a mapped file cannot be deleted, as states are.
        tensors = {name: each.clone() if with_tensors else each.to("meta") for name, each in found}
        state = _unpack(json.loads((folder / VALUES).read_text()), tensors)
        if isinstance(state, dict):
            return state
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError):
        pass
    raise GlassformerError(f"{folder} is damaged: it does not contain the state of a training.")


def _pack(value: Any, tensors: Tensors) -> Any:
    """JSON for `value`. Types that JSON does not have become objects of one key."""
    match value:
        case Tensor():
            # Tied weights are one piece of memory: stored once, and shared again after loading.
            memory = (value.data_ptr(), value.dtype, value.shape, value.stride())
            plain = value.detach().cpu().contiguous()
            return {"tensor": tensors.setdefault(memory, (len(tensors), plain))[0]}
        case dict():
            return {"dict": [[_pack(k, tensors), _pack(v, tensors)] for k, v in value.items()]}
        case tuple():
            return {"tuple": [_pack(item, tensors) for item in value]}
        case list():
            return [_pack(item, tensors) for item in value]
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"a {type(value).__name__} cannot be part of a training state")


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    match value:
        case {"tensor": number}:
            return tensors[str(number)]
        case {"dict": items}:
            return {_unpack(k, tensors): _unpack(v, tensors) for k, v in items}
        case {"tuple": items}:
            return tuple(_unpack(item, tensors) for item in items)
        case list():
            return [_unpack(item, tensors) for item in value]
    return value
