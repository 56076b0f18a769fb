"""Several processes that train one model together, each with a rank from 0.

    here()              this process among them, from torchrun's variables
    announce(), wait()  the first one prepares the run while the others wait
    join()              connect them, before any of the functions below
    from_first(value)   what the first one has, for all
    from_all(numbers)   the numbers of each, for all
    leave()             disconnect, before the process ends

A process that trains alone is the first one, and the functions give it its own values back.
"""

import json
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from glassformer.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


LONGEST_WAIT = timedelta(days=7)  # while the first process reads the data
MESSAGE = "glassformer/work"
NODE, ADDRESS, PORT = "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"  # for several machines


@dataclass(frozen=True)
class Peer:
    """A process among those that train together."""

    rank: int
    size: int
    size_of_node: int
    """Processes on the same machine."""

    @property
    def num_nodes(self) -> int:
        return max(1, self.size // self.size_of_node)


def here() -> Peer | None:
    """None if nothing has started this process as one of several."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    values = [os.environ.get(name, "") for name in names]
    if not all(value.isdecimal() for value in values):
        return None
    rank, size, size_of_node = map(int, values)
    return Peer(rank, size, max(1, size_of_node)) if size > 1 else None


def node_rank(num_nodes: int) -> int:
    """The number of this machine among those that train together."""
    if num_nodes == 1:
        return 0
    values = [os.environ.get(name, "") for name in (NODE, ADDRESS, PORT)]
    rank, _, port = values
    if not all(values) or not (rank.isdecimal() and port.isdecimal()):
        raise UsageError(
            f"--num-nodes {num_nodes} needs to know the other machines. Run the same "
            f"command on each of them with {NODE}=0, 1, …, {ADDRESS}=the name of the first one and "
            f"{PORT}=a free port there, or start it with torchrun."
        )
    if int(rank) >= num_nodes:
        raise UsageError(f"{NODE} is {rank}, but --num-nodes {num_nodes} counts from 0.")
    return int(rank)


def is_other_node(num_nodes: int) -> bool:
    """Whether another machine prepares the run, and this one only trains with it."""
    return here() is None and node_rank(num_nodes) > 0


def is_first() -> bool:
    """Whether this process reads, writes and reports for all."""
    peer = here()
    return peer is None or peer.rank == 0


def is_joined() -> bool:
    if here() is None:
        return False
    import torch.distributed as dist

    return dist.is_initialized()


@cache
def _store() -> Any:
    """Where processes leave messages for each other; the first one, or torchrun, hosts it."""
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://"))
    return store


def announce(work: str) -> None:
    """Tell the processes that `wait` what there is to do."""
    if here() is not None and not is_joined():
        _store().set(MESSAGE, work)


def wait() -> str:
    """What the first process has announced."""
    _store().wait([MESSAGE], LONGEST_WAIT)
    return bytes(_store().get(MESSAGE)).decode()


def join(device: str) -> None:
    """Connect this process with the others, if there are any."""
    peer = here()
    if peer is None or is_joined():
        return
    import torch.distributed as dist

    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    dist.init_process_group(backend, store=_store(), rank=peer.rank, world_size=peer.size)


def leave() -> None:
    """Disconnect this process, while its threads can still be ended: a process that exits with them
    may be aborted, and its success taken for a failure."""
    if is_joined():
        import torch.distributed as dist

        dist.destroy_process_group()


def from_first(value: Any) -> Any:
    """A JSON value of the first process."""
    if not is_joined():
        return value
    import torch
    import torch.distributed as dist

    data = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)
    size = torch.tensor(len(data))
    dist.broadcast(size, 0)
    content = data if is_first() else torch.empty(int(size), dtype=torch.uint8)
    dist.broadcast(content, 0)
    return json.loads(content.numpy().tobytes())


def from_all(numbers: Sequence[float]) -> list[list[float]]:
    """The numbers of each process, by rank."""
    if not is_joined():
        return [list(numbers)]
    import torch
    import torch.distributed as dist

    mine = torch.tensor(numbers, dtype=torch.float64)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    return [row.tolist() for row in everyone]


# --- sharded tensors ---
# Every process has a part of each (torch's DTensor). Whole tensors pass unchanged.


def is_sharded(tensor: "Tensor") -> bool:
    return hasattr(tensor, "full_tensor")  # the class itself takes long to import


def whole(tensor: "Tensor") -> "Tensor":
    """All of a tensor. If it is sharded, all processes have to ask."""
    sharded: Any = tensor
    return sharded.full_tensor() if is_sharded(tensor) else tensor


def local_part(tensor: "Tensor") -> "Tensor":
    """The part of a tensor that this process has: changing it changes the tensor."""
    sharded: Any = tensor
    return sharded.to_local() if is_sharded(tensor) else tensor


def sharded_like(tensor: "Tensor", other: "Tensor") -> "Tensor":
    """A whole tensor, sharded as `other` is."""
    if not is_sharded(other) or is_sharded(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    like: Any = other
    there = tensor.to(other.device)
    # Every process has the whole: nothing needs to be sent.
    return distribute_tensor(there, like.device_mesh, like.placements, src_data_rank=None)


# --- signals ---
# What happens when Ctrl-C or SIGTERM comes.

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def postponed(number: int, frame: FrameType | None) -> bool:
    """Whether a signal came in the middle of an import, which would swallow the exception that its
    handler raises, or fail. Then it is sent again."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
            return True
        frame = frame.f_back
    return False
