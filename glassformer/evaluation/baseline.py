"""The baseline to beat: logistic regression on TF-IDF.

    tfidf(t, d) = (1 + log count(t, d)) · (1 + log((1 + N) / (1 + texts with t)))
    p(class | d) = softmax(W tfidf(d) / |tfidf(d)| + b)

over single words and pairs of adjacent words. It trains in seconds and ignores word order beyond
pairs: a Transformer that does not beat it has learned little from its attention.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.evaluation.classification import judge
from glassformer.wording import counted

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # C, the inverse of weight decay
DEFAULT_STRENGTH = 3.0  # if there are too few texts to choose
WORD = r"[\w']+|[^\w\s]"  # keeps n't, ! and words of one letter, which scikit-learn would drop
LARGE = 10_000  # texts, from which on words and pairs that occur in a single text are left out
MAX_WEIGHTS = 5_000_000  # the solver holds about 25 copies of them: 1 GB
MAX_WORDS = 200_000
HELD_OUT = 0.2
ENOUGH_TO_CHOOSE = 50  # texts
CHOOSING = 20_000  # texts are enough to choose C by


class TfidfBaseline:
    """Trained when made; the same texts and seed give the same weights. The targets are numbers of
    classes (N,), or several labels as 0 and 1 (N, C)."""

    def __init__(
        self,
        texts: Sequence[str],
        targets: NDArray[np.int64],
        classes: Sequence[str],
        multi_label: bool = False,
        seed: int = 0,
    ) -> None:
        self.classes = tuple(classes)
        self.multi_label = multi_label
        self.strength = self._choose(texts, targets, seed)
        self._words, features = _read(texts, len(self.classes))
        self._solvers = self._fit(features, targets, self.strength)

    def logits(self, texts: Sequence[str]) -> Tensor:
        """(N, C) log-probabilities in the order of `classes`; with several labels, log-odds."""
        return self._logits(self._solvers, self._words.transform(texts))

    def _choose(self, texts: Sequence[str], targets: NDArray[np.int64], seed: int) -> float:
        """The C with the least loss on a fifth of the texts, trained on the others.

        The vocabulary, too, is that of the others: a word that is known only because it also occurs
        in the held-out texts would make a large C look good.
        """
        order = np.random.default_rng(seed).permutation(len(texts))[:CHOOSING]
        if len(order) < ENOUGH_TO_CHOOSE:
            return DEFAULT_STRENGTH
        held_out, rest = np.split(order, [int(HELD_OUT * len(order))])
        words, features = _read([texts[n] for n in rest], len(self.classes))
        unseen = words.transform([texts[n] for n in held_out])
        true = torch.from_numpy(targets[held_out])

        def loss(strength: float) -> float:
            logits = self._logits(self._fit(features, targets[rest], strength), unseen)
            return judge(logits, true, self.classes, multi_label=self.multi_label).loss

        return min(STRENGTHS, key=loss)

    def _fit(self, features: Any, targets: NDArray[np.int64], strength: float) -> list["_Solver"]:
        """One solver for all classes, or with several labels one for each."""
        columns = targets.T if self.multi_label else targets[None]
        return [_Solver(features, column, strength) for column in columns]

    def _logits(self, solvers: Sequence["_Solver"], features: Any) -> Tensor:
        num_classes = 2 if self.multi_label else len(self.classes)
        found = torch.stack([solver.log_p(features, num_classes) for solver in solvers])
        return (found[..., 1] - found[..., 0]).T if self.multi_label else found[0]


class _Solver:
    """Logistic regression that also gives a probability to classes without examples."""

    def __init__(self, features: Any, targets: NDArray[np.int64], strength: float) -> None:
        from sklearn.linear_model import LogisticRegression

        self._seen = np.unique(targets)
        self._unseen = -float(np.log(len(targets) + 1))  # as if one more text had it
        self._model = None
        if len(self._seen) > 1:
            self._model = LogisticRegression(C=strength, max_iter=1000).fit(features, targets)

    def log_p(self, features: Any, num_classes: int) -> Tensor:
        size = features.shape[0]
        logits = np.zeros((size, len(self._seen)))
        if self._model is not None:
            logits = self._model.decision_function(features)
            if logits.ndim == 1:  # two classes: the log-odds of the second
                logits = np.stack([np.zeros(size), logits], axis=1)
        log_p = torch.full((size, num_classes), self._unseen, dtype=torch.double)
        log_p[:, self._seen] = torch.from_numpy(logits).log_softmax(-1)
        return log_p.log_softmax(-1)


def _read(texts: Sequence[str], num_classes: int) -> tuple[Any, Any]:
    """The words of texts, and the texts as rows of TF-IDF, (N, words) and sparse."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(
        ngram_range=(1, 2),
        sublinear_tf=True,
        min_df=2 if len(texts) >= LARGE else 1,
        max_features=min(MAX_WORDS, MAX_WEIGHTS // max(num_classes, 1)),
        token_pattern=WORD,
    )
    try:
        return words, words.fit_transform(texts)
    except ValueError:  # scikit-learn's "empty vocabulary", or all of it left out
        raise GlassformerError(
            f"the baseline finds no words in {counted(len(texts), 'training text')}: they are "
            "empty, or each is a single word that no other text has."
        ) from None
