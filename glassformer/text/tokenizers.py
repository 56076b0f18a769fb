"""Text ↔ ids: one `Tokenizer` for every kind of vocabulary, and how to learn one.

    char       "to be"  →  t·o·␣·b·e    every character of the training text, nothing else
    word       "to be"  →  to·be        readable; unknown words become <|unk|>, spacing is lost
    wordpiece  "being"  →  be·##ing     words and, for rare ones, their parts (BERT)
    bpe        "to be"  →  to·␣be       merges of bytes, the most frequent first (GPT-2)
    unigram    "to be"  →  to·␣be       the most probable cut into learned pieces of bytes (T5)

`bpe` and `unigram` can write any text and give it back exactly; `char` does so for the characters
it knows and refuses the others. On disk all are a `tokenizer.json`, as other tools read and write
it. Special tokens come last, as in GPT-2, and text cannot spell them: a text that contains
"<|endoftext|>" contains thirteen ordinary characters.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from math import isqrt
from pathlib import Path
from typing import Literal

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from glassformer.config import Config, Count
from glassformer.errors import GlassformerError
from glassformer.text import chunks, learning
from glassformer.wording import readable_size

Kind = Literal["char", "word", "bpe", "wordpiece", "unigram"]

END_OF_TEXT = "<|endoftext|>"

# What others call the end of a text, in the order in which to look for it.
_ENDS = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>", "[SEP]")

_CHAR_BYTES = 2_000_000  # below this, sub-words are seen too seldom to be learned well
_CHAR_ALPHABET = 512  # above this, most characters are seen too seldom
_PIECES_AT_ONCE = 64  # enough for many cores, little enough to hold


class TokenizerConfig(Config):
    """Which vocabulary to learn. `auto` and None leave the choice to the amount of text."""

    kind: Literal["auto", "char", "word", "bpe", "wordpiece", "unigram"] = "auto"
    vocab_size: Count | None = None
    lowercase: bool | None = None
    """null: for classifying texts yes, for everything else no."""


class Tokenizer:
    """Text to ids and back. A thin coat over the `tokenizers` library."""

    def __init__(self, backend: Backend) -> None:
        backend.no_padding()
        backend.no_truncation()
        backend.encode_special_tokens = True  # as ordinary text, that is
        self._backend = backend
        self._pieces_are_safe = _keeps_within_words(backend)
        self.is_byte_level = isinstance(backend.decoder, decoders.ByteLevel)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a `tokenizer.json`, our own or anybody's."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise GlassformerError(
                f"{path} does not exist. A model folder holds its tokenizer as tokenizer.json."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise GlassformerError(f"{path} cannot be read: {error}.") from None
        try:
            return cls(Backend.from_str(text))
        except Exception as error:  # the library has no narrower one
            raise GlassformerError(
                f"{path} is damaged or not a tokenizer: {error}. Copy or export it again."
            ) from None

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json` that other tools can load."""
        Path(path).write_bytes(self._backend.to_str(pretty=True).encode())

    @cached_property
    def kind(self) -> Kind:
        """The kind of vocabulary, read off the file, so that foreign ones have one too."""
        model = self._backend.model
        if isinstance(model, models.WordLevel):
            single = all(len(piece) == 1 for piece in self._pieces)
            return "char" if single else "word"
        if isinstance(model, models.WordPiece):
            return "wordpiece"
        return "unigram" if isinstance(model, models.Unigram) else "bpe"

    @cached_property
    def vocab_size(self) -> int:
        """One more than the largest id: the rows an embedding table needs."""
        return max(self._backend.get_vocab().values(), default=-1) + 1

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """Names and ids of the tokens that are not text."""
        added: dict[int, AddedToken] = self._backend.get_added_tokens_decoder()
        return {token.content: id for id, token in added.items() if token.special}

    @cached_property
    def end_of_text(self) -> int | None:
        """The id that stands between documents, and before the first."""
        ids = [self.special_tokens[name] for name in _ENDS if name in self.special_tokens]
        return ids[0] if ids else None

    @cached_property
    def unknown(self) -> int | None:
        """The id that stands for every word it does not know, if it has one."""
        id: int | None = self._backend.token_to_id(learning.UNKNOWN)
        return id

    @property
    def folds_case(self) -> bool:
        """Whether it reads A as a."""
        normalizer = self._backend.normalizer
        return normalizer is not None and normalizer.normalize_str("A") == "a"

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without any special token."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; several cores work on them."""
        try:
            encodings = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        except Exception:  # the library has no narrower one
            unknown = self.unknown_characters("".join(texts))
            if not unknown:
                raise
            raise GlassformerError(_unknown_message(unknown)) from None
        return [encoding.ids for encoding in encodings]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where in `text` each of its tokens stands: (first character, behind the last)."""
        spans: list[tuple[int, int]] = self._backend.encode(text, add_special_tokens=False).offsets
        return spans

    def encode_chunks(
        self, text: str | Iterable[str], num_characters: int = chunks.SIZE
    ) -> Iterator[list[int]]:
        """The ids of one text of any length, piece by piece: joined, they are `encode(text)`.

        The text may come in parts that are cut anywhere, such as the reads of a file. A foreign
        tokenizer whose tokens can reach across spaces has to see the whole text at once.
        """
        parts = [text] if isinstance(text, str) else text
        safe = self._pieces_are_safe
        pieces = chunks.pieces_of(parts, num_characters) if safe else ["".join(parts)]
        for batch in chunks.batches_of(pieces, _PIECES_AT_ONCE):
            yield from self.encode_batch(batch)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; special tokens leave no trace in it."""
        return self._backend.decode(ids, skip_special_tokens=True)

    def token(self, id: int) -> str:
        """One token as a reader recognises it: " the", "##ing", "<0xE2>", "<|endoftext|>"."""
        piece = self._backend.id_to_token(id)
        if piece is None:  # an embedding table may have more rows than the vocabulary
            return f"<unused {id}>"
        if id in self._special_ids:
            return piece
        if self.is_byte_level:
            return _readable(self.token_bytes(id))
        return piece.replace("▁", " ") if self.kind in ("bpe", "unigram") else piece

    def token_bytes(self, id: int) -> bytes:
        """What a token of a byte-level vocabulary adds to the text."""
        piece = self._backend.id_to_token(id)
        if piece is None or id in self._special_ids:
            return b""
        try:
            return bytes(map(_BYTE_OF.__getitem__, piece))
        except KeyError:  # a token that somebody added by hand, as plain text
            return piece.encode()

    @cached_property
    def carries_blanks(self) -> bool:
        """Whether the blank before a word is a part of its first token."""
        return self.kind in ("bpe", "unigram")

    def without_unknown(self, texts: Sequence[str]) -> list[str]:
        """The texts without the characters that no token can spell: a label or a tag does not hang
        on a rare one, and nothing has to be written back."""
        if self.kind != "char":
            return list(texts)
        unknown = self.unknown_characters("".join(set().union(*texts)))
        return [text.translate(dict.fromkeys(map(ord, unknown))) for text in texts]

    def hides(self, id: int) -> bool:
        """Whether `decode` passes over this id: special, or not in the vocabulary."""
        return id in self._special_ids or self._backend.id_to_token(id) is None

    def unknown_characters(self, text: str) -> list[str]:
        """The distinct characters of `text` that no token can spell, in order of appearance."""
        return [character for character in dict.fromkeys(text) if not self._knows(character)]

    def _knows(self, character: str) -> bool:
        if "\ud800" <= character <= "\udfff":  # half a character: no text file can hold it
            return False
        if self._backend.token_to_id("<0x00>") is not None:  # Llama spells the rest in bytes
            return True
        if self._backend.normalizer:
            character = self._backend.normalizer.normalize_str(character)
        split = self._backend.pre_tokenizer
        pieces = split.pre_tokenize_str(character) if split else [(character, None)]
        return all(self._alphabet.issuperset(piece) for piece, _ in pieces)

    @cached_property
    def _pieces(self) -> list[str]:
        """The vocabulary without its special tokens."""
        vocab = self._backend.get_vocab(with_added_tokens=False)
        return [piece for piece in vocab if piece not in self.special_tokens]

    @cached_property
    def _alphabet(self) -> frozenset[str]:
        pieces = [piece for piece in self._pieces if piece != learning.UNKNOWN]
        return frozenset("".join(piece.removeprefix("##") for piece in pieces))

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        return frozenset(self.special_tokens.values())


def choose_kind(num_bytes: int, num_characters: int) -> tuple[Kind, str]:
    """The kind that suits a text of this size and this many distinct characters, and why."""
    if num_characters > _CHAR_ALPHABET:
        return "bpe", (
            f"BPE tokenizer: {num_characters:,} distinct characters are too many for a "
            f"character vocabulary (at most {_CHAR_ALPHABET})"
        )
    if num_bytes < _CHAR_BYTES:
        return "char", (
            f"character tokenizer: {readable_size(num_bytes)} of text is too little to learn "
            f"good sub-words (BPE from {readable_size(_CHAR_BYTES)})"
        )
    return "bpe", (
        f"BPE tokenizer: {readable_size(num_bytes)} of text is enough to learn sub-words "
        f"(characters below {readable_size(_CHAR_BYTES)})"
    )


def default_vocab_size(kind: Kind, num_bytes: int = 10_000_000) -> int:
    """A power of two that grows with the square root of the text, as its words do (Heaps' law).

    8,192 sub-words for 10 MB. For characters all of Unicode: a text has as many as it has.
    """
    if kind == "char":
        return sys.maxunicode + 1
    root = 3 * isqrt(num_bytes) or 1
    pieces = min(max(2 ** (root.bit_length() - 1), 512), 32_768)
    return 4 * pieces if kind == "word" else pieces  # a word has many forms, each with its own id


def train_tokenizer(
    config: TokenizerConfig | Kind,
    texts: Iterable[str],
    vocab_size: int | None = None,
    special_tokens: Sequence[str] = (),
) -> Tokenizer:
    """Learn a vocabulary from `texts`, which are read once; the same texts give the same file.

    `vocab_size` counts everything, special tokens too, and is an upper limit: a short text may not
    have that much to learn. `special_tokens` come in addition to <|endoftext|>.
    """
    settings = config if isinstance(config, TokenizerConfig) else TokenizerConfig(kind=config)
    if settings.kind == "auto":
        raise GlassformerError("a tokenizer of kind auto cannot be learned: choose the kind first.")
    names = list(dict.fromkeys([END_OF_TEXT, *special_tokens]))
    size = settings.vocab_size if vocab_size is None else vocab_size
    size = default_vocab_size(settings.kind) if size is None else size
    pieces = learning.training_pieces(texts, bool(settings.lowercase))
    backend = learning.LEARN[settings.kind](pieces, size - len(names))
    if settings.lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.add_special_tokens(names)
    return Tokenizer(backend)


def _keeps_within_words(backend: Backend) -> bool:
    """Whether no token reaches from a word into the space behind it."""
    split, normalizer = backend.pre_tokenizer, backend.normalizer
    known = normalizer is None or isinstance(
        normalizer, normalizers.Lowercase | normalizers.BertNormalizer
    )
    # Tokens that somebody added as text are looked for before the text is split.
    if not known or not all(t.special for t in backend.get_added_tokens_decoder().values()):
        return False
    if isinstance(split, pre_tokenizers.ByteLevel):
        return bool(split.use_regex and not split.add_prefix_space)
    if isinstance(split, pre_tokenizers.BertPreTokenizer | pre_tokenizers.WhitespaceSplit):
        return True
    return repr(split) in (repr(learning.CHARACTERS), repr(learning.WORDS))


def _byte_of_character() -> dict[str, int]:
    """GPT-2 writes each byte as one visible character: itself, or from U+0100 on if it has none."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    moved = {chr(0x100 + place): byte for place, byte in enumerate(hidden)}
    return {chr(byte): byte for byte in visible} | moved


_BYTE_OF = _byte_of_character()


def _readable(raw: bytes) -> str:
    """UTF-8 as text, and each byte that is none by its number."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        broken = "".join(f"<0x{byte:02X}>" for byte in raw[error.start : error.end])
        return raw[: error.start].decode() + broken + _readable(raw[error.end :])


def _unknown_message(characters: list[str]) -> str:
    shown = ", ".join(map(repr, characters[:10])) + (", …" if len(characters) > 10 else "")
    return (
        f"the tokenizer has no token for {shown}. Leave them out, "
        "or train with tokenizer kind bpe, which can write any text."
    )
