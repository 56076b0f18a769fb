"""A text with some of everything, and the kinds of tokenizer to train on it."""

TEXT = (
    "It was the best of times, it was the worst of times: it wasn't (quite) a well-known time.\n"
    "“Café costs $3.14!” said the naïve 3,000th reader…\n\n\tThe end; the end? #1 <|endoftext|>\n"
) * 6
KINDS = ["char", "word", "wordpiece", "bpe", "unigram"]
SIZES = {"word": 200, "wordpiece": 200, "bpe": 400, "unigram": 400, "char": None}


def file_of(tokenizer, path):
    tokenizer.save(path)
    return path.read_bytes()
