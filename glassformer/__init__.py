"""glassformer: every Transformer of the lecture hall as real software.

import glassformer
model = glassformer.load("runs/gpt-notes")
print(model.generate("Once upon", max_new_tokens=50).text)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from glassformer.predict import Predictor

__version__ = "0.1.0"


def load(path: "str | PathLike[str]") -> "Predictor":
    """The model in a folder that `glassformer train` wrote, with the verbs of its task."""
    from glassformer.predict import load

    return load(path)
