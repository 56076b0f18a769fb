"""glassformer train: from a file to a model."""

from typing import Annotated, Any

from glassformer.cli import options
from glassformer.cli.training_request import carry_out


@options.takes(
    *(options.Examples, options.Pairs, options.Files, options.Images, options.Architecture),
    *(options.Tokenizer, options.Training, options.Run),
)
def train(
    model: Annotated[
        str | None, options.argument("MODEL", "Model to train, from the list below.")
    ] = None,
    **values: Any,
) -> None:
    """Train a model on your own data, or continue a run.

    Examples:
      glassformer train gpt --data notes.txt
      glassformer train translator --source train.en --target train.fr --time-limit 15m
      glassformer train vit --data images/
    """
    carry_out({"model": {"name": model}}, values)
