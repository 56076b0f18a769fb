"""Every document lands on exactly one side, together with its copies."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from written_files import written

from glassformer.data import corpus_split, rows
from glassformer.data.corpus_split import MANY, Split, read_corpus, split
from glassformer.data.documents import CorpusConfig
from glassformer.data.rows import TextPart, TextStore
from glassformer.data.split import normalised
from glassformer.errors import GlassformerError


def halves(*texts: str, fraction: float = 0.1, seed: int = 0) -> Split:
    with TemporaryDirectory() as folder:
        store = TextStore(Path(folder))
        for text in texts:
            store.add([text])
        return split(store, fraction, seed, "a.txt")


def texts(part: TextPart) -> list[str]:
    return ["".join(text.parts) for text in part.texts()]


def sides(result: Split) -> tuple[list[str], list[str]]:
    return texts(result.training), texts(result.validation)


def different(number: int) -> list[str]:
    return [f"text {n:05}" for n in range(number)]


anything = st.text(st.sampled_from("aB \n"), min_size=2, max_size=200).filter(
    lambda text: text[0].isalpha() and text[-1].isalpha()
)
fractions = st.floats(0.01, 0.49)


@given(st.lists(anything, min_size=1, max_size=3 * MANY), fractions, st.integers(0, 5))
def test_a_split_covers_all_text_once_and_leaves_no_side_empty(
    parts: list[str], fraction: float, seed: int
) -> None:
    if len(parts) > 1 == len(set(map(normalised, parts))):
        with pytest.raises(GlassformerError, match="all have the same content"):
            halves(*parts, fraction=fraction, seed=seed)
        return
    training, validation = sides(halves(*parts, fraction=fraction, seed=seed))
    assert training
    assert validation
    assert all(training + validation)
    assert sorted("".join(training + validation)) == sorted("".join(parts))
    assert (training, validation) == sides(halves(*parts, fraction=fraction, seed=seed))
    if len(training) + len(validation) == len(parts):
        assert sorted(training + validation) == sorted(parts)


contents = st.text(st.sampled_from("ab cé\n"), max_size=30).map(lambda text: f"d{text}d")
blanks = st.sampled_from(["  ", "\n", "\t "])


@given(
    st.lists(st.tuples(contents, blanks, st.integers(0, 3)), min_size=2, max_size=40),
    st.randoms(use_true_random=False),
    fractions,
    st.integers(0, 5),
)
def test_no_document_is_in_both_parts_and_no_text_is_lost(
    found: list[tuple[str, str, int]], random: Random, fraction: float, seed: int
) -> None:
    documents = [text for text, _, _ in found]
    documents += [text.upper().replace(" ", blank) for text, blank, n in found for _ in range(n)]
    assume(len(set(map(normalised, documents))) > 1)
    random.shuffle(documents)
    result = halves(*documents, fraction=fraction, seed=seed)
    training, validation = sides(result)
    assert sorted("".join(training + validation)) == sorted("".join(documents))
    cut = {*result.training.shortened, *result.validation.shortened}
    sure = [
        {normalised(documents[n]) for n in np.flatnonzero(part.is_in) if n not in cut}
        for part in (result.training, result.validation)
    ]
    assert sure[0].isdisjoint(sure[1])
    for number in cut:
        assert normalised(documents[number]) not in sure[0] | sure[1]


def test_copies_of_a_document_are_counted_and_stay_together() -> None:
    rows = different(100)
    result = halves(*rows, *(f" {row.upper()}\n" for row in rows[:40]), rows[0])
    training, validation = ({normalised(text) for text in side} for side in sides(result))
    assert training.isdisjoint(validation)
    assert len(training | validation) == 100
    assert result.notes == [
        "41 documents repeat another, ignoring case and whitespace; equal documents stay on the "
        "same side of the split"
    ]


def test_long_copies_are_recognised_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_AT_ONCE", 1000)
    long = "Once upon\ta time, é " * 500
    result = halves(long, *different(3), long.upper().replace(" ", "\n"), fraction=0.4)
    training, validation = sides(result)
    assert sum(len(text) > 9000 for text in training) == 2
    assert "".join(validation) in "".join(different(3))
    assert "1 document repeats another" in result.notes[0]


def test_of_a_few_documents_none_that_has_a_copy_is_cut() -> None:
    one, other = "a line of it\n" * 50, "another line\n" * 50
    training, validation = sides(halves(one, other, one, fraction=0.2))
    assert training == [one, other[: len(other) - len(validation[0])], one]
    assert "".join(training[1:2] + validation) == other
    assert sides(halves(one, other, one, other)) in (
        ([one, one], [other, other]),
        ([other, other], [one, one]),
    )


def test_many_documents_are_held_out_whole() -> None:
    result = halves(*different(370))
    assert len(result.validation) == 37
    assert result.held_out == "37 of 370 documents, 10% of the text"
    assert result.notes == []
    training, validation = sides(result)
    assert sorted(training + validation) == different(370)


def test_what_is_held_out_is_a_share_of_the_text_whatever_the_sizes() -> None:
    sizes = [10] * 90 + [1000] * 10
    parts = [f"{n:03}".ljust(size, "x") for n, size in enumerate(sizes)]
    for seed in range(20):
        share = halves(*parts, fraction=0.2, seed=seed).validation.num_bytes / sum(sizes)
        assert 0.1 < share < 0.31


def test_the_smallest_is_held_out_when_every_document_is_large() -> None:
    rows = [row * 9 for row in different(MANY)]
    assert sides(halves(*rows, "the smallest", fraction=0.01))[1] == ["the smallest"]


def test_another_seed_holds_out_other_documents_and_the_order_does_not() -> None:
    rows = different(100)
    first = sides(halves(*rows, fraction=0.2, seed=0))[1]
    assert first != sides(halves(*rows, fraction=0.2, seed=1))[1]
    assert sorted(first) == sorted(sides(halves(*rows[::-1], fraction=0.2, seed=0))[1])


def test_one_document_is_cut_at_the_line_nearest_to_the_fraction() -> None:
    lines = [f"line {number}\n" for number in range(1000)]
    result = halves("".join(lines))
    assert result.held_out == "last 10% of a.txt"
    (training,), (validation,) = sides(result)
    assert training.endswith("\n")
    assert validation == "".join(lines[len(training.splitlines()) :])
    assert abs(len(validation) / sum(map(len, lines)) - 0.1) < 0.001


@pytest.mark.parametrize("near", [8, 2**20])
@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("word " * 20, "word " * 2),
        ("x" * 100, "x" * 10),
        ("ab", "b"),
        ("é" * 99 + "a", "é" * 10 + "a"),
        ("漢" * 100, "漢" * 10),
    ],
)
def test_without_lines_the_cut_is_at_a_word_or_a_character(
    text: str, end: str, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_split, "_NEAR", near)
    assert sides(halves(text))[1] == [end]


def test_a_few_documents_are_cut_at_the_end_of_the_last() -> None:
    result = halves("a\n" * 50, "b\n" * 50)
    assert sides(result) == (["a\n" * 50, "b\n" * 40], ["b\n" * 10])
    assert result.held_out == "last 10% of 2 documents"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "0 documents: too short, so no part can be held out"),
        (["x"], r"a\.txt: too short, so no part can be held out"),
        (["hello\n"], r"a\.txt: only 6 bytes of text, so no part can be held out"),
        (["hello" + "\n" * 500], r"a\.txt: one end is only whitespace"),
        (["\n" * 500 + "hello"], r"a\.txt: one end is only whitespace"),
        (["Hello."] * 12, "12 documents: all have the same content, so no part can be held out"),
    ],
)
def test_text_of_which_no_part_can_be_held_out_is_refused(parts: list[str], message: str) -> None:
    with pytest.raises(GlassformerError, match=message):
        halves(*parts)


def test_validation_paths_are_the_validation_set(tmp_path: Path) -> None:
    train, held_out = written(tmp_path / "a.txt", "train"), written(tmp_path / "b.txt", "held out")
    config = CorpusConfig(paths=(train,), validation_paths=(held_out,))
    result = read_corpus(config, seed=0, folder=tmp_path)
    assert sides(result) == (["train"], ["held out"])
    assert result.held_out == f"all of {held_out}"
    assert result.notes == []


def test_validation_data_that_repeats_training_data_is_counted(tmp_path: Path) -> None:
    train = written(tmp_path / "a.csv", "text\none\ntwo\nthree\n")
    held_out = written(tmp_path / "b.csv", "text\nTWO\nfour\n one \n")
    config = CorpusConfig(paths=(train,), validation_paths=(held_out,))
    result = read_corpus(config, seed=0, folder=tmp_path)
    assert result.notes == ["2 documents in the validation data also occur in training"]
    assert len(result.validation) == 3


def test_without_validation_paths_a_part_is_held_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "line\n" * 100)
    config = CorpusConfig(paths=(path,), validation_fraction=0.2)
    result = read_corpus(config, seed=0, folder=tmp_path)
    assert sides(result) == (["line\n" * 80], ["line\n" * 20])
    assert result.held_out == f"last 20% of {path}"
