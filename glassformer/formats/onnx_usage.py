"""A program for the model card: how the exported graphs are used, with onnxruntime and numpy."""

from typing import Any

from glassformer.checkpoint.model_folder import Saved
from glassformer.formats.exporting import MOST, PROMPT, TARGET, known_text, program
from glassformer.formats.hugging_face import TOKENIZER
from glassformer.models.bert import Bert
from glassformer.models.gpt import GPT
from glassformer.models.heads import TokenTagger
from glassformer.models.sources import ImageClassifier
from glassformer.preprocessing.images import (
    CaptionPreprocessing,
    ImagePreprocessing,
    PalettePreprocessing,
)
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.text import PairPreprocessing


def usage(saved: Saved) -> str:
    """Python code that runs in the folder of the graphs."""
    model: Any = saved.model
    preprocessing: Any = saved.preprocessing
    match preprocessing:
        case PalettePreprocessing():
            rows, columns = preprocessing.image_size
            values = _cache(model) | {"rows": rows, "columns": columns}
            return program("onnx_paint", **values, start=preprocessing.start)
        case PairPreprocessing():
            values = _answer(model, preprocessing)
            values["text"] = known_text(preprocessing.source, "how are you")
            is_shared = preprocessing.target_tokenizer is None
            return program("onnx_translate", **values, writer=TOKENIZER if is_shared else TARGET)
        case CaptionPreprocessing():
            return program(
                "onnx_caption", **_answer(model, preprocessing), **_pixels(preprocessing)
            )
        case ImagePreprocessing() if isinstance(model, ImageClassifier):
            return program("onnx_image", **_pixels(preprocessing))
        case SeriesPreprocessing():
            return program("onnx_series", features=preprocessing.width)
    tokenizer = preprocessing.tokenizer
    if isinstance(model, GPT):
        limit, text = model.context_length + 1, known_text(tokenizer, PROMPT)
        values = _cache(model) | {"ends": list(preprocessing.ends), "limit": limit}
        return program("onnx_write", **values, text=text, most=MOST)
    first, second = known_text(tokenizer, "a short text"), known_text(tokenizer, "another one")
    if not isinstance(model, Bert):
        return _labels(model, [first, second])
    if model.config.has_head:
        mask = preprocessing.mask_name
        return program("onnx_fill", text=f"{first} {mask}", mask=mask)
    context = model.config.sentence_length or model.context_length
    return program("onnx_embed", texts=[first, second], context=context)


def _labels(model: Any, texts: list[str]) -> str:
    cut = "tokenizer.no_truncation()"
    if model.context_length is not None:
        cut = f"tokenizer.enable_truncation({model.context_length})"
    if isinstance(model, TokenTagger):
        return program("onnx_tag", {"cut": cut}, texts=texts)
    if model.context_length is not None:
        cut = f"{ONLY_BEGINNING}\n{cut}"
    kind = "onnx_labels" if model.config.multi_label else "onnx_label"
    return program(kind, {"cut": cut}, texts=texts)


ONLY_BEGINNING = (
    "# Of a text that is too long, this reads the beginning; glassformer reads the beginning and "
    "the end."
)


def _cache(model: Any) -> dict[str, Any]:
    """The shape of the keys and values of a position."""
    return {"heads": model.config.kv_heads, "width": model.config.width_of_head}


def _answer(model: Any, preprocessing: Any) -> dict[str, Any]:
    """What a text that answers a memory begins and ends with, and how long it may be."""
    limit, ends = min(MOST, model.context_length) + 1, [preprocessing.end]
    return _cache(model) | {"start": preprocessing.start, "ends": ends, "limit": limit}


def _pixels(preprocessing: ImagePreprocessing) -> dict[str, Any]:
    rows, columns = preprocessing.image_size
    return {
        "mode": "L" if preprocessing.num_channels == 1 else "RGB",
        "rows": rows,
        "columns": columns,
        "channels": preprocessing.num_channels,
        "mean": list(preprocessing.image_mean),
        "std": list(preprocessing.image_std),
    }
