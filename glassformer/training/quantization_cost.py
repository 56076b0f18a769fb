"""What 8-bit weights cost a model on held-out data, for its card."""

import os
from collections.abc import Sequence
from pathlib import Path

from glassformer.evaluation.quantized_result import QuantizedResult
from glassformer.tasks import load
from glassformer.training.preparation import prepared
from glassformer.training.run_folder import RunFolder


def cost_of_quantizing(
    model: str | os.PathLike[str], kind: str, paths: Sequence[str] | None
) -> str | None:
    """The scores before and after, in a line: on files, or else on the validation data of a run.
    None if there is neither."""
    run = RunFolder(Path(model))
    if paths is not None:
        original, quantized = (load(model, how).evaluate(paths) for how in (None, kind))
    elif run.exists:
        objective = prepared(run.recipe(), run.path)
        original, quantized = (objective.validate(load(model, how).model) for how in (None, kind))
    else:
        return None
    return QuantizedResult(kind, original, quantized).summary()
