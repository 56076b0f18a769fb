"""The presets of every model: plain data, so that `--help` can list them without importing torch.

Each model has its presets and the sizes that choose one of them by the amount of training data:
pairs of (minimum number of tokens, preset), largest first.
"""

from typing import Any

Preset = dict[str, Any]
Presets = dict[str, Preset]
Sizes = tuple[tuple[float, str], ...]
Choice = tuple[Presets, Sizes]


def _stack(layers: int, heads: int, width: int, feedforward: int = 0, **more: Any) -> Preset:
    """The sizes of a stack of blocks, and what else is particular to it."""
    sizes = {"num_layers": layers, "num_heads": heads, "d_model": width}
    return sizes | ({"d_feedforward": feedforward} if feedforward else {}) | more


_MODERN = {"positions": "rotary", "norm": "rms", "norm_eps": 1e-6, "qk_norm": True}
_MODERN |= {"activation": "swiglu", "bias": False, "initialization": "zero_output"}

# --- GPT ---

_GPT2: Preset = {"vocab_size": 50257, "context_length": 1024, "dropout": 0.1}
_MODERN_GPT: Preset = _MODERN | {"tie_weights": False, "num_kv_heads": 2}

GPT_PRESETS: Presets = {
    # Lecture 2's assignment: small enough to print. Every head has the full width of the model.
    "nano": _stack(3, 3, 48, head_dim=48, context_length=128),
    # Lecture 3's model, corrected (see docs/errata.md): post-norm, sinusoidal positions, torch's
    # defaults, no final norm, untied output. Not the published GPT-2: that one is below.
    "lecture": _stack(12, 6, 144, 2048, d_embedding=128, vocab_size=512, context_length=256)
    | {"positions": "sinusoidal", "activation": "relu", "initialization": "torch"}
    | {"pre_norm": False, "final_norm": False, "tie_weights": False, "output_bias": True}
    | {"dropout": 0.1, "attention_dropout": 0.1, "feedforward_dropout": 0.1},
    # The four published GPT-2s: 124,439,808 / 354,823,168 / 774,030,080 / 1,557,611,200 parameters.
    "gpt2": _GPT2 | _stack(12, 12, 768),
    "gpt2-medium": _GPT2 | _stack(24, 16, 1024),
    "gpt2-large": _GPT2 | _stack(36, 20, 1280),
    "gpt2-xl": _GPT2 | _stack(48, 25, 1600),
    # Current practice in laptop sizes; the layout is Qwen3's. The head has its own weights: small
    # models learn faster that way, at no cost in time (docs/training.md).
    "modern-xs": _MODERN_GPT | _stack(4, 4, 128, 384, context_length=128),
    "modern-s": _MODERN_GPT | _stack(6, 4, 256, 704, context_length=256),
    "modern-m": _MODERN_GPT | _stack(8, 6, 384, 1024, context_length=512),
    "modern-l": _MODERN_GPT | _stack(12, 8, 512, 1408, context_length=512),
}
GPT_SIZES: Sizes = ((1e9, "modern-l"), (1e8, "modern-m"), (3e6, "modern-s"), (0, "modern-xs"))
GPT: Choice = (GPT_PRESETS, GPT_SIZES)

# --- encoders: BERT, classifiers and taggers ---

_DROPOUT: Preset = {"dropout": 0.1, "attention_dropout": 0.1}
_BERT: Preset = _DROPOUT | {"vocab_size": 30522, "context_length": 512, "num_segments": 2}
_MODERN_ENCODER: Preset = _MODERN | {"pre_norm": True, "final_norm": True, "dropout": 0.1}
_MODERN_ENCODER |= {"embedding_norm": False}

ENCODER_PRESETS: Presets = {
    # The lecture's encoder: post-norm, learned positions, a norm and dropout on the embeddings.
    "lecture": _DROPOUT | _stack(2, 4, 128, context_length=128),
    # The published BERTs, without the pooler: 109,514,298 / 335,174,458 parameters with their head.
    "bert-base": _BERT | _stack(12, 12, 768),
    "bert-large": _BERT | _stack(24, 16, 1024),
    # Current practice in laptop sizes: the blocks of the "modern-…" GPTs without the causal mask.
    "xs": _MODERN_ENCODER | _stack(2, 4, 128, 384, context_length=128),
    "s": _MODERN_ENCODER | _stack(4, 4, 256, 704, context_length=256),
    "m": _MODERN_ENCODER | _stack(6, 6, 384, 1024, context_length=512),
}
# Trained from scratch, a classifier learns better without the final norm, which would scale the
# vector of a rare word up to that of all others, with rare words counting more, and with a bag of
# n-grams beside it, which knows more than the Transformer as long as examples are few.
_FROM_SCRATCH: Preset = {"final_norm": False, "head_dropout": 0.5, "pooling": "idf", "bag": True}
CLASSIFIER_PRESETS: Presets = {
    name: values | (_FROM_SCRATCH if values.get("pre_norm") else {})
    for name, values in ENCODER_PRESETS.items()
}
ENCODER_SIZES: Sizes = ((1e8, "m"), (3e6, "s"), (0, "xs"))
ENCODER: Choice = (ENCODER_PRESETS, ENCODER_SIZES)
CLASSIFIER: Choice = (CLASSIFIER_PRESETS, ENCODER_SIZES)

# --- Transformer translators ---

TRANSFORMER_PRESETS: Presets = {
    "tiny": _stack(2, 4, 128, 512, dropout=0.1, initialization="zero_output"),
    # Wider models memorise some ten thousand sentences before they learn to translate.
    "small": _stack(4, 4, 128, 256, dropout=0.3, initialization="zero_output"),
    "medium": _stack(4, 4, 256, 1024, dropout=0.2, initialization="zero_output"),
    # Vaswani et al. 2017, "base": post-norm, ReLU, sinusoidal positions, one embedding for all.
    "base": _stack(6, 8, 512, 2048, dropout=0.1, context_length=512)
    | {"pre_norm": False, "final_norm": False},
}
TRANSFORMER_SIZES: Sizes = ((1e8, "base"), (4e6, "medium"), (5e5, "small"), (0, "tiny"))
TRANSFORMER: Choice = (TRANSFORMER_PRESETS, TRANSFORMER_SIZES)

# --- bag of words, recurrent networks ---

BAG_PRESETS: Presets = {
    # The lecture's: the mean of the embeddings of single words.
    "lecture": {"d_model": 128, "weighting": "mean", "ngrams": 1, "head_dropout": 0.5},
    "small": {"num_buckets": 2**17, "char_ngrams": 5, "head_dropout": 0.0},
    "medium": {"num_buckets": 2**18, "char_ngrams": 5, "head_dropout": 0.0},
    # With this much data, a word is seen often enough for its spelling to add little, and a pair of
    # words often enough to count as much as a word.
    "large": {"num_buckets": 2**19, "ngram_weight": 1.0, "head_dropout": 0.0},
}
BAG: Choice = (BAG_PRESETS, ((3e6, "large"), (3e5, "medium"), (0, "small")))
RNN_LM_PRESETS: Presets = {
    "small": {"num_layers": 2, "d_embedding": 256, "d_model": 256},
    "medium": {"num_layers": 2, "d_embedding": 512, "d_model": 512, "dropout": 0.1},
}
RNN_CLASSIFIER_PRESETS: Presets = {
    # All states, weighted: the last of many hundred has forgotten most of a text.
    "small": {"num_layers": 1, "d_embedding": 128, "d_model": 128, "dropout": 0.1}
    | {"pooling": "idf", "bag": True},
    "medium": {"num_layers": 2, "d_embedding": 256, "d_model": 256, "dropout": 0.2}
    | {"pooling": "idf", "bag": True},
}
RNN_SIZES: Sizes = ((3e6, "medium"), (0, "small"))
RNN_LM: Choice = (RNN_LM_PRESETS, RNN_SIZES)
RNN_CLASSIFIER: Choice = (RNN_CLASSIFIER_PRESETS, RNN_SIZES)

RNN_TRANSLATOR_PRESETS: Presets = {
    "tiny": {"d_embedding": 128, "d_model": 128, "dropout": 0.1},
    "small": {"d_embedding": 256, "d_model": 256, "dropout": 0.3},
    "medium": {"num_layers": 2, "d_embedding": 512, "d_model": 512, "dropout": 0.3},
}
RNN_TRANSLATOR: Choice = (RNN_TRANSLATOR_PRESETS, ((5e6, "medium"), (3e5, "small"), (0, "tiny")))

# --- images to captions; sizes count images ---

CAPTIONER_PRESETS: Presets = {
    # Convolutions make the patches: little data cannot teach a linear layer what an edge is.
    "tiny": _stack(2, 4, 128, 512, embedding="convolution", dropout=0.1),
    "small": _stack(3, 4, 192, 768, embedding="convolution", dropout=0.2),
    "medium": _stack(4, 8, 256, 1024, embedding="convolution", dropout=0.2),
    # A plain ViT of the published shape, and a decoder of the same shape.
    "vit-ti-16": _stack(12, 3, 192, 768, patch_size=16, image_size=(224, 224), dropout=0.1),
}
CAPTIONER: Choice = (CAPTIONER_PRESETS, ((30_000, "medium"), (5_000, "small"), (0, "tiny")))
SHOW_ATTEND_TELL_PRESETS: Presets = {
    "tiny": {"d_embedding": 128, "d_model": 128, "dropout": 0.1, "query": "word"},
    "small": {"d_embedding": 192, "d_model": 192, "dropout": 0.3, "query": "word"},
    "medium": {"d_embedding": 256, "d_model": 384, "dropout": 0.4, "query": "word"},
}
SHOW_ATTEND_TELL: Choice = (
    SHOW_ATTEND_TELL_PRESETS,
    ((30_000, "medium"), (5_000, "small"), (0, "tiny")),
)

# --- images ---

# Chen et al. (2020), with 512 colours: 76,682,240 / 455,489,536 / 1,362,914,304 parameters.
_IMAGE_GPT: Preset = {"vocab_size": 513, "context_length": 1024, "image_size": 32}
_IMAGE_GPT |= {"norm": "rms", "activation": "quick_gelu", "dropout": 0.1}
_PAINTER: Preset = {"initialization": "zero_output", "dropout": 0.1}
IMAGE_GPT_PRESETS: Presets = {
    "igpt-s": _IMAGE_GPT | _stack(24, 8, 512),
    "igpt-m": _IMAGE_GPT | _stack(36, 8, 1024),
    "igpt-l": _IMAGE_GPT | _stack(48, 16, 1536),
    # More dropout: with little data, it soon knows its images by heart.
    "tiny": _PAINTER | _stack(4, 4, 128, dropout=0.2),
    "small": _PAINTER | _stack(6, 4, 128),
    "medium": _PAINTER | _stack(8, 4, 256),
}
IMAGE_GPT: Choice = (IMAGE_GPT_PRESETS, ((1e9, "medium"), (3e6, "small"), (0, "tiny")))

# Dosovitskiy et al. (2021) and Touvron et al. (2021), with 1,000 labels: 5,717,416 / 22,050,664 /
# 86,567,656 / 304,326,632 parameters.
_VIT: Preset = {"image_size": 224, "num_channels": 3, "patch_size": 16}
# For little data and small images: convolutions make the patches, pooling has learned weights
# (Hassani et al., 2021), and blocks start as the identity.
_COMPACT: Preset = {"embedding": "convolution", "pooling": "sequence", "head_dropout": 0.0}
_COMPACT |= {"initialization": "zero_output"}

_COMPACT_STAGES: Preset = {key: value for key, value in _COMPACT.items() if key != "pooling"}
_COMPACT_STAGES |= {"window_size": 4}

VIT_PRESETS: Presets = {
    "vit-ti-16": _VIT | _stack(12, 3, 192),
    "vit-s-16": _VIT | _stack(12, 6, 384),
    "vit-b-16": _VIT | _stack(12, 12, 768),
    "vit-l-16": _VIT | _stack(24, 16, 1024),
    "tiny": _COMPACT | _stack(4, 4, 64, patch_size=2),
    # A narrow feed-forward layer: in the same time, more images teach more than more weights do.
    "small": _COMPACT | _stack(4, 4, 128, 256, patch_size=4),
    "medium": _COMPACT | _stack(6, 4, 256, 512, patch_size=4),
}
VIT: Choice = (VIT_PRESETS, ((2e9, "medium"), (4e6, "small"), (0, "tiny")))

MULTISCALE_PRESETS: Presets = {
    # Liu et al. (2021), with 1,000 labels: 28,288,354 parameters.
    "swin-t": {"image_size": 224, "num_channels": 3, "patch_size": 4, "window_size": 7}
    | {"num_layers": (2, 2, 6, 2), "d_model": 96, "num_heads": (3, 6, 12, 24)},
    "tiny": _COMPACT_STAGES
    | {"num_layers": (2, 2), "d_model": 32, "num_heads": (2, 4), "patch_size": 2},
    "small": _COMPACT_STAGES
    | {"num_layers": (1, 2, 1), "d_model": 64, "num_heads": (2, 4, 8), "patch_size": 2},
    "medium": _COMPACT_STAGES
    | {"num_layers": (2, 4, 2), "d_model": 96, "num_heads": (3, 6, 12), "patch_size": 4}
    | {"mlp_ratio": 2.0},
}
MULTISCALE: Choice = (MULTISCALE_PRESETS, ((2e9, "medium"), (4e6, "small"), (0, "tiny")))

# --- word vectors ---

WORD_VECTORS_PRESETS: Presets = {
    "small": {"d_model": 50},
    "medium": {"d_model": 100},
    "large": {"d_model": 300},
}
WORD_VECTORS: Choice = (WORD_VECTORS_PRESETS, ((1e8, "large"), (5e5, "medium"), (0, "small")))
