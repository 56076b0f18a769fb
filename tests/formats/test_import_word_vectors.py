"""Published word vectors become a model folder with exactly their words and numbers."""

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer.errors import GlassformerError

WORDS = ["the", "train", "left", "station", "radio", "naïve", "'s"]
VECTORS = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)


def glove(words: Any = WORDS, vectors: Any = VECTORS) -> str:
    rows = zip(words, vectors, strict=True)
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows)


def word2vec() -> str:
    return "7 4\n" + glove()


def fasttext() -> str:
    """A header and a blank at the end of each line."""
    return "7 4\n" + glove().replace("\n", " \n")


def binary() -> bytes:
    rows = zip(WORDS, VECTORS, strict=True)
    return b"7 4\n" + b"".join(w.encode() + b" " + v.tobytes() + b"\n" for w, v in rows)


def table(folder: Any) -> dict[str, list[float]]:
    predictor: Any = glassformer.load(folder)
    vectors = predictor.model.token_vectors.detach().numpy()
    ids = range(1, len(vectors) - 1)  # between <|unk|> and <|endoftext|>
    return {predictor.tokenizer.token(id): vectors[id].tolist() for id in ids}


@pytest.mark.parametrize("write", [glove, word2vec, fasttext, binary])
def test_every_format_gives_back_its_words_and_vectors(tmp_path: Path, write: Any) -> None:
    content = write()
    path = tmp_path / "vectors.any"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = glassformer.import_model(path, tmp_path / "model")
    assert table(found) == dict(zip(WORDS, VECTORS.tolist(), strict=True))


def test_compressed_files_and_archives_are_read(tmp_path: Path) -> None:
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(glove().encode()))
    (tmp_path / "v.bin.gz").write_bytes(gzip.compress(binary()))
    with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("inner/v.50d.txt", glove())
    for name in ("v.txt.gz", "v.bin.gz", "v.zip/inner/v.50d.txt"):
        found = glassformer.import_model(tmp_path / name, tmp_path / "model", force=True)
        assert [*table(found)] == WORDS


def test_a_word_that_stands_twice_keeps_its_first_vector_and_may_contain_blanks(
    tmp_path: Path,
) -> None:
    words = ["the", "new york", "the", *WORDS[3:]]
    (tmp_path / "v.txt").write_text(glove(words))
    found = glassformer.import_model(tmp_path / "v.txt", tmp_path / "model")
    assert table(found)["the"] == VECTORS[0].tolist()
    assert table(found)["new york"] == VECTORS[1].tolist()
    assert "1 word had no name or another vector before" in found.notes[0]


def test_case_is_kept_where_the_vocabulary_has_it(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(glove(["The", *WORDS[1:]]))
    cased: Any = glassformer.load(glassformer.import_model(tmp_path / "v.txt", tmp_path / "m"))
    assert cased.tokenizer.encode("The the") == [1, 0]
    (tmp_path / "v.txt").write_text(glove())
    folded: Any = glassformer.load(glassformer.import_model(tmp_path / "v.txt", tmp_path / "n"))
    assert folded.tokenizer.encode("The the") == [1, 1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (glove() + "short 1 2\n", r"v:8: expected a word and 4 values, found 3 columns\."),
        (glove() + "word 1 2 x 4\n", r'v:8: "x" is not a number\.'),
        (glove() + "word 1 2 nan 4\n", r'v:8: "nan" is not a number\.'),
        ("9 4\n" + glove(), "should contain 9 words, by its first line, but contains 7"),
        ("Once upon a time\nthere was\n", "has no format that can be imported. These can: word v"),
        (binary()[:-9], "is truncated: it contains 6 of 7 words"),
        (b"7 4\n" + b"\xff" * 9000, "is truncated: it contains 0 of 7 words"),
        (b"999999999999 999999\n" + b"a \0\0\0\0\0\0\0\0", "are not possible"),
        (b"", "is empty. Copy it again"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    path = tmp_path / "v"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(GlassformerError, match=said):
        glassformer.import_model(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text(glove())
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_text("")
    for force in (False, True):
        with pytest.raises(GlassformerError, match="contains other files"):
            glassformer.import_model(tmp_path / "v.txt", tmp_path / "photos", force=force)
    glassformer.import_model(tmp_path / "v.txt", tmp_path / "model")
    with pytest.raises(GlassformerError, match="already contains a model"):
        glassformer.import_model(tmp_path / "v.txt", tmp_path / "model")
    glassformer.import_model(tmp_path / "v.txt", tmp_path / "model", force=True)
    with pytest.raises(GlassformerError, match=r"w.txt does not exist"):
        glassformer.import_model(tmp_path / "w.txt", tmp_path / "model")
