"""Writing a folder that Hugging Face's tools load as it is.

layout_for     the architecture of theirs that computes the same, or what differs
write_as       its config.json, weights, tokenizer or image processor, and model card
check_hub      logits after loading it again, here and in transformers
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from safetensors.torch import save

from glassformer.checkpoint.model_folder import CARD, GENERATION, Saved
from glassformer.checkpoint.model_names import CONFIG
from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.files import write_file, write_json
from glassformer.formats import exporting
from glassformer.formats.conversion import SINGLE, command_to_try, their_tensors
from glassformer.formats.exporting import probe_of
from glassformer.formats.families import FAMILIES
from glassformer.formats.family import Family, Inputs, Layout
from glassformer.formats.hugging_face import INPUT_FILES, MODULES, SETTINGS, read_folder
from glassformer.models.heads import TokenTagger
from glassformer.preprocessing import Preprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.wording import an

# --- a program for the model card, which uses the folder with transformers ---

MOST = 32  # tokens to write


def transformers_usage(
    layout: Layout, model: Any, preprocessing: Preprocessing, loading: str = "", folder: str = "."
) -> str:
    """The program runs in the folder; one for images needs an image. `loading` assigns `model`,
    which is otherwise the one in the folder; the tokenizer is in `folder`."""
    is_image = layout.inputs in ("image", "palette")
    parts = {
        "kind": layout.architecture,
        "reader": "AutoImageProcessor" if is_image else "AutoTokenizer",
        "load": loading or f'model = {layout.architecture}.from_pretrained(".").eval()',
    }
    text, length = command_to_try(model, preprocessing)[-1], MOST
    if layout.inputs == "text":  # the prompt and what is written fit in the context
        prompt: Any = preprocessing
        context = model.config.context_length
        length = max(1, min(MOST, context - len(prompt.tokenizer.encode(text))))
    name = f"transformers_{_kind(layout, model)}"
    return exporting.program(name, parts, text=text, length=length, folder=folder)


def _kind(layout: Layout, model: Any) -> str:
    match layout.inputs:
        case "text" | "pair":
            return "write"
        case "image":
            return "image"
        case "palette":
            return "paint"
        case "masked text":
            return "fill" if getattr(model.config, "has_head", True) else "embed"
        case "labelled text":
            return "tag" if isinstance(model, TokenTagger) else "label"


# --- the folder ---


def layout_for(
    saved: Saved,
    families: Iterable[Family] = FAMILIES.values(),
    format: str = "Hugging Face's format",
    differs: Callable[[Any], Iterable[str]] = lambda config: (),
) -> tuple[Family, Layout]:
    """The architecture that computes the same; an error says what differs from the nearest one.
    `differs` gives what else of a config the format cannot hold."""
    config: Any = saved.model.config
    families = [*families]
    candidates = [
        (family, layout, dict.fromkeys((*layout.differences(config), *differs(config))))
        for family in families
        for layout in family.layouts
        if layout.model == saved.name
    ]
    if not candidates:
        models = sorted({layout.model for family in families for layout in family.layouts})
        raise GlassformerError(
            f"{an(saved.name)} cannot be exported to {format}: none of its families has this "
            f"architecture. These models can be: {', '.join(models)}."
        )
    family, layout, differences = min(candidates, key=lambda candidate: len(candidate[2]))
    if differences:
        raise GlassformerError(
            f"this {saved.name} cannot be exported to {format}. Nearest to it is "
            f"{layout.architecture}, but {'; '.join(differences)}. To export it, train one "
            "with other settings (--set model.KEY=VALUE)."
        )
    return family, layout


def write_hub(saved: Saved, folder: Path, rest: str) -> tuple[str, list[str]]:
    """Write the model into a folder. Returns the name of the architecture, and notes."""
    family, layout = layout_for(saved)
    name, notes = write_as(family, layout, saved, folder, rest)
    if same := _same_as(layout, saved):
        notes.append(
            f"{name} computes the same as {' and '.join(same)}, so such a model is written as a "
            f"{name}, too"
        )
    return name, notes


def _same_as(layout: Layout, saved: Saved) -> list[str]:
    """The other architectures that a model could be written as."""
    config: Any = saved.model.config
    return [
        other.architecture
        for family in FAMILIES.values()
        for other in family.layouts
        if other.model == saved.name and other is not layout and not other.differences(config)
    ]


def write_as(
    family: Family, layout: Layout, saved: Saved, folder: Path, rest: str
) -> tuple[str, list[str]]:
    """Write the model as this architecture, from which it must not differ."""
    model: Any = saved.model
    notes = [layout.note] if layout.note else []
    if float(getattr(model, "temperature", 1.0)) != 1:
        notes.append(
            f"the output layer is divided by the temperature {float(model.temperature):.3g}, so "
            "that the probabilities stay calibrated"
        )
    length = getattr(model.config, "context_length", None)
    tokens = INPUT_FILES[layout.inputs].write(folder, saved.preprocessing, length)
    config: Values = {
        "architectures": [layout.architecture],
        "model_type": family.name,
        "dtype": "float32",
        **tokens,
        **layout.their_config(model.config),
    }
    write_json(folder / CONFIG, config)
    if layout.inputs in SETTINGS:
        write_json(folder / GENERATION, saved.generation | tokens)
    if not getattr(model.config, "has_head", True):
        _write_modules(folder, model.config)
    write_file(folder / SINGLE, save(their_tensors(layout, model), metadata={"format": "pt"}))
    usage = exporting.code(transformers_usage(layout, model, saved.preprocessing))
    about = an(layout.architecture, "A")
    readme = exporting.card(saved.name, about, usage, rest, library_name="transformers")
    write_file(folder / CARD, readme)
    return layout.architecture, notes


def check_hub(saved: Saved, folder: Path) -> dict[str, float]:
    """The largest difference in logits after loading the folder again, by each tool."""
    _, layout = layout_for(saved)
    probe = probe_of(layout.inputs, saved.model.config)
    expected = probe.logits(saved.model)
    again = probe.logits(read_folder(folder).model)
    differences = {"glassformer": probe.difference(expected, again)}
    theirs = exporting.logits_in_transformers(
        folder, layout.architecture, probe, *sample_text(saved, layout.inputs)
    )
    if theirs is not None:
        differences[theirs[0]] = probe.difference(expected, theirs[1])
    return exporting.refuse_if_wrong(differences, exporting.size(expected))


def sample_text(saved: Saved, inputs: Inputs) -> tuple[str | None, list[int]]:
    """A text and its tokens, to compare tokenizers; None if the model reads none."""
    if not isinstance(saved.preprocessing, TextPreprocessing):
        return None, []
    tokenizer = saved.preprocessing.tokenizer
    words = [tokenizer.token(id) for id in range(min(tokenizer.vocab_size, 400))]
    text = " ".join(word.strip() for word in words if word.strip().isalpha())[:200].strip()
    if inputs == "text":
        return text, [*tokenizer.begins_with, *tokenizer.encode(text)]
    (ids,) = saved.preprocessing.encode([text])
    if inputs == "masked text":  # which are read as they are
        ids = tokenizer.encode(text)
    return text, [int(id) for id in saved.preprocessing.frame(None).put(ids)]


def _write_modules(folder: Path, config: Any) -> None:
    """What sentence-transformers reads."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if config.normalize else [])]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": "" if number == 0 else f"{number}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    write_file(folder / MODULES, json.dumps(modules, indent=2) + "\n")
    names = {"mean": "mean_tokens", "first": "cls_token", "max": "max_tokens"}
    pooling = {f"pooling_mode_{name}": kind == config.pooling for kind, name in names.items()}
    write_json(
        folder / "1_Pooling" / CONFIG, {"word_embedding_dimension": config.d_model, **pooling}
    )
    length = config.sentence_length or config.context_length
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": length})
