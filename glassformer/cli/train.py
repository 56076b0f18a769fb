"""glassformer train: from a file to a model."""

from typing import TYPE_CHECKING, Annotated, Any

from glassformer.cli import options
from glassformer.cli.known_names import check_preset
from glassformer.cli.training_request import carry_out

if TYPE_CHECKING:
    from glassformer.config import Values


@options.takes(
    *(options.Examples, options.Pairs, options.Files, options.Images, options.Architecture),
    *(options.Tokenizer, options.GivenModel, options.Further, options.Training),
    *(options.Devices, options.Run),
)
def train(
    model: Annotated[
        str | None, options.argument("MODEL", "Model to train, from the list below.")
    ] = None,
    **values: Any,
) -> None:
    """Train a model on your own data, train a given model further, or continue a run.

    Examples:
      glassformer train gpt --data notes.txt
      glassformer train translator --source train.en --target train.fr --time-limit 15m
      glassformer train --from runs/gpt-notes --data letters.txt
    """
    if model is not None:
        check_preset(model, values["preset"])
    flags: Values = {"model": {"name": model}}
    start = values.pop("start")
    if start is not None:
        flags["finetune"] = {"model": start, "head": "kept"}
    carry_out(flags, values)
