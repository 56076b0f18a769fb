"""SmolLM2-135M-Instruct from its GGUF file computes and writes what transformers does."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import glassformer
from glassformer.generation.sampling import read_prompts
from glassformer.tasks.language.chat import prompt_ids

PROMPT = "The history of the lighthouse begins with fires on hills. In 280 BC, the"
TEXTS = [
    PROMPT,
    "Once upon a time there was 12345 and 3.14, don't  we'LL see?\n\n\tdef f(x): return x**2",
    "Привет, мир! 你好世界 नमस्ते e\u0301 👩‍🚀",
    "",
]


@pytest.fixture(scope="module")
def model(smollm2: Path) -> Any:
    return glassformer.load(smollm2)


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> Any:
    return hf.AutoTokenizer.from_pretrained(smollm2.parent, gguf_file=smollm2.name)


@torch.inference_mode()
def test_logits_and_64_greedy_tokens_equal_those_of_transformers(model: Any, smollm2: Path) -> None:
    """One test, because transformers needs half a minute to read the file."""
    theirs = hf.AutoModelForCausalLM.from_pretrained(
        smollm2.parent, gguf_file=smollm2.name, dtype=torch.float32
    ).eval()
    tokenizer = model.preprocessing.tokenizer
    ids = torch.tensor([tokenizer.encode(" ".join(TEXTS))])
    expected, found = theirs(ids).logits, model.model(ids)
    assert expected.abs().max() > 20
    assert (found - expected).abs().max() <= 5e-4
    assert torch.equal(found.argmax(-1), expected.argmax(-1))

    prompt = torch.tensor([tokenizer.encode(PROMPT)])
    whole = theirs.generate(prompt, max_new_tokens=64, do_sample=False)[0]
    written = whole[prompt.size(1) :].tolist()
    (continued,) = model.generate([PROMPT], max_new_tokens=64, do_sample=False)
    assert continued.num_tokens == len(written) == 64
    assert continued.text == tokenizer.decode(written)


def test_texts_become_the_same_tokens(model: Any, tokenizer: Any) -> None:
    encoded = [model.preprocessing.tokenizer.encode(text) for text in TEXTS]
    assert encoded == tokenizer(TEXTS)["input_ids"]


def test_a_conversation_is_written_as_transformers_writes_it(model: Any, tokenizer: Any) -> None:
    messages = [
        {"role": "user", "content": "What is a lake?"},
        {"role": "assistant", "content": "Water."},
        {"role": "user", "content": "And a sea?"},
    ]
    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    assert prompt_ids(model.preprocessing, messages) == expected["input_ids"]


@torch.inference_mode()
def test_with_8_bit_weights_a_row_does_not_depend_on_its_company(smollm2: Path) -> None:
    """Its activations have outliers that random weights do not have."""
    model = glassformer.load(smollm2, quantize="int8").model
    prompts = [
        [(97 * row + 31 * place**2) % 40000 for place in range(9 + 2 * row)] for row in range(8)
    ]
    together, *_ = read_prompts(model, prompts, None, 1, None)
    for row, prompt in enumerate(prompts):
        alone, state, _ = read_prompts(model, [prompt[:5]], None, len(prompt), None)
        alone, _ = model.step(torch.tensor([prompt[5:]]), state)
        torch.testing.assert_close(together[row], alone[0], atol=2e-4, rtol=0)
