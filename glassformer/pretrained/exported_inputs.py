"""The files beside a graph: what turns texts and images into its inputs, and its outputs back.

Tokenizers are written with the special tokens around a text, so that the `tokenizers` library alone
gives what the model reads.
"""

from pathlib import Path
from typing import Any

from glassformer.atomic_files import write_json
from glassformer.checkpoint.model_folder import Saved
from glassformer.config import Values
from glassformer.models.gpt import GPT
from glassformer.models.labeller import Labeller
from glassformer.preprocessing.caption import CaptionPreprocessing
from glassformer.preprocessing.image import ImagePreprocessing
from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.preprocessing.palette import PalettePreprocessing
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.pretrained.hub_inputs import (
    IMAGES,
    TOKENIZER,
    write_images,
    write_labelled,
    write_language,
    write_masked,
    write_palette,
)

TARGET = "target_tokenizer.json"


def write_inputs(folder: Path, saved: Saved) -> Values:
    """Write the files. Returns the settings of the model with the ids of its special tokens."""
    config: Any = saved.model.config
    values: Values = {"model_type": saved.name, **config.model_dump(mode="json")}
    return values | _written(folder, saved)


def _written(folder: Path, saved: Saved) -> Values:
    preprocessing: Any = saved.preprocessing
    length = getattr(saved.model.config, "context_length", None)
    match preprocessing:
        case PairPreprocessing():
            source, end = preprocessing.source, preprocessing.source.end_of_text
            after = () if end is None else (end,)
            source.framed((), after, adds_blank=True).save(folder / TOKENIZER)
            if preprocessing.target_tokenizer is not None:
                preprocessing.target_tokenizer.save(folder / TARGET)
            return _ends(preprocessing)
        case CaptionPreprocessing():
            preprocessing.tokenizer.save(folder / TOKENIZER)
            return _ends(preprocessing) | write_images(folder, preprocessing)
        case PalettePreprocessing():
            return write_palette(folder, preprocessing)
        case ImagePreprocessing():
            return write_images(folder, preprocessing)
        case SeriesPreprocessing():
            scale = {"mean": list(preprocessing.mean), "deviation": list(preprocessing.deviation)}
            write_json(folder / IMAGES, scale)
            return {}
        case TextPreprocessing() if isinstance(saved.model, Labeller):
            return write_labelled(folder, preprocessing, length)
        case TextPreprocessing() if isinstance(saved.model, GPT):
            return write_language(folder, preprocessing, length)
        case _:
            return write_masked(folder, preprocessing, length)


def _ends(preprocessing: Any) -> Values:
    """The tokens with which an answer begins and ends."""
    return {"decoder_start_token_id": preprocessing.start, "eos_token_id": preprocessing.end}
