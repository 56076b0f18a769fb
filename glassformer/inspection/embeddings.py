"""Where tokens lie before the first layer: their neighbours, a map of them, and their positions."""

from typing import Any

import torch
from torch import Tensor, nn

from glassformer.inspection.directions import main_directions, map_of
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.subject import Stream, Subject
from glassformer.nn.positions import LearnedPositions, RotaryPositions, SinusoidalPositions

NEIGHBOURS = 8
MOST_POSITIONS = 64
MOST_NUMBERS = 1_000_000  # in the vectors of all neighbours; beyond, only those of the map
MOST_PLACES = 1024  # of an image, whose positions are compared with each other


@torch.inference_mode()
def embedding_facts(subject: Subject) -> dict[str, Any] | None:
    """Neighbours by cosine, and places on a map of two directions, for the tokens of the last
    stream, with the vectors of unit length behind both; the vectors of the positions, where
    they are added. None without a table of vectors."""
    table, stream = subject.embedding, subject.streams[-1]
    if table is None:
        return None
    ids = list(dict.fromkeys(stream.ids))
    unit = torch.nn.functional.normalize(table.float(), dim=-1)  # (V, D)
    similar = unit[ids] @ unit.T  # (tokens, V)
    similar[torch.arange(len(ids)), ids] = -2  # not itself
    best = similar.topk(min(NEIGHBOURS, len(unit) - 1))
    name_of = subject.name_of_token
    neighbours = [
        [[name_of(other), value, other] for other, value in zip(*row, strict=True)]
        for row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    shown = list(dict.fromkeys([*ids, *best.indices[:, :3].flatten().tolist()]))
    vectors = unit[shown].cpu().numpy()
    directions, share = main_directions(vectors)
    places = (vectors - vectors.mean(0)) @ directions.T
    carried = list(dict.fromkeys([*shown, *best.indices.flatten().tolist()]))
    if len(carried) * unit.size(-1) > MOST_NUMBERS:
        carried = shown
    return {
        "ids": ids,
        "neighbours": neighbours,
        "shown": shown,
        "names": [name_of(id) for id in shown],
        "is_in_text": [id in set(ids) for id in shown],
        "places": places.tolist(),
        "share": share,
        "carried": carried,
        "vectors": unit[carried].cpu().numpy(),
        "mean": vectors.mean(0),
        "directions": directions,
        "positions": _positions(subject),
    }


def _positions(subject: Subject) -> dict[str, Any] | None:
    """What is added at each position, and how alike these vectors are."""
    stack = subject.streams[-1].stack
    if stack is None:
        return None
    width = stack.attentions[0].query.in_features
    length = min(MOST_POSITIONS, len(subject.streams[-1].ids))
    device = next(stack.parameters()).device
    vectors = position_vectors(subject.positions, length, width, device)
    if vectors is None:
        return None
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    return {"vectors": vectors.cpu().tolist(), "similar": (unit @ unit.T).cpu().tolist()}


@torch.inference_mode()
def position_vectors(
    positions: nn.Module | None, length: int, width: int, device: torch.device
) -> Tensor | None:
    """(T, D) what is added at each position; None: nothing, as for rotary positions."""
    add = getattr(positions, "add", None)
    if add is None:
        return None
    places = torch.arange(length, device=device)
    vectors: Tensor = add(torch.zeros(length, width, device=device), places).float()
    return vectors if vectors.any() else None


def adds_vectors(positions: nn.Module | None) -> bool:
    """Whether the vector of a position is added to its token."""
    return isinstance(positions, LearnedPositions | SinusoidalPositions)


def is_rotary(model: nn.Module) -> bool:
    """Whether positions rotate queries and keys."""
    return any(isinstance(each, RotaryPositions) for each in model.modules())


@torch.inference_mode()
def place_facts(seen: Inspection, stream: Stream) -> dict[str, Any] | None:
    """The same for the places of an image: a map of their vectors before positions are added, and
    how alike the positions of any two places are, (N, N). None if neither is known."""
    picture = stream.picture
    if picture is None:
        return None
    found: dict[str, Any] = {"places": None, "share": None, "similar": None}
    added, first = picture.positions, picture.num_extra
    if picture.unit == "patch" and seen.has_capture(stream):
        vectors = seen.capture(stream).hidden[0].copy()  # (T, D)
        if added is not None:
            vectors -= added.cpu().numpy()
        places, found["share"] = map_of(vectors[first:])
        found["places"] = places.tolist()
    if added is not None and len(added) - first <= MOST_PLACES:
        unit = torch.nn.functional.normalize(added[first:].float(), dim=-1)
        found["similar"] = (unit @ unit.T).cpu().numpy()
    return None if found["places"] is None and found["similar"] is None else found
