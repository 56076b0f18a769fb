"""What every export needs: a model card, inputs to compare with, and the files of its inputs.

write    the format's own file, `write_inputs`, and `card` with a `program` that uses it
check    read it again: `probe_of` a model → logits of both → `refuse_if_wrong`
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer import __version__
from glassformer.checkpoint.model_folder import Saved
from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.files import write_json
from glassformer.formats import hugging_face
from glassformer.formats.family import Inputs
from glassformer.models.gpt import GPT
from glassformer.models.heads import Labeller
from glassformer.preprocessing import images
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.tokenizers import Tokenizer

# --- the README.md: what a model is, how it is used, and the card that it had ---

FENCE = "```"
PROMPT = "Once upon a time"
MOST = 64  # tokens to write


def card(title: str, about: str, usage: str, rest: str, **metadata: Any) -> str:
    """`about` is a sentence without a full stop, `usage` Markdown, `rest` the card that the model
    had. Its metadata (licence, languages, data) stay, except those that are given."""
    had, text = _split(rest)
    had.pop("library_name", None)  # of the tool that the model was for before
    before = had.get("tags") or []
    tags = [*(before if isinstance(before, list) else [before]), *metadata.pop("tags", ())]
    metadata["tags"] = [*dict.fromkeys(map(str, [*tags, "glassformer"]))]
    head = yaml.safe_dump(had | metadata, sort_keys=False, allow_unicode=True)
    return (
        f"---\n{head}---\n\n# {title}\n\n{about}, exported with glassformer {__version__}.\n\n"
        f"{usage.strip()}\n\n{_below(text)}".rstrip()
        + "\n"
    )


def program(name: str, code: Mapping[str, str] | None = None, **values: Any) -> str:
    """A program in `cards/` with these values, which are written as Python writes them, and with
    these parts of its code."""
    file = resources.files(__package__) / "cards" / f"{name}.py.txt"
    literals = {key: repr(value) for key, value in values.items()}
    return Template(file.read_text(encoding="utf-8")).substitute(literals | dict(code or {}))


def known_text(tokenizer: Tokenizer, text: str) -> str:
    """The text, or another one if the vocabulary cannot spell it."""
    if not tokenizer.unknown_characters(text):
        return text
    pieces = (tokenizer.token(id) for id in range(tokenizer.vocab_size) if not tokenizer.hides(id))
    plain = [piece for piece in pieces if piece.isalnum()]
    joined = "" if tokenizer.kind == "char" else " "
    return joined.join(plain[:3])


def code(text: str, language: str = "python") -> str:
    return f"{FENCE}{language}\n{text.strip()}\n{FENCE}"


def trial(verb: str, *arguments: str) -> str:
    """A command that runs in the folder of the model."""
    return code(f"glassformer {shlex.join([verb, '.', *arguments])}", "")


def own_card(name: str, about: str, command: Sequence[str]) -> str:
    """The card of a model folder of ours that was not trained here. `command` is a verb and what
    follows the folder."""
    return f"# {name}\n\n{about}.\n\n{trial(*command)}\n"


def _split(text: str) -> tuple[dict[str, Any], str]:
    """The metadata at the top of a card, as the Hugging Face hub reads them, and the rest."""
    match = re.match(r"---\s*\n(.*?\n)---\s*\n", text, re.DOTALL)
    if not match:
        return {}, text
    try:
        values = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError):
        return {}, text
    return (values, text[match.end() :]) if isinstance(values, dict) else ({}, text)


def _below(text: str) -> str:
    """An older card as a part of a new one: its title is no longer one, and the commands that were
    meant for the folder that it described are left out."""
    extra = "#" if re.search("^# ", text, re.MULTILINE) else ""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_lowered(text.splitlines(), extra))).strip()


def _lowered(lines: Iterable[str], extra: str) -> Iterator[str]:
    block: list[str] = []
    for line in lines:
        is_fence = line.startswith(FENCE)
        if block or is_fence:
            block.append(line)
            if is_fence and len(block) > 1:
                is_trial = all(inner.startswith("glassformer ") for inner in block[1:-1])
                if not (is_trial and block[1:-1]):
                    yield from block
                block = []
        else:
            yield f"{extra}{line}" if re.match("#{1,5} ", line) else line
    yield from block  # that was never closed


# --- how far a model that was written and read again may differ ---

# Of the largest logit. Another order of summing in float32 costs 3e-7 of it in two layers, and 2e-5
# in the 30 of SmolLM2 (by onnxruntime, in a padded batch).
TOLERANCE = 5e-5


def size(values: Tensor) -> float:
    """The largest absolute value."""
    return float(values.abs().max())


def refuse_if_wrong(differences: dict[str, float], largest: float = 1.0) -> dict[str, float]:
    """The largest differences in logits, by the tool that computed them, if float32 explains them.
    `largest`: the size of the logits that are compared; small ones are sums of larger terms."""
    allowed = TOLERANCE * max(1.0, largest)
    for tool, difference in differences.items():
        if not difference <= allowed:
            raise GlassformerError(
                f"the exported model differs from the original: its logits, computed by "
                f"{tool}, differ by up to {difference:.3g}, where {allowed:.2g} is allowed. "
                "Nothing was written."
            )
    return differences


# --- inputs with which it is compared with itself ---

ROWS, LENGTH = 2, 24


@dataclass(frozen=True)
class Probe:
    """Random inputs, by the names that transformers has for them."""

    inputs: dict[str, Tensor]
    compared: Tensor | None
    """Which positions are compared: (B, T); None: all. Padding is not."""

    def logits(self, model: nn.Module) -> Tensor:
        """What a model of ours computes from them."""
        with torch.inference_mode():
            values = _computed(model.eval(), self.inputs)
            if isinstance(model, Labeller):
                values = values / model.temperature
        return values.float().cpu()

    def difference(self, one: Tensor, other: Tensor) -> float:
        """The largest difference between logits."""
        if self.compared is not None and one.dim() == 3:
            one, other = one[self.compared], other[self.compared]
        return float((one - other).abs().max())


def probe_of(inputs: Inputs, config: Any) -> Probe:
    """Two rows, of which the second is padded where a model can be."""
    random = torch.Generator().manual_seed(0)
    if inputs == "image":
        shape = (ROWS, config.channels, *config.size)
        return Probe({"pixel_values": torch.randn(shape, generator=random)}, None)
    length = min(LENGTH, config.context_length)
    ids = torch.randint(0, config.vocab_size, (ROWS, length), generator=random)
    if inputs in ("text", "palette"):
        return Probe({"input_ids": ids}, None)
    is_text = torch.arange(length) < torch.tensor([[length], [max(1, length // 2)]])
    values = {"input_ids": ids, "attention_mask": is_text.long()}
    if inputs == "pair":
        vocab_size = config.target_vocab_size or config.vocab_size
        target = torch.randint(0, vocab_size, (ROWS, length), generator=random)
        return Probe(values | {"decoder_input_ids": target}, None)
    return Probe(values, is_text)


def _computed(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    on_device = {name: tensor.to(model.device) for name, tensor in inputs.items()}
    match on_device:
        case {"pixel_values": pixels}:
            return model(pixels)
        case {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target}:
            return model(ids, target, mask.bool())
        case {"input_ids": ids, "attention_mask": mask}:
            has_head = getattr(model.config, "has_head", True)
            return model(ids, mask.bool()) if has_head else model.hidden(ids, mask.bool())
        case {"input_ids": ids}:
            return model(ids)
    raise TypeError(f"unknown inputs {list(inputs)}")


# --- what transformers computes from an exported folder ---
#
# It is asked in a child process, if it is installed: the package never imports it.

SECONDS = 600


def logits_in_transformers(
    folder: Path,
    architecture: str,
    probe: Probe,
    text: str | None = None,
    ids: Sequence[int] = (),
    **more: str,
) -> tuple[str, Tensor] | None:
    """Its name with its version, and its logits; None: it is not installed. `text` must be read as
    `ids`; `more` are further arguments of its from_pretrained."""
    if find_spec("transformers") is None:
        return None
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "inputs.safetensors"
        save_file(probe.inputs, path)
        arguments = [str(folder), architecture, str(path), json.dumps(text), json.dumps(more)]
        answer = _answer(arguments, folder)
        logits = load_file(f"{path}.logits")["logits"]
    if answer["missing"]:
        raise GlassformerError(
            f"transformers misses {', '.join(answer['missing'][:3])} in {folder}."
        )
    if text is not None and answer["ids"] != [*ids]:
        raise GlassformerError(
            f"transformers reads a text with the tokenizer of {folder} as other tokens than "
            "glassformer does."
        )
    return f"transformers {answer['version']}", logits


def _answer(arguments: list[str], folder: Path) -> dict[str, Any]:
    program = resources.files(__package__) / "transformers_check.py.txt"
    command = [sys.executable, "-c", program.read_text(encoding="utf-8"), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise GlassformerError(
            f"transformers did not finish within {SECONDS} seconds when it loaded {folder} to "
            "compare. Nothing was written. Try again when the machine is less busy."
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        raise GlassformerError(f"transformers cannot load {folder}: {last}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


# --- files beside a graph: what turns texts and images into its inputs, and its outputs back ---
#
# Tokenizers are written with the special tokens around a text, so that the `tokenizers` library
# alone gives what the model reads.

TARGET = "target_tokenizer.json"


def write_inputs(folder: Path, saved: Saved) -> Values:
    """Write the files. Returns the settings of the model with the ids of its special tokens."""
    config: Any = saved.model.config
    values: Values = {"model_type": saved.name, **config.model_dump(mode="json")}
    return values | _written(folder, saved)


def _written(folder: Path, saved: Saved) -> Values:
    preprocessing: Any = saved.preprocessing
    length = getattr(saved.model.config, "context_length", None)
    match preprocessing:
        case PairPreprocessing():
            source, end = preprocessing.source, preprocessing.source.end_of_text
            after = () if end is None else (end,)
            source.framed((), after, adds_blank=True).save(folder / hugging_face.TOKENIZER)
            if preprocessing.target_tokenizer is not None:
                preprocessing.target_tokenizer.save(folder / TARGET)
            return _ends(preprocessing)
        case images.CaptionPreprocessing():
            preprocessing.tokenizer.save(folder / hugging_face.TOKENIZER)
            return _ends(preprocessing) | hugging_face.write_images(folder, preprocessing)
        case images.PalettePreprocessing():
            return hugging_face.write_palette(folder, preprocessing)
        case images.ImagePreprocessing():
            return hugging_face.write_images(folder, preprocessing)
        case SeriesPreprocessing():
            scale = {"mean": list(preprocessing.mean), "deviation": list(preprocessing.deviation)}
            write_json(folder / hugging_face.IMAGES, scale)
            return {}
        case TextPreprocessing() if isinstance(saved.model, Labeller):
            return hugging_face.write_labelled(folder, preprocessing, length)
        case TextPreprocessing() if isinstance(saved.model, GPT):
            return hugging_face.write_language(folder, preprocessing, length)
        case _:
            return hugging_face.write_masked(folder, preprocessing, length)


def _ends(preprocessing: Any) -> Values:
    """The tokens with which an answer begins and ends."""
    return {"decoder_start_token_id": preprocessing.start, "eos_token_id": preprocessing.end}
