"""The skip-gram loss against pairs written out one by one, and which pairs there are."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from glassformer.models.word_vectors import WordVectors, WordVectorsConfig
from glassformer.nn.loss import negative_sampling_loss
from glassformer.preprocessing.skip_gram import (
    SkipGram,
    SkipGramBatch,
    SkipGramPreprocessing,
    are_words,
)
from glassformer.tasks.word_vectors.scores import evaluate_skip_gram, nearness, pairs_of
from glassformer.text.tokenizer_training import train_tokenizer

SIZE, WIDTH, WINDOW, RANDOM = 12, 5, 2, 3


def random_vectors(size: int = SIZE) -> WordVectors:
    model = WordVectors(WordVectorsConfig(vocab_size=size, d_model=WIDTH))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


@pytest.fixture
def batch() -> SkipGramBatch:
    texts = torch.tensor([[0, 0, 0, 1, 1, 1], [2, 2, 2, 2, -1, -1]])  # the end is padding
    negatives = torch.randint(SIZE, (2, 4))
    return SkipGramBatch(torch.randint(SIZE, (2, 6)), texts, negatives)


def pair_by_pair(model: WordVectors, batch: SkipGramBatch) -> torch.Tensor:
    """Every word with every neighbour: a neighbour next to it counts 1, one further on 1/2."""
    total, weight = torch.zeros(()), 0.0
    assert model.contexts is not None
    for row, texts, negatives in zip(*(part.tolist() for part in batch), strict=True):
        for place, word in enumerate(row):
            for other in range(len(row)):
                distance = abs(other - place)
                if not 1 <= distance <= WINDOW or texts[place] != texts[other] or texts[place] < 0:
                    continue
                v = model.embedding.weight[word]
                near = -F.logsigmoid(v @ model.contexts.weight[row[other]])
                far = [-F.logsigmoid(-v @ model.contexts.weight[id]) for id in negatives]
                share = (WINDOW + 1 - distance) / WINDOW
                total = total + share * (near + RANDOM * torch.stack(far).mean())
                weight += share
    return total / weight


def test_loss_and_gradients_are_those_of_all_pairs_one_by_one(batch: SkipGramBatch) -> None:
    model = random_vectors()
    found = []
    together = negative_sampling_loss(*pairs_of(model, batch, WINDOW), RANDOM)
    for loss in (together, pair_by_pair(model, batch)):
        found.append([loss, *torch.autograd.grad(loss, [*model.parameters()])])
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)


def test_vectors_of_zeros_have_the_loss_of_chance(batch: SkipGramBatch) -> None:
    model = random_vectors()
    model.embedding.weight.data.zero_()
    loss = negative_sampling_loss(*pairs_of(model, batch, WINDOW), RANDOM).item()
    assert loss == pytest.approx((RANDOM + 1) * math.log(2))


def test_near_words_count_more_than_far_ones() -> None:
    assert nearness(5, 2)[2].tolist() == [0.5, 1.0, 0.0, 1.0, 0.5]
    # Word2vec draws the reach of each window from 1 … w: these are the means of its pairs.
    reach = np.random.default_rng(0).integers(1, 6, size=20_000)
    drawn = [(reach >= distance).mean() for distance in range(1, 6)]
    assert nearness(6, 5)[0, 1:].tolist() == pytest.approx(drawn, abs=0.02)


@pytest.fixture(scope="module")
def rules() -> tuple[SkipGramPreprocessing, np.ndarray]:
    tokenizer = train_tokenizer("word", ["the cat , the dog . \n a bird"])
    counts = np.ones(tokenizer.vocab_size)
    counts[tokenizer.encode("the")] = 10_000
    return SkipGramPreprocessing(tokenizer=tokenizer, subsampling=0.0), counts


def ids_of(rules: tuple[SkipGramPreprocessing, np.ndarray], text: str) -> list[int]:
    return rules[0].tokenizer.encode(text)


def test_a_window_reaches_over_punctuation_and_unknown_words(rules) -> None:
    preprocessing, counts = rules
    end = preprocessing.tokenizer.end_of_text
    row = [*ids_of(rules, "the , cat yak . \n dog"), end, *ids_of(rules, "a bird")]
    batch = SkipGram(preprocessing, counts).batch(np.array([row, row]), (0, 0), 4)
    assert batch.ids[0].tolist() == ids_of(rules, "the cat dog a bird")
    assert batch.texts[0].tolist() == [0, 0, 0, 1, 1]  # no pair across the end of a text
    assert torch.equal(batch.ids[0], batch.ids[1])


def test_batches_are_a_function_of_their_seed(rules) -> None:
    preprocessing, counts = rules
    windows = np.array([ids_of(rules, "the cat the dog the bird")] * 8)
    skip_gram = SkipGram(preprocessing.model_copy(update={"subsampling": 1e-3}), counts)
    one, again, other = (skip_gram.batch(windows, (7, n), 16) for n in (1, 1, 2))
    assert all(map(torch.equal, one, again))
    assert not torch.equal(one.negatives, other.negatives)


def test_frequent_words_are_left_out_as_often_as_word2vec_does(rules) -> None:
    preprocessing, counts = rules
    skip_gram = SkipGram(preprocessing.model_copy(update={"subsampling": 0.01}), counts)
    (the,), (cat,) = ids_of(rules, "the"), ids_of(rules, "cat")
    batch = skip_gram.batch(np.array([[the] * 4000, [cat] * 4000]), (0, 0), 1)
    kept = (batch.texts >= 0).float().mean(1) * batch.ids.size(1) / 4000
    assert kept.tolist() == pytest.approx([0.1 + 0.01, 1.0], abs=0.02)


def test_random_words_are_drawn_by_their_smoothed_frequency(rules) -> None:
    preprocessing, counts = rules
    drawn = SkipGram(preprocessing, counts).batch(np.zeros((1, 4), int), (0, 0), 50_000).negatives
    is_word = are_words(preprocessing.tokenizer, len(counts))
    assert is_word[drawn.numpy()].all()  # no punctuation, no <|unk|>
    powers = np.where(is_word, counts, 0) ** 0.75 * is_word
    shares = np.bincount(drawn[0], minlength=len(counts)) / drawn.numel()
    np.testing.assert_allclose(shares, powers / powers.sum(), atol=0.003)


def test_evaluation_is_the_mean_over_all_pairs_and_the_same_each_time(rules) -> None:
    preprocessing, counts = rules[0], np.ones_like(rules[1])
    words = np.random.default_rng(0).integers(len(counts), size=500)
    model, skip_gram = random_vectors(len(counts)), SkipGram(preprocessing, counts)
    found = evaluate_skip_gram(model, words, skip_gram)
    assert found == evaluate_skip_gram(model, words, skip_gram)
    assert found.num_pairs > 1000
    assert 0.3 < found.accuracy < 0.7  # random vectors know nothing
    model.embedding.weight.data.zero_()
    chance = evaluate_skip_gram(model, words, skip_gram)
    assert (chance.loss, chance.accuracy) == (pytest.approx(6 * math.log(2)), pytest.approx(0.5))
