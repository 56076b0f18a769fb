"""`train --from` on a text that is shorter than the context of the model."""

from pathlib import Path
from typing import Any

import pytest
from exported_models import a_gpt, a_model, tokenizer
from small_tasks import MACHINE, ready, trained

from glassformer.checkpoint.model_folder import load_model
from glassformer.errors import GlassformerError
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.tasks.recipe import Recipe
from glassformer.text.tokenizers import BERT_TOKENS
from glassformer.training.command import continue_model
from glassformer.training.preparation import make_recipe

STEPS: dict[str, Any] = {"max_steps": 2, "eval_steps": 2, "save_steps": 2} | MACHINE
CONTEXT = 512


def a_bert(folder: Path, **config: Any) -> Path:
    preprocessing = MaskedTextPreprocessing(tokenizer=tokenizer("wordpiece", *BERT_TOKENS))
    return a_model(folder, "bert", preprocessing, **config)


def further(model: Path, data: Path) -> Recipe:
    start = {"model": str(model), "head": "kept"}
    values = {"finetune": start, "data": {"paths": [str(data)]}, "training": STEPS}
    return make_recipe(continue_model(values, {}))


@pytest.mark.parametrize("build", [a_gpt, a_bert])
def test_it_is_read_in_shorter_rows(tmp_path: Path, build: Any) -> None:
    model, text, said = build(tmp_path / "model", context_length=CONTEXT), tmp_path / "t.txt", []
    text.write_text("the quick brown fox jumps over a lazy dog while it rains\n" * 10)
    objective, _ = ready(further(model, text), tmp_path / "new", said.append)
    number = objective.dataset.num_items
    assert 32 < number < CONTEXT
    assert objective.dataset.context_length == number // 4
    assert any(f"shorter than the context of {CONTEXT} tokens" in line for line in said)
    after: Any = load_model(trained(further(model, text), tmp_path / "run")).model
    assert after.config.context_length == CONTEXT


def test_a_few_tokens_get_advice_that_can_be_followed(tmp_path: Path) -> None:
    model, text = a_gpt(tmp_path / "model"), tmp_path / "t.txt"
    text.write_text("a fox")
    with pytest.raises(GlassformerError, match=r"too few to learn from\. Provide more text\.$"):
        ready(further(model, text), tmp_path / "new")
