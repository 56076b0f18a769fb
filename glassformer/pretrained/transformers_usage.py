"""A program for the model card: how an exported folder is used with transformers."""

from typing import Any

from glassformer.models.labeller import TokenTagger
from glassformer.preprocessing import Preprocessing
from glassformer.pretrained.family import Layout
from glassformer.pretrained.foreign_model import command_to_try
from glassformer.pretrained.model_cards import program

MOST = 32  # tokens to write


def transformers_usage(
    layout: Layout, model: Any, preprocessing: Preprocessing, loading: str = "", place: str = "."
) -> str:
    """The program runs in the folder; one for images needs an image. `loading` assigns `model`,
    which is otherwise the one in the folder; the tokenizer is in `place`."""
    is_image = layout.inputs in ("image", "palette")
    code = {
        "kind": layout.architecture,
        "reader": "AutoImageProcessor" if is_image else "AutoTokenizer",
        "load": loading or f'model = {layout.architecture}.from_pretrained(".").eval()',
    }
    text, length = command_to_try(model, preprocessing)[-1], MOST
    if layout.inputs == "text":  # the prompt and what is written fit in the context
        prompt: Any = preprocessing
        context = model.config.context_length
        length = max(1, min(MOST, context - len(prompt.tokenizer.encode(text))))
    name = f"transformers_{_kind(layout, model)}"
    return program(name, code, text=text, length=length, place=place)


def _kind(layout: Layout, model: Any) -> str:
    match layout.inputs:
        case "text" | "pair":
            return "write"
        case "image":
            return "image"
        case "palette":
            return "paint"
        case "masked text":
            return "fill" if getattr(model.config, "has_head", True) else "embed"
        case "labelled text":
            return "tag" if isinstance(model, TokenTagger) else "label"
