"""Translators beside transformers' MarianMTModel: training, and beam search of the test set.

    make bench-translation-speed DATA=../shared/data

Both have one shape (4 + 4 layers, 256 wide, post-norm, sinusoidal positions, ReLU, one embedding
for all) and the same weights. Training is on Multi30k, English to German, 64 pairs to a batch, by
AdamW, in turns: ours are batches of pairs alike in length, theirs are drawn at random and padded to
the longest, as the usual collator does; real tokens of both sides a second. Decoding is beam search
with four beams of the 1,000 test sentences, after a short training, so that sentences come to an
end. Theirs is given the sentences sorted by length, too, which is more than its users do.
"""

import itertools
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from transformers import MarianConfig, MarianMTModel

from benchmarks.machine import describe
from benchmarks.steps import Step, in_turns, shuffled, step_of
from glassformer.data.sentence_pairs import pairs_of
from glassformer.generation.beam import Beams
from glassformer.models.transformer import Transformer
from glassformer.nn.attention import merge_projections
from glassformer.nn.positions import sinusoids
from glassformer.tasks.translate.scores import search_translations
from glassformer.tasks.translate.task import TranslateObjective
from glassformer.training.finetuning import new_model
from glassformer.training.learner import Learner
from glassformer.training.preparation import make_recipe, prepare, use_machine

LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 4, 256, 8, 128, 64
ROUNDS, STEPS, RATE = 5, 12, 5e-4
LEARNED = 240  # steps before decoding
BEAMS, LONGEST = 4, 64


def recipe(data: Path) -> Any:
    source, target = ([str(data / f"train.{language}.gz")] for language in ("en", "de"))
    shape = {"num_layers": LAYERS, "d_model": WIDTH, "num_heads": HEADS, "d_feedforward": 1024}
    return make_recipe(
        {
            "model": {"name": "translator", "preset": "base", **shape, "context_length": CONTEXT},
            "data": {"source_paths": source, "target_paths": target},
            "tokenizer": {"kind": "bpe", "vocab_size": 8192},
            "objective": {"label_smoothing": 0.0},
            "training": {"per_device_train_batch_size": BATCH, "optimizer": "adamw"},
        }
    )


def marian(objective: TranslateObjective, ours: Transformer) -> MarianMTModel:
    """The same model in their names."""
    languages = objective.dataset.preprocessing
    config = MarianConfig(
        vocab_size=languages.tokenizer.vocab_size,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        max_position_embeddings=CONTEXT,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.1,
        pad_token_id=languages.start,
        eos_token_id=languages.end,
        decoder_start_token_id=languages.start,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
    )
    theirs = MarianMTModel(config)
    theirs.generation_config.bad_words_ids = None
    theirs.model.shared.weight.data.copy_(ours.embedding.weight.data)
    for stack, other in (
        (ours.encoder, theirs.model.encoder),
        (ours.decoder, theirs.model.decoder),
    ):
        other.embed_positions.weight.data = sinusoids(torch.arange(CONTEXT), WIDTH)
        for block, layer in zip(stack, other.layers, strict=True):
            _copy_block(block, layer)
    return theirs


def _copy_block(block: Any, layer: Any) -> None:
    pairs = [
        (block.attention_norm, layer.self_attn_layer_norm),
        (block.feedforward_norm, layer.final_layer_norm),
        (block.feedforward.up, layer.fc1),
        (block.feedforward.down, layer.fc2),
    ]
    attentions = [(block.attention, layer.self_attn)]
    if hasattr(block, "cross_attention"):
        attentions.append((block.cross_attention, layer.encoder_attn))
        pairs.append((block.cross_attention_norm, layer.encoder_attn_layer_norm))
    for mine, its in attentions:
        pairs += [(mine.query, its.q_proj), (mine.key, its.k_proj)]
        pairs += [(mine.value, its.v_proj), (mine.output, its.out_proj)]
    for mine, its in pairs:
        its.load_state_dict(mine.state_dict())


def our_step(objective: TranslateObjective, model: Any) -> Step:
    optimizer = Learner(model, objective, use_machine(objective.recipe)).optimizer
    for group in optimizer.param_groups:
        group["lr"] = RATE
    batches = map(objective.batch, itertools.count())
    return step_of(model, optimizer, batches, lambda batch: objective.loss(model, batch), tokens)


def their_step(objective: TranslateObjective, model: MarianMTModel) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    rows = objective.dataset.training
    batches = map(rows.batch, shuffled(len(rows), BATCH))

    def loss(batch: Any) -> Any:
        return model(
            input_ids=batch.source,
            attention_mask=batch.source_is_text.long(),
            decoder_input_ids=batch.target[:, :-1],
            labels=batch.target[:, 1:].masked_fill(~batch.target_is_text[:, 1:], -100),
        ).loss

    return step_of(model, optimizer, batches, loss, tokens)


def tokens(batch: Any) -> int:
    return int(batch.source_is_text.sum() + batch.target_is_text.sum())


@torch.inference_mode()
def decoded_by_theirs(model: MarianMTModel, rows: list[list[int]], end: int) -> list[list[int]]:
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    found: dict[int, list[int]] = {}
    for start in range(0, len(order), BATCH):
        numbers = order[start : start + BATCH]
        width = max(len(rows[number]) for number in numbers)
        ids = torch.tensor([rows[n] + [0] * (width - len(rows[n])) for n in numbers])
        lengths = torch.tensor([len(rows[number]) for number in numbers])
        written = model.generate(
            input_ids=ids,
            attention_mask=(torch.arange(width) < lengths[:, None]).long(),
            num_beams=BEAMS,
            max_new_tokens=LONGEST,
            length_penalty=1.0,
        )
        for number, row in zip(numbers, written.tolist(), strict=True):
            body = row[1:]
            found[number] = body[: body.index(end)] if end in body else body
    return [found[number] for number in range(len(rows))]


def train_in_turns(objective: TranslateObjective) -> Transformer:
    model: Any = new_model(objective.recipe).train()
    steps = our_step(objective, model), their_step(objective, marian(objective, model).train())
    mine, other = in_turns(steps, STEPS, ROUNDS)
    print(
        f"training: glassformer {mine:.0f} tokens/s, transformers {other:.0f}: {mine / other:.2f}"
    )
    print(f"  {objective.dataset.padding:.1%} of our batches is padding", flush=True)
    for _ in range(LEARNED - (1 + ROUNDS) * STEPS):
        steps[0]()
    return model.eval()


def main(data: Path) -> None:
    torch.manual_seed(0)
    print(describe())
    with TemporaryDirectory() as folder:
        objective: Any = prepare(recipe(data), Path(folder), print)
        ours = train_in_turns(objective)
    theirs = marian(objective, ours).eval()
    merge_projections(ours)  # as glassformer.load does
    files = (str(data / f"test_2016_flickr.{language}.gz") for language in ("en", "de"))
    pairs = pairs_of((), *([name] for name in files))
    languages = objective.dataset.preprocessing
    rows = languages.encode_source([pair.source for pair in pairs])
    seconds: dict[str, list[float]] = {"glassformer": [], "transformers": []}
    for round_ in range(4):  # the first warms up
        begin = time.perf_counter()
        mine = [
            best.ids
            for best, *_ in search_translations(ours, languages, rows, Beams(num_beams=BEAMS))
        ]
        middle = time.perf_counter()
        other = decoded_by_theirs(theirs, rows, languages.end)
        if round_:
            seconds["glassformer"].append(middle - begin)
            seconds["transformers"].append(time.perf_counter() - middle)
    rate = {name: len(rows) / statistics.median(times) for name, times in seconds.items()}
    print(
        f"beam {BEAMS}: glassformer {rate['glassformer']:.1f} sentences/s, transformers "
        f"{rate['transformers']:.1f}: ratio {rate['glassformer'] / rate['transformers']:.2f}"
    )
    right = [pair.target for pair in pairs]
    for name, written in (("glassformer", mine), ("transformers", other)):
        texts = [languages.decode(ids) for ids in written]
        print(f"  {name}: BLEU {BLEU().corpus_score(texts, [right]).score:.2f}")
    print(f"  equal: {sum(list(a) == list(b) for a, b in zip(mine, other, strict=True)):,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "multi30k")
