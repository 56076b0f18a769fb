"""Reversing a sentence is learned from examples alone, and visible in the attention.
`make prove-translation` does it with the plain command, and copying too."""

import random

import pytest
from small_tasks import MACHINE, trained

from glassformer.tasks import load
from glassformer.tasks.translate.predictor import TranslatePredictor
from glassformer.training.preparation import make_recipe

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")


@pytest.fixture(scope="module")
def reverser(tmp_path_factory: pytest.TempPathFactory) -> TranslatePredictor:
    """A translator trained on 1,500 sentences of two to six words and their reversals."""
    folder, draw = tmp_path_factory.mktemp("reverser"), random.Random(0)
    lines: set[str] = set()
    while len(lines) < 1500:
        words = draw.choices(WORDS, k=draw.randint(2, 6))
        lines.add(f"{' '.join(words)}\t{' '.join(words[::-1])}\n")
    (folder / "reversed.tsv").write_text("".join(sorted(lines)))
    sizes = {"num_layers": 1, "d_model": 48, "num_heads": 2, "d_feedforward": 96, "dropout": 0.0}
    steps = {"max_steps": 400, "eval_steps": 400, "save_steps": 400}
    speed = {"learning_rate": 0.01, "per_device_train_batch_size": 32, "ema": 0.9}
    recipe = make_recipe(
        {
            "model": {"name": "translator", **sizes},
            "data": {"paths": [str(folder / "reversed.tsv")]},
            "tokenizer": {"kind": "word"},
            "training": steps | speed | MACHINE,
        }
    )
    found = load(trained(recipe, folder / "run"))
    assert isinstance(found, TranslatePredictor)
    return found


def test_new_sentences_are_reversed(reverser: TranslatePredictor) -> None:
    draw = random.Random(1)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(2, 6))) for _ in range(60)]
    found = [each.text for each in reverser.translate_batch(texts)]
    wanted = [" ".join(reversed(text.split())) for text in texts]
    assert sum(map(str.__eq__, found, wanted)) >= 54


def test_the_alignment_of_a_reversed_sentence_is_the_anti_diagonal(
    reverser: TranslatePredictor,
) -> None:
    draw, right, total = random.Random(2), 0, 0
    for _ in range(60):
        words = draw.sample(WORDS, draw.randint(2, 6))  # each once: else either place would do
        found = reverser.align(" ".join(words), " ".join(reversed(words)))
        looked = found.weights.argmax(axis=1)[:-1].tolist()  # the end has no place of its own
        wanted = list(range(len(words)))[::-1]
        right += sum(map(int.__eq__, looked, wanted))
        total += len(words)
    assert right / total >= 0.9
