"""The baselines to beat: logistic regression, for texts on TF-IDF and for images on pixels.

    tfidf(t, d) = (1 + log count(t, d)) · (1 + log((1 + N) / (1 + texts with t)))
    p(class | d) = softmax(W tfidf(d) / |tfidf(d)| + b)

over single words and pairs of adjacent words. It trains in seconds and ignores word order beyond
pairs: a Transformer that does not beat it has learned little from its attention.

    p(class | image) = softmax(W (pixels - mean) / deviation + b)

A weight for each pixel knows nothing of shapes that move. scikit-learn is imported only when a
baseline is trained.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer import __version__
from glassformer.data.images import Pixels, resized
from glassformer.data.labels import one_name
from glassformer.data.split import LabelledSplit
from glassformer.errors import GlassformerError
from glassformer.tasks.labels.predictor import LabelPredictor
from glassformer.tasks.labels.scores import Classification, judge
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Baseline, digest_of
from glassformer.wording import counted

WORD = r"[\w']+|[^\w\s]"  # keeps n't, ! and words of one letter, which scikit-learn would drop
LARGE = 10_000  # texts, from which on words and pairs that occur in a single text are left out
MAX_WEIGHTS = 5_000_000  # the solver holds about 25 copies of them: 1 GB
MAX_WORDS = 200_000
HELD_OUT = 0.2
ENOUGH_TO_CHOOSE = 50  # inputs
CHOOSING = 20_000  # inputs are enough to choose C by
MAX_SIDE = 16  # pixels: a weight for each of many would learn the images by heart
MAX_ITERATIONS = 1000

Transform = Callable[[Sequence[Any]], Any]
"""Inputs as rows of numbers, (N, features)."""


class LinearBaseline(ABC):
    """Trained when made; the same inputs and seed give the same weights. The targets are numbers of
    classes (N,), or several labels as 0 and 1 (N, C)."""

    name: ClassVar[str]
    strengths: ClassVar[tuple[float, ...]]
    """The candidates for C, the inverse of weight decay."""
    default_strength: ClassVar[float]
    """C if there are too few inputs to choose."""

    def __init__(
        self,
        inputs: Sequence[Any],
        targets: NDArray[np.int64],
        classes: Sequence[str],
        multi_label: bool = False,
        seed: int = 0,
    ) -> None:
        self.classes = tuple(classes)
        self.multi_label = multi_label
        self.strength = self._choose(inputs, targets, seed)
        self._transform, features = self._read(inputs)
        self._solvers = self._fit(features, targets, self.strength)

    @abstractmethod
    def _read(self, inputs: Sequence[Any]) -> tuple[Transform, Any]:
        """Fit the transform of inputs to features; returns it and the features of `inputs`."""

    def logits(self, inputs: Sequence[Any]) -> Tensor:
        """(N, C) log-probabilities in the order of `classes`; with several labels, log-odds."""
        return self._logits(self._solvers, self._transform(inputs))

    def _choose(self, inputs: Sequence[Any], targets: NDArray[np.int64], seed: int) -> float:
        """The C with the least loss on a fifth of the inputs, trained on the others.

        The vocabulary, too, is that of the others: a word that is known only because it also occurs
        in the held-out texts would make a large C look good.
        """
        order = np.random.default_rng(seed).permutation(len(inputs))[:CHOOSING]
        if len(order) < ENOUGH_TO_CHOOSE:
            return self.default_strength
        held_out, rest = np.split(order, [int(HELD_OUT * len(order))])
        transform, features = self._read([inputs[n] for n in rest])
        unseen = transform([inputs[n] for n in held_out])
        true = torch.from_numpy(targets[held_out])

        def loss(strength: float) -> float:
            logits = self._logits(self._fit(features, targets[rest], strength), unseen)
            return judge(logits, true, self.classes, multi_label=self.multi_label).loss

        return min(self.strengths, key=loss)

    def _fit(self, features: Any, targets: NDArray[np.int64], strength: float) -> list["_Solver"]:
        """One solver for all classes, or with several labels one for each."""
        columns = targets.T if self.multi_label else targets[None]
        return [_Solver(features, column, strength) for column in columns]

    def _logits(self, solvers: Sequence["_Solver"], features: Any) -> Tensor:
        num_classes = 2 if self.multi_label else len(self.classes)
        log_p = torch.stack([solver.log_p(features, num_classes) for solver in solvers])
        return (log_p[..., 1] - log_p[..., 0]).T if self.multi_label else log_p[0]


class TfidfBaseline(LinearBaseline):
    """A baseline for texts."""

    name = "TF-IDF + logistic regression"
    strengths = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
    default_strength = 3.0

    def _read(self, inputs: Sequence[str]) -> tuple[Transform, Any]:
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer(
            ngram_range=(1, 2),
            sublinear_tf=True,
            min_df=2 if len(inputs) >= LARGE else 1,
            max_features=min(MAX_WORDS, MAX_WEIGHTS // max(len(self.classes), 1)),
            token_pattern=WORD,
        )
        try:
            return words.transform, words.fit_transform(inputs)
        except ValueError:  # scikit-learn's "empty vocabulary", or all of it left out
            raise GlassformerError(
                f"the baseline finds no words in {counted(len(inputs), 'training text')}: they are "
                "empty, or each is a single word that no other text has."
            ) from None


class PixelBaseline(LinearBaseline):
    """A baseline for images (H, W, C) of one size; see `small`."""

    name = "pixels + logistic regression"
    strengths = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    default_strength = 1e-2

    def _read(self, inputs: Sequence[Pixels]) -> tuple[Transform, Any]:
        pixels = _pixels(inputs)
        mean, deviation = pixels.mean(axis=0), pixels.std() or 1.0

        def transform(images: Sequence[Pixels]) -> Any:
            return (_pixels(images) - mean) / deviation

        return transform, (pixels - mean) / deviation


def small(image: Pixels) -> Pixels:
    """An image (H, W, C), scaled down to what the baseline reads."""
    height, width = image.shape[:2]
    return resized(image, (min(height, MAX_SIDE), min(width, MAX_SIDE)))


def _pixels(images: Sequence[Pixels]) -> NDArray[np.float32]:
    """The values of images as rows, (N, pixels)."""
    return np.stack(images).reshape(len(images), -1).astype(np.float32)


def linear_baseline(
    kind: type[LinearBaseline],
    recipe: Recipe,
    predictor: LabelPredictor,
    arguments: dict[str, Any],
    split: LabelledSplit[Any],
    read: Callable[[Any], Any],
    digest: Callable[[Any], str] = str,
) -> Baseline:
    """Logistic regression, trained on exactly the data of the run and evaluated on the files that
    `arguments` name. `read` makes of an input what the regression reads, `digest` tells two of
    these apart."""
    labels, several, seed = predictor.model.labels, split.is_multi_label, recipe.training.seed
    if {*split.labels} != {*map(one_name, labels)}:
        raise GlassformerError("the training data has different labels than when the run started.")
    test, scored, *_ = predictor.read_labelled(**arguments)
    inputs, asked = ([read(row.input) for row in part] for part in (split.training, scored))
    targets, true = predictor.targets(split.training).numpy(), predictor.targets(scored)

    def result() -> Classification:
        baseline = kind(inputs, targets, labels, several, seed)
        answers = judge(baseline.logits(asked), true, labels, multi_label=several)
        return answers.with_wrong(len(test) - len(scored))

    return Baseline(
        kind.name,
        digest_of(
            (__version__, seed, several, labels, len(test)),
            ([*map(digest, inputs)], targets.tolist()),
            ([*map(digest, asked)], true.tolist()),
        ),
        result,
    )


class _Solver:
    """Logistic regression that also gives a probability to classes without examples."""

    def __init__(self, features: Any, targets: NDArray[np.int64], strength: float) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        self._seen = np.unique(targets)
        self._unseen = -float(np.log(len(targets) + 1))  # as if one more text had it
        self._model = None
        if len(self._seen) > 1:
            with warnings.catch_warnings():  # enough steps, even if not yet at the minimum
                warnings.simplefilter("ignore", ConvergenceWarning)
                self._model = LogisticRegression(C=strength, max_iter=MAX_ITERATIONS)
                self._model.fit(features, targets)

    def log_p(self, features: Any, num_classes: int) -> Tensor:
        size = features.shape[0]
        logits = np.zeros((size, len(self._seen)))
        if self._model is not None:
            logits = self._model.decision_function(features)
            if logits.ndim == 1:  # two classes: the log-odds of the second
                logits = np.stack([np.zeros(size), logits], axis=1)
        log_p = torch.full((size, num_classes), self._unseen, dtype=torch.double)
        log_p[:, self._seen] = torch.from_numpy(logits).double().log_softmax(-1)
        return log_p.log_softmax(-1)
