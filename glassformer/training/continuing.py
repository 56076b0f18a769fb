"""`train --from`: the recipe of a training that continues a trained model, as it is."""

from glassformer.checkpoint.open import open_config, open_preprocessing
from glassformer.config import Values
from glassformer.config_errors import Origins
from glassformer.errors import UsageError
from glassformer.models import row
from glassformer.tasks import task_of
from glassformer.tasks.kept_preprocessing import with_tokens
from glassformer.wording import an

KEPT = "kept"


def continue_model(values: Values, origins: Origins) -> Values:
    """The sections of a recipe, with the model that it continues filled in. A key of the model that
    contradicts it is an error."""
    start, given = values.get("finetune"), values.get("model") or {}
    if not isinstance(start, dict) or not isinstance(given, dict):
        return values
    if start and not start.get("model"):
        raise UsageError(
            f"{' and '.join(_options(start))} changes a trained model, and none is given. Pass it "
            "with --from MODEL."
        )
    if start.get("head") != KEPT:
        return values
    source = str(start["model"])
    name, config = open_config(source)
    if given.get("name") not in (None, name):
        row(str(given["name"]))  # which reports a misspelt name
        raise UsageError(f"{source} is {an(name)}, not {an(given['name'])}. Leave out the name.")
    if task_of(name).fit is not None:
        raise UsageError(
            f"{an(name)} is not trained by gradient steps, so it cannot be trained further. Run "
            f"glassformer finetune with --task {row(name).task} again."
        )
    model = config.model_dump(mode="json")
    for key, value in given.items():
        if value is None or key == "name":
            continue
        if key == "preset":
            raise UsageError("--preset is for new models, and --from continues one. Leave it out.")
        if key.endswith("dropout") or key not in model:  # an unknown key is reported later
            model[key] = value
        elif value != model[key]:
            place = origins.get(f"model.{key}")
            option = place if isinstance(place, str) else f"model.{key}"
            raise UsageError(
                f"{option} is {_shown(value)}, but the model in {source} has {_shown(model[key])}, "
                "and --from continues it as it is. Leave it out."
            )
    values = values | {"model": {"name": name, **model}, "finetune": dict(start)}
    return _with_vocabulary(values, source)


def _with_vocabulary(values: Values, source: str) -> Values:
    """The sections with another tokenizer, if one is given, or more tokens; and with what the data
    has in common with that of the model."""
    model, start = values["model"], values["finetune"]
    preprocessing = open_preprocessing(source)
    tokenizer = values.get("tokenizer")
    if isinstance(tokenizer, dict) and any(tokenizer.values()):
        if not preprocessing.tokenizers:
            raise UsageError(f"{source} reads no text. Leave out --tokenizer.")
        start["tokenizer"] = "new"
    if start.get("tokenizer") == "new":
        model |= {key: None for key in preprocessing.sizes if key.endswith("vocab_size")}
    tokens = start.get("add_tokens") or ()
    grown = with_tokens(preprocessing, [tokens] if isinstance(tokens, str) else tokens, source)
    for key, size in grown.sizes.items():
        if tokens and key.endswith("vocab_size") and size is not None:
            model[key] = max(size, model[key])
    data = values.get("data")
    if isinstance(data, dict):
        data = dict(data)
        for key in ("chat_template", "reverse"):
            known = getattr(preprocessing, key, None)
            if known and not (key == "reverse" and data.get("source_paths")):
                data.setdefault(key, list(known) if key == "chat_template" else known)
        values = values | {"data": data}
    return values


def _options(start: Values) -> list[str]:
    given = [key for key, value in start.items() if value is not None and key != "head"]
    return [f"--{key.replace('_', '-')}" for key in given] or ["finetune"]


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
