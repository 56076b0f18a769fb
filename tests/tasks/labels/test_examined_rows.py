"""Which held-out rows a report looks at."""

from glassformer.models.bag import Bag, BagConfig
from glassformer.models.classifier import Classifier, ClassifierConfig
from glassformer.tasks.labels.scores import MOST_ROWS, rows_to_read

LENGTHS = [100] * 900


def test_the_vectors_of_a_bag_do_not_make_it_slow() -> None:
    bag = Bag(BagConfig(labels=("a", "b"), vocab_size=50_000))
    assert sum(each.numel() for each in bag.parameters()) > 10**6
    assert rows_to_read(LENGTHS, bag) == list(range(900))


def test_the_rows_of_a_large_model_are_among_those_of_a_small_one() -> None:
    def rows(width: int) -> list[int]:
        config = ClassifierConfig(
            labels=("a", "b"), vocab_size=9, d_model=width, num_heads=4, context_length=128
        )
        return rows_to_read(LENGTHS, Classifier(config))

    small, large = rows(64), rows(512)
    assert len(small) > len(large) > 1
    assert {*large} < {*small}
    assert len(rows_to_read([1] * 10**4, Bag(BagConfig(labels=("a", "b"), vocab_size=9)))) <= (
        MOST_ROWS
    )
