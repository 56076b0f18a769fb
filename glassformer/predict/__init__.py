"""Text in; text, probabilities and scores out. The command line and Python both stand on this."""

import os
from pathlib import Path

from glassformer.predict.language import LanguagePredictor, Settings

__all__ = ["LanguagePredictor", "load"]


def load(path: str | os.PathLike[str]) -> LanguagePredictor:
    """The model in a folder, ready to use. Loading never runs code from the folder."""
    import torch

    from glassformer import runtime
    from glassformer.checkpoint.folder import GENERATION, load_model
    from glassformer.config import parse
    from glassformer.errors import GlassformerError
    from glassformer.models.language_model import LanguageModel
    from glassformer.nn.attention import merge_projections

    saved = load_model(Path(path))
    if not isinstance(saved.model, LanguageModel):
        raise GlassformerError(f"{path} holds a {saved.name}, which is not a language model.")
    parse(Settings, saved.generation, where=str(Path(path) / GENERATION))
    setup = runtime.prepare(threads=torch.get_num_threads(), precision="float32")
    model = saved.model.to(setup.device)
    merge_projections(model)
    return LanguagePredictor(model, saved.tokenizer, saved.generation)
