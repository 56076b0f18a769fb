"""The model that a training begins with: new weights, or those of a trained model, with its own
head or under a new one, all or part of which may learn.

    with_start        what follows for the recipe: checksum, lineage, how much lower layers learn
    new_model         the model, with LoRA or frozen layers if the recipe asks for them
    learning_shares   which weights learn at a part of the learning rate
    model_to_keep     the model to save: what LoRA has learned is folded into its matrices
"""

from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.checkpoint.model_folder import WEIGHTS, LoRAUpdate, Saved
from glassformer.checkpoint.model_names import is_hub_name, is_run
from glassformer.checkpoint.open import open_config, pinned, stored
from glassformer.config import Values, read_yaml
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import row
from glassformer.models.heads import Labeller, body_config, load_body
from glassformer.nn.lora import add_lora, lora_layers, merge_lora
from glassformer.preprocessing import Preprocessing
from glassformer.tasks.fitting import with_tokens
from glassformer.tasks.recipe import DATA_TO_LEARN_FROM, RECIPE, FinetuneConfig, Recipe
from glassformer.text.tokenizers import Tokenizer

# --- another vocabulary ---
# What becomes of the rows of embeddings and output layers:
#
#     old  the · film · wal · ked                      new  the · film · walked · covfefe
#          e₀    e₁     e₂    e₃                            e₀    e₁    (e₂+e₃)/2  mean of all
#
# A token that both vocabularies have keeps its row; any other gets the mean of the rows of the
# tokens that it was spelled with before, or of all rows.


def moved_rows(
    weights: dict[str, Tensor], wanted: dict[str, Tensor], before: Preprocessing, now: Preprocessing
) -> dict[str, Tensor]:
    """The weights of a trained model for one that differs in its vocabulary only. `before` and
    `now` have the tokenizers of both; `wanted` the shapes."""
    tokenizers = {
        tokenizer.vocab_size: (tokenizer, now.tokenizers.get(name))
        for name, tokenizer in before.tokenizers.items()
    }
    moved = dict(weights)
    for name, weight in weights.items():
        target = wanted.get(name)
        if target is None or target.shape[1:] != weight.shape[1:] or not weight.dim():
            continue
        # A table may have more rows than the vocabulary, and as many before as after.
        is_table = name.endswith(("embedding.weight", "head.weight", "head.bias"))
        fitting = [size for size in tokenizers if size <= len(weight)]
        if fitting and (is_table or target.shape != weight.shape):
            moved[name] = _move(weight, len(target), *tokenizers[max(fitting)])
    return moved


def _move(weight: Tensor, rows: int, old: Tokenizer, new: Tokenizer | None) -> Tensor:
    before = weight[: old.vocab_size]
    if not weight.is_floating_point():
        return weight.new_zeros(rows, *weight.shape[1:])
    mean = before.mean(0, keepdim=True)
    table = mean.repeat(rows, *[1] * (weight.dim() - 1))
    if new is not None:
        for id, sources in enumerate(_sources(old, new)[:rows]):
            if sources:
                table[id] = before[torch.tensor(sources)].mean(0)
    return table


def _sources(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """The ids before of each token now: its own, or those that spell it."""
    ids = {old.token(id): id for id in reversed(range(old.vocab_size)) if old.piece(id) is not None}
    special = {*old.special_tokens, *new.special_tokens}
    rows: list[list[int]] = []
    for id in range(new.vocab_size):
        token = new.token(id)
        if token in ids:
            rows.append([ids[token]])
        elif token in special or new.piece(id) is None or old.unknown_characters(token):
            rows.append([])
        else:
            spelling = old.encode(token.removeprefix("##"))
            rows.append([source for source in spelling if source != old.unknown])
    return rows


# --- the model to begin with ---

LAYER_DECAY = 0.9  # of learning rates in a published model under a new head
DROPOUT = 0.1  # the least when a trained model is fine-tuned


def on_top_of(folder: Path, task: str) -> Values:
    """The sections of a recipe that give the model in a folder a new head."""
    name, config = open_config(folder)
    built, values = body_config(name, config, task)
    values.pop("context_length", None)  # the texts decide whether it must be longer
    values |= row(built).when_finetuned
    # There are fewer examples than there was text: a little more regularisation.
    values["dropout"] = max(DROPOUT, values["dropout"])
    return {"model": {"name": built, **values}, "finetune": {"model": str(folder)}}


def new_model(
    recipe: Recipe, is_fresh: bool = True, preprocessing: Preprocessing | None = None
) -> nn.Module:
    """The model of a complete recipe; unless it is fresh, weights from a saved state follow. The
    embeddings of a new vocabulary are those of `preprocessing`."""
    model = row(recipe.model_name).model(recipe.architecture())
    start = recipe.start
    if start is not None:
        if is_fresh and start.continues:
            _continue(model, start, preprocessing)
        elif is_fresh and isinstance(model, Labeller):
            load_body(model, _opened(start).model)
        _freeze(model, start)
    return model


def model_to_keep(recipe: Recipe, model: nn.Module) -> nn.Module:
    """The model to save: an ordinary one, with the matrices of LoRA merged."""
    if recipe.start is None or not recipe.start.lora_rank:
        return model
    kept = deepcopy(model)
    merge_lora(kept)
    return kept


def lora_to_keep(recipe: Recipe, model: nn.Module) -> bytes | None:
    """The matrices of LoRA, as a file beside the merged model."""
    start = recipe.start
    if start is None or not start.lora_rank:
        return None
    return LoRAUpdate(
        base=start.model,
        rank=start.lora_rank,
        alpha=start.lora_alpha,
        dropout=start.lora_dropout,
        use_rslora=start.use_rslora,
        factors={name: (layer.A, layer.B) for name, layer in lora_layers(model).items()},
    ).file()


def learning_shares(recipe: Recipe, model: nn.Module) -> dict[str, float] | None:
    """The parameters, by name, that learn at a part of the learning rate. With layer_lr_decay d
    the head learns at 1, the last layer at d, the one before it at d² …"""
    start = recipe.start
    decay = 1.0 if start is None or start.layer_lr_decay is None else start.layer_lr_decay
    if decay == 1:
        return None
    depth = {name: _layer(name) for name, _ in model.named_parameters()}
    layers = max(depth.values()) + 1
    depth |= {name: layers - 1 for name in depth if "final_norm" in name.split(".")}
    head = getattr(model, "head", None)
    outside = {id(weight) for weight in head.parameters()} if isinstance(head, nn.Module) else set()
    if isinstance(model, Labeller):
        body = model.body.parameters() if model.body is not None else ()
        outside |= {id(weight) for weight in model.parameters()} - {id(weight) for weight in body}
    return {
        name: decay ** (layers - depth[name])
        for name, parameter in model.named_parameters()
        if id(parameter) not in outside
    }


def with_start(recipe: Recipe) -> Recipe:
    """The recipe of a training that begins with a trained model, with what follows from that: the
    checksum of its weights, their commit if they are on the hub, whether it is a published model,
    and how much its lower layers learn."""
    start = recipe.start
    if start is None:
        return recipe
    source = stored(start.model)
    digest = source.digest()
    if source.has_quantized_weights():
        raise GlassformerError(
            f"{start.model} has 8-bit weights, which cannot be trained. Pass the original model."
        )
    if start.digest not in (None, digest):
        raise GlassformerError(
            f"{Path(start.model) / WEIGHTS} does not match the checksum finetune.digest. "
            "Pass the original model, or leave out the digest."
        )
    published = is_published(start.model) if start.published is None else start.published
    decay = start.layer_lr_decay
    if decay is None:
        decay = LAYER_DECAY if published and not start.continues and not start.lora_rank else 1.0
    before = start.lineage or lineage(pinned(start.model))
    update = {
        "model": pinned(start.model),
        "digest": digest,
        "lineage": before,
        "published": published,
        "layer_lr_decay": decay,
    }
    return recipe.model_copy(update={"finetune": start.model_copy(update=update)})


def is_published(source: str) -> bool:
    """Whether a model was not trained from scratch here: such models are larger and have learned
    for much longer, so that large steps would destroy more than they teach."""
    folder = Path(source)
    if not is_run(folder):
        return True
    start = read_yaml(folder / RECIPE)[0].get("finetune")
    return isinstance(start, dict) and start.get("published") is True


def lineage(source: str) -> tuple[str, ...]:
    """A trained model in words, and those that it began with, without the names of folders around
    them, which differ between machines."""
    folder = Path(source)
    name = source if is_hub_name(source) else folder.resolve().name
    if not is_run(folder):
        return (name,)
    values = read_yaml(folder / RECIPE)[0]
    model, data, start = (values.get(key) or {} for key in ("model", "data", "finetune"))
    kind = " ".join(str(model[key]) for key in ("name", "preset") if model.get(key))
    files = [path for key in DATA_TO_LEARN_FROM for path in data.get(key) or ()]
    names = ", ".join(Path(str(path)).name for path in files)
    return f"{name} ({kind}, trained on {names})", *(start.get("lineage") or ())


def _opened(start: FinetuneConfig) -> Saved:
    """The model to begin with, unless it has changed since."""
    source = stored(start.model)
    model = source.model()
    if start.digest not in (None, source.digest()):
        raise GlassformerError(
            f"{Path(start.model) / WEIGHTS} has changed since this training began. Start over with "
            "--force."
        )
    return model


def _continue(model: nn.Module, start: FinetuneConfig, preprocessing: Preprocessing | None) -> None:
    """Copy all weights of a trained model; those of another vocabulary are moved to their place."""
    source = _opened(start)
    weights = source.model.state_dict()
    if start.changes_vocabulary:
        if start.tokenizer == "kept":
            preprocessing = with_tokens(source.preprocessing, start.add_tokens, start.model)
        weights = moved_rows(
            weights, model.state_dict(), source.preprocessing, preprocessing or Preprocessing()
        )
    for name, weight in model.state_dict().items():
        theirs = weights.get(name)
        if theirs is None or theirs.shape != weight.shape:
            shape = "absent" if theirs is None else tuple(theirs.shape)
            raise GlassformerError(
                f"{start.model} does not fit the recipe: {name} is {shape} there and "
                f"{tuple(weight.shape)} here."
            )
    model.load_state_dict(weights)


def _freeze(model: nn.Module, start: FinetuneConfig) -> None:
    body = model.body if isinstance(model, Labeller) else None
    if body is None and not start.continues:
        return
    learning = model if body is None else body
    if start.lora_rank:
        add_lora(
            learning,
            start.lora_rank,
            start.lora_alpha,
            dropout=start.lora_dropout,
            use_rslora=start.use_rslora,
        )
        if isinstance(model, Labeller):
            model.head.requires_grad_(True)
    elif start.freeze:
        learning.requires_grad_(False)
    elif start.freeze_layers:
        layers = max(_layer(name) for name, _ in learning.named_parameters())
        if start.freeze_layers > layers:
            raise UsageError(
                f"--freeze-layers is {start.freeze_layers}, but the model has {layers} layers. Use "
                "--freeze to freeze all of them."
            )
        for name, parameter in learning.named_parameters():
            outside = name.startswith(("final_norm", "head"))
            if _layer(name) <= start.freeze_layers and not outside:
                parameter.requires_grad_(False)


def _layer(name: str) -> int:
    """0 for embeddings, 1 for the first block …; what stands outside the blocks is 0, too."""
    parts = name.split(".")
    return int(parts[parts.index("blocks") + 1]) + 1 if "blocks" in parts else 0
