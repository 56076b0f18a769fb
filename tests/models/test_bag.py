import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import nn

from glassformer.errors import GlassformerError
from glassformer.models.bag import MOST_PER_WORD, Bag, BagConfig, character_ngrams

OPTIONS = {"vocab_size": 17, "d_model": 8, "labels": ("a", "b"), "num_buckets": 50}
LECTURE = OPTIONS | {"weighting": "mean", "ngrams": 1}


def test_the_bag_of_the_lecture_is_torchs_embedding_bag_on_every_row():
    model = Bag(BagConfig(**LECTURE)).eval()
    lengths = torch.tensor([3, 11, 1, 7])
    ids = torch.randint(0, 17, (4, 11))
    is_text = torch.arange(11) < lengths[:, None]
    theirs = nn.EmbeddingBag(17, 8, mode="mean")
    theirs.load_state_dict(model.embedding.state_dict())
    starts = lengths.cumsum(0) - lengths
    expected = theirs(ids[is_text], starts)
    torch.testing.assert_close(model.represent(ids, is_text), expected)
    torch.testing.assert_close(model(ids, is_text), model.head(expected))


def test_the_order_of_single_words_does_not_count_but_that_of_pairs_does():
    model = Bag(BagConfig(**LECTURE)).eval()
    there, back = torch.tensor([[1, 2, 3]]), torch.tensor([[3, 1, 2]])
    torch.testing.assert_close(model(there), model(back))
    pairs = Bag(BagConfig(**OPTIONS)).eval()
    assert not torch.allclose(pairs(there), pairs(back))


def test_the_weights_are_those_of_tfidf():
    """scikit-learn's, with sublinear counts; its vocabulary is numbered like ours."""
    texts = [[1, 2, 2, 5], [2, 3], [7, 7, 7, 2, 1], [4]]
    model = Bag(BagConfig(**OPTIONS | {"ngrams": 1, "d_model": 17})).eval()
    model.see(torch.tensor(text) for text in texts)
    nn.init.eye_(model.embedding.weight)  # then the representation is the weights themselves
    tfidf = TfidfVectorizer(
        analyzer=lambda text: text, vocabulary=range(17), sublinear_tf=True, lowercase=False
    ).fit(texts)
    lengths = torch.tensor([len(text) for text in texts])
    ids = torch.zeros(4, 5, dtype=torch.long)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    found = model.represent(ids, torch.arange(5) < lengths[:, None])
    torch.testing.assert_close(found.double(), torch.from_numpy(tfidf.transform(texts).toarray()))


def test_ngrams_do_not_reach_into_the_padding_and_count_less():
    model = Bag(BagConfig(**OPTIONS, ngrams=3)).eval()
    ids = torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
    is_text = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()
    torch.testing.assert_close(model(ids, is_text)[:1], model(ids[:1, :3]))
    row, term, _ = model._terms(ids, is_text)
    assert [int((row == 0).sum()), int((row == 1).sum())] == [3 + 2 + 1, 5 + 4 + 3]
    assert 17 <= int(term[term >= 17].min()) <= int(term.max()) < 17 + 50
    weights = model._weights(row, term, torch.ones(len(row)), 2)
    assert weights[term >= 17].max() < weights[term < 17].min()


WORDS = ("", "walking", "walked", "zebra", "abcdefghijklmnopqrst")


def spelled(**options):
    config = BagConfig(vocab_size=5, d_model=16, labels=("a", "b"), char_ngrams=5, **options)
    model = Bag(config).eval()
    model.see((torch.tensor([n]) for n in range(5)), WORDS)
    return model


def test_character_sequences_mark_where_a_word_begins_and_ends():
    assert [*character_ngrams("cat", 4)] == ["<ca", "cat", "at>", "<cat", "cat>"]
    assert [*character_ngrams("", 5)] == []  # a special token


def test_words_that_are_spelled_alike_share_what_is_learned():
    model = spelled()
    vectors = model.represent(torch.tensor([[1], [2], [3]]))
    alike, unlike = (torch.cosine_similarity(vectors[0], vectors[n], dim=0) for n in (1, 2))
    assert alike > unlike + 0.1
    plain = Bag(BagConfig(vocab_size=5, d_model=16, labels=("a", "b"))).eval()
    one = torch.cosine_similarity(*plain.represent(torch.tensor([[1], [2]])), dim=0)
    assert alike > one + 0.1


def test_a_token_that_is_no_word_has_no_characters():
    model = spelled(ngrams=1)
    found = [model._terms(torch.tensor([[n]]), None)[1] for n in range(5)]
    assert found[0].tolist() == [0]
    assert len(found[3]) == 1 + 5 + 4 + 3  # the word, <ze … ra>, <zeb …, <zebr …
    assert len(found[4]) == 1 + MOST_PER_WORD  # of a very long word, the first


def test_a_word_that_occurs_twice_counts_its_characters_twice():
    model = spelled(ngrams=1, num_buckets=10_000)
    row, term, count = model._terms(torch.tensor([[3, 3], [3, 1]]), None)
    assert count[row == 0].tolist() == [2] * 13
    assert count[(row == 1) & (term == 3)].tolist() == [1]


def test_a_text_without_tokens_has_no_representation():
    model = Bag(BagConfig(**OPTIONS)).eval()
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    torch.testing.assert_close(model.represent(torch.ones(2, 3).long(), nothing), torch.zeros(2, 8))


@pytest.mark.parametrize("option", ["head_dropout", "word_dropout"])
def test_dropout_happens_in_training_only(option):
    model = Bag(BagConfig(**OPTIONS, **{"head_dropout": 0.0, option: 0.5}))
    ids = torch.randint(0, 17, (4, 11))
    assert not torch.equal(model.train()(ids), model(ids))
    assert torch.equal(model.eval()(ids), model(ids))


def test_a_bag_reads_texts_of_any_length_unless_told():
    model = Bag(BagConfig(**OPTIONS))
    assert model.context_length is None
    assert model(torch.zeros(1, 5000, dtype=torch.long)).shape == (1, 2)
    assert Bag(BagConfig(**OPTIONS, context_length=64)).context_length == 64


def test_a_bag_needs_to_know_its_vocabulary():
    with pytest.raises(GlassformerError, match="vocab_size"):
        Bag(BagConfig(labels=("a", "b")))
