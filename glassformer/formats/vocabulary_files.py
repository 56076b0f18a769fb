"""Vocabularies of folders that have no tokenizer.json.

    vocab.txt                     one piece per line: BERT's and DistilBERT's WordPiece
    vocab.json and merges.txt     byte-level BPE: GPT-2's and RoBERTa's
    source.spm and target.spm     SentencePiece models: OPUS-MT's, which are written, too

tokenizer_config.json, special_tokens_map.json and added_tokens.json have their settings and special
tokens, where these files exist.
"""

import json
import struct
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.files import read_json, write_file
from glassformer.formats.conversion import check_file_size
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import cause

# --- WordPiece and byte-level BPE, of older releases ---

PIECES, VOCABULARY, MERGES = "vocab.txt", "vocab.json", "merges.txt"
TOKENIZER_CONFIG = "tokenizer_config.json"
NAMES, ADDED = "special_tokens_map.json", "added_tokens.json"
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
    for name in (NAMES, TOKENIZER_CONFIG):
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
            for name in sorted(added, key=lambda token: int(added[token])):
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
    names = dict(usual)
    for key in usual:
        value = settings.get(key)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            names[key] = text
    return names


def _add_special(backend: Backend, names: dict[str, str]) -> None:
    for key, name in names.items():
        # A blank before a mask belongs to it where blanks belong to words.
        is_mask = key == "mask_token" and isinstance(backend.decoder, decoders.ByteLevel)
        backend.add_special_tokens([AddedToken(name, lstrip=is_mask, normalized=False)])


def _text(path: Path) -> str:
    check_file_size(path, LARGEST)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise GlassformerError(f"{path} is not UTF-8. Copy it again.") from None


# --- OPUS-MT: SentencePiece models of both languages, and one list of ids ---
#
#     source.spm, target.spm      pieces with their scores, and how a text is normalised
#     vocab.json                  the id of each piece, the same for both languages
#     target_vocab.json           those of the target, if they are others
#
# A SentencePiece file is a protocol buffer. Only the few fields that are needed are read and
# written.

SOURCE, TARGET = "source.spm", "target.spm"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
UNKNOWN, END, PAD = "<unk>", "</s>", "<pad>"
UNIGRAM = 1
UNKNOWN_TYPE, CONTROL_TYPE = 2, 3  # of pieces that no text spells
PRECOMPILED = "Precompiled"
NEVER = -1e4  # the score of a piece that belongs to the other language


def read_opus(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of the source and of the target."""
    source = target = _pieces(folder / SOURCE_VOCABULARY)
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
        backend.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, pieces.index(END))]
        )
        return Tokenizer(backend)

    def numbered(self) -> str:
        ids = {piece: id for id, (piece, _) in enumerate(self.vocabulary)}
        return json.dumps(ids, ensure_ascii=False, indent=2)

    def sentencepiece(self) -> bytes:
        """The SentencePiece model: the unknown piece first, and none of the other language."""
        types = {UNKNOWN: UNKNOWN_TYPE, END: CONTROL_TYPE, PAD: CONTROL_TYPE}
        pieces = [(piece, score) for piece, score in self.vocabulary if score != NEVER]
        pieces.sort(key=lambda entry: entry[0] != UNKNOWN)
        content = b""
        for piece, score in pieces:
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
    write_file(folder / SOURCE_VOCABULARY, one.numbered())
    if has_two:
        write_file(folder / TARGET_VOCABULARY, other.numbered())
    return {"tokenizer_class": "MarianTokenizer", "separate_vocabs": has_two, "unk_token": UNKNOWN}


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
    at = 0
    while at < len(content):
        key, at = _integer(content, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _integer(content, at)
            yield number, value
            continue
        if kind == 2:
            length, at = _integer(content, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"unknown kind of field {kind}")
        if at + length > len(content):
            raise ValueError("a field reaches beyond the end")
        yield number, content[at : at + length]
        at += length


def _integer(content: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, with its length in groups of seven bits."""
    size, length = b"", len(content)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


# --- the tokens that end a generated text, which files of other tools give by their ids ---


def end_tokens(value: Any, tokenizer: Tokenizer, where: str) -> tuple[str, ...]:
    """Their names, without the end of text, which always ends one. `value` is an id, a list of
    ids or None."""
    ids = value if isinstance(value, list) else [] if value is None else [value]
    names = dict[str, None]()
    for id in ids:
        if not isinstance(id, int) or isinstance(id, bool):
            raise GlassformerError(
                f"{where} is {id!r} instead of the number of a token. Copy the file again."
            )
        name = tokenizer.piece(id) if id >= 0 else None
        if name is None:
            raise GlassformerError(
                f"{where} is {id}, but the vocabulary has only {tokenizer.vocab_size:,} tokens. "
                "Copy the tokenizer of this model."
            )
        if id != tokenizer.end_of_text:
            names[name] = None
    return tuple(names)
