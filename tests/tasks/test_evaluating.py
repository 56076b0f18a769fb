"""The loop over held-out batches leaves a model as it was, also when it is left early."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from glassformer.tasks.evaluating import held_out, reporting_progress


class Model(nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)
        self.device = torch.device("cpu")


def batches(model: Model) -> Iterator[torch.Tensor]:
    return held_out(model, [0, 1, 2], lambda number: torch.full((1,), number))


def test_held_out_batches_come_in_order_while_nothing_learns() -> None:
    model, shares = Model().train(), list[float]()
    with reporting_progress(shares.append):
        for number, batch in enumerate(batches(model)):
            assert batch.item() == number
            assert not model.training
            assert not torch.is_grad_enabled()
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])
    assert model.training
    assert torch.is_grad_enabled()


def test_an_error_in_an_evaluation_leaves_the_model_as_it_was() -> None:
    def evaluate(model: Model) -> None:
        for batch in batches(model):
            raise ValueError(batch)

    model = Model().train()
    with pytest.raises(ValueError, match="tensor"):
        evaluate(model)
    assert model.training
    assert torch.is_grad_enabled()
