"""The tokenizers of OPUS-MT: SentencePiece models of both languages, and one list of ids.

    source.spm, target.spm      pieces with their scores, and how a text is normalised
    vocab.json                  the id of each piece, the same for both languages
    target_vocab.json           those of the target, if they are others

A SentencePiece file is a protocol buffer. Only the few fields that are needed are read and written.
"""

import json
import struct
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from glassformer.atomic_files import read_json, write_file
from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import cause

SOURCE, TARGET = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
LARGEST = 2**26  # bytes
UNKNOWN, END, PAD = "<unk>", "</s>", "<pad>"
UNIGRAM = 1
UNKNOWN_TYPE, CONTROL_TYPE = 2, 3  # of pieces that no text spells
PRECOMPILED = "Precompiled"
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
    return _Side(tuple((piece, scores.get(piece, NEVER)) for piece in pieces), charsmap).built()


@dataclass(frozen=True)
class _Side:
    """What the tokenizer of one language is made of."""

    vocabulary: tuple[tuple[str, float], ...]
    """Pieces in the order of their ids, with their scores."""
    charsmap: bytes
    """The compiled rules of normalisation."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "_Side | None":
        """None: the tokenizer is not made as those of OPUS-MT are."""
        values = tokenizer.as_json()
        if values["model"]["type"] != "Unigram":
            return None
        rules = (values["normalizer"] or {}).get("normalizers", [])
        charsmaps = [rule["precompiled_charsmap"] for rule in rules if rule["type"] == PRECOMPILED]
        vocabulary = tuple((piece, score) for piece, score in values["model"]["vocab"])
        side = cls(vocabulary, b64decode(charsmaps[0]) if charsmaps else b"")
        has_names = {UNKNOWN, END} <= {piece for piece, _ in vocabulary}
        return side if has_names and side.built().as_json() == values else None

    def built(self) -> Tokenizer:
        pieces = [piece for piece, _ in self.vocabulary]
        backend = Backend(models.Unigram([*self.vocabulary], unk_id=pieces.index(UNKNOWN)))
        rules: list[Any] = [normalizers.Precompiled(self.charsmap)] if self.charsmap else []
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

    def numbered(self) -> str:
        ids = {piece: id for id, (piece, _) in enumerate(self.vocabulary)}
        return json.dumps(ids, ensure_ascii=False, indent=2)

    def sentencepiece(self) -> bytes:
        """The SentencePiece model: the unknown piece first, and none of the other language."""
        types = {UNKNOWN: UNKNOWN_TYPE, END: CONTROL_TYPE, PAD: CONTROL_TYPE}
        own = [(piece, score) for piece, score in self.vocabulary if score != NEVER]
        own.sort(key=lambda entry: entry[0] != UNKNOWN)
        content = b""
        for piece, score in own:
            entry = _field(1, piece.encode()) + b"\x15" + struct.pack("<f", score)
            content += _field(1, entry + bytes([3 << 3, types.get(piece, 1)]))
        content += _field(2, bytes([3 << 3, UNIGRAM]))
        return content + _field(3, _field(2, self.charsmap) if self.charsmap else b"")


def write_opus(folder: Path, source: Tokenizer, target: Tokenizer) -> dict[str, Any] | None:
    """Write the files of both tokenizers. Returns the values of tokenizer_config.json; None: the
    tokenizers are not made as those of OPUS-MT are."""
    one, other = _Side.of(source), _Side.of(target)
    if one is None or other is None:
        return None
    has_two = one.numbered() != other.numbered()
    write_file(folder / SOURCE, one.sentencepiece())
    write_file(folder / TARGET, other.sentencepiece())
    write_file(folder / VOCABULARY, one.numbered())
    if has_two:
        write_file(folder / TARGET_VOCABULARY, other.numbered())
    return {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": has_two,
        "unk_token": UNKNOWN,
    }


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


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, with its length in groups of seven bits."""
    size, length = b"", len(content)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content
