"""A LoRA adapter as peft saves it: small updates of the weights of a model that is elsewhere.

    adapter_config.json              which base model, rank, alpha, which layers
    adapter_model.safetensors        two thin matrices for each layer, and whole layers, such as a
                                     new head

    W  ←  W + s · B A        s = alpha / rank, or alpha / √rank

An adapter is merged into the tensors of its base model while they are read, before they become a
model of ours. So it has the names of their layers, and every family can be adapted.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.checkpoint.model_names import is_hub_name
from glassformer.config import Config, Values
from glassformer.errors import GlassformerError
from glassformer.files import read_json
from glassformer.formats import conversion
from glassformer.formats.conversion import Shape, WeightFiles, tensor_names
from glassformer.formats.families import FAMILIES
from glassformer.formats.family import MOST_LABELS, Family, Layout
from glassformer.formats.links import Link
from glassformer.wording import counted, shortened

# --- the values of an adapter_config.json: what cannot be merged exactly is refused ---

MOST = 1e9  # of a rank, or an alpha
# Settings that change what is computed, and their names for people.
UNSUPPORTED = {
    "use_dora": "DoRA",
    "lora_bias": "a bias in its matrices (lora_bias)",
    "layer_replication": "replicated layers",
    "trainable_token_indices": "trained tokens",
    "target_parameters": "updates of parameters that are not layers",
    "alora_invocation_tokens": "activated LoRA",
    "use_qalora": "QALoRA",
    "use_bdlora": "block-diagonal LoRA",
    "arrow_config": "Arrow routing",
    "monteclora_config": "MonteCLoRA",
    "kasa_config": "KaSA",
    "velora_config": "VeLoRA",
    "megatron_config": "Megatron layers",
}
# How A and B began, if that left the base model as it was.
BEGINNINGS = (None, True, False, "gaussian", "orthogonal", "eva")
LITERAL = re.compile(r"\^?[\w.-]+\$?")


def _check_kind(values: Values, where: str) -> None:
    if values.get("peft_type") != "LORA":
        raise GlassformerError(
            f"{where}: an adapter of type {values.get('peft_type')} cannot be merged. Only LORA "
            "can."
        )
    if values.get("bias", "none") != "none":
        raise GlassformerError(
            f"{where}: bias is {values['bias']}, but only adapters without trained biases (none) "
            "can be merged."
        )
    for key, name in UNSUPPORTED.items():
        if values.get(key):
            raise GlassformerError(f"{where}: {name} ({key}) is not supported.")
    if values.get("init_lora_weights", True) not in BEGINNINGS:
        raise GlassformerError(
            f"{where}: init_lora_weights is {values['init_lora_weights']}, which changes the base "
            "model. Merge it with peft (merge_and_unload) and import the merged model."
        )


def _base_name(values: Values) -> str | None:
    base, revision = values.get("base_model_name_or_path"), values.get("revision")
    if not isinstance(base, str) or not base:
        return None
    return f"{base}@{revision}" if revision and is_hub_name(base) and "@" not in base else base


def _positive(values: Values, key: str, where: Path, kind: Any) -> Any:
    value = values.get(key)
    if not isinstance(value, kind) or isinstance(value, bool) or not value > 0:
        raise GlassformerError(f"{where}: {key} is {value!r}, not a positive number.")
    if value > MOST:
        raise GlassformerError(f"{where}: {key} is {value}, but at most {MOST:,.0f} is possible.")
    return value


def _patterns(values: Values, key: str, where: Path, kind: Any) -> dict[str, Any]:
    table = values.get(key) or {}
    if not isinstance(table, dict):
        raise GlassformerError(f"{where}: {key} is not a table.")
    for name in table:
        if not LITERAL.fullmatch(name):  # a hostile one could take for ever
            raise GlassformerError(
                f"{where}: {key} has the regular expression {name!r}. Only names of layers can be "
                "read."
            )
        _positive(table, name, where, kind)
    return table


def _modules(values: Values, key: str, where: Path) -> tuple[str, ...] | str:
    """A list of the ends of the names of layers, or a regular expression for them; empty if the key
    is null or missing."""
    value = values.get(key) or ()
    if isinstance(value, str):
        try:
            re.compile(value)
        except (re.error, RecursionError, OverflowError):
            raise GlassformerError(
                f"{where}: {key} is not a regular expression. Copy it again."
            ) from None
        return value
    return _name_list(values, key, where)


def _name_list(values: Values, key: str, where: Path) -> tuple[str, ...]:
    """A list of names; empty if the key is null or missing."""
    value = values.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        shown = shortened(json.dumps(value), 60)
        raise GlassformerError(f"{where}: {key} is {shown}, not a list of names. Copy it again.")
    return tuple(value)


# --- the adapter, and how it is merged ---

CONFIG, WEIGHTS, PICKLE = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
LARGEST_CONFIG = 2**22  # bytes
LABELS = "labels"  # in the metadata of the weights: what we add to peft's format
# What their task needs of an architecture; other tasks leave the base model as it is.
HEADS = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "QUESTION_ANS": "ForQuestionAnswering",
}
IMAGES = "ForImageClassification"


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no model of its own."""
    has_model = any((folder / name).is_file() for name in (conversion.SINGLE, conversion.INDEX))
    return (folder / CONFIG).is_file() and not has_model


@dataclass(frozen=True)
class Adapter:
    """An adapter whose matrices have not been read yet."""

    folder: Path
    base: str | None
    """Its base model: a folder or a name of the hub."""
    task: str
    rank: int
    alpha: float
    use_rslora: bool
    ranks: dict[str, Any]
    """Other ranks, by the ends of the names of layers."""
    alphas: dict[str, Any]
    targets: tuple[str, ...]
    """The ends of the names of the layers that it must update; empty: not known."""
    excluded: tuple[str, ...]
    """The ends of the names of those among them that it does not update."""
    file: WeightFiles
    labels: tuple[str, ...]

    @property
    def where(self) -> str:
        return str(self.folder / WEIGHTS)

    def changed(self, family: Family, theirs: Values) -> Values:
        """The config of the base model with the head that the adapter brings."""
        self._check_family(family)
        ending = HEADS.get(self.task)
        available = [layout.architecture for layout in family.layouts]
        if ending is None and any(name.endswith(IMAGES) for name in available):
            ending = IMAGES
        if ending is not None:
            wanted = next((name for name in available if name.endswith(ending)), None)
            if wanted is None:
                raise GlassformerError(
                    f"{self.folder / CONFIG}: an adapter for {self.task} of the family "
                    f"{family.name} cannot be read. Of this family, these models can: "
                    f"{', '.join(available)}."
                )
            theirs = theirs | {"architectures": [wanted]}
            if (number := self._num_labels()) is not None:
                theirs = self._with_labels(theirs, number)
        return theirs

    def _check_family(self, family: Family) -> None:
        """Raise if the names of the layers are those of another family."""
        layers = tuple(self._updated())
        if not (prefix := _prefixes(family)) or any(layer.startswith(prefix) for layer in layers):
            return
        for other in FAMILIES.values():
            if (theirs := _prefixes(other)) and layers[0].startswith(theirs):
                raise GlassformerError(
                    f"{self.folder} is an adapter for a model of the family {other.name}, but its "
                    f"base model is of the family {family.name}. Pass the model that the adapter "
                    "was trained on with --base."
                )

    def _num_labels(self) -> int | None:
        """The size of the head that the adapter brings, if it does."""
        for name, shape in self._saved().items():
            is_head = name.split(".")[-2:] in (["classifier", "bias"], ["out_proj", "bias"])
            if is_head and len(shape) == 1 and shape[0] <= MOST_LABELS:
                return shape[0]
        return None

    def _with_labels(self, theirs: Values, number: int) -> Values:
        names = theirs.get("id2label") or {}
        if len(self.labels) == number:
            names = {str(index): label for index, label in enumerate(self.labels)}
        elif len(names) != number:
            names = {str(index): f"LABEL_{index}" for index in range(number)}
        return theirs | {"id2label": names}

    def _saved(self) -> dict[str, Shape]:
        """Tensors that replace those of the base model."""
        return {name: shape for name, shape in self.file.shapes.items() if ".lora_" not in name}

    def _updated(self) -> dict[str, None]:
        """The layers that are updated."""
        names = (name for name in self.file.shapes if ".lora_" in name)
        return dict.fromkeys(re.sub(r"\.lora_\w+\.weight$", "", name) for name in names)

    def applied(
        self, layout: Layout, config: Config, source: WeightFiles, is_other: bool
    ) -> "AdaptedWeights":
        """The tensors of the base model with the adapter merged; `is_other`: the adapter brings
        another head than the base model has."""
        links = {
            name: link
            for link in layout.links(config)
            for name in tensor_names(link, layout.prefix)
        }
        shapes = dict(source.shapes)
        if is_other:  # the head of the base model is left out
            shapes = {name: shape for name, shape in shapes.items() if name in links}
        saved = self._replaced(links, layout)
        for link, name in saved:
            for alias in tensor_names(link, layout.prefix):
                shapes.pop(alias, None)
            shapes[link.theirs] = self.file.shapes[name]
        updates = self._updates(links, layout, source)
        whole = {link.theirs for link, _ in saved}
        self._check_complete(updates, whole, source, links, layout.prefix)
        replaced = {link.theirs: name for link, name in saved}
        return AdaptedWeights(self, source, shapes, replaced, updates)

    def _replaced(self, links: dict[str, Link], layout: Layout) -> list[tuple[Link, str]]:
        """The tensors that are replaced as a whole, and their names in the file."""
        replaced = []
        for name in self._saved():
            link = links.get(conversion.renamed(name, layout.renames))
            if link is None or any("embedding" in ours for ours in link.ours):
                what = "is not a layer of the base model" if link is None else "changes embeddings"
                raise GlassformerError(f"{self.where}: {name} {what}, so it cannot be merged.")
            replaced.append((link, name))
        return replaced

    def _updates(
        self, links: dict[str, Link], layout: Layout, source: WeightFiles
    ) -> dict[str, tuple[str, Link]]:
        """The tensors of the base model that are updated, and the layers in the file."""
        updates = {}
        for layer in self._updated():
            link = links.get(conversion.renamed(f"{layer}.weight", layout.renames))
            names = () if link is None else tensor_names(link, layout.prefix)
            target = next((name for name in names if name in source.shapes), None)
            if link is None or target is None:
                raise GlassformerError(
                    f"{self.where}: the base model has no layer {layer}. Pass the model that the "
                    "adapter was trained on."
                )
            self._check_layer(layer, link, source.shapes[target])
            updates[target] = (layer, link)
        return updates

    def _check_layer(self, layer: str, link: Link, shape: Shape) -> None:
        """Raise unless both matrices are there and fit the layer, before they are read."""
        wanted = self._value(layer, self.ranks, self.rank)
        if len(shape) != 2:
            raise GlassformerError(
                f"{self.where}: {layer} is not a linear layer, and others cannot be updated."
            )
        rows, columns = reversed(shape) if link.is_transposed else shape
        for name, expected in (("lora_A", (wanted, columns)), ("lora_B", (rows, wanted))):
            in_file = self.file.shapes.get(f"{layer}.{name}.weight")
            if in_file is None:
                raise GlassformerError(f"{self.where}: {layer}.{name}.weight is missing.")
            if in_file != expected:
                raise GlassformerError(
                    f"{self.where}: {layer}.{name}.weight has shape {in_file}; {CONFIG} and the "
                    f"base model expect {expected}."
                )

    def _check_complete(
        self,
        updates: dict[str, tuple[str, Link]],
        whole: set[str],
        source: WeightFiles,
        links: dict[str, Link],
        prefix: str,
    ) -> None:
        """Raise unless every layer with the name of a target is updated, replaced or excluded."""
        matrices = [
            name
            for name, shape in source.shapes.items()
            if len(shape) == 2 and name in links and links[name].theirs not in whole
        ]
        complete = {*updates, *(n for n in matrices if self._excludes(links[n], prefix))}
        for target in self.targets:
            wanted = [name for name in matrices if _ends_with(name, f"{target}.weight")]
            if lost := [name for name in wanted if name not in complete]:
                raise GlassformerError(
                    f"{self.where}: the update of {lost[0].removesuffix('.weight')} is missing, "
                    f"although {target} is among the target_modules."
                )
            if not wanted and not any(_ends_with(name, target) for name in self._updated()):
                raise GlassformerError(
                    f"{self.folder / CONFIG}: the base model has no layer named {target} "
                    "(target_modules)."
                )

    def _excludes(self, link: Link, prefix: str) -> bool:
        layers = [name.removesuffix(".weight") for name in tensor_names(link, prefix)]
        return any(_ends_with(layer, end) for layer in layers for end in self.excluded)

    def scale(self, layer: str) -> float:
        rank = self._value(layer, self.ranks, self.rank)
        alpha = self._value(layer, self.alphas, self.alpha)
        return float(alpha / (math.sqrt(rank) if self.use_rslora else rank))

    def _value(self, layer: str, others: dict[str, Any], usual: Any) -> Any:
        return next((v for k, v in others.items() if _ends_with(layer, k.strip("^$"))), usual)

    def about(self) -> str:
        return f"a LoRA adapter of {counted(len(self._updated()), 'layer')} was merged"


@dataclass
class AdaptedWeights:
    """The tensors of a base model with an adapter merged, by the names of the base model."""

    adapter: Adapter
    source: WeightFiles
    shapes: dict[str, Shape]
    saved: dict[str, str]
    """Tensors that the adapter replaces, and their names in its file."""
    updates: dict[str, tuple[str, Link]]
    """Tensors that it updates, and the layer in its file."""

    @property
    def types(self) -> set[str]:
        return self.source.types

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]:
        unsaved = [name for name in names if name not in self.saved]
        for name, tensor in self.source.read(unsaved):
            if name in self.updates:
                layer, link = self.updates[name]
                factors = dict(self._factors(layer))
                update = factors["lora_B"] @ factors["lora_A"]  # (out, in)
                update *= self.adapter.scale(layer)
                tensor = tensor + (update.T if link.is_transposed else update)
            yield name, tensor
        for name in names:
            if name in self.saved:
                for _, tensor in self.adapter.file.read([self.saved[name]]):
                    yield name, tensor

    def _factors(self, layer: str) -> Iterator[tuple[str, Tensor]]:
        for part in ("lora_A", "lora_B"):
            for _, tensor in self.adapter.file.read([f"{layer}.{part}.weight"]):
                yield part, tensor


def open_adapter(folder: Path) -> Adapter:
    """The adapter in a folder; what cannot be merged exactly is refused."""
    where = folder / CONFIG
    conversion.check_file_size(where, LARGEST_CONFIG)
    values = read_json(where)
    _check_kind(values, str(where))
    if not (folder / WEIGHTS).is_file():
        cure = "save it again with peft where you trust it"
        raise conversion.no_weights(folder, CONFIG, WEIGHTS, [PICKLE], cure)
    file, metadata = conversion.open_file(folder / WEIGHTS)
    file = file.renamed(((r"^base_model\.model\.", ""), (r"\.modules_to_save(\.default)?\.", ".")))
    if embeddings := [name for name in file.shapes if ".lora_embedding_" in name]:
        raise GlassformerError(
            f"{folder / WEIGHTS}: {embeddings[0]} updates an embedding, which cannot be merged."
        )
    if not any(".lora_" in name for name in file.shapes):
        raise GlassformerError(f"{folder / WEIGHTS} contains no LoRA matrices.")
    targets = _modules(values, "target_modules", where)
    excluded = _modules(values, "exclude_modules", where)
    _name_list(values, "modules_to_save", where)
    # A hostile regular expression could take for ever, so none is matched.
    is_listed = not isinstance(targets, str) and not isinstance(excluded, str)
    is_known = is_listed and values.get("layers_to_transform") is None
    return Adapter(
        folder=folder,
        base=_base_name(values),
        task=str(values.get("task_type")),
        rank=_positive(values, "r", where, int),
        alpha=_positive(values, "lora_alpha", where, (int, float)),
        use_rslora=values.get("use_rslora") is True,
        ranks=_patterns(values, "rank_pattern", where, int),
        alphas=_patterns(values, "alpha_pattern", where, (int, float)),
        targets=tuple(targets) if is_known else (),
        excluded=tuple(excluded) if is_known else (),
        file=file,
        labels=tuple(metadata[LABELS].split("\n")) if metadata.get(LABELS) else (),
    )


def _prefixes(family: Family) -> tuple[str, ...]:
    return tuple({layout.prefix for layout in family.layouts} - {""})


def _ends_with(layer: str, target: str) -> bool:
    return layer == target or layer.endswith(f".{target}")
