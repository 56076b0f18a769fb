"""Commands, and small runs that all tests share."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import WORDS, Result, in_new_process, in_this_process

SMALL = {
    "model.num_layers": 1,
    "model.d_model": 32,
    "model.num_heads": 2,
    "model.context_length": 32,
    "training.per_device_train_batch_size": 4,
    "training.precision": "float32",
    "training.num_threads": 1,
}

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
TRANSLATORS = {
    "translator": ("num_layers=1", "d_model=48", "num_heads=2"),
    "rnn-translator": ("d_embedding=32", "d_model=32"),
}
LEARNING = ("learning_rate=0.01", "per_device_train_batch_size=16", "ema=0.0", "precision=float32")
SELDOM = ("num_threads=1", "eval_steps=1000", "save_steps=1000", "report_to=[]")

# Few validations: they take longer than such a training.
LATE = ["--set", "training.eval_steps=1000", "--set", "training.save_steps=1000"]


@dataclass(frozen=True)
class Run:
    """A finished training."""

    folder: Path
    notes: Path
    training: Result


Command = Callable[..., Result]


def small_options(without: tuple[str, ...] = ()) -> list[str]:
    said = [f"{key}={value}" for key, value in SMALL.items() if key.split(".")[1] not in without]
    return [word for each in said for word in ("--set", each)]


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Options for a model that trains in a moment, on a machine that need not be measured."""
    return small_options()


@pytest.fixture(scope="session")
def text() -> str:
    """Twenty thousand characters of sentences."""
    draw = random.Random(0)
    return "".join(" ".join(draw.choices(WORDS, k=9)) + ".\n" for _ in range(480))


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, text: str) -> Run:
    """`glassformer train gpt --data notes.txt`, for 20 steps, in a folder of its own."""
    home = tmp_path_factory.mktemp("home")
    (home / "notes.txt").write_text(text)
    words = ["train", "gpt", "--data", "notes.txt", "--max-steps", "20", *small_options()]
    training = in_new_process(*words, cwd=home)
    assert training.code == 0, training.err
    return Run(home / "runs" / "gpt-notes", home / "notes.txt", training)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of every kind, and in runs/ a small model of each: reviews and pairs
    (with two text columns), topics (with several labels), names, encoder, bert and gpt."""
    home = tmp_path_factory.mktemp("shelf")
    write_labelled_data(home)
    learner = ["--set", "training.learning_rate=0.03", "--set", "training.warmup_steps=2"]
    learner += ["--set", "training.per_device_train_batch_size=16"]
    learner += ["--set", "data.validation_fraction=0.1"]  # there is little to learn from
    for name, model, *data in (
        ("reviews", "bag", "reviews.csv"),
        ("pairs", "bag", "pairs.csv", "--text-column", "title", "--text-column", "body"),
        ("topics", "bag", "topics.jsonl"),
        ("encoder", "classifier", "reviews.csv"),
        ("names", "tagger", "names.conll"),
        ("bert", "bert", "text.txt"),
        ("gpt", "gpt", "text.txt", "--tokenizer", "bpe"),
    ):
        sizes = small_options(without=("num_layers", "num_heads") if model == "bag" else ())
        words = ["train", model, "--data", *data, "--out", f"runs/{name}", *sizes, *learner]
        steps = {"bag": 60, "bert": 4, "gpt": 4}.get(model, 30)
        result = in_this_process(*words, "--max-steps", steps, *LATE, cwd=home)
        assert result.code == 0, result.err
    return home


def write_labelled_data(home: Path) -> None:
    draw = random.Random(0)
    reviews, pairs, topics, names = ["review,sentiment"], ["id,title,body,verdict"], [], []
    for number in range(160):
        label, words = ("good", "bad")[number % 2], draw.choices(WORDS, k=draw.randint(2, 8))
        place, noise = number // 2 % 4, " ".join(words)
        with_label = " ".join([*words[:place], label, *words[place:8:2]])  # here and there
        reviews.append(f"{with_label},{label}")
        pairs.append(f"{number},{with_label},{noise},{label}")
        pairs.append(f"{number},{noise},{with_label},{label}")
        several = [each for bit, each in enumerate(("good", "bad")) if number >> bit & 1]
        topics.append(json.dumps({"text": " ".join([*words, *several]), "labels": several}))
        names += [f"{word}\tO" for word in words[:3]]
        names += ["Ada\tB-NAME", "Lovelace\tI-NAME", f"{draw.choice(WORDS)}\tO", ""]
    text = [" ".join([*draw.choices(WORDS, k=7), draw.choice(("good", "bad"))]) for _ in range(90)]
    files = {"reviews.csv": reviews, "pairs.csv": pairs, "topics.jsonl": topics}
    for name, lines in (files | {"names.conll": names, "text.txt": text}).items():
        (home / name).write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def in_process() -> Command:
    """The command line in this process; `cwd` is where."""
    return in_this_process


@pytest.fixture(scope="session")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs.tsv, words and the same in capitals; train.en, train.fr, val.en and
    val.fr likewise."""
    home, draw = tmp_path_factory.mktemp("lessons"), random.Random(0)
    texts: dict[str, None] = {}
    while len(texts) < 620:
        texts[" ".join(draw.choices(NUMBERS, k=draw.randint(1, 5)))] = None
    lines = list(texts)
    (home / "pairs.tsv").write_text("".join(f"{text}\t{text.upper()}\tseen\n" for text in lines))
    for name, part in (("train", lines[:590]), ("val", lines[590:])):
        (home / f"{name}.en").write_text("".join(f"{text}\n" for text in part))
        (home / f"{name}.fr").write_text("".join(f"{text.upper()}\n" for text in part))
    return home


@pytest.fixture(scope="session")
def taught(lessons: Path) -> Command:
    """Train a small translator in the folder of the lessons."""

    def train(model: str, *words: object, steps: int = 3) -> Result:
        sizes = (*TRANSLATORS[model], "context_length=32", "dropout=0")
        said = [f"model.{each}" for each in sizes]
        said += [f"training.{each}" for each in (*LEARNING, *SELDOM)]
        settings = [word for each in said for word in ("--set", each)]
        command = ("train", model, *words, "--max-steps", steps, *settings)
        return in_this_process(*command, cwd=lessons)

    return train


@pytest.fixture(scope="session")
def translator(lessons: Path, taught: Command) -> Path:
    """`glassformer train translator --data pairs.tsv`, which has learned to write capitals."""
    result = taught("translator", "--data", "pairs.tsv", steps=350)
    assert result.code == 0, result.err
    return lessons / "runs" / "translator-pairs"


@pytest.fixture
def program(tmp_path: Path) -> Command:
    """`python -m glassformer …` in an empty folder."""

    def call(*words: object, stdin: str = "") -> Result:
        return in_new_process(*words, cwd=tmp_path, stdin=stdin)

    return call


@pytest.fixture(scope="session")
def in_folder() -> Command:
    """Within this process and a folder of the caller's, for models that several tests share."""

    def call(folder: Path, *words: object) -> Result:
        return in_this_process(*words, cwd=folder)

    return call


@pytest.fixture
def glassformer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The same within this process, which spares the imports."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object, stdin: str | bytes = "") -> Result:
        return in_this_process(*words, cwd=tmp_path, stdin=stdin)

    return call
