"""Writing what LoRA has learned as an adapter that peft loads: the matrices, not the merged model.

The three projections of an attention layer are updated apart here, and are one matrix in GPT-2:

    A = [A_q; A_k; A_v]        B = diag(B_q, B_k, B_v)        of three times the rank
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from glassformer.checkpoint import model_names
from glassformer.checkpoint.model_folder import CARD, LoRAUpdate, Saved, in_order, load_lora
from glassformer.checkpoint.model_names import is_hub_name
from glassformer.checkpoint.open import located
from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.files import read_json, write_file, write_json
from glassformer.formats.conversion import renamed, their_tensors
from glassformer.formats.export_hub import layout_for, transformers_usage
from glassformer.formats.exporting import card, code, probe_of
from glassformer.formats.families import FAMILIES
from glassformer.formats.family import Family, Layout
from glassformer.formats.hugging_face import INPUT_FILES, is_hugging_face
from glassformer.formats.links import Link
from glassformer.formats.open_model import read_adapter
from glassformer.formats.peft_adapter import CONFIG, HEADS, LABELS, WEIGHTS
from glassformer.models.heads import Labeller

PREFIX = "base_model.model."
TASKS = {ending: task for task, ending in HEADS.items()} | {
    "ForCausalLM": "CAUSAL_LM",
    "LMHeadModel": "CAUSAL_LM",
    "MTModel": "SEQ_2_SEQ_LM",
}
EXPORTED = "base"  # where the card puts a base model that transformers cannot load
TOLERANCE = 1e-5  # relative, of the product of two matrices


def write_peft(saved: Saved, folder: Path, rest: str) -> tuple[str, list[str]]:
    """Write the adapter of a model that was trained with LoRA."""
    if saved.folder is None:
        raise GlassformerError("only a run that was trained with --lora has an adapter to export.")
    update = load_lora(saved.folder)
    layout = _layout(saved, update.base)
    base = _Base.of(update.base)
    tensors, values = _adapter(layout, saved.model, update)
    labels = {}
    if isinstance(saved.model, Labeller):
        labels = {LABELS: "\n".join(saved.model.labels)}
    write_json(folder / CONFIG, dict(sorted((values | base.values()).items())))
    # peft's own files hold their metadata in any order; here, equal adapters are equal files.
    write_file(folder / WEIGHTS, in_order(save(tensors, metadata={"format": "pt", **labels})))
    notes = []
    tokenizers = "."
    length = getattr(saved.model.config, "context_length", None)
    try:
        INPUT_FILES[layout.inputs].write(folder, saved.preprocessing, length)
    except GlassformerError:  # two tokenizers: transformers has files of its own for them
        tokenizers = base.loaded_from
        notes.append("the tokenizers are not in the folder: use those of the base model")
    write_file(folder / CARD, _card(layout, saved, update, base, tokenizers, rest))
    if not base.is_theirs:
        notes.append(
            f"transformers cannot load the base model {update.base}: for peft, export it with "
            "--format hf and pass that folder"
        )
    return f"LoRA adapter for {layout.architecture}", notes


@dataclass(frozen=True)
class _Base:
    """The base model of an adapter, as peft names it."""

    name: str
    """On the hub, or an absolute path: an adapter may be used in any directory."""
    revision: str | None
    is_theirs: bool
    """Whether transformers can load it."""

    @classmethod
    def of(cls, source: str) -> "_Base":
        if is_hub_name(source):
            name, _, revision = source.partition("@")
            return cls(name, revision or None, True)
        return cls(str(Path(source).resolve()), None, _family_of_base(source) is not None)

    @property
    def loaded_from(self) -> str:
        """Where transformers loads it from, in the folder of the adapter."""
        return self.name if self.is_theirs else EXPORTED

    def values(self) -> Values:
        return {"base_model_name_or_path": self.name, "revision": self.revision}


def check_peft(saved: Saved, folder: Path) -> dict[str, float]:
    """The largest difference in logits after merging the adapter into its base model again."""
    if saved.folder is None:
        raise TypeError("the adapter has no run")
    base = load_lora(saved.folder).base
    probe = probe_of(_layout(saved, base).inputs, saved.model.config)
    again = read_adapter(folder, base).model
    return {"glassformer": probe.difference(probe.logits(saved.model), probe.logits(again))}


def _layout(saved: Saved, base: str) -> Layout:
    """The architecture of the model, in the family of its base model if that has one."""
    if (family := _family_of_base(base)) is not None:
        for layout in family.layouts:
            if layout.model == saved.name and not layout.differences(saved.model.config):  # type: ignore[arg-type]
                return layout
    return layout_for(saved)[1]


def _family_of_base(base: str) -> Family | None:
    """None: the base model is one of ours, or in a file."""
    folder = Path(str(located(base)))
    if not folder.is_dir() or not is_hugging_face(folder):
        return None
    return FAMILIES.get(str(read_json(folder / model_names.CONFIG).get("model_type")))


def _adapter(layout: Layout, model: Any, update: LoRAUpdate) -> tuple[dict[str, Tensor], Values]:
    """The tensors by peft's names, and its config."""
    tensors = dict[str, Tensor]()
    ranks, alphas = dict[str, int](), dict[str, float]()
    layers, lost = list[str](), {*update.factors}
    transposed = False
    for link in layout.links(model.config):
        names = [name.removesuffix(".weight") for name in link.ours]
        if not any(name in update.factors for name in names):
            continue
        lost -= {*names}
        a, b = _joined(link, names, model, update)
        layer = renamed(link.theirs.removesuffix(".weight"), layout.newer)
        layers.append(layer)
        transposed |= link.is_transposed
        tensors[f"{PREFIX}{layer}.lora_A.weight"] = a.contiguous()
        tensors[f"{PREFIX}{layer}.lora_B.weight"] = b.contiguous()
        if len(a) != update.rank:
            times = len(a) / update.rank
            ranks[_end(layer)] = len(a)
            # So that the scale stays the same.
            alphas[_end(layer)] = update.alpha * (times**0.5 if update.use_rslora else times)
    if lost:
        raise GlassformerError(
            f"{layout.architecture} has no layer {sorted(lost)[0]}, so peft cannot load its update."
        )
    whole = _whole_modules(layout, model)
    theirs = their_tensors(layout, model)
    for name, tensor in theirs.items():
        if any(name.startswith(f"{module}.") for module in whole):
            tensors[PREFIX + name] = tensor.contiguous()
    ending = next((end for end in TASKS if layout.architecture.endswith(end)), "")
    values = {
        "peft_type": "LORA",
        "task_type": TASKS.get(ending),
        "r": update.rank,
        "lora_alpha": update.alpha,
        "lora_dropout": update.dropout,
        "use_rslora": update.use_rslora,
        "target_modules": sorted({_end(layer) for layer in layers}),
        "modules_to_save": whole or None,
        "rank_pattern": ranks,
        "alpha_pattern": alphas,
        "fan_in_fan_out": transposed,
        "bias": "none",
        "inference_mode": True,
        "init_lora_weights": True,
    }
    return tensors, values


def _joined(link: Link, names: list[str], model: Any, update: LoRAUpdate) -> tuple[Tensor, Tensor]:
    """A and B of one matrix of theirs, which may consist of several of ours."""
    a = torch.cat([update.factors[name][0] for name in names if name in update.factors])
    deltas = []
    for name in names:
        if name in update.factors:
            first, second = update.factors[name]
            deltas.append(second @ first)
        else:
            deltas.append(torch.zeros_like(model.get_parameter(f"{name}.weight")))
    theirs = link.join(*deltas)
    theirs = theirs.T if link.is_transposed else theirs  # (out, in)
    b = theirs.double() @ torch.linalg.pinv(a.double())
    if float((b @ a.double() - theirs).abs().max()) > TOLERANCE * float(theirs.abs().max()):
        # Their columns are in another order: the same product from its singular vectors.
        left, sizes, right = torch.linalg.svd(theirs.double(), full_matrices=False)
        a, b = right[: len(a)].float(), left[:, : len(a)] * sizes[: len(a)]
    return a, b.float()


def _whole_modules(layout: Layout, model: Any) -> list[str]:
    """The modules that are no part of the base model: a head, a pooler. Each is the largest that
    contains nothing else."""
    if not isinstance(model, Labeller):
        return []
    body = f"{model.body_name}." if model.body_name else None
    inside, outside = list[str](), list[str]()
    for link in layout.links(model.config):
        is_head = all(
            name.startswith("head.") if body is None else not name.startswith(body)
            for name in link.ours
        )
        (outside if is_head and link.ours else inside).append(link.theirs)
    whole = dict[str, None]()
    for name in outside:
        parts = name.split(".")[:-1]
        modules = (".".join(parts[: end + 1]) for end in range(len(parts)))
        apart = (part for part in modules if not any(x.startswith(f"{part}.") for x in inside))
        whole[next(apart)] = None
    return list(whole)


def _end(layer: str) -> str:
    """The name of a layer within its block: attention.self.query."""
    parts = layer.split(".")
    last = max((at for at, part in enumerate(parts) if part.isdecimal()), default=-1)
    return ".".join(parts[last + 1 :])


def _card(
    layout: Layout, saved: Saved, update: LoRAUpdate, base: _Base, tokenizers: str, rest: str
) -> str:
    options = "" if base.revision is None else f", revision={base.revision!r}"
    if isinstance(saved.model, Labeller):  # the base model may have another head, or none
        options += f", id2label={dict(enumerate(saved.model.labels))!r}"
        options += ", ignore_mismatched_sizes=True"
    first = ""
    if not base.is_theirs:
        words = ("export", base.name, "--format", "hf", "--out", EXPORTED)
        first = (
            f"transformers cannot load the base model `{update.base}`. First write it in a "
            "format that it can, into this folder:\n\n"
            + code(f"glassformer {shlex.join(words)}", "")
            + "\n\n"
        )
    loading = (
        "from peft import PeftModel\n\n"
        f"base = {layout.architecture}.from_pretrained({base.loaded_from!r}{options})\n"
        'model = PeftModel.from_pretrained(base, ".").eval()'
    )
    usage = code(transformers_usage(layout, saved.model, saved.preprocessing, loading, tokenizers))
    about = f"An adapter of rank {update.rank} for `{update.base}`"
    named = {"base_model": base.name} if is_hub_name(update.base) else {}
    return card(
        f"LoRA adapter for {layout.architecture}",
        about,
        first + usage,
        rest,
        library_name="peft",
        **named,
        tags=["lora"],
    )
