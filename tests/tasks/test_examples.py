"""The examples in the docstrings of the predictors run on small trained models."""

import doctest
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from captioned_scenes import scenes
from small_tasks import reviews, sentences

import glassformer
from glassformer.data.built_in import write_built_in
from glassformer.tasks.caption.predictor import CaptionPredictor
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.tasks.paint.predictor import PaintPredictor
from glassformer.tasks.tag.predictor import TagPredictor
from glassformer.tasks.task import Predictor
from glassformer.tasks.translate.predictor import TranslatePredictor
from glassformer.tasks.word_vectors.predictor import WordVectorsPredictor

MACHINE = {"device": "cpu", "precision": "float32", "num_threads": 1, "report_to": []}
MACHINE |= {"eval_steps": 1000, "save_steps": 1000, "warmup_steps": 2}
WIDTH = {"d_model": 16}
STACK = {"num_layers": 1, "num_heads": 2, **WIDTH}
MODELS: dict[type[Predictor], tuple[str, str, int, dict[str, Any]]] = {
    ClassifyPredictor: ("classifier", "test.csv", 60, STACK | {"bag": False}),
    TagPredictor: ("tagger", "test.conll", 150, STACK),
    LanguagePredictor: ("gpt", "held_out.txt", 20, STACK | {"context_length": 16}),
    MaskedPredictor: ("bert", "held_out.txt", 10, STACK),
    TranslatePredictor: ("translator", "test.tsv", 10, STACK),
    CaptionPredictor: ("captioner", "scenes.csv", 10, STACK),
    WordVectorsPredictor: ("word-vectors", "held_out.txt", 10, WIDTH),
    PaintPredictor: ("image-gpt", "digits/test", 10, STACK),
}
# For the rest of the package, or described with the verbs.
NOT_VERBS = {
    *("parse_settings", "check_defaults", "exceeding", "view"),
    *("read_labelled", "shortened", "targets", "in_pieces", "settings"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    reviews(folder).rename(folder / "test.csv")
    sentences(folder).rename(folder / "test.conll")
    write_built_in("digits", folder / "digits")
    shutil.copy(folder / "digits/test/0/0036.png", folder / "photo.png")
    (folder / "held_out.txt").write_text("the quick brown fox jumps over a lazy dog.\n" * 80)
    numbers = ("one", "two", "three", "four", "the")
    pairs = [f"{a} {b} {c}" for a in numbers for b in numbers for c in numbers]
    scenes(folder, name="scenes.csv")
    (folder / "images" / "scenes-000.png").rename(folder / "scene.png")
    text = (folder / "scenes.csv").read_text()
    (folder / "scenes.csv").write_text(text.replace("images/scenes-000.png", "scene.png"))
    (folder / "test.tsv").write_text("".join(f"{each}\t{each[::-1]}\n" for each in pairs))
    return folder


def public_methods(kind: type[Predictor]) -> dict[str, Callable[..., Any]]:
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {k: v for k, v in found.items() if callable(v) and not k.endswith("_class")}


@pytest.mark.parametrize("kind", MODELS)
def test_the_examples_of_every_method_run(
    kind: type[Predictor], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, data, steps, sizes = MODELS[kind]
    settings = {"model": sizes, "training": {**MACHINE, "learning_rate": 0.02}}
    monkeypatch.chdir(home)
    run = glassformer.train(
        name, data, out=f"runs/{name}", max_steps=steps, settings=settings, quiet=True
    )
    assert type(run.predictor) is kind
    methods = public_methods(kind)
    assert NOT_VERBS.isdisjoint(kind.verbs)
    problems = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    for each in methods.keys() - NOT_VERBS:
        text = methods[each].__doc__ or ""
        examples = doctest.DocTestParser().get_doctest(
            text, {"model": run.predictor}, each, None, 0
        )
        assert examples.examples, f"{kind.__name__}.{each} has no example"
        printed = each == "stream" or "print(" in text
        if not printed:
            runner.run(examples, out=problems.write)
        else:  # what a small model prints is not foreseeable
            for example in examples.examples:
                exec(compile(example.source, each, "single"), {"model": run.predictor})
    assert problems.getvalue() == ""
