"""glassformer: every Transformer from the lectures as real software.

import glassformer
run = glassformer.train("gpt", data="notes.txt")
print(run.predictor.generate("Once upon", max_new_tokens=50).text)
"""

from typing import TYPE_CHECKING

from glassformer.api import Report, Run, compare, evaluate, finetune, import_model, report, train
from glassformer.errors import GlassformerError

if TYPE_CHECKING:
    from os import PathLike

    from glassformer.predict.predictor import Predictor

__version__ = "0.1.0"
__all__ = [
    "GlassformerError",
    "Report",
    "Run",
    "compare",
    "evaluate",
    "finetune",
    "import_model",
    "load",
    "report",
    "train",
]


def load(path: "str | PathLike[str]") -> "Predictor":
    """Load the model in a folder that `glassformer train` wrote. It has the verbs of its task."""
    from glassformer.tasks import load

    return load(path)
