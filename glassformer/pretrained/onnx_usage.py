"""A program for the model card: how the exported graphs are used, with onnxruntime and numpy."""

from typing import Any

from glassformer.checkpoint.model_folder import Saved
from glassformer.models.bert import Bert
from glassformer.models.gpt import GPT
from glassformer.models.image_classifier import ImageClassifier
from glassformer.models.labeller import TokenTagger
from glassformer.preprocessing.caption import CaptionPreprocessing
from glassformer.preprocessing.image import ImagePreprocessing
from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.preprocessing.palette import PalettePreprocessing
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.pretrained.model_cards import ONLY_BEGINNING
from glassformer.text.tokenizers import Tokenizer

PROMPT = "Once upon a time"
MOST = 64  # tokens to write

OPEN = 'session = onnxruntime.InferenceSession("model.onnx")'
READ = 'tokenizer = Tokenizer.from_file("tokenizer.json")'

# Greedy decoding: the cache grows by the new tokens with every call.
WRITE = """
past = [each.name for each in {session}.get_inputs() if each.name.startswith("past")]
cache = {{name: np.zeros((1, {heads}, 0, {width}), np.float32) for name in past}}
written, new = [], {first}
for length in range(len(new), {limit}):
    inputs = {{"input_ids": np.array([new]), {more}}}
    logits, *present = {session}.run(None, inputs | cache)
    cache = dict(zip(past, present))
    token = int(logits[0, -1].argmax())
    if token in {ends}:
        break
    written.append(token)
    new = [token]
"""
PIXELS = """
image = Image.open("image.png").convert("{mode}")
image = image.resize(({width}, {height}), Image.Resampling.BILINEAR)
pixels = np.asarray(image, np.float32).reshape({height}, {width}, {channels}) / 255
pixels = (pixels - np.array({mean}, np.float32)) / np.array({std}, np.float32)
pixels = pixels.transpose(2, 0, 1)[None]
"""
TEXTS = """
tokenizer.enable_padding()
tokenizer.enable_truncation({context})
texts = tokenizer.encode_batch(["{first}", "{second}"])
inputs = {{
    "input_ids": np.array([each.ids for each in texts]),
    "attention_mask": np.array([each.attention_mask for each in texts]),
}}
"""
TARGET_READER = 'Tokenizer.from_file("target_tokenizer.json")'
LABELS = 'labels = json.load(open("config.json"))["labels"]'


def usage(saved: Saved) -> str:
    """Python code that runs in the folder of the graphs."""
    model: Any = saved.model
    preprocessing: Any = saved.preprocessing
    match preprocessing:
        case PalettePreprocessing():
            return _painting(model, preprocessing)
        case PairPreprocessing():
            return _translation(model, preprocessing)
        case CaptionPreprocessing():
            return _caption(model, preprocessing)
        case ImagePreprocessing() if isinstance(model, ImageClassifier):
            return _image(preprocessing)
        case SeriesPreprocessing():
            return _series(preprocessing, model)
    if isinstance(model, GPT):
        return _writing(model, preprocessing)
    if isinstance(model, Bert):
        return _masked(model, preprocessing)
    return _labels(model, preprocessing)


def _lines(*parts: str) -> str:
    return "\n".join(part.strip("\n") for part in parts if part)


def _imports(*more: str) -> str:
    standard = [line for line in more if line == "import json"]
    others = sorted(line for line in more if line != "import json")
    plain = ["import numpy as np", "import onnxruntime"]
    return "\n".join([*standard, *([""] if standard else []), *plain, *others, ""])


TOKENIZERS, PILLOW = "from tokenizers import Tokenizer", "from PIL import Image"


def _decoding(model: Any, session: str, first: str, limit: str, ends: Any, more: str) -> str:
    config = model.config
    return WRITE.format(
        session=session,
        heads=config.kv_heads,
        width=config.width_of_head,
        first=first,
        limit=limit,
        ends=ends,
        more=more,
    )


def _writing(model: GPT, preprocessing: Any) -> str:
    tokenizer = preprocessing.tokenizer
    mask = '"attention_mask": np.ones((1, length), np.int64)'
    return _lines(
        _imports(TOKENIZERS),
        OPEN,
        READ,
        f"ids = tokenizer.encode({known_text(tokenizer, PROMPT)!r}).ids",
        _decoding(
            model,
            "session",
            "ids",
            f"min(len(ids) + {MOST}, {model.context_length + 1})",
            list(preprocessing.ends),
            mask,
        ),
        "print(tokenizer.decode(written))",
    )


def _painting(model: GPT, preprocessing: PalettePreprocessing) -> str:
    height, width = preprocessing.image_size
    mask = '"attention_mask": np.ones((1, length), np.int64)'
    start = f"[{preprocessing.start}]"
    painted = _decoding(model, "session", start, str(height * width + 1), [], mask)
    painted = painted.replace(
        "int(logits[0, -1].argmax())", "int(random.choice(len(odds), p=odds))"
    )
    odds = "    odds = np.exp(logits[0, -1].astype(float) - logits.max())\n    odds /= odds.sum()\n"
    painted = painted.replace("    token =", f"{odds}    token =").replace(
        "    if token in []:\n        break\n", ""
    )
    return _lines(
        _imports("import json", PILLOW),
        OPEN,
        'colors = np.array(json.load(open("preprocessor_config.json"))["clusters"])',
        "random = np.random.default_rng(0)",
        painted,
        f"pixels = np.rint((colors[written] + 1) * 127.5).reshape({height}, {width}, 3)",
        'Image.fromarray(pixels.astype(np.uint8)).save("painted.png")',
    )


def _masked(model: Bert, preprocessing: Any) -> str:
    tokenizer = preprocessing.tokenizer
    first, second = known_text(tokenizer, "a short text"), known_text(tokenizer, "another one")
    if not model.config.has_head:
        context = model.config.sentence_length or model.context_length
        return _lines(
            _imports(TOKENIZERS),
            OPEN,
            READ,
            TEXTS.format(context=context, first=first, second=second),
            "states, vectors = session.run(None, inputs)",
            "print(vectors @ vectors.T)",
        )
    name = preprocessing.mask_name
    return _lines(
        _imports(TOKENIZERS),
        OPEN,
        READ,
        f'ids = tokenizer.encode("{first} {name}").ids',
        "mask = np.ones((1, len(ids)), np.int64)",
        'inputs = {"input_ids": np.array([ids]), "attention_mask": mask}',
        "logits, vectors = session.run(None, inputs)",
        f'place = ids.index(tokenizer.token_to_id("{name}"))',
        "print(tokenizer.decode([int(logits[0, place].argmax())]))",
    )


def _labels(model: Any, preprocessing: Any) -> str:
    tokenizer = preprocessing.tokenizer
    first, second = known_text(tokenizer, "a short text"), known_text(tokenizer, "another one")
    texts = TEXTS.format(context=model.context_length, first=first, second=second)
    if model.context_length is None:
        texts = texts.replace("tokenizer.enable_truncation(None)\n", "")
    if isinstance(model, TokenTagger):
        shown = "for text, row in zip(texts, logits):\n"
        shown += "    print([(token, labels[n]) for token, n in zip(text.tokens, row.argmax(-1))])"
    elif model.config.multi_label:
        shown = "for row in logits:\n    print([label for label, x in zip(labels, row) if x > 0])"
    else:
        shown = "for row in logits:\n    print(labels[row.argmax()])"
    is_cut = model.context_length is not None and not isinstance(model, TokenTagger)
    return _lines(
        _imports("import json", TOKENIZERS),
        OPEN,
        READ,
        LABELS,
        ONLY_BEGINNING if is_cut else "",
        texts,
        "(logits,) = session.run(None, inputs)",
        shown,
    )


def _series(preprocessing: SeriesPreprocessing, model: Any) -> str:
    return _lines(
        _imports("import json"),
        OPEN,
        LABELS,
        'scale = json.load(open("preprocessor_config.json"))',
        f"values = np.zeros((10, {preprocessing.width}), np.float32)  # steps and features",
        'values = (values - np.float32(scale["mean"])) / np.float32(scale["deviation"])',
        "mask = np.ones((1, len(values)), np.int64)",
        'inputs = {"input_values": values[None], "attention_mask": mask}',
        "(logits,) = session.run(None, inputs)",
        "print(labels[logits[0].argmax()])",
    )


def _pixels(preprocessing: ImagePreprocessing) -> str:
    height, width = preprocessing.image_size
    return PIXELS.format(
        mode="L" if preprocessing.num_channels == 1 else "RGB",
        width=width,
        height=height,
        channels=preprocessing.num_channels,
        mean=list(preprocessing.image_mean),
        std=list(preprocessing.image_std),
    )


def _image(preprocessing: ImagePreprocessing) -> str:
    return _lines(
        _imports("import json", PILLOW),
        OPEN,
        LABELS,
        _pixels(preprocessing),
        '(logits,) = session.run(None, {"pixel_values": pixels})',
        "print(labels[logits[0].argmax()])",
    )


def _caption(model: Any, preprocessing: CaptionPreprocessing) -> str:
    return _lines(
        _imports(TOKENIZERS, PILLOW),
        'encoder = onnxruntime.InferenceSession("encoder.onnx")',
        'decoder = onnxruntime.InferenceSession("decoder.onnx")',
        READ,
        _pixels(preprocessing),
        'states = encoder.run(None, {"pixel_values": pixels})',
        "memory = dict(zip((each.name for each in encoder.get_outputs()), states))",
        _answering(model, preprocessing.start, preprocessing.end, "**memory"),
        "print(tokenizer.decode(written).strip())",
    )


def _translation(model: Any, preprocessing: PairPreprocessing) -> str:
    text = known_text(preprocessing.source, "how are you")
    writer = "tokenizer"
    if preprocessing.target_tokenizer is not None:
        writer = TARGET_READER
    return _lines(
        _imports(TOKENIZERS),
        'encoder = onnxruntime.InferenceSession("encoder.onnx")',
        'decoder = onnxruntime.InferenceSession("decoder.onnx")',
        READ,
        f"ids = tokenizer.encode({text!r}).ids",
        "mask = np.ones((1, len(ids)), np.int64)",
        'states = encoder.run(None, {"input_ids": np.array([ids]), "attention_mask": mask})',
        "memory = dict(zip((each.name for each in encoder.get_outputs()), states))",
        _answering(
            model,
            preprocessing.start,
            preprocessing.end,
            '"encoder_attention_mask": mask, **memory',
        ),
        f"print({writer}.decode(written).strip())",
    )


def _answering(model: Any, start: int, end: int, more: str) -> str:
    limit = min(MOST, model.context_length) + 1
    return _decoding(model, "decoder", f"[{start}]", str(limit), [end], more)


def known_text(tokenizer: Tokenizer, text: str) -> str:
    """The text, or another one if the vocabulary cannot spell it."""
    if not tokenizer.unknown_characters(text):
        return text
    pieces = (tokenizer.token(id) for id in range(tokenizer.vocab_size) if not tokenizer.hides(id))
    plain = [piece for piece in pieces if piece.isalnum()]
    joined = "" if tokenizer.kind == "char" else " "
    return joined.join(plain[:3])
