"""Vocabularies of older releases, which have no tokenizer.json.

    vocab.txt                     one piece per line: BERT's and DistilBERT's WordPiece
    vocab.json and merges.txt     byte-level BPE: GPT-2's and RoBERTa's

tokenizer_config.json, special_tokens_map.json and added_tokens.json have their settings and special
tokens, where these files exist.
"""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from glassformer.atomic_files import read_json
from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import cause

PIECES, VOCABULARY, MERGES = "vocab.txt", "vocab.json", "merges.txt"
CONFIG, NAMES, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
LARGEST = 2**26  # bytes
BERT = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
ROBERTA = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
GPT2 = {"eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}


def read_vocabulary(folder: Path, model_type: Any) -> Tokenizer | None:
    """The tokenizer of a folder without a tokenizer.json; None: it has no such files."""
    settings: Values = {}
    for name in (NAMES, CONFIG):
        if (folder / name).is_file():
            settings |= read_json(folder / name)
    try:
        if (folder / PIECES).is_file() and model_type in ("bert", "distilbert"):
            backend = _wordpiece(folder, settings)
        elif (folder / VOCABULARY).is_file() and (folder / MERGES).is_file():
            backend = _byte_level(folder, settings, has_frame=model_type == "roberta")
        else:
            return None
        if (folder / ADDED).is_file():
            added = read_json(folder / ADDED)
            for name in sorted(added, key=lambda each: int(added[each])):
                backend.add_tokens([AddedToken(name, normalized=False)])
                if backend.token_to_id(name) != added[name]:
                    raise ValueError(f"{ADDED} gives {name} the number {added[name]}")
        return Tokenizer(backend)
    except GlassformerError:
        raise
    except Exception as error:  # the library has no narrower one
        raise GlassformerError(
            f"{folder}: its vocabulary cannot be read: {cause(error)}. Copy it again."
        ) from None


def _wordpiece(folder: Path, settings: Values) -> Backend:
    lines = _text(folder / PIECES).split("\n")
    pieces = lines[:-1] if lines[-1] == "" else lines
    vocabulary = {piece.rstrip("\r"): id for id, piece in enumerate(pieces)}
    names = _names(settings, BERT)
    unknown, first, last = (names[key] for key in ("unk_token", "cls_token", "sep_token"))
    for name in (unknown, first, last):
        if name not in vocabulary:
            raise ValueError(f"{PIECES} has no {name}")
    backend = Backend(models.WordPiece(vocabulary, unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    _add_special(backend, names)
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )
    return backend


def _byte_level(folder: Path, settings: Values, has_frame: bool) -> Backend:
    vocabulary = read_json(folder / VOCABULARY)
    lines = _text(folder / MERGES).split("\n")
    merges = [line.rstrip("\r") for line in lines if line and not line.startswith("#version")]
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    backend = Backend(models.BPE(vocabulary, pairs))
    blank = bool(settings.get("add_prefix_space", False))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=blank)
    backend.decoder = decoders.ByteLevel()
    names = _names(settings, ROBERTA if has_frame else GPT2)
    _add_special(backend, names)
    if has_frame:
        # They are in the vocabulary now, at its end if they were not.
        first, last = (
            (name, int(backend.token_to_id(name) or 0))
            for name in (names["bos_token"], names["eos_token"])
        )
        backend.post_processor = processors.RobertaProcessing(last, first, add_prefix_space=blank)
    else:
        backend.post_processor = processors.ByteLevel(trim_offsets=False)  # which adds nothing
    return backend


def _names(settings: Values, usual: dict[str, str]) -> dict[str, str]:
    """The special tokens: those of the settings, as texts or with their options."""
    found = dict(usual)
    for key in usual:
        value = settings.get(key)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[key] = text
    return found


def _add_special(backend: Backend, names: dict[str, str]) -> None:
    for key, name in names.items():
        # A blank before a mask belongs to it where blanks belong to words.
        is_mask = key == "mask_token" and isinstance(backend.decoder, decoders.ByteLevel)
        backend.add_special_tokens([AddedToken(name, lstrip=is_mask, normalized=False)])


def _text(path: Path) -> str:
    if path.stat().st_size > LARGEST:
        raise GlassformerError(f"{path} is far too large for a file of this name.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise GlassformerError(f"{path} is not UTF-8. Copy it again.") from None
