"""Batches of images with captions: pure functions of their number, every caption in its turn."""

from collections import Counter
from pathlib import Path

import numpy as np

from glassformer.data.batches import CaptionRows, CaptionTurns


def captions() -> CaptionRows:
    """Three images with one, two and seven captions; each caption is [image, number]."""
    found = [
        [[image, number] for number in range(count)] for image, count in ((5, 1), (6, 2), (7, 7))
    ]
    return CaptionRows.of(found, [5, 6, 7], np.int64)


def test_an_epoch_shows_every_image_once() -> None:
    turns = CaptionTurns(captions(), most=5, seed=0)
    for epoch in range(5):
        numbers = turns.images(range(3 * epoch, 3 * epoch + 3))
        assert sorted(numbers.tolist()) == [0, 1, 2]


def test_the_captions_of_a_batch_belong_to_its_images() -> None:
    rows, turns = captions(), CaptionTurns(captions(), most=5, seed=0)
    numbers = range(1, 7)  # from one epoch into the next, and the one after
    images, (chosen, places) = turns.images(numbers), turns.rows(numbers)
    for row, place in zip(chosen, places, strict=True):
        assert rows.rows.row(row)[0] == rows.numbers[images[place]]
    expected = {0: 1, 1: 2, 2: 5}
    assert Counter(places.tolist()) == {
        place: expected[image] for place, image in enumerate(images.tolist())
    }


def test_many_captions_take_turns_until_all_were_shown() -> None:
    turns = CaptionTurns(captions(), most=2, seed=0)
    shown = Counter[int]()
    for number in range(3 * 7):  # seven epochs, two captions each: every caption twice
        rows, _ = turns.rows(range(number, number + 1))
        if turns.images(range(number, number + 1))[0] == 2:
            shown.update(rows.tolist())
    assert shown == dict.fromkeys(range(3, 10), 2)


def test_a_batch_follows_from_the_seed_and_its_number() -> None:
    late = CaptionTurns(captions(), most=2, seed=1)
    straight = CaptionTurns(captions(), most=2, seed=1)
    for number in range(20):
        straight.rows(range(number, number + 4))
    for one, other in zip(late.rows(range(16, 20)), straight.rows(range(16, 20)), strict=True):
        assert one.tolist() == other.tolist()
    different = CaptionTurns(captions(), most=2, seed=2)
    orders = ([*turns.images(range(30))] for turns in (late, different))
    assert len({*map(tuple, orders)}) == 2


def test_unknown_words_are_read_but_not_learned() -> None:
    ids, is_learned = captions().padded(np.array([0, 4]), unknown=1)
    assert ids.tolist() == [[5, 0], [7, 1]]
    assert is_learned.tolist() == [[True, True], [True, False]]


def test_captions_survive_their_files(tmp_path: Path) -> None:
    captions().save(tmp_path / "train.safetensors")
    found = CaptionRows.load(tmp_path / "train.safetensors")
    assert [found.rows.row(n).tolist() for n in range(10)] == [
        captions().rows.row(n).tolist() for n in range(10)
    ]
    assert (found.counts.tolist(), found.numbers.tolist()) == ([1, 2, 7], [5, 6, 7])
    rows, places = found.rows_of(np.array([2, 0]))
    assert rows.tolist() == [3, 4, 5, 6, 7, 8, 9, 0]
    assert places.tolist() == [0] * 7 + [1]
