"""The tokenizers of OPUS-MT: SentencePiece models of both languages, and one list of ids.

    source.spm, target.spm      pieces with their scores, and how a text is normalised
    vocab.json                  the id of each piece, the same for both languages
    target_vocab.json           those of the target, if they are others

A SentencePiece file is a protocol buffer. Only the few fields that are needed are read.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from glassformer.atomic_files import read_json
from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import cause

SOURCE, TARGET = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
LARGEST = 2**26  # bytes
UNKNOWN, END, PAD = "<unk>", "</s>", "<pad>"
UNIGRAM = 1
NEVER = -1e4  # the score of a piece that belongs to the other language


def read_opus(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and of the target."""
    source = target = _pieces(folder / VOCABULARY)
    if (folder / TARGET_VOCABULARY).is_file():
        target = _pieces(folder / TARGET_VOCABULARY)
    return _tokenizer(folder / SOURCE, source), _tokenizer(folder / TARGET, target)


def _pieces(path: Path) -> list[str]:
    """The pieces of a vocabulary, in the order of their ids."""
    numbered = read_json(path)
    if not all(isinstance(id, int) for id in numbered.values()) or not {UNKNOWN, END} <= {
        *numbered
    }:
        raise GlassformerError(f"{path} does not number pieces. Copy it again.")
    pieces = sorted(numbered, key=lambda piece: numbered[piece])
    if [numbered[piece] for piece in pieces] != list(range(len(pieces))):
        raise GlassformerError(f"{path}: the ids are not 0, 1, 2 … without gaps.")
    return pieces


def _tokenizer(path: Path, pieces: list[str]) -> Tokenizer:
    scores, charsmap, kind = read_sentencepiece(path)
    if kind != UNIGRAM:
        raise GlassformerError(f"{path} is not a unigram model, which all of OPUS-MT's are.")
    vocabulary = [(piece, scores.get(piece, NEVER)) for piece in pieces]
    backend = Backend(models.Unigram(vocabulary, unk_id=pieces.index(UNKNOWN)))
    rules: list[Any] = [normalizers.Precompiled(charsmap)] if charsmap else []
    # Spaces at the ends are removed, and several count as one.
    rules += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    backend.normalizer = normalizers.Sequence(rules)
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    codes = [piece for piece in pieces if piece.startswith(">>") and piece.endswith("<<")]
    special = [name for name in (END, UNKNOWN, PAD) if name in pieces]
    backend.add_special_tokens(special)
    backend.add_tokens([AddedToken(code, normalized=False) for code in codes])
    backend.post_processor = TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, pieces.index(END))]
    )
    return Tokenizer(backend)


def read_sentencepiece(path: Path) -> tuple[dict[str, float], bytes, int]:
    """Pieces with their scores, the compiled rules of normalisation, and the kind of model."""
    try:
        if path.stat().st_size > LARGEST:
            raise GlassformerError(f"{path} is far too large for a SentencePiece model.")
        content = path.read_bytes()
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
    scores, charsmap, kind = dict[str, float](), b"", UNIGRAM
    try:
        for number, value in fields(content):
            if number == 1 and isinstance(value, bytes):  # a piece
                inner = dict(fields(value))
                (score,) = struct.unpack("<f", inner.get(2, b"\0\0\0\0"))
                scores[inner[1].decode()] = score
            elif number == 2 and isinstance(value, bytes):  # how it was trained
                kind = dict(fields(value)).get(3, UNIGRAM)
            elif number == 3 and isinstance(value, bytes):  # how texts are normalised
                charsmap = dict(fields(value)).get(2, b"")
        if not scores:
            raise ValueError("there are no pieces")
    except (KeyError, IndexError, ValueError, struct.error, AttributeError, TypeError):
        raise GlassformerError(
            f"{path} is damaged or not a SentencePiece model. Copy it again."
        ) from None
    return scores, charsmap, kind


def fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """The numbered fields of a protocol buffer: integers, or bytes."""
    place = 0
    while place < len(content):
        key, place = _integer(content, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _integer(content, place)
            yield number, value
            continue
        if kind == 2:
            length, place = _integer(content, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"unknown kind of field {kind}")
        if place + length > len(content):
            raise ValueError("a field reaches beyond the end")
        yield number, content[place : place + length]
        place += length


def _integer(content: bytes, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = content[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("a number is too long")
