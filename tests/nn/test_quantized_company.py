"""With 8-bit weights, what becomes of a row does not depend on the rows beside it, on padding, or
on how its prompt is divided: the logits are equal as they are in float32, and so are the texts."""

import pytest
import torch
from torch import Tensor

from glassformer.generation.sampling import Sampling, decode, read_prompts
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn import int8 as quantized
from glassformer.nn.attention import merge_projections
from glassformer.nn.int8 import quantize

KINDS = [
    {},
    {"positions": "rotary", "norm": "rms", "num_kv_heads": 2, "activation": "swiglu"},
]


@pytest.fixture(params=["chosen", "fbgemm", "qnnpack"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "chosen":
        return
    if request.param not in torch.backends.quantized.supported_engines:
        pytest.skip(f"torch has no {request.param} here")
    monkeypatch.setattr(quantized, "int8_kernel", lambda: request.param)


@pytest.fixture(params=KINDS, ids=["gpt2", "llama"])
def model(request: pytest.FixtureRequest) -> GPT:
    """Its logits spread as those of trained models do."""
    sizes = {"vocab_size": 300, "num_layers": 4, "d_model": 96, "num_heads": 4}
    config = sizes | {"context_length": 64, "initialization": "torch"} | request.param
    model = GPT(GPTConfig.model_validate(config)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.mul_(0.3 if name.startswith("embedding") else 2.5)
    quantize(model)
    merge_projections(model)
    return model


PROMPTS = [[(7 * row + 3 * place**2) % 300 for place in range(20)] for row in range(8)]
LENGTHS = [prompt[: 4 + 2 * row] for row, prompt in enumerate(PROMPTS)]


def logits(model: GPT, prompts: list[list[int]]) -> Tensor:
    with torch.inference_mode():
        return read_prompts(model, prompts, None, 1, None)[0]


@pytest.mark.parametrize("prompts", [PROMPTS, LENGTHS], ids=["equal lengths", "padded"])
def test_logits_are_equal_alone_and_in_a_batch(model: GPT, prompts: list[list[int]]) -> None:
    alone = torch.cat([logits(model, [prompt]) for prompt in prompts])
    assert alone.std() > 2
    torch.testing.assert_close(logits(model, prompts), alone, atol=1e-4, rtol=0)


@torch.inference_mode()
def test_logits_are_equal_however_a_prompt_is_divided(model: GPT) -> None:
    whole = model(torch.tensor(PROMPTS))
    for pieces in ([20], [7, 7, 6], [1] * 20, [19, 1]):
        state = model.start(None, torch.zeros(8, dtype=torch.long), 20)
        parts = [
            model.head(model.hidden(ids, state)) for ids in torch.tensor(PROMPTS).split(pieces, 1)
        ]
        torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize("do_sample", [False, True], ids=["greedy", "sampled"])
def test_texts_are_equal_alone_and_in_a_batch(model: GPT, do_sample: bool) -> None:
    def first_row(prompts: list[list[int]]) -> list[int | None]:
        sampling = Sampling(do_sample=do_sample)
        steps = decode(model, prompts, sampling=sampling, max_new_tokens=30, seed=3)
        return [step[0] for step in steps]

    for row, prompt in enumerate(LENGTHS):
        others = LENGTHS[:row] + LENGTHS[row + 1 :]
        assert first_row([prompt, *others]) == first_row([prompt])
