"""A classifier with its tokenizer: text in, a label and how sure it is out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.data.labelled import Example, read_examples
from glassformer.data.sequences import Sequences
from glassformer.errors import GlassformerError
from glassformer.models.classifier import LabelsConfig, TextClassifier
from glassformer.text.framing import encode_texts
from glassformer.text.tokenizers import Tokenizer
from glassformer.training.scores import Classification, judge
from glassformer.training.tasks.labelled import LabelledTask, dtype_of, frame_of

YES = 0.5  # from this score on, a label of several is given


@dataclass(frozen=True)
class Prediction:
    """What a classifier says of a text."""

    text: str
    labels: tuple[str, ...]
    """One; of a model for several labels none or more."""
    scores: dict[str, float]
    """The probability of every label, the likeliest first."""
    is_multi_label: bool = False

    @property
    def label(self) -> str:
        return ", ".join(self.labels)

    def as_json(self) -> dict[str, Any]:
        said = {"labels": list(self.labels)} if self.is_multi_label else {"label": self.label}
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
        """Of every text, in order; texts alike in length are read together."""
        if not texts:
            return []
        scores = self.model.probabilities(self.logits(texts).to(self.model.device)).cpu()
        return [self._said(*pair) for pair in zip(texts, scores.tolist(), strict=True)]

    def _said(self, text: str, scores: list[float]) -> Prediction:
        pairs = sorted(
            zip(self.model.labels, scores, strict=True), key=lambda pair: pair[1], reverse=True
        )
        if self.config.multi_label:
            labels = tuple(label for label, score in pairs if score >= YES)
        else:
            labels = (pairs[0][0],)
        return Prediction(text, labels, dict(pairs), self.config.multi_label)

    def logits(self, texts: Sequence[str]) -> Tensor:
        """(N, C), before the temperature."""
        frame = frame_of(self.tokenizer, self.config)
        encoded = [frame.put(ids) for ids in encode_texts(self.tokenizer, texts)]
        rows = Sequences.of(encoded, [0] * len(encoded), dtype_of(self.tokenizer))
        logits = torch.empty(len(texts), len(self.model.labels))
        for numbers, _, found in LabelledTask.read(self.model, rows):
            logits[torch.from_numpy(numbers)] = found
        if not logits.isfinite().all():
            raise GlassformerError("the model's weights are damaged: its scores are no numbers.")
        return logits

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
                f"{where} has only labels that the model does not know: {_listed(unknown)}. It "
                f"knows: {', '.join(self.model.labels)}."
            )
        if unknown:
            notes += (
                f"{len(examples) - len(kept):,} of {len(examples):,} examples have labels that the "
                f"model does not know and are left out: {_listed(unknown)}",
            )
        scores = judge(
            self.logits([example.text for example in kept]),
            self.targets(kept),
            self.model.labels,
            temperature=float(self.model.temperature),
            multi_label=self.config.multi_label,
        )
        return ClassificationFound(scores, dict(unknown), notes)

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


@dataclass(frozen=True)
class ClassificationFound:
    """Scores, and what was left out."""

    scores: Classification
    unknown_labels: dict[str, int]
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return self.scores.as_json() | {"unknown_labels": self.unknown_labels}

    def text(self) -> str:
        return self.scores.text()


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{label} ({count:,})" for label, count in counts.most_common(10))
