"""Texts come back from disk as they were added, however long they are."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import rows
from glassformer.data.rows import TextPart, TextStore


def joined(part: TextPart) -> list[str]:
    return ["".join(text.parts) for text in part.texts()]


@given(st.lists(st.text(max_size=40), max_size=20), st.integers(4, 50), st.randoms())
def test_texts_are_read_as_they_were_added(texts: list[str], at_once: int, random: Random) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_AT_ONCE", at_once)
        patch.setattr(rows, "_MANY", 3)
        store = TextStore(Path(folder))
        for text in texts:
            store.add(text)  # in parts of one character
        assert joined(store.all()) == texts
        assert store.all().num_bytes == sum(len(text.encode()) for text in texts)
        is_in = np.array([random.random() < 0.5 for _ in texts], np.bool_)
        part = TextPart(store, is_in)
        assert joined(part) == [text for text, chosen in zip(texts, is_in, strict=True) if chosen]
        assert len(part) == is_in.sum()


def test_the_file_is_gone_with_the_store(tmp_path: Path) -> None:
    store = TextStore(tmp_path)
    store.add(["text"])
    del store
    assert list(tmp_path.iterdir()) == []


def test_a_text_may_be_shortened(tmp_path: Path) -> None:
    store = TextStore(tmp_path)
    for text in ("abc", "défg", "hi"):
        store.add([text])
    start = len("abc")
    part = TextPart(store, np.array([False, True, True]), {1: (start + 3, start + 5)})
    assert joined(part) == ["fg", "hi"]
    assert part.num_bytes == 4
