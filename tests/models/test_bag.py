import pytest
import torch
from torch import nn

from glassformer.errors import GlassformerError
from glassformer.models.bag import Bag, BagConfig

OPTIONS = {"vocab_size": 17, "d_model": 8, "labels": ("a", "b")}


def test_a_bag_is_torchs_embedding_bag_on_every_row():
    model = Bag(BagConfig(**OPTIONS)).eval()
    lengths = torch.tensor([3, 11, 1, 7])
    ids = torch.randint(0, 17, (4, 11))
    is_text = torch.arange(11) < lengths[:, None]
    theirs = nn.EmbeddingBag(17, 8, mode="mean")
    theirs.load_state_dict(model.embedding.state_dict())
    starts = lengths.cumsum(0) - lengths
    expected = theirs(ids[is_text], starts)
    torch.testing.assert_close(model.represent(ids, is_text), expected)
    torch.testing.assert_close(model(ids, is_text), model.head(expected))


def test_the_order_of_the_words_does_not_count():
    model = Bag(BagConfig(**OPTIONS)).eval()
    torch.testing.assert_close(model(torch.tensor([[1, 2, 3]])), model(torch.tensor([[3, 1, 2]])))


@pytest.mark.parametrize("option", ["dropout", "word_dropout"])
def test_dropout_happens_in_training_only(option):
    model = Bag(BagConfig(**OPTIONS, **{option: 0.5}, head_dropout=0.0))
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
