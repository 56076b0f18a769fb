"""Training state: any nesting of dicts, lists, numbers and tensors as safetensors and JSON.

Tensors go to `state.safetensors`, each only once, and to further files when that one is full;
everything else goes to `state.json`, which names tensors by their number. Tensors that several
processes have divided are put together one after the other, so that no process ever needs the
memory for all of them.
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.files import check_folder, new_folder
from glassformer.machine.processes import is_divided, whole

TENSORS = "state.safetensors"
VALUES = "state.json"
LARGEST = 2**31  # bytes of tensors in a file, unless one alone is larger


class _Tensors:
    """Numbers tensors, and writes them into a folder, if there is one."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._numbers: dict[Any, int] = {}
        self._waiting: dict[str, Tensor] = {}
        self._files = 0

    def number(self, tensor: Tensor) -> int:
        # Tied weights are one piece of memory: stored once, and shared again after loading. The
        # part of a divided tensor may be empty, which says nothing: it is known by itself.
        memory: Any = id(tensor)
        if not is_divided(tensor):
            memory = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if memory not in self._numbers:
            self._numbers[memory] = len(self._numbers)
            content = whole(tensor.detach())
            if self.folder is not None:
                self._keep(str(self._numbers[memory]), content.cpu().contiguous())
        return self._numbers[memory]

    def _keep(self, name: str, content: Tensor) -> None:
        size = sum(tensor.nbytes for tensor in self._waiting.values())
        if self._waiting and size + content.nbytes > LARGEST:
            self.write()
        self._waiting[name] = content

    def write(self) -> None:
        """What has not been written yet."""
        if self.folder is not None and (self._waiting or not self._files):
            self._files += 1
            name = TENSORS if self._files == 1 else f"state-{self._files}.safetensors"
            (self.folder / name).write_bytes(save(self._waiting))
            self._waiting = {}


def save_state(folder: Path, state: dict[str, Any], is_written: bool = True) -> None:
    """Write `state` to `folder`, whole or not at all. Of several processes that share a divided
    state, all have to call this, and one writes."""
    if not is_written:
        _pack(state, _Tensors(None))
        return
    with new_folder(folder) as partial:
        tensors = _Tensors(partial)
        values = _pack(state, tensors)
        tensors.write()
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
        files = [folder / TENSORS, *sorted(folder.glob("state-*.safetensors"))]
        stored = (item for file in files for item in load_file(file).items())
        # Copies: on Windows, a mapped file cannot be deleted, as states are.
        tensors = {k: tensor.clone() if with_tensors else tensor.to("meta") for k, tensor in stored}
        state = _unpack(json.loads((folder / VALUES).read_text()), tensors)
        if isinstance(state, dict):
            return state
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError):
        pass
    raise GlassformerError(f"{folder} is damaged: it does not contain the state of a training.")


def _pack(value: Any, tensors: _Tensors) -> Any:
    """JSON for `value`. Types that JSON does not have become objects of one key."""
    match value:
        case Tensor():
            return {"tensor": tensors.number(value)}
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
