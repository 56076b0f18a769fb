"""What is inside a tokenizer: its data for a page, and the merges by which BPE reads a word.

    portable(tokenizer)                 plain data, for `inspect/static/live/tokenizer.js`
    merge_steps(tokenizer, "lower")     l·o·w·e·r → lo·w·e·r → low·e·r → low·er → lower

All of our tokenizers can run outside Python, and those of other tools that are built in the same
way. The data is small: pieces in the order of their ids, merges as pairs of ids, scores as the
bytes of doubles.
"""

import base64
import json
import string
import struct
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from glassformer.errors import GlassformerError, UsageError
from glassformer.text.tokenizer_training import spaced_decoder
from glassformer.text.tokenizers import CHARACTERS, WORDS, Tokenizer, bytes_of, readable_bytes

Part = dict[str, Any] | None


def portable(tokenizer: Tokenizer) -> dict[str, Any]:
    """The data of a tokenizer. Raises GlassformerError if it is built in a way that has no
    counterpart outside Python."""
    file = tokenizer.as_json()
    if not all(token["special"] for token in file["added_tokens"]):
        raise _unknown("tokens that were added as text")
    pieces = [tokenizer.piece(id) for id in range(tokenizer.vocab_size)]  # None: an id without one
    return {
        "kind": tokenizer.kind,
        "pieces": pieces,
        "special": tokenizer.special_tokens,
        "added": _added(file, tokenizer),
        "normalizer": _normalizer(file["normalizer"]),
        "split": _split(file["pre_tokenizer"]),
        "decoder": _decoder(file["decoder"]),
        **_model(
            file["model"], {piece: id for id, piece in enumerate(pieces) if piece is not None}
        ),
    }


def _added(file: dict[str, Any], tokenizer: Tokenizer) -> list[int]:
    """Special tokens that are not in the vocabulary of the model, so that no word can be one."""
    vocab = file["model"]["vocab"]
    pieces = vocab if isinstance(vocab, dict) else {piece for piece, _ in vocab}
    return [id for name, id in tokenizer.special_tokens.items() if name not in pieces]


def _unknown(what: str) -> GlassformerError:
    return GlassformerError(f"the tokenizer cannot run outside Python: it has {what}.")


def _normalizer(part: Part) -> Part:
    match part:
        case None:
            return None
        case {"type": "Lowercase"}:
            return {"type": "lowercase"}
        case {"type": "BertNormalizer", "strip_accents": strip, "lowercase": lowercase}:
            return {
                "type": "bert",
                "removed": _removed(clean_text=True) if part["clean_text"] else None,
                "spread": part["handle_chinese_chars"],
                "marks": _removed(strip_accents=True)
                if (strip is None and lowercase) or strip
                else None,
                "lowercase": lowercase,
            }
    raise _unknown(f"the normalizer {part['type']}")


def _split(part: Part) -> dict[str, Any]:
    if part == _in_file("pre_tokenizer", CHARACTERS):
        return {"type": "characters"}
    if part == _in_file("pre_tokenizer", WORDS):
        return {"type": "words"}
    match part:
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}:
            return {"type": "bytes"}
        case {"type": "BertPreTokenizer"}:
            return {"type": "bert", "punctuation": _punctuation()}
        case {"type": "WhitespaceSplit"}:
            return {"type": "spaces"}
    raise _unknown(f"the pre-tokenizer {part['type'] if part else None}")


def _decoder(part: Part) -> dict[str, Any]:
    if part == _in_file("decoder", spaced_decoder()):
        return {"type": "spaced"}
    match part:
        case {"type": "ByteLevel"}:
            return {"type": "bytes"}
        case {"type": "Fuse"}:
            return {"type": "joined"}
        case {"type": "WordPiece", "prefix": "##", "cleanup": cleanup}:
            return {"type": "wordpiece", "cleanup": cleanup}
    raise _unknown(f"the decoder {part['type'] if part else None}")


def _model(model: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    """How a word becomes pieces."""
    match model:
        case {"type": "WordLevel"}:
            return {"model": "whole", "unknown": ids.get(model["unk_token"])}
        case {"type": "WordPiece", "continuing_subword_prefix": "##"}:
            longest = model["max_input_chars_per_word"]
            return {"model": "longest", "unknown": ids.get(model["unk_token"]), "longest": longest}
        case {"type": "BPE", "dropout": None, "byte_fallback": False} if _is_plain(model):
            pairs = (
                pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]
            )
            merges = [ids[side] for pair in pairs for side in pair]
            return {"model": "merges", "merges": merges, "whole_first": model["ignore_merges"]}
        case {"type": "Unigram", "unk_id": None, "byte_fallback": False}:
            scores = [score for _, score in model["vocab"]]  # in the order of ids
            packed = struct.pack(f"<{len(scores)}d", *scores)
            return {"model": "likeliest", "scores": base64.b64encode(packed).decode()}
    raise _unknown(f"a model {model['type']} with settings that ours do not have")


def _is_plain(bpe: dict[str, Any]) -> bool:
    has_all_bytes = len([piece for piece in bpe["vocab"] if len(piece) == 1]) >= 256
    is_bare = not (bpe["continuing_subword_prefix"] or bpe["end_of_word_suffix"])
    return is_bare and (bpe["unk_token"] is None or has_all_bytes)


# The library's BERT has tables of an old Unicode. What it takes for a control character, a mark on
# a letter or punctuation is found by trying, and carried along.


@cache
def _removed(clean_text: bool = False, strip_accents: bool = False) -> list[int]:
    """The characters that BERT's normalizer removes, as ranges."""
    asked = {"clean_text": clean_text, "strip_accents": strip_accents}
    normalizer = normalizers.BertNormalizer(**asked, handle_chinese_chars=False, lowercase=False)
    some = [*_characters("Cc", "Cf", "M"), "\ufffd"]
    removed = [char for char in some if normalizer.normalize_str(f"a{char}b") == "ab"]
    return _ranges([*removed, *(_characters("Co") if clean_text else ())])


@cache
def _punctuation() -> list[int]:
    split = pre_tokenizers.BertPreTokenizer()
    some = [*_characters("P", "S"), *string.punctuation]
    return _ranges([char for char in some if len(split.pre_tokenize_str(f"a{char}a")) == 3])


def _characters(*categories: str) -> Iterator[str]:
    every = map(chr, range(sys.maxunicode + 1))
    return (char for char in every if unicodedata.category(char).startswith(categories))


def _ranges(characters: Iterable[str]) -> list[int]:
    """The first and the last of each run of consecutive characters."""
    codes = sorted({ord(char) for char in characters})
    first = [code for before, code in pairwise([-2, *codes]) if code != before + 1]
    last = [code for code, after in pairwise([*codes, sys.maxunicode + 2]) if after != code + 1]
    return [code for run in zip(first, last, strict=True) for code in run]


def _in_file(name: str, part: Any) -> Any:
    """A part of the library's as it stands in a tokenizer file."""
    backend = Backend(models.WordLevel())
    setattr(backend, name, part)
    return json.loads(backend.to_str())[name]


# --- merges ---
# BPE begins with the bytes of a word and joins two neighbours at a time. Each step applies the
# merge that was learned first among those possible, at its first place.

Ranks = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Merge:
    """One step: the pieces after it, which of them is new, and when its merge was learned."""

    pieces: list[str]
    place: int
    rank: int | None
    """0 for the first merge that was learned; None: the vocabulary has the whole word, which needs
    no merge."""


def merge_steps(tokenizer: Tokenizer, text: str) -> list[list[str]]:
    """The pieces before the first merge and after each; the last are the tokens of the text. The
    words of a longer text are merged one after the other."""
    check_merges(tokenizer)
    words = [[_shown(piece) for piece in word] for word in tokenizer.parts(text)]
    steps = [_joined(words)]
    for index, word in enumerate(tokenizer.parts(text)):
        for merge in merges_of(tokenizer, word):
            words[index] = merge.pieces
            steps.append(_joined(words))
    return steps


def check_merges(tokenizer: Tokenizer) -> None:
    """An error if the tokenizer does not merge bytes."""
    if not does_merge(tokenizer):
        raise UsageError(f"a {tokenizer.kind} tokenizer does not merge bytes: only bpe does.")


def does_merge(tokenizer: Tokenizer) -> bool:
    return tokenizer.kind == "bpe" and tokenizer.is_byte_level


def num_merges(tokenizer: Tokenizer) -> int:
    return len(_ranks(tokenizer)[0])


def merges_of(tokenizer: Tokenizer, word: str) -> Iterator[Merge]:
    """The merges of one word, written as `Tokenizer.parts` does."""
    ranks, whole_first = _ranks(tokenizer)
    pieces = list(word)
    if whole_first is not None and word in whole_first and len(pieces) > 1:
        pieces = [word]
        yield Merge([_shown(word)], 0, None)
    while (merge := _next_merge(pieces, ranks)) is not None:
        rank, position = merge
        pieces[position : position + 2] = [pieces[position] + pieces[position + 1]]
        yield Merge([_shown(piece) for piece in pieces], position, rank)


@lru_cache(maxsize=4)
def _ranks(tokenizer: Tokenizer) -> tuple[Ranks, frozenset[str] | None]:
    """When each merge was learned, and the words that need none, if the tokenizer has such."""
    model = tokenizer.as_json()["model"]
    pairs = (pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"])
    ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
    return ranks, frozenset(model["vocab"]) if model["ignore_merges"] else None


def _next_merge(pieces: Sequence[str], ranks: Ranks) -> tuple[int, int] | None:
    """The rank and the place of the next merge; None: there is none."""
    merges = [
        (rank, position)
        for position, pair in enumerate(pairwise(pieces))
        if (rank := ranks.get(pair)) is not None
    ]
    return min(merges, default=None)


def _shown(piece: str) -> str:
    return readable_bytes(bytes_of(piece))


def _joined(words: Sequence[Sequence[str]]) -> list[str]:
    return [piece for pieces in words for piece in pieces]
