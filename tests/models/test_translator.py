"""What all translators promise."""

import torch

from glassformer.models.rnn_seq2seq import RNNTranslator, RNNTranslatorConfig
from glassformer.models.transformer import Transformer, TransformerConfig


def test_equal_seeds_give_equal_weights_however_memory_lies() -> None:
    shape = {"vocab_size": 7, "target_vocab_size": 9, "d_model": 8}
    found, kept = set(), []
    for number in range(20):
        kept.append([bytearray(97 * number) for _ in range(50)])  # memory is laid out anew
        torch.manual_seed(0)
        one = Transformer(TransformerConfig(**shape, num_heads=2, num_layers=1))
        two = RNNTranslator(RNNTranslatorConfig(**shape, d_embedding=8))
        sums = (each.embedding.weight.double().sum().item() for each in (one, two))
        found.add(tuple(sums))
        kept.append([one, two])
    assert len(found) == 1
