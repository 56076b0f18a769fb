"""Building a model on a pre-trained one: `body_config` gives its shape, `load_body` its weights."""

from typing import Any

from torch import Tensor, nn

from glassformer.config import Config
from glassformer.errors import GlassformerError
from glassformer.models import MODELS, built_on, name_of, row
from glassformer.models.labeller import Labeller
from glassformer.models.stack import StackConfig
from glassformer.nn.positions import Positions
from glassformer.wording import an


def body_config(name: str, pretrained: Config, task: str) -> tuple[str, dict[str, Any]]:
    """The model for `task` to build on the pre-trained model `name`, and the values of its config.

    The values are complete: no preset of that model may change the shape of its body. Only the
    context may be another one.
    """
    built = built_on(name, task)
    if built is None:
        rows = MODELS.values()
        bodies = dict.fromkeys(each.body for each in rows if each.body and each.task == task)
        raise GlassformerError(
            f"{an(name)} cannot be fine-tuned for the task {task}."
            + (f" Use a pre-trained {' or '.join(bodies)}." if bodies else "")
        )
    target = row(built)
    fields = target.config.model_fields
    known = pretrained.explicit() if isinstance(pretrained, StackConfig) else dict(pretrained)
    values = {key: value for key, value in known.items() if key in fields}
    for preset in target.presets.values():
        values |= {key: fields[key].default for key in preset if key not in values}
    return built, values


def _fit_positions(body: nn.Module, weights: dict[str, Tensor]) -> None:
    """Adapt the weights of positions to the context of a body."""
    for name, part in body.named_modules():
        if isinstance(part, Positions):
            own = {
                key: weights[f"{name}.{key}"]
                for key in part.state_dict()
                if f"{name}.{key}" in weights
            }
            if own:
                weights |= {f"{name}.{key}": each for key, each in part.fitted(own).items()}


def load_body(model: nn.Module, pretrained: nn.Module) -> None:
    """Copy the weights of a pre-trained model into the body of a model that is built on it."""
    name, source_name = name_of(model), name_of(pretrained)
    body = model.body if isinstance(model, Labeller) else None
    source = next((part for part in pretrained.modules() if type(part) is type(body)), None)
    if body is None or source is None or row(name).body != source_name:
        raise GlassformerError(f"{an(name)} cannot start from the weights of {an(source_name)}.")
    weights = source.state_dict().items()
    found = {name: weight for name, weight in weights if not name.startswith("head.")}
    _fit_positions(body, found)
    ours, theirs = (
        {name: tuple(weight.shape) for name, weight in each.items()}
        for each in (body.state_dict(), found)
    )
    for name in {**ours, **theirs}:
        if ours.get(name) != theirs.get(name):
            raise GlassformerError(
                f"the pre-trained model has a different shape: {name} is "
                f"{theirs.get(name, 'absent')} there and {ours.get(name, 'absent')} here. "
                "Use the settings of the pre-trained model."
            )
    body.load_state_dict(found)
