"""Text ↔ ids: one `Tokenizer` for every kind of vocabulary.

    char       "to be"  →  t·o·␣·b·e    every character of the training text, nothing else
    word       "to be"  →  to·be        readable; unknown words become <|unk|>, spacing is lost
    wordpiece  "being"  →  be·##ing     words and, for rare ones, their parts (BERT)
    bpe        "to be"  →  to·␣be       merges of bytes, the most frequent first (GPT-2)
    unigram    "to be"  →  to·␣be       the most probable cut into learned pieces of bytes (T5)

`bpe` and `unigram` can write any text and give it back exactly; `char` does so for the characters
it knows and refuses the others. On disk all are a `tokenizer.json`, which other tools can read and
write. Special tokens come last, as in GPT-2, and text cannot spell them: in a text, "<|endoftext|>"
is thirteen ordinary characters.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from threading import RLock
from typing import Any, Literal

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.processors import ByteLevel, TemplateProcessing

from glassformer.errors import GlassformerError
from glassformer.wording import cause

# --- long text in pieces, and pieces in words, that encode to the same ids as the whole ---
# A cut is safe where a non-space is followed by a space: no token reaches from a word into the
# space after it. The other side of a space is not safe: in GPT-2's ` ?\p{L}+` and `\s+(?!\S)`, the
# token that a space belongs to depends on what follows it.
#
# A text may have no such place, like a genome or a page of Thai. It is cut every `LONGEST`
# characters all the same, since it could not be encoded otherwise: at such a cut, and only there,
# the tokens may differ from those of the whole text.

SIZE = 32_768  # characters; large enough to make the cost per piece negligible
LONGEST = 8 * SIZE  # characters in which there is no safe cut

# Only spaces that all regex engines agree on: U+001C is one in Python but not in Oniguruma.
_CUT = re.compile(r"\S(?=[ \t\r\n])")
# From one safe cut to the next. Other spaces do not end a word, nor does the end of the text.
_PLAIN_WORD = re.compile(r"\s*\S+|\s+")  # where there are no other spaces
_WORD = re.compile(r"\s*\S+(?:[^\S \t\r\n]\s*\S+)*(?:[^\S \t\r\n]\s*\Z)?|\s+")


@dataclass(slots=True)  # not frozen: that would double the time to make one
class LongText:
    """A text of any length that is read once, in parts that are cut anywhere, and its source."""

    parts: Iterable[str]
    source: str


def has_single_blanks(text: str) -> bool:
    """Whether all whitespace of a text is single blanks between words, as in most texts. Finding
    that out takes a third of the time of taking a text apart."""
    return text.isprintable() and "  " not in text and text[:1] != " " != text[-1:]


def words_of(text: str) -> list[str]:
    """The text from one safe cut to the next."""
    if text.isprintable() and "  " not in text:  # all its spaces are single blanks: a faster way
        words = text.replace(" ", "\0 ").split("\0")
        return words if words[0] else words[1:]  # empty if the text is, or begins with a blank
    is_plain = text.replace("\n", " ").replace("\t", " ").isprintable()
    return (_PLAIN_WORD if is_plain else _WORD).findall(text)


def pieces_of(texts: Iterable[str], size: int = SIZE, longest: int = LONGEST) -> Iterator[str]:
    """Join a text that comes in parts cut anywhere, and cut it only where it is safe.

    A piece ends at the first safe cut after `size` characters, or after `longest` if there is none.
    """
    rest = ""
    for text in texts:
        rest += text
        start = 0
        while len(rest) - start > size and (cut := _end_of_piece(rest, start, size, longest)):
            yield rest[start:cut]
            start = cut
        rest = rest[start:]
    if rest:
        yield rest


def _end_of_piece(text: str, start: int, size: int, longest: int) -> int:
    """Where the piece that begins at `start` ends; 0 if that depends on more text."""
    if cut := _CUT.search(text, start + size - 1, start + longest + 1):
        return cut.end()
    return start + longest if len(text) > start + longest else 0


# --- files of unknown origin: what they may do to a text, and how their failures are reported ---
# The `tokenizers` library trusts its files: a file of a kilobyte can make a million tokens of
# twenty letters, and some make it panic, which in Python is not even an `Exception`.

MOST_GROWTH = 64  # characters into which a file may turn one; known tokenizers stay below 20
A_LOT = 1_000_000
PROBE = "A line, 12 words: déjà vu 你好\n"  # what the first use of a tokenizer is tried on
_STDERR = RLock()


def check_growth(values: Any) -> None:
    """Raise ValueError if the file, as JSON, replaces one character by very many."""
    for part in ("normalizer", "decoder"):
        growth = _growth(values.get(part)) if isinstance(values, dict) else 1.0
        if growth > MOST_GROWTH:
            up_to = f"up to {growth:,.0f}" if growth < A_LOT else f"more than {A_LOT:,}"
            raise ValueError(f"its {part} replaces one character by {up_to} characters")


def _growth(step: Any) -> float:
    """By how much a step, or the steps in it one after the other, can lengthen a text."""
    match step:
        case {"type": "Sequence", "normalizers": [*steps]}:
            return prod(map(_growth, steps))
        case {"type": "Sequence", "decoders": [*steps]}:
            return prod(map(_growth, steps))
        case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)}:
            return max(1.0, len(content) / max(1, len(pattern)))
        case {"type": "Replace", "content": str(content)}:  # a regex may match a single character
            return max(1.0, len(content))
        case {"type": "Prepend", "prepend": str(prefix)}:
            return 1.0 + len(prefix)
    return 1.0


@contextmanager
def panics_as_errors(what: str, is_silent: bool = True) -> Iterator[None]:
    """Turn a panic of the library into an error that begins with `what`. It prints a report before
    it can be caught, unless this `is_silent`."""
    try:
        with _no_stderr() if is_silent else nullcontext():
            yield
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        problem = str(error).partition("\n")[0]
        raise GlassformerError(f"{what} ({problem}). Use another tokenizer.") from None


@contextmanager
def _no_stderr() -> Iterator[None]:
    """The report is written to the file behind stderr, which all threads share: two that swap it at
    once could lose it."""
    with _STDERR:
        try:
            stderr = os.dup(2)
        except OSError:  # there is no stderr
            yield
            return
        silent = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(silent, 2)
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(silent)
            os.close(stderr)


# --- the tokenizer ---

Kind = Literal["char", "word", "bpe", "wordpiece", "unigram"]

END_OF_TEXT = "<|endoftext|>"
UNKNOWN = "<|unk|>"  # an ordinary entry, not a special token: readers should see it

CHARACTERS = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
# Numbers, words with inner apostrophes and hyphens, line breaks, single marks; no other spaces.
WORDS = pre_tokenizers.Split(
    Regex(r"\d+(?:[.,]\d+)+|\w+(?:['’-]\w+)*|\n|[^\w\s]"), "removed", invert=True
)

# Names of the end of a text in other vocabularies, in order of preference.
_ENDS = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>", "[SEP]")


class Tokenizer:
    """Text to ids and back. A thin layer over the `tokenizers` library."""

    def __init__(self, backend: Backend) -> None:
        backend.no_padding()
        backend.no_truncation()
        backend.encode_special_tokens = True  # as ordinary text
        self._backend = backend
        self.keeps_within_words = _keeps_within_words(backend)
        """Whether no token reaches from a word into the space after it."""
        self._panics_as_errors = partial(panics_as_errors, is_silent=not self.keeps_within_words)
        self.is_by_character = repr(backend.pre_tokenizer) == repr(CHARACTERS)
        self.is_byte_level = isinstance(backend.decoder, decoders.ByteLevel)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a `tokenizer.json`, our own or that of another tool."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise GlassformerError(
                f"{path} does not exist. A model folder contains its tokenizer as tokenizer.json."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
        try:
            check_growth(json.loads(text))
            with panics_as_errors("it cannot be used"):
                loaded = cls(Backend.from_str(text))  # without its padding: that may be endless
                with suppress(Exception):  # a vocabulary need not know the letters of the probe
                    loaded._backend.encode(PROBE)
            return loaded
        except GlassformerError as error:
            raise GlassformerError(f"{path} is damaged or not a tokenizer: {error}") from None
        except Exception as error:  # the library has no narrower one
            raise GlassformerError(
                f"{path} is damaged or not a tokenizer: {cause(error)}. Copy or export it again."
            ) from None

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json` that other tools can load."""
        Path(path).write_bytes(self._backend.to_str(pretty=True).encode())

    def framed(
        self, before: Sequence[int], after: Sequence[int], adds_blank: bool = False
    ) -> "Tokenizer":
        """The same with a rule of its own for the ids around a text, and for the blank before its
        first word, as other tools need it. A rule that it has stays."""
        backend = Backend.from_str(self._backend.to_str())
        if backend.post_processor is None and (before or after):
            ids = dict.fromkeys((*before, *after))
            names = [(self.token(id), id) for id in ids]
            sides = (" ".join(map(self.token, side)) for side in (before, after))
            backend.post_processor = TemplateProcessing(
                single=" $A ".join(sides).strip(), special_tokens=names
            )
        elif backend.post_processor is None:
            backend.post_processor = ByteLevel(trim_offsets=False)  # which adds nothing
        if adds_blank and self.own_frame is None and self.is_byte_level:
            backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        return Tokenizer(backend)

    def taking_blanks_before(self, id: int) -> "Tokenizer":
        """The same with a special token that includes the blanks before it."""
        values = self.as_json()
        for added in values["added_tokens"]:
            added["lstrip"] |= added["id"] == id
        return Tokenizer(Backend.from_str(json.dumps(values)))

    def with_tokens(self, tokens: Sequence[str]) -> "Tokenizer":
        """The same with more tokens, which a text can spell and which take the next ids. A token of
        letters matches whole words only."""
        values, next_id = self.as_json(), self.vocab_size
        for token in tokens:
            if not token or token != token.strip() or len(token.split()) > 1:
                raise GlassformerError(
                    f"{token!r} cannot be added to a vocabulary: a token has no blanks."
                )
            if self._backend.token_to_id(token) is not None:
                raise GlassformerError(f"{token!r} is in the vocabulary of the model already.")
        if self.kind == "char":
            if longer := [token for token in tokens if len(token) > 1]:
                raise GlassformerError(
                    f"{longer[0]!r} cannot be added to a vocabulary of single characters."
                )
            # Special tokens that are not in this table would be numbered after it.
            new = {token: next_id + number for number, token in enumerate(tokens)}
            values["model"]["vocab"] |= self.special_tokens | new
            backend = Backend.from_str(json.dumps(values))
        else:
            backend = Backend.from_str(json.dumps(values))
            backend.add_tokens(
                [AddedToken(t, single_word=t.isalnum(), normalized=True) for t in tokens]
            )
        extended = Tokenizer(backend)
        for number, token in enumerate(tokens):
            ids = extended.encode(token)
            if ids != [next_id + number] or extended.decode(ids).strip().lower() != token.lower():
                raise GlassformerError(
                    f"{token!r} cannot be added to this vocabulary: it would be read back as "
                    f"{extended.decode(ids)!r}."
                )
        return extended

    def as_json(self) -> dict[str, Any]:
        """The content of its `tokenizer.json`."""
        values: dict[str, Any] = json.loads(self._backend.to_str())
        return values

    @cached_property
    def kind(self) -> Kind:
        """The kind of vocabulary, derived from its content: files of other tools do not name it."""
        model = self._backend.model
        if isinstance(model, models.WordLevel):
            return "char" if all(len(piece) == 1 for piece in self._pieces) else "word"
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
        """The id between documents, and before the first."""
        return next((id for end in _ENDS if (id := self.special_tokens.get(end)) is not None), None)

    @cached_property
    def own_frame(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The ids before and after a text by the tokenizer's own rule; None: it has no rule."""
        if self._backend.post_processor is None:
            return None
        with self._panics_as_errors("the tokenizer fails on a single letter"):
            framed = self._backend.encode("a", add_special_tokens=True)
        is_text = [not added for added in framed.special_tokens_mask]
        first = is_text.index(True) if True in is_text else len(is_text)
        last = len(is_text) - is_text[::-1].index(True) if True in is_text else len(is_text)
        return tuple(framed.ids[:first]), tuple(framed.ids[last:])

    @property
    def begins_with(self) -> tuple[int, ...]:
        """The ids that a language model reads before a text, such as Llama's begin of text."""
        return self.own_frame[0] if self.own_frame else ()

    @cached_property
    def unknown(self) -> int | None:
        """The id of all words that are not in the vocabulary, if there is one."""
        return self._backend.token_to_id(UNKNOWN)

    @property
    def folds_case(self) -> bool:
        """Whether it treats A as a."""
        normalizer = self._backend.normalizer
        return normalizer is not None and normalizer.normalize_str("A") == "a"

    @property
    def keeps_spacing(self) -> bool:
        """Whether blanks are part of the tokens."""
        return self.kind == "char" or self.carries_blanks

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without any special token."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, encoded on several cores."""
        try:
            with self._panics_as_errors("the tokenizer fails on this text"):
                encodings = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        except GlassformerError:
            raise
        except Exception:  # the library has no narrower one
            unknown = self.unknown_characters("".join(texts))
            if not unknown:
                raise
            shown = ", ".join(map(repr, unknown[:10])) + (", …" if len(unknown) > 10 else "")
            them = "it" if len(unknown) == 1 else "them"
            raise GlassformerError(
                f"the tokenizer has no token for {shown}. Leave {them} out, or train with "
                "tokenizer kind bpe, which can write any text."
            ) from None
        return [encoding.ids for encoding in encodings]

    def encode_special(self, text: str) -> list[int]:
        """The ids of a text that may spell special tokens, such as what a chat template writes."""
        with self._panics_as_errors("the tokenizer fails on this text"):
            return self._with_special.encode(text, add_special_tokens=False).ids

    @cached_property
    def _with_special(self) -> Backend:
        backend = Backend.from_str(self._backend.to_str())
        backend.encode_special_tokens = False
        return backend

    def parts(self, text: str) -> list[str]:
        """The parts of a text within which its tokens lie, written as in the vocabulary."""
        with self._panics_as_errors("the tokenizer fails on this text"):
            split, normalizer = self._backend.pre_tokenizer, self._backend.normalizer
            plain = normalizer.normalize_str(text) if normalizer else text
            return [word for word, _ in split.pre_tokenize_str(plain)] if split else [plain]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The place of each token in `text`: (first character, after the last)."""
        with self._panics_as_errors("the tokenizer fails on this text"):
            return self._backend.encode(text, add_special_tokens=False).offsets

    def safe_pieces(self, parts: Iterable[str]) -> Iterator[str]:
        """A text that comes in parts, in pieces that encode to the same ids as the whole. Tokens of
        another tool may reach across spaces: then the text is one piece."""
        return pieces_of(parts) if self.keeps_within_words else iter(["".join(parts)])

    def unknown_words(self, text: str) -> Iterator[str]:
        """The words of a text that are read as the unknown token, in order."""
        if self.unknown is None:
            return
        for piece in self.safe_pieces([text]):
            with self._panics_as_errors("the tokenizer fails on this text"):
                encoding = self._backend.encode(piece, add_special_tokens=False)
            for id, (first, last) in zip(encoding.ids, encoding.offsets, strict=True):
                if id == self.unknown:
                    yield piece[first:last]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens."""
        with self._panics_as_errors("the tokenizer fails on these tokens"):
            return self._backend.decode(ids, skip_special_tokens=True)

    def token(self, id: int) -> str:
        """One token as a reader recognises it: " the", "##ing", "<0xE2>", "<|endoftext|>"."""
        piece = self.piece(id)
        if piece is None:  # an embedding table may have more rows than the vocabulary
            return f"<unused {id}>"
        if id in self._special_ids:
            return piece
        if self.is_byte_level:
            return readable_bytes(self.token_bytes(id))
        return piece.replace("▁", " ") if self.kind in ("bpe", "unigram") else piece

    def piece(self, id: int) -> str | None:
        """An entry as it is written in the vocabulary; None: there is no such id."""
        return self._backend.id_to_token(id)

    def id(self, piece: str) -> int | None:
        """The id of an entry; None: the vocabulary has no such entry."""
        return self._backend.token_to_id(piece)

    def takes_blanks_before(self, id: int) -> bool:
        """Whether a special token in a text includes the blanks before it."""
        added = self._backend.get_added_tokens_decoder().get(id)
        return added is not None and added.lstrip

    def token_bytes(self, id: int) -> bytes:
        """The bytes that a token of a byte-level vocabulary adds to the text."""
        piece = self.piece(id)
        if piece is None or id in self._special_ids:
            return b""
        try:
            return bytes_of(piece)
        except KeyError:  # a token that was added by hand, as plain text
            return piece.encode()

    @property
    def words(self) -> tuple[str, ...]:
        """The vocabulary in the order of its ids if it consists of words; special tokens are ""."""
        if self.kind != "word":
            return ()
        hidden = {*self._special_ids, self.unknown}
        return tuple("" if n in hidden else self.token(n) for n in range(self.vocab_size))

    @cached_property
    def carries_blanks(self) -> bool:
        """Whether the space before a word is part of its first token."""
        return self.kind in ("bpe", "unigram")

    def without_unknown(self, texts: Sequence[str]) -> list[str]:
        """The texts without the characters that no token can spell, for models that only read: a
        label or a tag does not depend on a rare character."""
        if self.kind != "char":
            return list(texts)
        unknown = self.unknown_characters("".join(set().union(*texts)))
        return [text.translate(dict.fromkeys(map(ord, unknown))) for text in texts]

    def hides(self, id: int) -> bool:
        """Whether `decode` skips this id: special, or not in the vocabulary."""
        return id in self._special_ids or self.piece(id) is None

    def unknown_characters(self, text: str) -> list[str]:
        """The distinct characters of `text` that no token can spell, in order of appearance."""
        return [character for character in dict.fromkeys(text) if not self._knows(character)]

    def _knows(self, character: str) -> bool:
        if "\ud800" <= character <= "\udfff":  # half a character, which no text file contains
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
        pieces = [piece for piece in self._pieces if piece != UNKNOWN]
        return frozenset("".join(piece.removeprefix("##") for piece in pieces))

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        return frozenset(self.special_tokens.values())


def _keeps_within_words(backend: Backend) -> bool:
    """Whether no token reaches from a word into the space after it."""
    split, normalizer = backend.pre_tokenizer, backend.normalizer
    is_normalised = normalizer is None or isinstance(
        normalizer, normalizers.Lowercase | normalizers.BertNormalizer
    )
    # Tokens added as text are searched for before the text is split.
    if not is_normalised or not all(t.special for t in backend.get_added_tokens_decoder().values()):
        return False
    if isinstance(split, pre_tokenizers.ByteLevel):
        return bool(split.use_regex and not split.add_prefix_space)
    if isinstance(split, pre_tokenizers.BertPreTokenizer | pre_tokenizers.WhitespaceSplit):
        return True
    return repr(split) in (repr(CHARACTERS), repr(WORDS))


# GPT-2 writes each byte as one visible character: itself, or from U+0100 on if it has none.
_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]
_BYTE_OF = {chr(byte): byte for byte in _VISIBLE}
_BYTE_OF |= {chr(0x100 + place): byte for place, byte in enumerate(_HIDDEN)}


def bytes_of(piece: str) -> bytes:
    """The bytes that a piece of a byte-level vocabulary is written for. KeyError: it is not one."""
    return bytes(map(_BYTE_OF.__getitem__, piece))


def readable_bytes(raw: bytes) -> str:
    """Valid UTF-8 as text, and every other byte by its number."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        broken = "".join(f"<0x{byte:02X}>" for byte in raw[error.start : error.end])
        return raw[: error.start].decode() + broken + readable_bytes(raw[error.end :])


# --- special tokens, and texts as they are encoded ---

MASK, BEGIN, SEPARATE, PAD = "[MASK]", "[CLS]", "[SEP]", "[PAD]"
START = "<|startoftext|>"  # read by a decoder before the first word of its answer
BERT_TOKENS = (PAD, BEGIN, SEPARATE, MASK)
MASKS = (MASK, "<mask>")  # the second is RoBERTa's


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text."""
    return tokenizer.encode_batch(readable(tokenizer, texts))


def readable(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """The texts as they are encoded. Where tokens include the space before a word, the first word
    gets one, too: so a word has the same tokens everywhere. A tokenizer of another tool reads texts
    as it did there."""
    if tokenizer.carries_blanks and tokenizer.own_frame is None:
        texts = [text if text[:1].isspace() else f" {text}" for text in texts]
    return tokenizer.without_unknown(texts)
