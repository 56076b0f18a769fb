"""Decoding from a real GPT of random weights: the cache and the batch change nothing."""

import pytest
import torch
from table_decoder import window_after
from torch.testing import assert_close

from glassformer.generation.sampling import Sampling, decode
from glassformer.models.gpt import GPT, GPTConfig

PROMPTS = [[3], [1, 4, 1, 5, 9, 2, 6], [5, 3], [8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2]]
CONTEXT = 8
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


class Recorder:
    """A decoder that also remembers the logits of every step."""

    def __init__(self, model):
        self.model, self.context_length, self.start = model, model.context_length, model.start
        self.logits = []

    def step(self, ids, state):
        logits, state = self.model.step(ids, state)
        self.logits.append(logits.clone())
        return logits, state


@pytest.fixture(params=["learned", "sinusoidal", "relative", "rotary", "none"])
def model(request):
    torch.manual_seed(0)
    config = GPTConfig(
        vocab_size=10,
        context_length=CONTEXT,
        num_layers=2,
        d_model=16,
        num_heads=4,
        num_kv_heads=2,
        positions=request.param,
    )
    model = GPT(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def decoded(model, prompts, sampling, count=20):
    """Tokens (steps, B) and the logits (steps, B, V) they were chosen from."""
    recorder = Recorder(model)
    steps = decode(recorder, prompts, sampling=sampling, max_new_tokens=count, seed=1)
    return torch.tensor(list(steps)), torch.stack(recorder.logits)


def test_a_cached_step_equals_reading_the_window_anew(model):
    tokens, logits = decoded(model, PROMPTS, Sampling())
    for row, prompt in enumerate(PROMPTS):
        for step in range(len(tokens)):
            window = window_after(prompt, tokens[:step, row].tolist(), CONTEXT)
            with torch.inference_mode():
                expected = model(torch.tensor([window]))[0, -1]
            assert_close(logits[step, row], expected, **CLOSE)


def test_each_row_of_a_batch_is_decoded_as_if_alone(model):
    tokens, logits = decoded(model, PROMPTS, Sampling(do_sample=False))
    for row, prompt in enumerate(PROMPTS):
        alone, expected = decoded(model, [prompt], Sampling(do_sample=False))
        differ = (tokens[:, row] != alone[:, 0]).nonzero().flatten().tolist()
        comparable = differ[0] + 1 if differ else len(tokens)  # two near-equal logits may swap
        assert_close(logits[:comparable, row], expected[:comparable, 0], **CLOSE)


def test_copies_of_a_prompt_begin_with_the_same_prediction_and_part_ways(model):
    recorder = Recorder(model)
    steps = decode(
        *(recorder, PROMPTS),
        sampling=Sampling(),
        max_new_tokens=12,
        seed=1,
        num_return_sequences=2,
    )
    first, second, *_ = zip(*steps, strict=True)
    assert first != second
    window = window_after(PROMPTS[0], second[:-1], CONTEXT)
    with torch.inference_mode():
        assert_close(recorder.logits[-1][1], model(torch.tensor([window]))[0, -1], **CLOSE)
