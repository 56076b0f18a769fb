"""How many processes train a run, on how many machines; what torchrun decided, what this machine
can do, and what a resumed run did before."""

import os

from glassformer.errors import GlassformerError, UsageError
from glassformer.models import row
from glassformer.models.stack import StackConfig
from glassformer.runtime import processes
from glassformer.runtime.facts import usable_cores, usable_cpus
from glassformer.tasks import task_of
from glassformer.tasks.recipe import Recipe, TrainingConfig
from glassformer.wording import counted

NODE, ADDRESS, PORT = "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"


def with_processes(recipe: Recipe) -> Recipe:
    """The recipe with the number of processes that torchrun has started, if it has; an error if
    there cannot be so many."""
    peer, config = processes.here(), recipe.training
    if peer is not None:
        asked = config.model_fields_set & {"devices", "num_nodes"}
        started = {"devices": peer.size_of_node, "num_nodes": peer.num_nodes}
        if wrong := [key for key in asked if getattr(config, key) not in (1, started[key])]:
            key = wrong[0]
            raise UsageError(
                f"--{key.replace('_', '-')} is {getattr(config, key)}, but torchrun has started "
                f"{counted(peer.size, 'process')}. Leave it out."
            )
        recipe = recipe.with_training(**started)
        config = recipe.training
    if config.num_processes > 1:
        _check(recipe)
    return recipe


def _check(recipe: Recipe) -> None:
    config = recipe.training
    if task_of(recipe.model_name).fit is not None:
        raise UsageError(f"{recipe.model_name} is trained in one process. Leave out --devices.")
    if config.strategy == "fsdp" and not issubclass(row(recipe.model_name).config, StackConfig):
        raise UsageError(
            f"--strategy fsdp divides the blocks of a Transformer: {recipe.model_name} cannot be "
            "divided. Use --strategy ddp."
        )
    if config.device == "mps":
        raise UsageError("an Apple GPU is one device. Leave out --devices, or use device cpu.")
    there, kind = _devices(config.device)
    if config.devices > there:
        raise UsageError(
            f"--devices is {config.devices}, but this machine has {counted(there, kind)}. Pass at "
            f"most --devices {there}."
        )


def _devices(device: str) -> tuple[int, str]:
    """How many of them there are; on a CPU each process needs a core."""
    if device != "cpu":
        import torch

        if count := torch.cuda.device_count():
            return count, "GPU"
    return usable_cores(usable_cpus()), "core"


def divide_anew(recipe: Recipe, before: Recipe) -> Recipe:
    """A recipe that continues `before` on another number of processes: an update consists of the
    same batches."""
    count, total = recipe.training.num_processes, before.training.batches_per_update
    if recipe.training.batches_per_update == total:
        return recipe
    if count == before.training.num_processes:
        return recipe  # the number of batches itself was changed, on purpose
    if total % count:
        raise GlassformerError(
            f"each update of this run is made of {counted(total, 'batch')}, which "
            f"{counted(count, 'process')} cannot share equally. Choose a number of "
            f"devices that divides {total}."
        )
    return recipe.with_training(gradient_accumulation_steps=total // count)


def node_rank(config: TrainingConfig) -> int:
    """The number of this machine among those that train together."""
    if config.num_nodes == 1:
        return 0
    values = [os.environ.get(name, "") for name in (NODE, ADDRESS, PORT)]
    rank, _, port = values
    if not all(values) or not (rank.isdecimal() and port.isdecimal()):
        raise UsageError(
            f"--num-nodes {config.num_nodes} needs to know the other machines. Run the same "
            f"command on each of them with {NODE}=0, 1, …, {ADDRESS}=the name of the first one and "
            f"{PORT}=a free port there, or start it with torchrun."
        )
    if int(rank) >= config.num_nodes:
        raise UsageError(f"{NODE} is {rank}, but --num-nodes {config.num_nodes} counts from 0.")
    return int(rank)


def is_other_node(config: TrainingConfig) -> bool:
    """Whether another machine prepares the run, and this one only trains with it."""
    return processes.here() is None and node_rank(config) > 0
