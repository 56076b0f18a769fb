import pytest
import torch

from glassformer.errors import GlassformerError
from glassformer.nn.cache import KVCache, LayerCache


def cache_of(num_layers, batch, capacity):
    return KVCache(num_layers, torch.zeros(batch, dtype=torch.long), 2, capacity, 3)


def positions(batch, length):
    """Keys and values (B, G=2, T, d=3) that can be told apart."""
    return torch.randn(batch, 2, length, 3), torch.randn(batch, 2, length, 3)


def test_append_gives_the_past_and_the_new_together():
    cache = cache_of(2, 1, 8)
    for layer in range(2):
        old_key, old_value = positions(1, 3)
        cache.keys[layer][:, :, :3], cache.values[layer][:, :, :3] = old_key, old_value
        cache.length = 3
        key, value = positions(1, 2)
        keys, values = LayerCache(cache, layer).append(key, value)
        assert torch.equal(keys, torch.cat((old_key, key), dim=2))
        assert torch.equal(values, torch.cat((old_value, value), dim=2))


def test_layers_do_not_see_each_other():
    cache = cache_of(2, 1, 4)
    first, second = positions(1, 2), positions(1, 2)
    LayerCache(cache, 0).append(*first)
    keys, values = LayerCache(cache, 1).append(*second)
    assert torch.equal(keys, second[0])
    assert torch.equal(values, second[1])


def test_appended_positions_are_past_only_once_they_are_counted():
    cache = cache_of(1, 1, 4)
    LayerCache(cache, 0).append(*positions(1, 2))
    again = positions(1, 2)
    keys, _ = LayerCache(cache, 0).append(*again)
    assert torch.equal(keys, again[0])
    cache.length += 2
    assert LayerCache(cache, 0).append(*positions(1, 2))[0].size(2) == 4


def test_reorder_keeps_repeats_and_drops_rows():
    cache = cache_of(1, 3, 5)
    key, value = positions(3, 2)
    LayerCache(cache, 0).append(key, value)
    cache.length += 2
    rows = torch.tensor([2, 2, 0, 2])
    kept = cache.reorder(rows)
    new_key, new_value = positions(4, 1)
    keys, values = LayerCache(kept, 0).append(new_key, new_value)
    assert torch.equal(keys, torch.cat((key[rows], new_key), dim=2))
    assert torch.equal(values, torch.cat((value[rows], new_value), dim=2))
    assert kept.capacity == cache.capacity


def test_rows_come_and_go_in_the_same_memory():
    cache = cache_of(2, 3, 5)
    past = [positions(3, 2) for _ in range(2)]
    for layer in range(2):
        LayerCache(cache, layer).append(*past[layer])
    cache.length += 2
    order = torch.arange(3)
    for rows in ([2, 0, 2], [1, 2], [0, 0, 1, 1, 1], [4], [0, 0, 0]):
        order = order[rows]
        cache = cache.reorder(torch.tensor(rows))
        for layer, (key, value) in enumerate(past):
            new = positions(len(rows), 1)
            keys, values = LayerCache(cache, layer).append(*new)
            assert torch.equal(keys, torch.cat((key[order], new[0]), dim=2))
            assert torch.equal(values, torch.cat((value[order], new[1]), dim=2))


@pytest.mark.parametrize("length", [1, 2])
def test_a_full_cache_refuses_more_instead_of_losing_it(length):
    cache = cache_of(1, 1, 4)
    LayerCache(cache, 0).append(*positions(1, 4))
    cache.length += 4
    with pytest.raises(GlassformerError, match=f"{4 + length} tokens do not fit .* room for 4"):
        LayerCache(cache, 0).append(*positions(1, length))


def test_a_step_copies_only_the_new_position():
    cache = cache_of(1, 1, 8)
    room = cache.keys[0].data_ptr()
    for _ in range(3):
        keys, _ = LayerCache(cache, 0).append(*positions(1, 1))
        cache.length += 1
        assert keys.data_ptr() == room
