"""glassformer finetune: teach a trained model something new."""

from pathlib import Path
from typing import Annotated, Any

from glassformer.cli import options
from glassformer.cli.known_names import known_model
from glassformer.cli.training_request import carry_out


@options.takes(
    *(options.Examples, options.Files, options.Images, options.NewHead),
    *(options.Training, options.Devices, options.Run),
    without="recipe",
)
def finetune(
    model: Annotated[
        Path,
        options.argument(
            "MODEL",
            "Pre-trained model: run or model folder, Hugging Face folder or name on the hub.",
            callback=known_model,
        ),
    ],
    task: options.Task,
    **values: Any,
) -> None:
    """Train a pre-trained model for a new task.

    The model gets a new head, and both are trained on labelled data.

    Examples:
      glassformer finetune runs/bert --task classify --data reviews.csv
      glassformer finetune runs/gpt --task tag --data train.conll --lora-rank 8
      glassformer finetune runs/image-gpt --task probe --data images/
    """
    from glassformer.training.finetuning import on_top_of

    carry_out(on_top_of(model, task), values)
