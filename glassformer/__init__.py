"""glassformer: every Transformer from the lectures as real software.

import glassformer
run = glassformer.train("gpt", data="notes.txt")
print(run.predictor.generate("Once upon", max_new_tokens=50).text)
"""

from typing import TYPE_CHECKING, Any

from glassformer.api import (
    Report,
    Run,
    compare,
    evaluate,
    export_model,
    finetune,
    import_model,
    report,
    train,
)
from glassformer.errors import GlassformerError
from glassformer.options import FinetuneOptions, TrainOptions

if TYPE_CHECKING:
    from os import PathLike

    from glassformer.predict.predictor import Predictor
    from glassformer.predict.translations import TranslationSettings
    from glassformer.predict.writing import GenerationSettings

__version__ = "0.1.0"
__all__ = [
    "FinetuneOptions",
    "GenerationSettings",
    "GlassformerError",
    "Report",
    "Run",
    "TrainOptions",
    "TranslationSettings",
    "compare",
    "evaluate",
    "export_model",
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


def __getattr__(name: str) -> Any:
    """Settings classes need pydantic and torch, so they are imported when they are first used."""
    if name == "GenerationSettings":
        from glassformer.predict.writing import GenerationSettings

        return GenerationSettings
    if name == "TranslationSettings":
        from glassformer.predict.translations import TranslationSettings

        return TranslationSettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
