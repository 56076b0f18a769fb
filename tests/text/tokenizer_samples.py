"""A text with some of everything, and the kinds of tokenizer to train on it."""

from functools import cache

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers

from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Tokenizer

TEXT = (
    "It was the best of times, it was the worst of times: it wasn't (quite) a well-known time.\n"
    "“Café costs $3.14!” said the naïve 3,000th reader…\n\n\tThe end; the end? #1 <|endoftext|>\n"
) * 6
KINDS = ["char", "word", "wordpiece", "bpe", "unigram"]
SIZES = {"word": 200, "wordpiece": 200, "bpe": 400, "unigram": 400, "char": None}


def file_of(tokenizer, path):
    tokenizer.save(path)
    return path.read_bytes()


@cache
def trained(kind):
    return train_tokenizer(kind, [TEXT], SIZES[kind])


def llama():
    """Like Llama 2's: no split into words, spaces as ▁, unknown characters in bytes."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a"]
    vocab = {piece: id for id, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocab, [("▁", "a")], unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer(backend)
