"""The estimator passes the checks of scikit-learn that apply to texts, and works in its tools."""

import inspect
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

import glassformer
from glassformer.errors import GlassformerError
from glassformer.sklearn import NOT_OF_TRAIN, TextClassifier

MACHINE = {"device": "cpu", "precision": "float32", "num_threads": 1, "report_to": []}
SETTINGS = {"model.d_model": 16, "training": {**MACHINE, "learning_rate": 0.05, "warmup_steps": 2}}
WORDS = {"good": ("good", "fine", "great"), "bad": ("bad", "awful", "poor")}
# Those of check_estimator that do not pass numbers to `fit`.
CHECKS = [
    *("check_estimator_cloneable", "check_estimator_tags_renamed", "check_valid_tag_types"),
    *("check_estimator_repr", "check_no_attributes_set_in_init", "check_mixin_order"),
    *("check_do_not_raise_errors_in_init_or_set_params", "check_get_params_invariance"),
    *("check_set_params", "check_parameters_default_constructible", "check_fit_score_takes_y"),
]


def examples(count: int = 80) -> tuple[list[str], list[str]]:
    draw = random.Random(0)
    labels = [("good", "bad")[number % 2] for number in range(count)]
    noise = ("the", "film", "was", "a", "story", "of", "people", "in", "town")
    texts = [" ".join([*draw.choices(noise, k=5), draw.choice(WORDS[y])]) for y in labels]
    return texts, labels


def small(**more: Any) -> TextClassifier:
    return TextClassifier(**{"max_steps": 30, "settings": SETTINGS} | more)


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return small().fit(*examples())


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_of_scikit_learn_that_apply_pass(name: str) -> None:
    check = getattr(estimator_checks, name)
    if name == "check_fit_score_takes_y":  # its data are numbers
        assert list(inspect.signature(TextClassifier.fit).parameters)[1:3] == ["X", "y"]
        return
    check("TextClassifier", TextClassifier())


def test_check_estimator_skips_what_needs_numbers() -> None:
    with pytest.warns(SkipTestWarning, match="Can't test estimator TextClassifier"):
        check_estimator(TextClassifier())


def test_every_parameter_is_an_option_of_train() -> None:
    own = {*TextClassifier().get_params()} - {*NOT_OF_TRAIN}
    assert own <= inspect.signature(glassformer.train).parameters.keys()


def test_it_learns_and_keeps_the_order_of_its_classes(fitted: TextClassifier) -> None:
    texts, labels = examples()
    assert fitted.classes_.tolist() == ["bad", "good"]
    assert fitted.score(texts, labels) == 1.0
    probabilities = fitted.predict_proba(np.array(texts))
    assert probabilities.shape == (80, 2)
    assert probabilities.sum(axis=1) == pytest.approx(1.0)
    assert (fitted.classes_[probabilities.argmax(1)] == fitted.predict(texts)).all()
    assert fitted.predict_proba(texts[::-1])[::-1] == pytest.approx(probabilities, abs=1e-5)
    assert fitted.predict_proba([]).shape == (0, 2)
    assert fitted.run_.best is not None


def test_a_text_without_words_gets_the_prior(fitted: TextClassifier) -> None:
    assert fitted.predict_proba([""])[0].tolist() == fitted.class_prior_.tolist() == [0.5, 0.5]


def test_fitting_changes_no_parameter_and_gives_the_same_model_again(
    fitted: TextClassifier,
) -> None:
    again = small()
    before = again.get_params()
    assert again.fit(*examples()) is again
    assert again.get_params() == before
    texts, _ = examples()
    assert (again.predict_proba(texts) == fitted.predict_proba(texts)).all()
    assert clone(fitted).get_params() == before


@pytest.mark.parametrize(
    "classes", [(0, 1), (True, False), (1.0, 2.0), ("01", "1.0"), ("x ", "x"), (-1, 7)]
)
def test_labels_of_any_kind_come_back_as_they_were(classes: tuple[Any, Any]) -> None:
    texts, labels = examples()
    y = np.array([classes[label == "bad"] for label in labels])
    found = small().fit(np.array(texts, dtype=object), y)
    assert found.predict(texts).dtype == y.dtype
    assert found.score(texts, y) == 1.0


def test_it_works_in_a_pipeline_and_in_searches() -> None:
    texts, labels = examples(60)
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = Pipeline([("lower", lower), ("classify", small())])
    assert pipeline.fit(texts, labels).score(texts, labels) == 1.0
    assert cross_val_score(small(), texts, labels, cv=2).shape == (2,)
    search = GridSearchCV(small(), {"max_steps": [1, 30], "model": ["bag"]}, cv=2)
    assert search.fit(texts, labels).best_params_ == {"max_steps": 30, "model": "bag"}
    assert search.predict(["a fine film"]).tolist() == ["good"]


def test_a_folder_is_kept_and_a_temporary_one_is_deleted(tmp_path: Path) -> None:
    kept = small(out=tmp_path / "run", max_steps=2).fit(*examples())
    temporary = small(max_steps=2).fit(*examples())
    folder = temporary.run_.folder
    assert folder.is_dir()
    temporary.fit(*examples())
    assert not folder.exists()
    folder = temporary.run_.folder
    del temporary
    assert not folder.exists()
    predictor: Any = glassformer.load(tmp_path / "run")
    assert predictor.classify("a fine film").label in ("good", "bad")
    with pytest.raises(GlassformerError, match="already contains a finished run"):
        kept.fit(*examples())
    kept.set_params(force=True).fit(*examples())


def test_an_unfitted_one_can_be_pickled_and_a_fitted_one_says_what_to_do(
    fitted: TextClassifier,
) -> None:
    assert pickle.loads(pickle.dumps(small())).get_params() == small().get_params()
    with pytest.raises(GlassformerError, match=r"pass out= to keep it"):
        pickle.dumps(fitted)


def test_mistakes_are_explained(fitted: TextClassifier) -> None:
    texts, labels = examples()
    with pytest.raises(NotFittedError):
        small().predict(texts)
    with pytest.raises(ValueError, match="single text"):
        fitted.predict("a fine film")
    with pytest.raises(ValueError, match=r"X\[1\] is None"):
        fitted.predict(["a", None])
    with pytest.raises(ValueError, match="shape"):
        small().fit(np.array([texts]), labels)
    with pytest.raises(ValueError, match="79 labels"):
        small().fit(texts, labels[1:])
    with pytest.raises(ValueError, match="at least two classes"):
        small().fit(texts, ["good"] * 80)
    with pytest.raises(ValueError, match="y is None"):
        small().fit(texts, None)
    with pytest.raises(ValueError, match="continuous"):
        small().fit(texts, np.linspace(0, 1, 80))
    with pytest.raises(GlassformerError, match="gpt is not a text classifier"):
        small(model="gpt").fit(texts, labels)
