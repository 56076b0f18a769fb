"""A classifier with its tokenizer: text in, a label and how sure it is out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.data.examples import Example, read_examples
from glassformer.data.sequences import Sequences
from glassformer.data.splits import listed_with_counts
from glassformer.errors import GlassformerError
from glassformer.models.classifier import LabelsConfig, TextClassifier
from glassformer.text.framing import encode_texts
from glassformer.text.tokenizers import Tokenizer
from glassformer.training.scores import Classification, judge, wilson
from glassformer.training.tasks.labelled import LabelledTask, dtype_of, frame_of

YES = 0.5  # from this score on, a label of several is given


@dataclass(frozen=True)
class Prediction:
    """What a classifier says of a text."""

    text: str
    labels: tuple[str, ...]
    """One; of a model for several labels none or more; of a text without words none."""
    scores: dict[str, float]
    """The probability of every label, the likeliest first; nothing of a text without words."""
    is_multi_label: bool = False
    is_shortened: bool = False
    """It was longer than the model's context: its beginning and its end were read."""

    @property
    def label(self) -> str:
        return ", ".join(self.labels)

    def as_json(self) -> dict[str, Any]:
        label = self.label or None
        said = {"labels": list(self.labels)} if self.is_multi_label else {"label": label}
        return {"text": self.text, **said, "scores": self.scores}


class ClassifyPredictor:
    """The verbs of a classifier: classify and evaluate."""

    def __init__(self, model: TextClassifier, tokenizer: Tokenizer) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config: LabelsConfig = model.config

    @property
    def text_column(self) -> tuple[str, ...]:
        """The columns that it was trained on."""
        return self.config.text_column

    def classify(self, text: str) -> Prediction:
        (prediction,) = self.classify_batch([text])
        return prediction

    def classify_batch(self, texts: Sequence[str]) -> list[Prediction]:
        """Of every text, in order; texts alike in length are read together. Of one without words
        nothing is said."""
        several = self.config.multi_label
        found = [Prediction(text, (), {}, several) for text in texts]
        places = [place for place, text in enumerate(texts) if text.strip()]
        if not places:
            return found
        read = [texts[place] for place in places]
        logits, is_shortened = self._read(read)
        predictions = said(self.model, read, logits)
        for place, each, is_short in zip(places, predictions, is_shortened, strict=True):
            found[place] = replace(each, is_shortened=is_short)
        return found

    def _read(self, texts: Sequence[str]) -> tuple[Tensor, list[bool]]:
        """The logits (N, C) before the temperature, and which texts were too long to be read
        whole."""
        frame = frame_of(self.tokenizer, self.config)
        encoded = encode_texts(self.tokenizer, texts)
        rows = Sequences.of(
            [frame.put(ids) for ids in encoded],
            [0] * len(encoded),
            dtype_of(self.tokenizer),
            is_per_item=False,
        )
        return logits_of(self.model, rows), [frame.is_too_long(ids) for ids in encoded]

    def evaluate(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> "ClassificationFound":
        """Accuracy, macro F1 and the rest on labelled files; the columns are those of training."""
        names = [paths] if isinstance(paths, str) else list(paths)
        found = read_examples(
            names,
            text_column or self.config.text_column,
            label_column or self.config.label_column,
            encoding,
        )
        return self.judge(found.examples, tuple(found.notes), ", ".join(names))

    def judge(
        self, examples: Sequence[Example], notes: tuple[str, ...] = (), where: str = "the data"
    ) -> "ClassificationFound":
        known = set(self.model.labels)
        unknown = Counter(label for each in examples for label in each.labels if label not in known)
        kept = [each for each in examples if known.issuperset(each.labels)]
        if not kept:
            raise GlassformerError(
                f"{where} has only labels that the model does not know: "
                f"{listed_with_counts(unknown)}. It knows: {', '.join(self.model.labels)}."
            )
        if unknown:
            notes += (
                f"{len(examples) - len(kept):,} of {len(examples):,} examples have labels that the "
                f"model does not know. In the accuracy they count as wrong; the other scores are "
                f"of the rest: {listed_with_counts(unknown)}",
            )
        logits, is_shortened = self._read([example.text for example in kept])
        if number := sum(is_shortened):
            notes += (shortened(number, len(kept), self.model.context_length),)
        scores = judge(
            logits,
            self.targets(kept),
            self.model.labels,
            temperature=float(self.model.temperature),
            multi_label=self.config.multi_label,
        )
        found = ClassificationFound(scores, dict(unknown), notes)
        return found.with_wrong(len(examples) - len(kept))

    def targets(self, examples: Sequence[Example]) -> Tensor:
        number = {label: index for index, label in enumerate(self.model.labels)}
        if self.config.multi_label:
            return torch.tensor(
                [[int(label in each.labels) for label in number] for each in examples]
            )
        if several := next((each for each in examples if len(each.labels) != 1), None):
            raise GlassformerError(
                f"{several.source} has {len(several.labels)} labels, and the model gives one."
            )
        return torch.tensor([number[each.labels[0]] for each in examples])


def said(model: TextClassifier, shown: Sequence[str], logits: Tensor) -> list[Prediction]:
    """What logits mean, in the words of the model."""
    scores = model.probabilities(logits.to(model.device)).cpu().tolist()
    is_multi_label, found = model.config.multi_label, []
    for text, row in zip(shown, scores, strict=True):
        pairs = sorted(zip(model.labels, row, strict=True), key=lambda pair: pair[1], reverse=True)
        given = pairs[:1]
        if is_multi_label:
            given = [pair for pair in pairs if pair[1] >= YES]
        labels = tuple(label for label, _ in given)
        found.append(Prediction(text, labels, dict(pairs), is_multi_label))
    return found


def logits_of(model: TextClassifier, rows: Sequences) -> Tensor:
    """(N, C), before the temperature; rows alike in length are read together."""
    logits = torch.empty(len(rows), len(model.labels))
    for numbers, _, found in LabelledTask.read(model, rows):
        logits[torch.from_numpy(numbers)] = found
    if not logits.isfinite().all():
        raise GlassformerError("the model's weights are damaged: its scores are no numbers.")
    return logits


def shortened(number: int, total: int, limit: int | None) -> str:
    return (
        f"too long for the model's context of {limit:,} tokens: {number:,} of {total:,} texts; of "
        "these, the beginning and the end were read"
    )


@dataclass(frozen=True)
class ClassificationFound:
    """Scores, and what to know of them."""

    scores: Classification
    unknown_labels: dict[str, int]
    notes: tuple[str, ...] = ()

    def with_wrong(self, number: int) -> "ClassificationFound":
        """The same, with so many more examples that were answered wrongly."""
        if not number:
            return self
        right = round(self.scores.accuracy * self.scores.num_examples)
        total = self.scores.num_examples + number
        counted_in = replace(
            self.scores,
            accuracy=right / total,
            interval=wilson(right, total),
            num_examples=total,
        )
        return replace(self, scores=counted_in)

    def as_json(self) -> dict[str, Any]:
        return self.scores.as_json() | {"unknown_labels": self.unknown_labels}

    def text(self) -> str:
        return self.scores.text()
