"""The values of an adapter_config.json, checked: what cannot be merged exactly is refused."""

import json
import re
from pathlib import Path
from typing import Any

from glassformer.checkpoint.missing_folder import is_hub_name
from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.wording import shortened

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


def check_kind(values: Values, where: str) -> None:
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


def base_of(values: Values) -> str | None:
    base, revision = values.get("base_model_name_or_path"), values.get("revision")
    if not isinstance(base, str) or not base:
        return None
    return f"{base}@{revision}" if revision and is_hub_name(base) and "@" not in base else base


def positive(values: Values, key: str, where: Path, kind: Any) -> Any:
    found = values.get(key)
    if not isinstance(found, kind) or isinstance(found, bool) or not found > 0:
        raise GlassformerError(f"{where}: {key} is {found!r}, not a positive number.")
    if found > MOST:
        raise GlassformerError(f"{where}: {key} is {found}, but at most {MOST:,.0f} is possible.")
    return found


def patterns(values: Values, key: str, where: Path, kind: Any) -> dict[str, Any]:
    found = values.get(key) or {}
    if not isinstance(found, dict):
        raise GlassformerError(f"{where}: {key} is not a table.")
    for name in found:
        if not LITERAL.fullmatch(name):  # a hostile one could take for ever
            raise GlassformerError(
                f"{where}: {key} has the regular expression {name!r}. Only names of layers can be "
                "read."
            )
        positive(found, name, where, kind)
    return found


def modules(values: Values, key: str, where: Path) -> tuple[str, ...] | str:
    """A list of the ends of the names of layers, or a regular expression for them; empty if the key
    is null or missing."""
    found = values.get(key) or ()
    if isinstance(found, str):
        try:
            re.compile(found)
        except (re.error, RecursionError, OverflowError):
            raise GlassformerError(
                f"{where}: {key} is not a regular expression. Copy it again."
            ) from None
        return found
    return names(values, key, where)


def names(values: Values, key: str, where: Path) -> tuple[str, ...]:
    """A list of names; empty if the key is null or missing."""
    found = values.get(key)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        shown = shortened(json.dumps(found), 60)
        raise GlassformerError(f"{where}: {key} is {shown}, not a list of names. Copy it again.")
    return tuple(found)
