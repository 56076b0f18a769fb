"""How a model's data was read, saved with the model: so predicting cannot differ from training.

One class per kind of input. Each owns its encoding and decoding, the names of the user's columns,
and its files in a model folder.
"""

from pathlib import Path

from glassformer.errors import GlassformerError
from glassformer.files import read_json
from glassformer.preprocessing.images import (
    CaptionPreprocessing,
    ImagePreprocessing,
    PalettePreprocessing,
)
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.preprocessing import SETTINGS, Preprocessing
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.skip_gram import SkipGramPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing

__all__ = ["KINDS", "SETTINGS", "Preprocessing", "load_preprocessing"]

KINDS: dict[str, type[Preprocessing]] = {
    each.kind: each
    for each in (
        Preprocessing,
        TextPreprocessing,
        MaskedTextPreprocessing,
        PairPreprocessing,
        SeriesPreprocessing,
        CaptionPreprocessing,
        ImagePreprocessing,
        PalettePreprocessing,
        SkipGramPreprocessing,
    )
}


def load_preprocessing(folder: Path) -> Preprocessing:
    """The preprocessing that is saved in a folder."""
    settings = read_json(folder / SETTINGS)
    kind = settings.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        kinds = ", ".join(KINDS)
        raise GlassformerError(f'{folder / SETTINGS}: unknown kind "{kind}". Known kinds: {kinds}.')
    return KINDS[kind].load(folder, settings)
