"""Writing a model for CTranslate2, a fast engine for CPUs and GPUs: language models, translators
and encoders."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.atomic_files import write_file
from glassformer.checkpoint.model_folder import Saved
from glassformer.errors import GlassformerError, require
from glassformer.pretrained.ctranslate2_spec import differences, spec_of
from glassformer.pretrained.differences import refuse_if_wrong, size
from glassformer.pretrained.exported_inputs import TARGET, write_inputs
from glassformer.pretrained.hub_inputs import TOKENIZER
from glassformer.pretrained.model_cards import MOST, PROMPT, card, code, known_text, program
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import an

SIGN = "model.bin"
LENGTHS = (1, 8, 23)  # of the texts that are compared


class Engine(ABC):
    """A class of CTranslate2 that runs a kind of model."""

    name: ClassVar[str]
    notes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, saved: Saved) -> None:
        self.model: Any = saved.model
        self.preprocessing: Any = saved.preprocessing

    @abstractmethod
    def register(self, spec: Any) -> None:
        """Add the vocabulary and the special tokens to a specification."""

    @abstractmethod
    def difference(self, engine: Any, length: int) -> tuple[float, float]:
        """The largest difference on a random text of this length, and the size of the logits."""

    @abstractmethod
    def usage(self) -> str:
        """Python code that runs in the folder."""

    def _register_vocabulary(self, spec: Any) -> list[str]:
        tokenizer = self.preprocessing.tokenizer
        tokens = pieces(tokenizer, self.model.config.vocab_size)
        spec.register_vocabulary(tokens)
        spec.config.unk_token = tokens[tokenizer.unknown or 0]
        return tokens

    def _ids(self, size: int, length: int) -> list[int]:
        random = torch.Generator().manual_seed(length)
        return torch.randint(0, size, (length,), generator=random).tolist()


class Generator(Engine):
    name = "Generator"

    def register(self, spec: Any) -> None:
        tokens = self._register_vocabulary(spec)
        tokenizer = self.preprocessing.tokenizer
        end = tokenizer.end_of_text
        first = (*tokenizer.begins_with, end)[0]
        spec.config.bos_token = tokens[0 if first is None else first]
        spec.config.eos_token = tokens[0 if end is None else end]

    def difference(self, engine: Any, length: int) -> tuple[float, float]:
        ids = self._ids(self.model.config.vocab_size, length)
        found = torch.from_numpy(np.array(engine.forward_batch([ids])))
        logits = self.model(torch.tensor([ids]))
        return size(logits - found), size(logits)

    def usage(self) -> str:
        ends = [self.preprocessing.tokenizer.piece(id) for id in self.preprocessing.ends]
        limit = min(MOST, self.model.context_length // 2)
        text = known_text(self.preprocessing.tokenizer, PROMPT)
        return program("ctranslate2_generator", text=text, limit=limit, ends=ends)


class Translator(Engine):
    name = "Translator"

    def register(self, spec: Any) -> None:
        source, target = self._vocabularies()
        spec.register_source_vocabulary(source)
        spec.register_target_vocabulary(target)
        spec.config.decoder_start_token = target[self.preprocessing.start]
        spec.config.eos_token = target[self.preprocessing.end]
        spec.config.bos_token = target[self.preprocessing.start]
        spec.config.unk_token = target[self.preprocessing.target.unknown or 0]

    def _vocabularies(self) -> tuple[list[str], list[str]]:
        config = self.model.config
        number = config.target_vocab_size or config.vocab_size
        source = pieces(self.preprocessing.source, config.vocab_size)
        return source, pieces(self.preprocessing.target, number)

    def difference(self, engine: Any, length: int) -> tuple[float, float]:
        """In log-probabilities of the tokens of a translation, which is all that it gives."""
        source, target = self._vocabularies()
        length = min(length, self.model.context_length - 1)
        ids = self._ids(len(source), length)
        written = [id for id in self._ids(len(target), length) if id != self.preprocessing.end]
        (found,) = engine.score_batch(
            [[source[id] for id in ids]], [[target[id] for id in written]]
        )
        read = torch.tensor([[self.preprocessing.start, *written]])
        logits = self.model(torch.tensor([ids]), read)[0]  # (T + 1, V)
        wanted = torch.tensor([*written, self.preprocessing.end])
        expected = logits.log_softmax(dim=-1).gather(1, wanted[:, None])[:, 0]  # (T + 1,)
        return size(expected - torch.tensor(found.log_probs)), size(logits)

    def usage(self) -> str:
        never = [self.preprocessing.target.piece(id) for id in self.preprocessing.forbidden]
        return program(
            "ctranslate2_translator",
            text=known_text(self.preprocessing.source, "how are you"),
            writer=TOKENIZER if self.preprocessing.target_tokenizer is None else TARGET,
            limit=min(MOST, self.model.context_length - 1),
            never=[never] if never else None,
        )


class Encoder(Engine):
    name = "Encoder"
    notes = (
        "CTranslate2 computes the states of the encoder, without an output layer and without "
        "pooling",
    )

    def register(self, spec: Any) -> None:
        self._register_vocabulary(spec)

    def difference(self, engine: Any, length: int) -> tuple[float, float]:
        number = self.model.config.vocab_size
        rows = [self._ids(number, length), self._ids(number, max(1, length // 2))]
        states = np.array(engine.forward_batch(rows).last_hidden_state)
        most = largest = 0.0
        for ids, found in zip(rows, states, strict=True):
            expected = self.model.hidden(torch.tensor([ids]))[0]
            most = max(most, size(expected - torch.from_numpy(found[: len(ids)])))
            largest = max(largest, size(expected))
        return most, largest

    def usage(self) -> str:
        text = known_text(self.preprocessing.tokenizer, "a short text")
        return program("ctranslate2_encoder", text=text)


ENGINES: dict[str, type[Engine]] = {"gpt": Generator, "translator": Translator, "bert": Encoder}


def write_ctranslate2(saved: Saved, folder: Path, rest: str) -> tuple[str, list[str]]:
    """Write the model. Returns what it is for CTranslate2, and notes."""
    require("ctranslate2", problem="CTranslate2's files are written by ctranslate2.")
    engine = _engine(saved)
    spec = spec_of(saved.model)
    write_inputs(folder, saved)
    engine.register(spec)
    config: Any = saved.model.config
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(folder))
    about = f"{an(saved.name, 'A')} for CTranslate2"
    write_file(folder / "README.md", card(saved.name, about, code(engine.usage()), rest))
    return f"{saved.name} for ctranslate2.{engine.name}", list(engine.notes)


def check_ctranslate2(saved: Saved, folder: Path) -> dict[str, float]:
    """The largest difference in logits, log-probabilities or states after loading it again."""
    import ctranslate2

    kind = _engine(saved)
    engine = getattr(ctranslate2, kind.name)(str(folder), device="cpu", compute_type="float32")
    context = kind.model.context_length
    with torch.no_grad():
        differences = [kind.difference(engine, min(length, context)) for length in LENGTHS]
    most, largest = map(max, zip(*differences, strict=True))
    return refuse_if_wrong({f"ctranslate2 {ctranslate2.__version__}": most}, largest)


def _engine(saved: Saved) -> Engine:
    if saved.name not in ENGINES:
        raise GlassformerError(
            f"{an(saved.name)} cannot be exported to CTranslate2, which runs {', '.join(ENGINES)}. "
            "Use --format onnx or safetensors."
        )
    if differs := [*differences(saved.model.config)]:
        raise GlassformerError(
            f"this {saved.name} cannot be exported to CTranslate2: {'; '.join(differs)}. Use "
            "--format onnx."
        )
    return ENGINES[saved.name](saved)


def pieces(tokenizer: Tokenizer, number: int) -> list[str]:
    """The entries of a vocabulary, with a name for each id that has none."""
    found = (tokenizer.piece(id) for id in range(number))
    return [f"<unused {id}>" if each is None else each for id, each in enumerate(found)]
