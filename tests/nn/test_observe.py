import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from glassformer.nn.attention import MultiHeadAttention, PlaceAttention
from glassformer.nn.observe import Tap, listening


def test_each_tap_has_its_own_list():
    first, second = Tap(), Tap()
    with listening([first, second]) as heard:
        second.hear(torch.ones(1))
        first.hear(torch.zeros(1))
        second.hear(torch.ones(1))
    assert [len(seen) for seen in heard] == [1, 2]
    second.hear(torch.ones(1))
    assert [len(seen) for seen in heard] == [1, 2]


def test_only_taps_with_a_listener_are_listening():
    first, second = Tap(), Tap()
    with listening([first]):
        assert first.is_listening
        assert not second.is_listening
    assert not first.is_listening


def test_what_is_heard_holds_no_gradients():
    layer = MultiHeadAttention(8, 2)
    with listening([layer.tap]) as (heard,):
        layer(torch.randn(1, 4, 8))
    assert not heard[0].requires_grad


def test_listeners_inside_listeners_all_hear():
    tap = Tap()
    with listening([tap]) as (outer,):
        with listening([tap]) as (inner,):
            tap.hear(torch.ones(1))
        tap.hear(torch.ones(1))
    assert (len(outer), len(inner)) == (2, 1)


def test_a_tap_falls_silent_when_its_listener_fails():
    tap = Tap()
    with pytest.raises(KeyError), listening([tap]):
        raise KeyError
    assert not tap.is_listening


def attend(layer, x):
    return layer(x)


def look_back(layer, x):
    return layer(x[:, 0], layer.project_memory(x))


@pytest.mark.parametrize(
    ("layer", "call"),
    [(MultiHeadAttention(8, 2), attend), (PlaceAttention("additive", 8, 8), look_back)],
)
def test_two_threads_that_observe_one_layer_hear_only_their_own_calls(layer, call):
    inputs = [torch.randn(1, length, 8) for length in (3, 5)]
    alone = [call(layer, x) for x in inputs]
    barrier = threading.Barrier(2)

    def observe(x):
        with listening([layer.tap]) as (heard,):
            barrier.wait(timeout=60)  # both listen before either calls
            outputs = [call(layer, x) for _ in range(10)]
            barrier.wait(timeout=60)  # and until both have called
        return outputs, heard

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(observe, inputs))
    for x, expected, (outputs, heard) in zip(inputs, alone, results, strict=True):
        assert [weights.size(-1) for weights in heard] == [x.size(1)] * 10
        assert all(torch.equal(output, expected) for output in outputs)


def test_a_thread_that_does_not_observe_is_not_heard():
    layer, x = MultiHeadAttention(8, 2), torch.randn(1, 4, 8)
    with listening([layer.tap]) as (heard,), ThreadPoolExecutor(1) as pool:
        pool.submit(layer, x).result()
    assert heard == []
