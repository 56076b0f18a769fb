"""A text classifier with the interface of scikit-learn.

    from glassformer.sklearn import TextClassifier

    classifier = TextClassifier("bag").fit(texts, labels)
    classifier.predict(["a fine film"])

`fit` is `glassformer.train` on a file of the texts, in a temporary run folder or in `out`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Self
from weakref import finalize

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from glassformer.api import Run, train
from glassformer.data.labels import one_name
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import row, trainable
from glassformer.options import OPTIONS, TrainOptions, shows
from glassformer.wording import counted

NOT_OF_TRAIN = ("model", "verbose")

Array = npt.NDArray[Any]


def _suits(name: str) -> bool:
    """Whether an option of `train` is a parameter of the estimator, whose data are X and y."""
    return OPTIONS[name].heading in ("Model", "Training") and name != "attention"


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A classifier of texts: `model` is bag, rnn-classifier or classifier.

    The other parameters are options of `glassformer.train`; None leaves the choice to glassformer.
    X is a list or an array of strings, y a list or an array with one label for each.

    After `fit`, `classes_` are the labels in order and `run_` is the `Run`, with the model, the
    learning curves and the report. A temporary run folder is deleted with the estimator; pass `out`
    to keep it. A text without words gets the label that is the most frequent in the training data.
    """

    @shows(TrainOptions, _suits)
    def __init__(
        self,
        model: str = "bag",
        *,
        settings: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        force: bool = False,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        self.model = model
        self.settings = settings
        self.out = out
        self.force = force
        self.verbose = verbose
        names = self._get_param_names()
        for name in options:
            if name not in names:
                raise TypeError(f"TextClassifier has no parameter {name}.")
        for name in names:
            if name not in vars(self):
                setattr(self, name, options.get(name))

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train a model on texts and their labels."""
        _check_model(self.model)
        texts, labels = _texts(X), _labels(y)
        if len(texts) != len(labels):
            raise ValueError(
                f"X has {counted(len(texts), 'text')}, but y has {counted(len(labels), 'label')}."
            )
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError("y has a single class. A classifier needs at least two classes.")
        names = _names(classes)
        options: dict[str, Any] = {"text_column": "text", "label_column": "label"}
        options |= {k: v for k, v in self.get_params(deep=False).items() if k not in NOT_OF_TRAIN}
        with TemporaryDirectory() as folder:
            file = Path(folder) / "texts.jsonl"
            with file.open("w", encoding="utf-8") as lines:
                for text, number in zip(texts, numbers, strict=True):
                    lines.write(json.dumps({"text": text, "label": names[number]}) + "\n")
            if self.out is None:
                options["out"] = self._temporary_folder()
            self.run_: Run = train(self.model, file, quiet=not self.verbose, **options)
        self.classes_: Array = classes
        self.class_prior_: Array = np.bincount(numbers, minlength=len(classes)) / len(numbers)
        self._names = names
        return self

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each class, in the order of `classes_`: (texts, classes)."""
        check_is_fitted(self)
        predictions = self.run_.predictor.classify_batch(_texts(X))
        rows = [
            [scores[name] for name in self._names] if scores else self.class_prior_
            for scores in (prediction.scores for prediction in predictions)
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.classes_))

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The likeliest class of each text."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _temporary_folder(self) -> Path:
        """A folder that is deleted with the estimator, or when it is fitted again."""
        if (delete := getattr(self, "_delete", None)) is not None:
            delete()
        folder = mkdtemp(prefix="glassformer-")
        self._delete = finalize(self, rmtree, folder, ignore_errors=True)
        return Path(folder) / "run"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags

    def __getstate__(self) -> Any:
        if self.__sklearn_is_fitted__():
            raise GlassformerError(
                "a fitted TextClassifier is not pickled. Its run folder has everything: pass out= "
                "to keep it, and load the model with glassformer.load(folder)."
            )
        return super().__getstate__()


def _check_model(model: str) -> None:
    names = [name for name in trainable() if row(name).task == "classify"]
    if model not in names:
        raise UsageError(f"{model} is not a text classifier. Choose one of: {', '.join(names)}.")


def _texts(X: Any) -> list[str]:  # noqa: N803
    """The texts of a list, an array or a column of a table."""
    if isinstance(X, str):
        raise ValueError("X is a single text. Pass a list of texts.")
    if getattr(X, "ndim", 1) != 1:
        raise ValueError(f"X has the shape {X.shape}. Pass a list or a 1D array of texts.")
    texts = list(X)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"X[{number}] is {text!r:.60}, not a text.")
    return [str(text) for text in texts]  # not numpy's own kind of string


def _labels(y: Any) -> Array:
    if y is None:
        raise ValueError("TextClassifier requires y to be passed, but the target y is None.")
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y has the shape {labels.shape}. Pass one label for each text.")
    check_classification_targets(labels)
    return labels


def _names(classes: Array) -> list[str]:
    """What the model calls the classes: as they are written, or by number if that is ambiguous."""
    names = [one_name(str(label).strip()) for label in classes.tolist()]
    is_clear = len({*names}) == len(names) and all(names)
    return names if is_clear else [str(number) for number in range(len(names))]
