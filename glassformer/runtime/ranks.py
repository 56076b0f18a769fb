"""Which of several processes is this one? torchrun, Slurm and Lightning set variables."""

import os


def is_main_process() -> bool:
    """Whether this process should print and write files on behalf of all."""
    rank = os.environ.get("RANK")
    if rank is not None:  # torchrun; it may number nodes differently from Slurm, and it wins
        return rank == "0"
    others = ("SLURM_PROCID", "NODE_RANK", "LOCAL_RANK")
    return all(os.environ.get(name, "0") == "0" for name in others)


def processes_here() -> int:
    """How many processes torchrun started on this node, and so share its cores."""
    count = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, int(count)) if count.isdecimal() else 1
