"""How each kind of vocabulary is learned from text.

    characters   the set of them
    words        the most frequent ones
    BPE          begin with bytes; join the most frequent neighbours; repeat
    WordPiece    BPE over the letters of a word, whose first piece is told from the others by ##
    Unigram      begin with too many pieces; drop those whose loss costs the least likelihood

A learner takes the text in pieces and the number of entries it may fill, and returns a backend
without special tokens. The same text gives the same vocabulary, whatever the library's hash order.
"""

import json
from collections.abc import Callable, Iterable, Iterator

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from glassformer.errors import GlassformerError
from glassformer.text.chunks import pieces_of

UNKNOWN = "<|unk|>"  # an ordinary entry, not a special token: a reader should see the gap

CHARACTERS = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
# Numbers, words with their inner apostrophes and hyphens, line ends, single marks; no other spaces.
WORDS = pre_tokenizers.Split(
    Regex(r"\d+(?:[.,]\d+)+|\w+(?:['’-]\w+)*|\n|[^\w\s]"), "removed", invert=True
)
_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
_ALL_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())

_WORD_START = "▁"
_SCORE_DIGITS = 6  # beyond these, Unigram's scores depend on the order of its sums


def training_pieces(texts: Iterable[str], lowercase: bool) -> Iterator[str]:
    """The texts in pieces of bounded size; no text at all is an error, not an empty vocabulary."""
    lower = normalizers.Lowercase()
    empty = True
    for text in texts:
        for piece in pieces_of([text]):
            empty = False
            yield lower.normalize_str(piece) if lowercase else piece
    if empty:
        raise GlassformerError("there is no text to learn a tokenizer from: every text is empty.")


def learn_characters(texts: Iterable[str], room: int) -> Backend:
    """Every character has an id, in the order of Unicode.

    There is no <|unk|>: it would never occur in training, so a model could learn nothing for it.
    """
    alphabet: set[str] = set()
    for text in texts:
        alphabet.update(text)
    _check_room("char", len(alphabet), room)
    backend = Backend(models.WordLevel(_numbered(sorted(alphabet))))
    backend.pre_tokenizer = CHARACTERS
    backend.decoder = decoders.Fuse()
    return backend


def learn_words(texts: Iterable[str], room: int) -> Backend:
    """The most frequent words; the others become <|unk|>."""
    _check_room("word", 2, room)
    backend = Backend(models.WordLevel())
    backend.pre_tokenizer = WORDS
    trainer = trainers.WordLevelTrainer(vocab_size=room - 1, show_progress=False)
    backend.train_from_iterator(texts, trainer)
    words = [UNKNOWN, *_in_order(backend)]
    backend.model = models.WordLevel(_numbered(words), unk_token=UNKNOWN)
    backend.decoder = _spaced()
    return backend


def learn_wordpiece(texts: Iterable[str], room: int) -> Backend:
    """BPE in which every word begins with a mark; then the mark goes, and ## comes to the rest.

    The library's own trainer numbers letters in hash order, and so breaks ties by chance.
    """
    backend = Backend(models.BPE())
    marked = pre_tokenizers.Metaspace(_WORD_START, prepend_scheme="always", split=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([WORDS, marked])
    trainer = trainers.BpeTrainer(vocab_size=room, min_frequency=2, show_progress=False)
    backend.train_from_iterator(texts, trainer)
    merges = [piece for piece in _in_order(backend) if piece != _WORD_START]
    letters = sorted(set("".join(merges)) - {_WORD_START})
    _check_room("wordpiece", 1 + 2 * len(letters), room)
    entries = [UNKNOWN, *letters, *(f"##{letter}" for letter in letters)]
    entries += [
        piece[1:] if piece.startswith(_WORD_START) else f"##{piece}"
        for piece in merges
        if len(piece) > 1
    ]
    entries = list(dict.fromkeys(entries))[:room]
    backend.pre_tokenizer = WORDS
    backend.model = models.WordPiece(_numbered(entries), unk_token=UNKNOWN)
    backend.decoder = _spaced()
    return backend


def learn_bpe(texts: Iterable[str], room: int) -> Backend:
    """GPT-2's: merges within words, over an alphabet of all bytes."""
    _check_room("bpe", len(_ALL_BYTES), room)
    backend = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=room, min_frequency=2, initial_alphabet=_ALL_BYTES, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def learn_unigram(texts: Iterable[str], room: int) -> Backend:
    """Over bytes, like BPE, so that no text is unknown and no space is lost.

    The library sums in hash order and ranks unseen bytes by it; rounding and sorting undo both.
    """
    _check_room("unigram", len(_ALL_BYTES), room)
    backend = _byte_level(models.Unigram())
    trainer = trainers.UnigramTrainer(
        vocab_size=room, initial_alphabet=_ALL_BYTES, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    learned: list[tuple[str, float]] = json.loads(backend.to_str())["model"]["vocab"]
    floor = min(score for _, score in learned)
    unseen = floor + len(_ALL_BYTES) * 1e-4  # the library ranks unseen bytes in steps of 0.0001
    scores = [
        (piece, round(floor if len(piece) == 1 and score <= unseen else score, _SCORE_DIGITS))
        for piece, score in learned
    ]
    scores.sort(key=lambda entry: (-entry[1], entry[0]))
    backend.model = models.Unigram(scores, None, False)
    return backend


LEARN: dict[str, Callable[[Iterable[str], int], Backend]] = {
    "char": learn_characters,
    "word": learn_words,
    "wordpiece": learn_wordpiece,
    "bpe": learn_bpe,
    "unigram": learn_unigram,
}


def _byte_level(model: models.Model) -> Backend:
    backend = Backend(model)
    backend.pre_tokenizer = _BYTES
    backend.decoder = decoders.ByteLevel()
    return backend


def _spaced() -> decoders.Decoder:
    """Words with spaces between them, and none where the usual typography has none."""
    return decoders.Sequence(
        [
            decoders.WordPiece(prefix="##", cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(r" (?=[.,;:!?…%)\]}’”])"), ""),
            decoders.Replace(Regex(r"(?<=[(\[{‘“$£#@]) "), ""),
            decoders.Replace(Regex(r" ?\n ?"), "\n"),
        ]
    )


def _in_order(backend: Backend) -> list[str]:
    vocab = backend.get_vocab(with_added_tokens=False)
    return sorted(vocab, key=vocab.__getitem__)


def _numbered(entries: Iterable[str]) -> dict[str, int]:
    return {entry: id for id, entry in enumerate(entries)}


def _check_room(kind: str, least: int, room: int) -> None:
    if room < least:
        raise GlassformerError(
            f"vocab_size leaves {max(room, 0):,} entries besides the special tokens; a {kind} "
            f"vocabulary of this text needs at least {least:,}. Raise vocab_size."
        )
