"""Windows of a grid: who attends to whom, against brute force."""

import pytest
import torch

from glassformer.nn.observe import listening
from glassformer.nn.windows import PatchMerging, RelativeBias, WindowAttention, assembled, partition


@pytest.mark.parametrize(
    ("grid", "window"), [((8, 8), (4, 4)), ((6, 10), (3, 5)), ((4, 4), (4, 1))]
)
def test_windows_are_assembled_to_the_grid_they_came_from(grid, window):
    x = torch.randn(2, *grid, 3)
    windows = partition(x, window)
    assert windows.shape == (
        2,
        x[0, ..., 0].numel() // (window[0] * window[1]),
        window[0] * window[1],
        3,
    )
    assert windows[0, 0].equal(x[0, : window[0], : window[1]].reshape(-1, 3))
    assert assembled(windows, window, grid).equal(x)


def may_attend(one, other, sides, size, is_shifted):
    """Brute force: two places see each other if they are in one window of the (shifted) tiling."""
    for a, b, side in zip(one, other, sides, strict=True):
        window = min(size, side)
        shift = window // 2 if is_shifted and side > window else 0
        # Windows begin at shift, shift + window …; the first one is cut by the border.
        if (a - shift) // window != (b - shift) // window:
            return False
    return True


def seen_by(attention, grid):
    """(N, N): by whose change each place changes."""
    x = torch.randn(1, *grid, 8, dtype=torch.double)
    before = attention(x).flatten(1, 2)[0]
    seen = []
    for place in range(grid[0] * grid[1]):
        changed = x.flatten(1, 2).clone()
        changed[0, place] += 1
        after = attention(changed.view(1, *grid, 8)).flatten(1, 2)[0]
        seen.append((after - before).abs().amax(-1) > 1e-12)
    return torch.stack(seen, dim=1)


@pytest.mark.parametrize("is_shifted", [False, True])
@pytest.mark.parametrize("grid", [(8, 8), (4, 12), (7, 9), (4, 4), (3, 10), (1, 1), (5, 5)])
def test_a_place_attends_exactly_to_its_window(grid, is_shifted):
    torch.manual_seed(0)
    attention = WindowAttention(8, 2, window_size=4, is_shifted=is_shifted).double()
    places = [(row, column) for row in range(grid[0]) for column in range(grid[1])]
    expected = torch.tensor(
        [[may_attend(one, other, grid, 4, is_shifted) for other in places] for one in places]
    )
    assert seen_by(attention, grid).equal(expected)


@pytest.mark.parametrize("grid", [(8, 8), (4, 12), (12, 4), (4, 4), (3, 10), (5, 9)])
def test_windows_shift_along_both_sides_or_none_if_asked(grid):
    torch.manual_seed(0)
    options = {"window_size": 4, "is_shifted": True, "window_shift": "both_sides"}
    attention = WindowAttention(8, 2, **options).double()
    is_shifted = min(grid) > 4
    places = [(row, column) for row in range(grid[0]) for column in range(grid[1])]
    expected = torch.tensor(
        [[may_attend(one, other, grid, 4, is_shifted) for other in places] for one in places]
    )
    assert seen_by(attention, grid).equal(expected)


def test_the_bias_depends_on_the_distance_only():
    bias = RelativeBias(4, 2)
    torch.nn.init.normal_(bias.table)
    found = bias((4, 3)).unflatten(2, (4, 3)).unflatten(1, (4, 3))  # (H, r, c, r', c')
    assert found[:, 1, 0, 2, 2].equal(found[:, 2, 0, 3, 2])
    assert not found[:, 1, 0, 2, 2].equal(found[:, 2, 2, 1, 0])
    numbers = bias.index((4, 4))
    assert len(numbers.unique()) == 49


def test_the_bias_attracts_places_at_its_distance():
    torch.manual_seed(0)
    attention = WindowAttention(8, 1, window_size=4, is_shifted=True)
    reach = 3
    with torch.no_grad():
        attention.bias.table[(0 + reach) * 7 + (-1 + reach)] = 50.0  # column - column' = -1
    with listening([attention.tap]) as [heard]:
        attention(torch.randn(1, 8, 8, 8))
    weights = heard[0][0]  # (W, 16, 16)
    assert weights.shape == (4, 16, 16)
    assert (weights[0, 4].argmax(), weights[0, 5].argmax()) == (5, 6)


def test_merging_joins_squares_of_four_places_and_pads_odd_sides():
    merging = PatchMerging(1, 4, torch.nn.Identity())
    with torch.no_grad():
        merging.reduction.weight.copy_(torch.eye(4))
    x = torch.arange(1.0, 16.0).view(1, 3, 5, 1)
    found = merging(x)
    assert found.shape == (1, 2, 3, 4)
    assert found[0, 0, 0].tolist() == [1, 6, 2, 7]  # down first, then right
    assert found[0, 1, 2].tolist() == [15, 0, 0, 0]
