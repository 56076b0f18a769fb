"""Folders as Hugging Face's tools write them: reading one as a model of ours, and the files beside
the weights in both directions.

    config.json           which family, and its shape
    model.safetensors     its weights, perhaps in several files
    modules.json          of sentence-transformers: how the vectors of a text become one
    tokenizer.json, tokenizer_config.json, chat_template.jinja     texts
    preprocessor_config.json                                       images
    generation_config.json                                         settings of generation

Code in such a folder is never run: a model of a family that is not in the table is refused.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from glassformer.checkpoint.model_folder import GENERATION, LARGEST_TEXT, is_ours
from glassformer.checkpoint.model_names import CONFIG
from glassformer.config import Config, Values, reason
from glassformer.errors import GlassformerError
from glassformer.files import read_json, write_json
from glassformer.formats import conversion, vocabulary_files
from glassformer.formats.conversion import INDEX, SINGLE, ForeignModel
from glassformer.formats.families import family_of
from glassformer.formats.families.bert import SENTENCES
from glassformer.formats.family import Inputs, Layout, WrongValueError, check_types
from glassformer.formats.peft_adapter import Adapter
from glassformer.formats.vocabulary_files import TOKENIZER_CONFIG, end_tokens
from glassformer.preprocessing import Preprocessing
from glassformer.preprocessing.images import ImagePreprocessing, PalettePreprocessing
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.tokenizers import BEGIN, MASKS, PAD, Tokenizer
from glassformer.wording import an, counted

TOKENIZER, TEMPLATE = "tokenizer.json", "chat_template.jinja"
IMAGES, LENGTHS = "preprocessor_config.json", "sentence_bert_config.json"
MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
LARGEST_TEMPLATE = 2**20  # bytes
# What special tokens are for in other tools, and the names that vocabularies give them.
ROLES = {
    "unk_token": ("[UNK]", "<unk>"),
    "mask_token": MASKS,
    "pad_token": (PAD, "<pad>", "<|pad|>"),
}
IN_CONFIG = ("bos_token", "eos_token", "pad_token")  # whose ids are in config.json as well


def settings_of(folder: Path, name: str) -> Values:
    """The content of a JSON file that may be missing."""
    return read_json(folder / name) if (folder / name).is_file() else {}


# --- texts ---


def read_language(folder: Path, config: Values) -> TextPreprocessing:
    preprocessing = read_text(folder, config)
    generation = settings_of(folder, GENERATION)
    file, values = (GENERATION, generation) if "eos_token_id" in generation else (CONFIG, config)
    where = f"{folder / file}: eos_token_id"
    ends = end_tokens(values.get("eos_token_id"), preprocessing.tokenizer, where)
    return preprocessing.changed(
        end_tokens=ends, begin_token=_begin_token(folder, preprocessing.tokenizer)
    )


def _begin_token(folder: Path, tokenizer: Tokenizer) -> str | None:
    named = settings_of(folder, TOKENIZER_CONFIG).get("bos_token")
    name = named.get("content") if isinstance(named, dict) else named
    return name if isinstance(name, str) and tokenizer.id(name) is not None else None


def read_text(folder: Path, config: Values) -> TextPreprocessing:
    return TextPreprocessing(**_of_text(folder, config))


def read_masked(folder: Path, config: Values) -> MaskedTextPreprocessing:
    preprocessing = MaskedTextPreprocessing(**_of_text(folder, config))
    if settings_of(folder, LENGTHS).get("do_lower_case") and not preprocessing.tokenizer.folds_case:
        raise GlassformerError(
            f"{folder / LENGTHS}: do_lower_case is true, but the tokenizer keeps capital letters. "
            "Set it to false, and pass texts in lower case."
        )
    return preprocessing


def _of_text(folder: Path, config: Values) -> Values:
    return {"tokenizer": _tokenizer(folder, config), "jinja_template": _template(folder)}


def _tokenizer(folder: Path, config: Values) -> Tokenizer:
    if (folder / TOKENIZER).is_file():
        return Tokenizer.load(folder / TOKENIZER)
    tokenizer = vocabulary_files.read_vocabulary(folder, config.get("model_type"))
    if tokenizer is None:
        raise GlassformerError(
            f"{folder / TOKENIZER} does not exist. If the folder has another kind of vocabulary, "
            "convert it: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
        )
    return tokenizer


def _template(folder: Path) -> str | None:
    path = folder / TEMPLATE
    if path.is_file() and path.stat().st_size <= LARGEST_TEMPLATE:
        return path.read_text(encoding="utf-8", errors="replace")
    template = settings_of(folder, TOKENIZER_CONFIG).get("chat_template")
    if isinstance(template, list):  # several with names
        named = {
            item.get("name"): item.get("template") for item in template if isinstance(item, dict)
        }
        template = named.get("default")
    return template if isinstance(template, str) and len(template) <= LARGEST_TEMPLATE else None


def write_language(folder: Path, preprocessing: TextPreprocessing, length: int | None) -> Values:
    tokenizer = preprocessing.tokenizer
    before, after = tokenizer.own_frame or ((), ())
    ids: dict[str, int] = {}
    if (begin := preprocessing.begin) is not None:
        ids["bos_token"] = begin
    if ends := preprocessing.ends or after[-1:]:
        ids["eos_token"] = ends[0]
        ids.setdefault("bos_token", ids["eos_token"])
    ids |= {"pad_token": ids.get("eos_token", 0)} | _roles(tokenizer)
    tokenizer.framed(before, after).save(folder / TOKENIZER)
    written = _write_settings(folder, preprocessing, ids, length)
    return written | ({"eos_token_id": list(ends)} if len(ends) > 1 else {})


def write_masked(
    folder: Path, preprocessing: MaskedTextPreprocessing, length: int | None
) -> Values:
    if preprocessing.mask_takes_blanks:
        mask = preprocessing.mask
        reader = preprocessing.tokenizer.taking_blanks_before(mask)
        preprocessing = preprocessing.changed(tokenizer=reader)
    return _write_encoder(folder, preprocessing, length, adds_blank=False)


def write_labelled(folder: Path, preprocessing: TextPreprocessing, length: int | None) -> Values:
    return _write_encoder(folder, preprocessing, length, adds_blank=True)


def _write_encoder(
    folder: Path, preprocessing: TextPreprocessing, length: int | None, adds_blank: bool
) -> Values:
    tokenizer, frame = preprocessing.tokenizer, preprocessing.frame(None)
    sides = {"bos_token": frame.before[:1], "eos_token": frame.after[-1:]}
    ids = {name: side[0] for name, side in sides.items() if side}
    ids["pad_token"] = ids.get("eos_token", 0)
    if frame.before and frame.after:
        ids |= {"cls_token": frame.before[0], "sep_token": frame.after[-1]}
        # RoBERTa's <s> and </s> begin and end a text as well, BERT's tokens do not.
        if tokenizer.piece(ids["cls_token"]) == BEGIN:
            del ids["bos_token"], ids["eos_token"]
    if tokenizer.unknown is not None:
        ids["unk_token"] = tokenizer.unknown
    ids |= _roles(tokenizer)
    tokenizer.framed(frame.before, frame.after, adds_blank).save(folder / TOKENIZER)
    return _write_settings(folder, preprocessing, ids, length)


def _roles(tokenizer: Tokenizer) -> dict[str, int]:
    """The special tokens whose names say what they are for."""
    special = tokenizer.special_tokens
    present = {role: [name for name in names if name in special] for role, names in ROLES.items()}
    return {role: special[names[0]] for role, names in present.items() if names}


def _write_settings(
    folder: Path, preprocessing: TextPreprocessing, ids: dict[str, int], length: int | None
) -> Values:
    values: Values = {name: preprocessing.tokenizer.piece(id) for name, id in ids.items()}
    if preprocessing.jinja_template is not None:
        values["chat_template"] = preprocessing.jinja_template
    _write_tokenizer_config(folder, values, length)
    return {f"{name}_id": ids[name] for name in IN_CONFIG if name in ids}


def _write_tokenizer_config(folder: Path, values: Values, length: int | None) -> None:
    # Texts are decoded as they are here: no space before punctuation is removed.
    common = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    # Without it, truncation=True in transformers cuts nothing.
    limit = {} if length is None else {"model_max_length": length}
    write_json(folder / TOKENIZER_CONFIG, common | limit | values)


# --- pairs of texts ---


def read_pair(folder: Path, config: Values) -> PairPreprocessing:
    start = config.get("decoder_start_token_id", config.get("pad_token_id"))
    is_shared = config.get("share_encoder_decoder_embeddings", True)
    if (folder / vocabulary_files.SOURCE).is_file() and not (folder / TOKENIZER).is_file():
        source, target = vocabulary_files.read_opus(folder)
        values: Values = {"tokenizer": source, "target_tokenizer": target, "shares_ids": is_shared}
    else:
        source = target = _tokenizer(folder, config)
        values = {"tokenizer": source, "target_tokenizer": None if is_shared else target}
    name = None if start is None else target.piece(start)
    if name is not None and name not in target.special_tokens:
        raise GlassformerError(
            f"{folder}: the decoder starts with the token {name!r}, which is not a special token "
            "of the tokenizer. Copy the tokenizer again."
        )
    return PairPreprocessing(**values, start_token=name)


def write_pair(folder: Path, preprocessing: PairPreprocessing, length: int | None) -> Values:
    target, end, start = preprocessing.target, preprocessing.end, preprocessing.start
    names: Values = {"eos_token": target.piece(end), "pad_token": target.piece(start)}
    if preprocessing.target_tokenizer is None:
        target.framed((), (end,), adds_blank=True).save(folder / TOKENIZER)
    elif (more := vocabulary_files.write_opus(folder, preprocessing.source, target)) is not None:
        names |= more
    else:
        raise GlassformerError(
            "the model has two tokenizers, one for each language, which a Hugging Face folder "
            "holds only for OPUS-MT. Use --format onnx, or train with tokenizer.shared=true."
        )
    _write_tokenizer_config(folder, names, length)
    return {"eos_token_id": end, "decoder_start_token_id": start, "pad_token_id": start}


# --- images ---


def read_images(folder: Path, config: Values) -> ImagePreprocessing:
    settings = settings_of(folder, IMAGES)
    channels = config.get("num_channels", 3)
    if not settings.get("do_normalize", True):
        settings = settings | {"image_mean": [0.0] * channels, "image_std": [1.0] * channels}
    return ImagePreprocessing(
        image_size=config.get("image_size", 224),
        num_channels=channels,
        image_mean=tuple(settings.get("image_mean", [0.5] * channels)),
        image_std=tuple(settings.get("image_std", [0.5] * channels)),
    )


def write_images(folder: Path, preprocessing: ImagePreprocessing) -> Values:
    height, width = preprocessing.image_size
    write_json(
        folder / IMAGES,
        {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": height, "width": width},
            "resample": 2,  # bilinear
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(preprocessing.image_mean),
            "image_std": list(preprocessing.image_std),
        },
    )
    return {}


def read_palette(folder: Path, config: Values) -> PalettePreprocessing:
    clusters = settings_of(folder, IMAGES).get("clusters")
    if not clusters:
        raise GlassformerError(
            f"{folder / IMAGES} has no clusters, the colours of the palette. Copy it again."
        )
    side = round(config["n_positions"] ** 0.5)
    colors = tuple(tuple(map(_shade, color)) for color in clusters)
    return PalettePreprocessing(image_size=side, num_channels=3, palette=colors)


def _shade(value: float) -> float:
    """From 0 to 255; theirs is from -1 to 1. A palette that was learned here has whole numbers."""
    shade = (value + 1) * 127.5
    whole = round(shade)
    return min(255, max(0, whole if abs(shade - whole) < 1e-9 else shade))


def write_palette(folder: Path, preprocessing: PalettePreprocessing) -> Values:
    height, width = preprocessing.image_size
    colors = [color * 3 if len(color) == 1 else color for color in preprocessing.palette]
    write_json(
        folder / IMAGES,
        {
            "image_processor_type": "ImageGPTImageProcessor",
            "clusters": [[value / 127.5 - 1 for value in color] for color in colors],
            "do_color_quantize": True,
            "do_normalize": True,
            "do_resize": True,
            "resample": 2,
            "size": {"height": height, "width": width},
        },
    )
    return {}


# --- the table of inputs ---


@dataclass(frozen=True)
class InputFiles:
    """A row of the table: what a model reads, as files."""

    read: Callable[[Path, Values], Preprocessing]
    """Read it from a folder and its config.json."""
    write: Callable[[Path, Any, int | None], Values]
    """Write it into a folder, for a model that reads at most so many tokens. Returns further values
    of its config.json."""


INPUT_FILES: dict[Inputs, InputFiles] = {
    "text": InputFiles(read_language, write_language),
    "labelled text": InputFiles(read_text, write_labelled),
    "masked text": InputFiles(read_masked, write_masked),
    "pair": InputFiles(read_pair, write_pair),
    "image": InputFiles(read_images, lambda folder, images, length: write_images(folder, images)),
    "palette": InputFiles(
        read_palette, lambda folder, images, length: write_palette(folder, images)
    ),
}

# --- settings of generation ---

_SEARCH = ("num_beams", "length_penalty", "no_repeat_ngram_size", "max_new_tokens")
_SAMPLING = ("do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")
SETTINGS: dict[Inputs, tuple[str, ...]] = {"text": (*_SAMPLING, *_SEARCH), "pair": _SEARCH}
_OFF = {"top_k": 0, "no_repeat_ngram_size": 0}  # how they say that a setting is not used
# Other keys that change nothing that is written here.
_HARMLESS = {"transformers_version", "_from_model_config", "use_cache", "max_length"}


def generation_settings(folder: Path, inputs: Inputs) -> tuple[Values, list[str]]:
    """Our settings of generation, and the names of theirs that are not applied."""
    settings = settings_of(folder, GENERATION)
    applied = SETTINGS.get(inputs, ())
    values = {
        key: value
        for key, value in settings.items()
        if key in applied and value is not None and value != _OFF.get(key)
    }
    others = [
        key
        for key, value in settings.items()
        if key not in (*applied, *_HARMLESS) and not key.endswith("_token_id") and value
    ]
    return values, others


# --- the folder ---


@dataclass(frozen=True)
class Description:
    """What config.json says."""

    theirs: Values
    layout: Layout
    config: Config


def is_hugging_face(folder: Path) -> bool:
    """Whether a folder has a config.json that is not one of ours."""
    path = folder / CONFIG
    return path.is_file() and path.stat().st_size <= LARGEST_TEXT and not is_ours(folder)


def describe(folder: Path, adapter: Adapter | None = None) -> Description:
    """The family of the model in a folder, and its config as one of ours; with the head that an
    adapter brings."""
    for path in folder.iterdir():
        if path.suffix in (".json", ".jinja", ".spm") and not path.is_file():
            raise GlassformerError(f"{path} is not a file.")
        if path.suffix == ".json":
            conversion.check_file_size(path, LARGEST_TEXT)
    where = str(folder / CONFIG)
    theirs = read_json(folder / CONFIG)
    if "auto_map" in theirs and "model_type" not in theirs:
        raise GlassformerError(f"{where}: the model needs its own code, which is never run.")
    if theirs.get("quantization_config"):
        raise GlassformerError(
            f"{where}: quantization_config is set, but quantised weights cannot be imported from "
            "safetensors. Use the release in full precision, or a GGUF file."
        )
    family = family_of(theirs.get("model_type"), where)
    try:
        check_types(theirs)
    except WrongValueError as error:
        raise GlassformerError(f"{where}: {error}") from None
    if (folder / MODULES).is_file():
        theirs = theirs | {SENTENCES: _sentences(folder)}
    if adapter is not None:
        theirs = adapter.changed(family, theirs)
    layout = family.layout(theirs.get("architectures"), where)
    try:
        return Description(theirs, layout, layout.our_config(theirs, where))
    except (TypeError, KeyError, ValueError, AttributeError, ArithmeticError) as error:
        raise GlassformerError(
            f"{where} cannot be read as {an(layout.architecture)}: {error!r}. Copy it again."
        ) from None


def read_preprocessing(folder: Path, adapter: Adapter | None = None) -> Preprocessing:
    return _inputs(folder, describe(folder, adapter))


def read_generation(folder: Path, adapter: Adapter | None = None) -> Values:
    """The defaults of generation."""
    return generation_settings(folder, describe(folder, adapter).layout.inputs)[0]


def _inputs(folder: Path, description: Description) -> Preprocessing:
    values = {**description.layout.defaults, **description.theirs}
    try:
        preprocessing = INPUT_FILES[description.layout.inputs].read(folder, values)
    except (TypeError, KeyError, ValueError, ArithmeticError) as error:
        why = reason(error.errors()[0]) if isinstance(error, ValidationError) else repr(error)
        raise GlassformerError(
            f"{folder}: its preprocessing cannot be read: {why}. Copy the whole folder."
        ) from None
    preprocessing.check_model(description.config, str(folder), "Copy the whole folder.")
    return preprocessing


def read_folder(folder: Path, adapter: Adapter | None = None) -> ForeignModel:
    """The model in a folder, converted to one of ours, with an adapter merged into it."""
    description = describe(folder, adapter)
    layout = description.layout
    preprocessing = _inputs(folder, description)
    source: Any = conversion.open_weights(folder).renamed(layout.renames)
    if adapter is not None:
        architectures = read_json(folder / CONFIG).get("architectures")
        is_other = architectures != description.theirs.get("architectures")
        source = adapter.applied(layout, description.config, source, is_other)
    where = str(folder / (SINGLE if (folder / SINGLE).is_file() else INDEX))
    model, left_out = conversion.read_model(layout, description.config, source, where)
    generation, ignored = generation_settings(folder, layout.inputs)
    notes = [] if adapter is None else [adapter.about()]
    if left_out:
        shown = ", ".join(left_out[:4]) + (", …" if len(left_out) > 4 else "")
        notes.append(f"{counted(len(left_out), 'tensor')} left out, which it does not use: {shown}")
    if source.types - {"float32"}:
        types = ", ".join(sorted(source.types - {"float32"}))
        notes.append(f"the weights were stored as {types} and are computed as float32")
    if ignored:
        notes.append(f"settings of generation that are not applied: {', '.join(sorted(ignored))}")
    if not getattr(description.config, "has_head", True) and SENTENCES not in description.theirs:
        notes.append("there is no modules.json: `embed` takes the mean of the vectors of a text")
    return conversion.converted(layout.architecture, model, preprocessing, notes, generation)


def _sentences(folder: Path) -> Values:
    """What the modules of sentence-transformers do with the vectors of a text."""
    try:
        modules: Any = json.loads((folder / MODULES).read_text(encoding="utf-8"))
        kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
        paths = [str(module.get("path", "")) for module in modules]
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise GlassformerError(f"{folder / MODULES} is damaged. Copy it again.") from None
    if unknown := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise GlassformerError(
            f"{folder / MODULES}: the module {unknown[0]} is unknown. These are known: "
            "Transformer, Pooling, Normalize."
        )
    settings: Values = {"normalize": "Normalize" in kinds}
    if "Pooling" in kinds:
        path = paths[kinds.index("Pooling")]
        if path in ("", ".", "..") or Path(path).name != path:
            raise GlassformerError(
                f'{folder / MODULES}: the path "{path}" of its pooling is not the name of a '
                "folder beside it. Copy it again."
            )
        conversion.check_file_size(folder / path / CONFIG, LARGEST_TEXT)
        settings["pooling"] = _pooling(folder / path / CONFIG)
    length = settings_of(folder, LENGTHS).get("max_seq_length")
    if isinstance(length, int):
        settings["sentence_length"] = length
    if prompt := settings_of(folder, PROMPTS).get("default_prompt_name"):
        raise GlassformerError(
            f'{folder / PROMPTS}: the prompt "{prompt}" before every text (default_prompt_name) '
            "cannot be imported. Set it to null, and write the prompt before your texts."
        )
    return settings


def _pooling(path: Path) -> str:
    values = read_json(path)
    if isinstance(mode := values.get("pooling_mode"), str):  # newer releases name it
        modes = [mode]
    else:
        names = {"mean_tokens": "mean", "cls_token": "cls", "max_tokens": "max"}
        switched_on = [key for key, on in values.items() if key.startswith("pooling_mode_") and on]
        modes = [names.get(key.removeprefix("pooling_mode_"), key) for key in switched_on]
    kinds = {"mean": "mean", "cls": "first", "max": "max"}
    if len(modes) != 1 or modes[0] not in kinds:
        raise GlassformerError(
            f"{path}: pooling by {' and '.join(modes) or 'nothing'} is unknown. These are known: "
            f"{', '.join(kinds)}."
        )
    return kinds[modes[0]]
