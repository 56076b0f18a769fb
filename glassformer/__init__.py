"""glassformer: every Transformer from the lectures as real software.

import glassformer
model = glassformer.load("runs/gpt-notes")
print(model.generate("Once upon", max_new_tokens=50).text)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from glassformer.predict.predictor import Predictor

__version__ = "0.1.0"


def load(path: "str | PathLike[str]") -> "Predictor":
    """Load the model in a folder that `glassformer train` wrote. It has the verbs of its task."""
    from glassformer.tasks import load

    return load(path)
