"""Training speed of the from-scratch classifier beside transformers' BertForSequenceClassification.

    make bench-classifier DATA=../shared/data

Both have one shape (4 layers, 256 wide, 4 heads, post-norm, learned positions, GELU), read the same
tokens in batches of 32 and learn by AdamW. Ours are batches of texts alike in length; theirs are
drawn at random and padded to the longest, as the usual collator does. Examples a second, in turns,
the median of several rounds.
"""

import itertools
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.machine import describe
from benchmarks.steps import Step, in_turns, shuffled, step_of
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import new_model
from glassformer.training.learner import Learner
from glassformer.training.preparation import make_recipe, prepare

LAYERS, WIDTH, HEADS, BATCH = 4, 256, 4, 32
ROUNDS, STEPS = 5, 24


def recipe(data: Path) -> Any:
    shape = {"num_layers": LAYERS, "d_model": WIDTH, "num_heads": HEADS, "context_length": 128}
    return make_recipe(
        {
            "model": {"name": "classifier", "preset": "lecture", **shape},
            "data": {"paths": [str(data / "sst2" / "train.tsv")]},
            "training": {"per_device_train_batch_size": BATCH, "optimizer": "adamw"},
        }
    )


def ours(objective: Objective) -> Step:
    model = new_model(objective.recipe).train()
    optimizer: Any = Learner(model, objective).configure_optimizers()
    batches = map(objective.batch, itertools.count())
    return step_of(model, optimizer, batches, lambda batch: objective.loss(model, batch), examples)


def theirs(objective: Objective) -> Step:
    config = BertConfig(
        vocab_size=objective.recipe.model["vocab_size"],
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=128,
        num_labels=2,
    )
    model = BertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rows = objective.dataset.training
    batches = map(rows.batch, shuffled(len(rows), BATCH))

    def loss(batch: Any) -> Any:
        return model(
            input_ids=batch.ids, attention_mask=batch.is_text.long(), labels=batch.targets
        ).loss

    return step_of(model, optimizer, batches, loss, examples)


def examples(batch: Any) -> int:
    return len(batch.ids)


def main(data: Path) -> None:
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        objective = prepare(recipe(data), Path(folder), print)
        mine, other = in_turns([ours(objective), theirs(objective)], STEPS, ROUNDS)
        padding = objective.dataset.padding
    print(describe())
    print(f"glassformer {mine:.0f} examples/s, transformers {other:.0f}: ratio {mine / other:.2f}")
    print(f"{padding:.1%} of our batches is padding; {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
