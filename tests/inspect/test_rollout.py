"""Attention maps and rollout, on attention that is known."""

import numpy as np
import pytest

from glassformer.inspect.places import LayerAttention, attention_maps, refine, rollout


def layer(matrix, grid, num_extra=0):
    """A layer with one window and one head for each matrix."""
    weights = np.asarray(matrix, dtype=float)
    weights = weights[None] if weights.ndim == 2 else weights
    return LayerAttention(weights[None], np.arange(weights.shape[-1])[None], grid, num_extra)


def looking_at(place, number):
    return np.eye(number)[[place] * number]


def test_attention_of_a_class_token_is_its_row_without_itself():
    matrix = [[0.5, 0.1, 0.4], [0, 1, 0], [0, 1, 0]]
    (found,) = attention_maps([layer(matrix, (1, 2), 1)], np.array([1.0, 0, 0]))
    np.testing.assert_allclose(found, [[[0.2, 0.8]]])


def test_attention_without_one_is_what_the_pooled_places_look_at():
    matrix = [[1, 0], [0.5, 0.5]]
    (found,) = attention_maps([layer(matrix, (2, 1))], np.array([0.25, 0.75]))
    np.testing.assert_allclose(found, [[[0.625], [0.375]]])


def test_rollout_is_the_product_of_the_layers_with_what_passes_by():
    random = np.random.default_rng(0)
    matrices = random.dirichlet(np.ones(6), size=(3, 2, 6))  # layers, heads, T, T
    found = rollout([layer(each, (2, 3)) for each in matrices], np.full(6, 1 / 6))
    product = np.eye(6)
    for each in matrices:
        product = (np.eye(6) + each.mean(0)) / 2 @ product
    np.testing.assert_allclose(found, product.mean(0).reshape(2, 3))


def test_a_place_that_all_layers_look_at_stands_out():
    layers = [layer(looking_at(4, 9), (3, 3))] * 3
    found = rollout(layers, np.full(9, 1 / 9))
    assert found.argmax() == 4
    assert found[1, 1] > 0.85
    assert found.sum() == pytest.approx(1)


def test_windows_take_only_from_themselves_and_padding_from_nobody():
    places = np.array([[0, 1], [2, -1]])
    weights = np.array([[[[0, 1], [0, 1]]], [[[1, 0], [0, 1]]]], dtype=float)
    (found,) = attention_maps([LayerAttention(weights, places, (1, 3))], np.array([0.2, 0.2, 0.6]))
    np.testing.assert_allclose(found, [[[0, 0.4, 0.6]]])


def test_rollout_goes_down_to_the_finest_grid():
    fine, coarse = layer(np.eye(4), (2, 2)), layer(np.eye(1), (1, 1))
    np.testing.assert_allclose(rollout([fine, coarse], np.ones(1)), np.full((2, 2), 0.25))
    lone = layer(looking_at(3, 4), (2, 2))
    assert rollout([lone, coarse], np.ones(1)).argmax() == 3


def test_spreading_over_a_finer_grid_keeps_the_sum():
    coarse = np.array([[0.1, 0.2], [0.3, 0.4]])
    for grid in ((4, 4), (3, 4), (3, 3), (2, 2)):
        found = refine(coarse, grid)
        assert found.shape == grid
        assert found.sum() == pytest.approx(1)
        assert found[0, 0] == pytest.approx(0.1 / (2 * 2 if grid != (2, 2) else 1))
