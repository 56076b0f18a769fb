import random

import numpy as np
import pytest
import torch

from glassformer.data.labelled_texts import Example
from glassformer.data.labels import targets_of
from glassformer.errors import GlassformerError
from glassformer.tasks.labels.baseline import PixelBaseline, TfidfBaseline, small
from glassformer.tasks.labels.scores import judge

WORDS = {"sport": "goal match team win", "money": "bank share market price", "art": "paint stage"}
FILLER = ["the", "of", "and", "a", "to", "in", "it", "is"]


def baseline(texts, labels, classes, multi_label=False, seed=0):
    examples = [Example(*each, "a place") for each in zip(texts, labels, strict=True)]
    targets = np.array(targets_of(examples, classes, multi_label))
    return TfidfBaseline(texts, targets, classes, multi_label, seed)


def some_texts(size, classes=tuple(WORDS), seed=0):
    chance = random.Random(seed)
    labels = [(chance.choice(classes),) for _ in range(size)]
    texts = [
        " ".join([*chance.choices(FILLER, k=5), *chance.choices(WORDS[name].split(), k=2)])
        for (name,) in labels
    ]
    return texts, labels


def accuracy(model, texts, labels):
    targets = torch.tensor([model.classes.index(name) for (name,) in labels])
    return judge(model.logits(texts), targets, model.classes).accuracy


@pytest.mark.parametrize("classes", [("sport", "money"), ("sport", "money", "art")])
def test_topics_are_distinguished_by_their_words(classes):
    model = baseline(*some_texts(120, classes), classes)
    assert accuracy(model, *some_texts(60, classes, seed=1)) == 1.0


@pytest.mark.parametrize("classes", [("sport", "money"), ("sport", "money", "art")])
def test_probabilities_add_up_and_follow_the_order_of_the_classes(classes):
    texts, labels = some_texts(120, classes)
    model = baseline(texts, labels, classes)
    found = model.logits(texts)
    assert found.shape == (120, len(classes))
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(120, dtype=torch.double))
    turned = baseline(texts, labels, classes[::-1])
    torch.testing.assert_close(turned.logits(texts), found.flip(-1), atol=1e-2, rtol=1e-2)


def test_pairs_of_words_count():
    texts = ["not good", "good", "not bad", "bad"] * 20
    model = baseline(texts, [("no",), ("yes",), ("yes",), ("no",)] * 20, ["yes", "no"])
    assert model.logits(["not bad", "not good"]).argmax(-1).tolist() == [0, 1]


def test_short_words_and_marks_count():
    texts = ["I do n't", "I do", "you do !", "you do"] * 15
    labels = [("no",), ("yes",), ("yes!",), ("yes",)] * 15
    model = baseline(texts, labels, ["no", "yes", "yes!"])
    assert model.logits(["they do n't", "they do !"]).argmax(-1).tolist() == [0, 2]


def test_the_same_seed_gives_the_same_baseline():
    texts, labels = some_texts(100)
    first, second = (baseline(texts, labels, tuple(WORDS), seed=3) for _ in range(2))
    assert torch.equal(first.logits(texts), second.logits(texts))


def test_c_is_chosen_by_what_the_held_out_texts_need():
    texts, labels = some_texts(200)
    clear = baseline(texts, labels, tuple(WORDS))
    chance = random.Random(1)
    random_labels = [(chance.choice(tuple(WORDS)),) for _ in texts]
    noise = baseline(texts, random_labels, tuple(WORDS))
    assert clear.strength == max(TfidfBaseline.strengths)
    assert noise.strength == min(TfidfBaseline.strengths)


def test_a_handful_of_texts_is_enough():
    model = baseline(["up", "down"], [("a",), ("b",)], ["a", "b"])
    assert model.strength == TfidfBaseline.default_strength
    assert model.logits(["up up", "down"]).argmax(-1).tolist() == [0, 1]


def test_a_text_of_unknown_words_gets_the_prior():
    texts = ["up"] * 30 + ["down"] * 10
    model = baseline(texts, [("a",)] * 30 + [("b",)] * 10, ["a", "b"])
    found = model.logits(["sideways", ""])
    torch.testing.assert_close(found[0], found[1])
    assert found[0, 0] > found[0, 1]


def test_a_class_without_a_training_text_is_improbable_and_finite():
    texts, labels = some_texts(100, ("sport", "money"))
    found = baseline(texts, labels, ("sport", "unheard of", "money")).logits(texts)
    assert found.isfinite().all()
    assert found[:, 1].max() < -4
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(100, dtype=torch.double))


def test_one_class_alone_is_always_predicted():
    model = baseline(["up", "down"] * 40, [("a",)] * 80, ["a", "b"])
    assert model.logits(["up", "sideways"]).argmax(-1).tolist() == [0, 0]


def both(seed):
    texts, labels = some_texts(150, ("sport", "money"), seed)
    chance = random.Random(seed)
    for n in range(len(texts)):
        if chance.random() < 0.4:
            texts[n], labels[n] = f"{texts[n]} paint", (*labels[n], "art")
        elif chance.random() < 0.2:
            texts[n], labels[n] = "of the and", ()
    return texts, labels


def test_several_labels_are_found_each_by_itself():
    classes = ("art", "money", "sport")
    model = baseline(*both(0), classes, multi_label=True)
    texts, labels = both(1)
    targets = torch.tensor([[name in names for name in classes] for names in labels])
    found = judge(model.logits(texts), targets, classes, multi_label=True)
    assert found.accuracy > 0.95
    assert found.loss < 0.1


def test_a_label_of_every_text_or_of_none_is_no_obstacle():
    texts, labels = both(0)
    always = [(*names, "always") for names in labels]
    classes = ("always", "art", "money", "never", "sport")
    found = baseline(texts, always, classes, multi_label=True).logits(texts)
    assert found.isfinite().all()
    assert (found[:, 0] > 0).all()
    assert (found[:, 3] < 0).all()


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (["", " "], [("a",), ("b",)], "no words in 2 training texts"),
        (["up", "down"], [("a",), ("c",)], "'c' is not one of the model's labels: a, b"),
        (["up", "down"], [("a",), ("a", "b")], "has 2 labels, but"),
        (["up", "down"], [("a",), ()], "has 0 labels, but"),
    ],
)
def test_data_that_cannot_be_learned_is_refused(texts, labels, message):
    with pytest.raises(GlassformerError, match=message):
        baseline(texts, labels, ["a", "b"])


# --- pixels ---


def pictures(number, size=8, seed=0):
    """Images that are brighter on the left, on the right, or above."""
    random = np.random.default_rng(seed)
    targets = random.integers(0, 3, number)
    images = random.integers(0, 156, (number, size, size, 1))
    half = size // 2
    for image, target in zip(images, targets, strict=True):
        part = (image[:, :half], image[:, half:], image[:half])[target]
        part += 100
    return list(images.astype(np.uint8)), targets


def test_images_are_distinguished_by_where_they_are_bright():
    images, targets = pictures(200)
    model = PixelBaseline(images, targets, ["left", "right", "above"])
    asked, true = pictures(100, seed=1)
    assert judge(model.logits(asked), torch.from_numpy(true), model.classes).accuracy > 0.95
    again = PixelBaseline(images, targets, ["left", "right", "above"])
    assert torch.equal(model.logits(asked), again.logits(asked))


def test_images_of_one_colour_teach_nothing_and_break_nothing():
    images = [np.full((4, 4, 3), 7, np.uint8)] * 60
    model = PixelBaseline(images, np.arange(60) % 2, ["a", "b"])
    torch.testing.assert_close(model.logits(images[:1]).exp().sum(), torch.tensor(1.0).double())


def test_large_images_are_scaled_down():
    assert small(np.zeros((64, 8, 3), np.uint8)).shape == (16, 8, 3)
    image = pictures(1)[0][0]
    assert small(image) is image
