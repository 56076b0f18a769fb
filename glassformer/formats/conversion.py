"""From their tensors to a model of ours, and back, by the links of a layout."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from glassformer.checkpoint.model_folder import distinct, fill, without_memory
from glassformer.config import Config
from glassformer.errors import GlassformerError
from glassformer.formats.family import Layout
from glassformer.formats.links import Link
from glassformer.wording import an

OWN = {"temperature": 1.0}  # tensors of ours that no other tool has, and their usual value
SHOWN = 3  # names in an error


class Source(Protocol):
    """Tensors by name, read when they are needed."""

    shapes: dict[str, tuple[int, ...]]

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]: ...


def read_model(
    layout: Layout, config: Config, source: Source, where: str
) -> tuple[nn.Module, list[str]]:
    """A model of ours with their weights, and the names of the tensors that were left out."""
    model = without_memory(layout.model, config)
    ours = distinct(model.state_dict(keep_vars=True))
    links = [*layout.links(config)]
    links_in_file = {_name(link, layout.prefix, source): link for link in links}
    _check_shapes(links_in_file, ours, source, where)
    extra = _extra(layout, {*links_in_file}, source, where)
    weights = {name: torch.tensor(value) for name, value in OWN.items() if name in ours}
    for name, tensor in source.read([*links_in_file]):
        link = links_in_file[name]
        _check_finite(tensor, name, where)
        for own, part in zip(link.ours, link.split(tensor), strict=True):
            weights[own] = part.contiguous()
    if lost := sorted(ours.keys() - weights.keys()):
        raise ValueError(f"{layout.architecture} has no link for {lost[0]}")
    fill(model, weights)
    return model.eval(), extra


def _check_finite(tensor: Tensor, name: str, where: str) -> None:
    """Its extremes are NaN if one of its values is; unlike isfinite, this needs no memory."""
    if tensor.numel() and not all(bool(end.isfinite()) for end in tensor.aminmax()):
        raise GlassformerError(f"{where}: {name} has values that are not finite. Copy it again.")


def their_tensors(layout: Layout, model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model of ours under their names, in their layout."""
    state = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    if "temperature" in state:  # they have none: a head that is scaled gives the same probabilities
        for name in ("head.weight", "head.bias"):
            state[name] = state[name] / state["temperature"]
    tensors = dict[str, Tensor]()
    for link in layout.links(model.config):
        tensors[link.theirs] = link.join(*(state[name] for name in link.ours)).contiguous()
        tensors |= {name: tensors[link.theirs].clone() for name in link.copies}
    return tensors


def _name(link: Link, prefix: str, source: Source) -> str:
    """The name of a tensor in the file: its own, an alias, or without the prefix of the body."""
    for name in (link.theirs, *link.aliases):
        if name in source.shapes:
            return name
    bare = link.theirs.removeprefix(prefix)
    return bare if bare in source.shapes else link.theirs


def _check_shapes(
    links_in_file: dict[str, Link], ours: dict[str, Tensor], source: Source, where: str
) -> None:
    if missing := [name for name in links_in_file if name not in source.shapes]:
        raise GlassformerError(
            f"{where}: {_listed(missing)} missing. The file belongs to another config.json, or is "
            "not complete."
        )
    for name, link in links_in_file.items():
        with torch.device("meta"):
            expected = tuple(link.join(*(ours[own] for own in link.ours)).shape)
        if source.shapes[name] != expected:
            raise GlassformerError(
                f"{where}: {name} has shape {source.shapes[name]}; config.json expects {expected}. "
                "Copy both files from the same model."
            )


def _extra(layout: Layout, used: set[str], source: Source, where: str) -> list[str]:
    """Tensors that are knowingly left out; any other is an error."""
    others = [name for name in source.shapes if name not in used]
    is_computed = _matcher(layout.computed)
    others = [name for name in others if not is_computed(name)]
    is_left_out = _matcher(layout.left_out)
    if unknown := sorted(name for name in others if not is_left_out(name)):
        raise GlassformerError(
            f"{where}: {_listed(unknown)} not part of {an(layout.architecture)} with this "
            "config.json. Copy both files from the same model."
        )
    return sorted(others)


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    compiled = [re.compile(pattern) for pattern in patterns]
    return lambda name: any(pattern.fullmatch(name) for pattern in compiled)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more are" if len(names) > SHOWN else None
    return ", ".join(names[:SHOWN]) + (more or (" is" if len(names) == 1 else " are"))
