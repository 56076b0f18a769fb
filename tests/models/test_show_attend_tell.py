"""Show, Attend and Tell: one step by the equations of the paper, and its gradients."""

from typing import Any

import torch
from torch import Tensor

from glassformer.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from glassformer.nn.observe import listening

SHAPE = {"image_size": 16, "num_channels": 1, "patch_size": 4, "vocab_size": 11}
SHAPE |= {"d_model": 12, "d_embedding": 6, "dropout": 0.0, "context_length": 8}


def small(shaken: Any, **more: Any) -> ShowAttendTell:
    torch.manual_seed(0)
    model: ShowAttendTell = shaken(ShowAttendTell(ShowAttendTellConfig(**SHAPE | more)))
    return model


def pixels(count: int = 2) -> Tensor:
    return torch.randn(count, 1, 16, 16, generator=torch.Generator().manual_seed(3))


@torch.no_grad()
def test_a_step_by_the_equations_of_the_paper(shaken: Any) -> None:
    model = small(shaken)
    memory = model.encode(pixels(1))
    a = memory.places.states[0]  # (N, D)
    attention = model.attention
    assert attention.encoder is not None
    assert attention.decoder is not None
    assert attention.score is not None
    assert model.gate is not None
    # The initial state: a perceptron of the mean of the places.
    hidden, cell = model.first(a.mean(0)).tanh().chunk(2)
    outputs = []
    for token in (3, 7):
        scores = attention.score((attention.encoder(a) + attention.decoder(hidden)).tanh())[:, 0]
        alpha = scores.softmax(0)
        beta = model.gate(hidden).sigmoid()
        z = beta * (alpha[:, None] * a).sum(0)
        word = model.embedding.weight[token]
        hidden, cell = _lstm(model, torch.cat((word, z)), hidden, cell)
        outputs.append(model.head(word + model.from_state(hidden) + model.from_image(z)))
    found = model(pixels(1), torch.tensor([[3, 7]]))[0]
    torch.testing.assert_close(found, torch.stack(outputs), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_with_the_query_word_the_last_word_chooses_where_to_look(shaken: Any) -> None:
    def looks(query: str, token: int) -> Tensor:
        model = small(shaken, query=query)
        return model.hidden_and_weights(torch.tensor([[token]]), model.encode(pixels(1)))[1]

    assert torch.equal(looks("state", 3), looks("state", 7))
    assert not torch.allclose(looks("word", 3), looks("word", 7), atol=1e-4)


def _lstm(model: ShowAttendTell, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    cells: Any = model.decoder.cells
    gates = cells.weight_ih_l0 @ x + cells.bias_ih_l0 + cells.weight_hh_l0 @ hidden
    input, forget, new, output = (gates + cells.bias_hh_l0).chunk(4)
    cell = forget.sigmoid() * cell + input.sigmoid() * new.tanh()
    return output.sigmoid() * cell.tanh(), cell


def test_the_returned_weights_are_those_that_are_heard_and_carry_gradients(shaken: Any) -> None:
    model = small(shaken)
    target = torch.tensor([[1, 2, 3], [4, 5, 6]])
    with listening(model.taps) as (heard,):
        _, weights = model.hidden_and_weights(target, model.encode(pixels()))
    assert weights.shape == (2, 3, 16)
    torch.testing.assert_close(torch.cat(heard, dim=1), weights.detach())
    weights[:, :, 0].sum().backward()
    assert model.attention.score is not None
    assert model.attention.score.weight.grad is not None
    assert model.attention.score.weight.grad.abs().sum() > 0


@torch.no_grad()
def test_equal_places_differ_by_where_they_are(shaken: Any) -> None:
    """An image without any content: only the learned positions tell its places apart."""
    model = small(shaken, num_encoder_layers=1)
    states = model.encode(torch.zeros(1, 1, 16, 16)).places.states[0]
    assert torch.pdist(states).min() > 1e-3
