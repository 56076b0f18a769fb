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
from glassformer.machine.threads import spin_briefly
from glassformer.options import FinetuneOptions, TrainOptions

if TYPE_CHECKING:
    from os import PathLike

    from glassformer.tasks.language.predictor import GenerationSettings
    from glassformer.tasks.task import Predictor
    from glassformer.tasks.translate.predictor import TranslationSettings

spin_briefly()  # before torch is imported, which reads it once

__version__ = "0.2.0"
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
    "plan",
    "report",
    "train",
]


def load(path: "str | PathLike[str]", quantize: str | None = None) -> "Predictor":
    """Load the model in a folder that `glassformer train` wrote. It has the verbs of its task.

    `quantize="int8"` rounds the weights of its linear layers to 8 bits, for speed on a CPU.
    """
    from glassformer.tasks import load

    return load(path, quantize)


def __getattr__(name: str) -> Any:
    """What needs pydantic and torch is imported when it is first used."""
    if name == "GenerationSettings":
        from glassformer.tasks.language.predictor import GenerationSettings

        return GenerationSettings
    if name == "TranslationSettings":
        from glassformer.tasks.translate.predictor import TranslationSettings

        return TranslationSettings
    if name == "plan":
        from glassformer.planning.plan import plan

        return plan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
