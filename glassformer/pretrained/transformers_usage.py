"""A program for the model card: how an exported folder is used with transformers."""

from typing import Any

from glassformer.models.labeller import TokenTagger
from glassformer.preprocessing import Preprocessing
from glassformer.pretrained.family import Layout
from glassformer.pretrained.foreign_model import command_to_try
from glassformer.pretrained.model_cards import ONLY_BEGINNING

MOST = 32  # tokens to write

LOAD = 'model = {kind}.from_pretrained(".").eval()'
WRITE = """
inputs = reader({text!r}, return_tensors="pt")
written = model.generate(**inputs, max_new_tokens={length})
print(reader.decode(written[0], skip_special_tokens=True))
"""
LABEL = f"""
{ONLY_BEGINNING}
inputs = reader({{text!r}}, truncation=True, return_tensors="pt")
probabilities = model(**inputs).logits[0].softmax(-1).tolist()
for number, probability in enumerate(probabilities):
    print(model.config.id2label[number], probability)
"""
LABELS = """
inputs = reader({text!r}, return_tensors="pt")
found = model(**inputs).logits[0].argmax(-1).tolist()
for token, label in zip(inputs.tokens(), found):
    print(token, model.config.id2label[label])
"""
FILL = """
inputs = reader({text!r}, return_tensors="pt")
at = inputs["input_ids"][0].tolist().index(reader.mask_token_id)
print(reader.decode(model(**inputs).logits[0, at].topk(5).indices))
"""
VECTORS = """
inputs = reader({text!r}, return_tensors="pt")
print(model(**inputs).last_hidden_state.shape)
"""
LOOK = """
inputs = reader(Image.open("image.png").convert("RGB"), return_tensors="pt")
print(model.config.id2label[int(model(**inputs).logits[0].argmax())])
"""
PAINT = """
inputs = reader(Image.open("image.png").convert("RGB"), return_tensors="pt")
print(model(**inputs).logits.shape)
"""


def transformers_usage(
    layout: Layout, model: Any, preprocessing: Preprocessing, loading: str = LOAD, place: str = "."
) -> str:
    """The program runs in the folder; one for images needs an image. `loading` assigns `model`;
    the tokenizer is in `place`."""
    is_image = layout.inputs in ("image", "palette")
    reader = "AutoImageProcessor" if is_image else "AutoTokenizer"
    text = command_to_try(model, preprocessing)[-1]
    length = MOST
    if layout.inputs == "text":  # the prompt and what is written fit in the context
        prompt: Any = preprocessing
        context = model.config.context_length
        length = max(1, min(MOST, context - len(prompt.tokenizer.encode(text))))
    return (
        f"{'from PIL import Image' if is_image else ''}\n"
        f"from transformers import {reader}, {layout.architecture}\n\n"
        f"{loading.format(kind=layout.architecture)}\n"
        f"reader = {reader}.from_pretrained({place!r})\n"
        f"{_use(layout, model).format(text=text, length=length).strip()}"
    )


def _use(layout: Layout, model: Any) -> str:
    match layout.inputs:
        case "text" | "pair":
            return WRITE
        case "image":
            return LOOK
        case "palette":
            return PAINT
        case "masked text":
            return FILL if getattr(model.config, "has_head", True) else VECTORS
        case "labelled text":
            return LABELS if isinstance(model, TokenTagger) else LABEL
