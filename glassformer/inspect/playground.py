"""A page in which a GPT learns: one file that needs neither Python nor a network.

The model, its loss, its gradient and AdamW are in `static/playground/learning.js`. From Python come
its shape, a poem to begin with, and what a model folder holds besides what is learned, so that
`generate` reads what the page saves.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.checkpoint.model_folder import save_model
from glassformer.inspect.page import assembled, part
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import GPT_PRESETS
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer

TITLE = "A GPT that learns in this page"
ABOUT = "On this page, a small GPT learns to continue a text of your choice."
CONTEXT = 64  # half of nano's: the time of a step grows with it
POEM = "playground/poem.txt"  # "The Walrus and the Carpenter" by Lewis Carroll, 1871

STYLES = ("page.css", "story/story.css", "playground/playground.css")
SCRIPTS = (
    "elements.js",
    "scales.js",
    "random.js",
    "story/matrix.js",
    "live/tensors.js",
    "live/attention.js",
    "playground/learning.js",
    "playground/text.js",
    "playground/folder.js",
    "playground/pictures.js",
    "playground/playground.js",
)


def playground() -> str:
    """The page. Always the same bytes."""
    tokenizer = train_tokenizer("char", ["a"])
    config = GPTConfig(
        **GPT_PRESETS["nano"] | {"context_length": CONTEXT, "vocab_size": tokenizer.vocab_size}
    )
    shape = config.explicit()
    sizes = ("num_layers", "num_heads", "d_model", "head_dim", "d_feedforward", "norm_eps")
    with TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder, GPT(config), TextPreprocessing(tokenizer=tokenizer, is_causal=True))
        templates = {
            key: json.loads((folder / file).read_text(encoding="utf-8"))
            for key, file in (
                ("config", "config.json"),
                ("preprocessor", "preprocessor_config.json"),
                ("tokenizer", "tokenizer.json"),
            )
        }
    data = {
        "shape": {size: shape[size] for size in sizes} | {"context_length": CONTEXT},
        "templates": templates,
        "text": part(POEM),
    }
    return assembled(TITLE, "", STYLES, SCRIPTS, data, ABOUT)
