"""Which of their tensors is which of ours, and how one becomes the other.

    ours                                 theirs
    blocks.0.attention.query.weight  ┐
    blocks.0.attention.key.weight    ├   h.0.attn.c_attn.weight      three matrices side by side
    blocks.0.attention.value.weight  ┘

A `Link` is one such line. Its two functions are the inverse of each other, so a list of links reads
a model and writes it. They also work on tensors without memory, which gives the shape that a tensor
of theirs must have.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Link:
    """One tensor of theirs, and the tensors of ours that it consists of."""

    ours: tuple[str, ...]
    theirs: str
    split: Callable[[Tensor], tuple[Tensor, ...]] = lambda theirs: (theirs,)
    """theirs → ours"""
    join: Callable[..., Tensor] = lambda ours: ours
    """ours → theirs"""
    aliases: tuple[str, ...] = ()
    """Other names that files have for it."""
    is_transposed: bool = False
    """Their matrix is (in, out), ours (out, in)."""
    copies: tuple[str, ...] = ()
    """Aliases under which it is written once more."""


def same(ours: str, theirs: str, *aliases: str) -> Link:
    return Link((ours,), theirs, aliases=aliases)


def layer(ours: str, theirs: str, bias: bool = True) -> Iterator[Link]:
    """A linear layer or a norm: its weight and its bias."""
    yield same(f"{ours}.weight", f"{theirs}.weight")
    if bias:
        yield same(f"{ours}.bias", f"{theirs}.bias")


def transposed(ours: str, theirs: str) -> Iterator[Link]:
    """A linear layer whose matrix is (in, out), as GPT-2's."""
    yield Link(
        (f"{ours}.weight",), f"{theirs}.weight", lambda x: (x.T,), lambda x: x.T, is_transposed=True
    )
    yield same(f"{ours}.bias", f"{theirs}.bias")


def fused(ours: Sequence[str], theirs: str) -> Iterator[Link]:
    """Several linear layers side by side in one matrix (in, out), as GPT-2's c_attn."""
    number = len(ours)
    yield Link(
        tuple(f"{name}.weight" for name in ours),
        f"{theirs}.weight",
        lambda x: x.T.contiguous().chunk(number),  # views of one matrix: see `nn.linear.Merged`
        lambda *parts: torch.cat([part.T for part in parts], dim=1),
        is_transposed=True,
    )
    yield Link(
        tuple(f"{name}.bias" for name in ours),
        f"{theirs}.bias",
        lambda x: x.chunk(number),
        lambda *parts: torch.cat(parts),
    )


def unsqueezed(ours: str, theirs: str, dims: int) -> Link:
    """Their tensor has `dims` more dimensions of size 1 in front."""
    return Link(
        (ours,),
        theirs,
        lambda x: (x.reshape(x.shape[dims:]),),
        lambda x: x.reshape((1,) * dims + tuple(x.shape)),
    )


def patches(ours: str, theirs: str, channels: int, size: int) -> Iterator[Link]:
    """A convolution (D, C, P, P) that cuts squares is a linear layer (D, C·P·P) on them."""
    yield Link(
        (f"{ours}.weight",),
        f"{theirs}.weight",
        lambda x: (x.flatten(1),),
        lambda x: x.unflatten(1, (channels, size, size)),
    )
    yield same(f"{ours}.bias", f"{theirs}.bias")


def after_rows(ours: str, theirs: str, number: int) -> Link:
    """Their table begins with rows that are never used."""
    return Link(
        (ours,),
        theirs,
        lambda x: (x[number:],),
        lambda x: torch.cat([x.new_zeros(number, *x.shape[1:]), x]),
    )


def reordered(link: Link, order: Tensor, dim: int) -> Link:
    """Entry n of ours along `dim` is entry `order[n]` of theirs. The link is to one of ours."""
    back = order.argsort()

    def split(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.index_select(dim, order.to(x.device)) for part in link.split(x))

    def join(x: Tensor) -> Tensor:
        return link.join(x.index_select(dim, back.to(x.device)))

    return Link(link.ours, link.theirs, split, join, link.aliases, link.is_transposed)
