"""What judges say about runs, on tiny models that are trained for this."""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer.course.checking import verdict_on
from glassformer.course.exercises.gpt import shares_of

ONE_CORE = {"training.num_threads": 1, "training.snapshots": 0}


def said(name: str, *solution: Any) -> str:
    return str(verdict_on(name, *solution))


# --- a head that looks one token back ---


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each letter follows from the one before the last, so a head must look back."""
    drawn = random.Random(0)
    letters = "abcdefghijklmnopqrst"
    after = dict(zip(letters, drawn.sample(letters, len(letters)), strict=True))
    written = list("ab")
    for _ in range(20_000):
        written.append(after[written[-2]] if drawn.random() < 0.9 else drawn.choice(letters))
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(written))
    return path


def gpt(text: Path, steps: int, name: str) -> Path:
    size = {"context_length": 32, "num_layers": 2, "num_heads": 3, "d_model": 48}
    settings = {f"model.{key}": value for key, value in size.items()} | ONE_CORE
    settings["training.per_device_train_batch_size"] = 16
    options: dict[str, Any] = {"preset": "nano", "max_steps": steps, "settings": settings}
    return Path(glassformer.train("gpt", text, out=text.parent / name, quiet=True, **options))


@pytest.fixture(scope="module")
def looking_back(text: Path) -> Path:
    return gpt(text, 200, "trained")


def test_the_head_that_looks_back_is_accepted(looking_back: Path) -> None:
    shares = shares_of(looking_back)
    layer, head = divmod(int(shares.argmax()), shares.size(1))
    assert said("previous_token_head", looking_back, layer, head) == "previous_token_head: passed"


def test_another_head_is_not_the_one_that_looks_back(looking_back: Path) -> None:
    shares = shares_of(looking_back)
    layer, head = divmod(int(shares.argmin()), shares.size(1))
    assert "another gives more" in said("previous_token_head", looking_back, layer, head)
    assert "no layer 2: the model has 2" in said("previous_token_head", looking_back, 2, 0)
    assert "not an integer" in said("previous_token_head", looking_back, 0, "first")


def test_a_run_that_shows_nothing_is_refused(text: Path, tmp_path: Path) -> None:
    run = gpt(text, 2, "untrained")
    assert "no head of this run looks back" in said("previous_token_head", run, 0, 0)
    assert "is not the folder of a run" in said("previous_token_head", tmp_path, 0, 0)
    assert "is not the folder of a run" in said("previous_token_head", 3, 0, 0)


# --- a bag of words is blind to order ---

WORDS = {"sea": "ship wave fish salt sail", "town": "road shop tram lamp park"}


def write_table(path: Path, count: int, seed: int, shuffle: bool) -> None:
    drawn, order = random.Random(seed), random.Random(1)
    lines = ["text,label"]
    for _ in range(count):
        label = drawn.choice(sorted(WORDS))
        words = drawn.choices([*WORDS[label].split(), "the", "a", "of"], k=6)
        if shuffle:
            order.shuffle(words)
        lines.append(f"{' '.join(words)},{label}")
    path.write_text("\n".join(lines))


def bag(folder: Path, name: str, *, shuffle: bool = False, preset: str = "lecture") -> Path:
    paths = folder / f"{name}-train.csv", folder / f"{name}-test.csv"
    for path, count, seed in zip(paths, (200, 60), (0, 1), strict=True):
        write_table(path, count, seed, shuffle)
    return Path(
        glassformer.train(
            "bag",
            paths[0],
            test_data=paths[1],
            preset=preset,
            out=folder / name,
            max_steps=60,
            settings=ONE_CORE,
            quiet=True,
        )
    )


@pytest.fixture(scope="module")
def bag_in_order(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bag(tmp_path_factory.mktemp("bags"), "plain")


def test_a_bag_that_learns_from_shuffled_words_is_accepted(bag_in_order: Path) -> None:
    shuffled = bag(bag_in_order.parent, "shuffled", shuffle=True)
    verdict = said("words_in_another_order", bag_in_order, shuffled)
    assert verdict == "words_in_another_order: passed"


def test_runs_that_do_not_show_it_are_refused(bag_in_order: Path, looking_back: Path) -> None:
    again = bag(bag_in_order.parent, "again")
    pairs = bag(bag_in_order.parent, "pairs", shuffle=True, preset="small")
    assert "the same data.paths" in said("words_in_another_order", bag_in_order, bag_in_order)
    assert "on the same texts" in said("words_in_another_order", bag_in_order, again)
    assert "reads pairs of words" in said("words_in_another_order", bag_in_order, pairs)
    assert "not of a bag" in said("words_in_another_order", bag_in_order, looking_back)


# --- an encoder without positions ---


def write_chases(path: Path, count: int, seed: int) -> None:
    """The label is the animal that comes first."""
    drawn, lines = random.Random(seed), ["text,label"]
    for _ in range(count):
        first, second = drawn.sample(["dog", "cat", "fox"], 2)
        verb, how = drawn.choice(["chased", "met"]), drawn.choice(["", " old", " small"])
        lines.append(f"the{how} {first} {verb} the {second},{first}")
    path.write_text("\n".join(lines))


def encoder(folder: Path, name: str, steps: int = 150, **shape: Any) -> Path:
    for file, count, seed in (("train.csv", 400, 0), ("test.csv", 80, 1)):
        write_chases(folder / file, count, seed)
    size = {"d_model": 32, "context_length": 8, "dropout": 0.0, "attention_dropout": 0.0}
    return Path(
        glassformer.train(
            "classifier",
            folder / "train.csv",
            test_data=folder / "test.csv",
            preset="lecture",
            out=folder / name,
            max_steps=steps,
            settings={"model": size | shape} | ONE_CORE,
            quiet=True,
        )
    )


@pytest.fixture(scope="module")
def chases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with and without positions."""
    folder = tmp_path_factory.mktemp("chases")
    for positions in ("learned", "none"):
        encoder(folder, positions, positions=positions)
    return folder


def test_an_encoder_needs_positions(chases: Path) -> None:
    verdict = said("without_positions", chases / "learned", chases / "none")
    assert verdict == "without_positions: passed"


def test_other_pairs_of_runs_are_refused(chases: Path, bag_in_order: Path) -> None:
    learned, none = chases / "learned", chases / "none"
    wider = encoder(chases, "wider", 2, positions="none", d_model=64)
    short = [encoder(chases, f"short-{kind}", 2, positions=kind) for kind in ("learned", "none")]
    assert "comes first" in said("without_positions", none, learned)
    assert "in the second run only" in said("without_positions", learned, learned)
    assert "also differ in model.d_model" in said("without_positions", learned, wider)
    assert "has not learned the task" in said("without_positions", *short)
    assert "not of a classifier" in said("without_positions", bag_in_order, none)


# --- forgetting: the first word of a text is its label ---

Train = Callable[..., Path]


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Train:
    folder = tmp_path_factory.mktemp("colours")
    done: dict[str, Path] = {}

    def train(distance: int, model: str = "rnn-classifier", test: bool = True, **more: Any) -> Path:
        name = f"{model}-{distance}-{test}-{'-'.join(f'{key}-{more[key]}' for key in more)}"
        if name not in done:
            data = folder / f"{distance}.csv"
            _write_texts(data, distance)
            settings: dict[str, Any] = ONE_CORE | {"training.per_device_train_batch_size": 32}
            if model == "rnn-classifier":
                settings |= {"model.cell": "rnn", "model.bag": False, "model.d_model": 16}
                settings |= {"model.bidirectional": False, "model.pooling": "last"}
                settings |= {f"model.{key}": value for key, value in more.items()}
            run = glassformer.train(
                model,
                data=data,
                out=folder / name,
                test_data=data if test else None,
                max_steps=60,
                settings=settings,
                quiet=True,
            )
            done[name] = run.folder
        return done[name]

    return train


def _write_texts(path: Path, distance: int) -> None:
    chance = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("text", "label"))
        for _ in range(300):
            color = chance.choice(("red", "green", "blue"))
            words = chance.choices(("the", "of", "and", "in", "it"), k=distance)
            rows.writerow((" ".join([color, *words]), color))


def test_a_recurrent_network_forgets_what_is_far(colours: Train) -> None:
    assert said("forgetting", colours(2), colours(40)) == "forgetting: passed"


@pytest.mark.parametrize(
    ("words", "near", "far"),
    [
        ("not of an rnn-classifier", {"distance": 2}, {"distance": 40, "model": "bag"}),
        ("both runs have the same data.paths", {"distance": 2}, {"distance": 2}),
        ("bag of words", {"distance": 2, "bag": True}, {"distance": 40, "bag": True}),
        ("both directions", {"distance": 2}, {"distance": 40, "bidirectional": True}),
        ("states of all words", {"distance": 2}, {"distance": 40, "pooling": "max"}),
        (
            "also differ in model.cell: 'rnn' and 'lstm'",
            {"distance": 2},
            {"distance": 40, "cell": "lstm"},
        ),
        ("pass near first", {"distance": 40}, {"distance": 2}),
        ("was not tested", {"distance": 2}, {"distance": 40, "test": False}),
        ("has not forgotten", {"distance": 2}, {"distance": 3}),
        ("has not learned the task", {"distance": 40}, {"distance": 41}),
    ],
)
def test_runs_that_do_not_show_that_it_forgets(
    words: str, near: dict[str, Any], far: dict[str, Any], colours: Train
) -> None:
    assert words in said("forgetting", colours(**near), colours(**far))


# --- pre-training helps ---


@pytest.fixture(scope="module")
def opinions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, labelled texts, and runs that have hardly learned anything."""
    folder = tmp_path_factory.mktemp("opinions")
    rows = [
        f"the film {number} was {word},{label}"
        for number in range(30)
        for word, label in (("good", "yes"), ("bad", "no"))
    ]
    (folder / "text.txt").write_text("\n".join(row.partition(",")[0] for row in rows * 5))
    (folder / "labelled.csv").write_text("\n".join(["text,label", *rows]))
    return folder


def classifier(opinions: Path, name: str, is_tuned: bool, **more: Any) -> Path:
    size = {"num_layers": 1, "d_model": 16, "num_heads": 2, "context_length": 8}
    shape = {f"model.{key}": value for key, value in size.items()}
    data = opinions / "labelled.csv"
    options: dict[str, Any] = {
        "out": opinions / name,
        "data": data,
        "test_data": data,
        "max_steps": 3,
        "force": True,
        "quiet": True,
        "settings": ONE_CORE | {"model.bag": False} | ({} if is_tuned else shape),
    } | more
    if not is_tuned:
        return Path(glassformer.train("classifier", preset="lecture", tokenizer="word", **options))
    bert = opinions / "bert"
    if not bert.exists():
        glassformer.train(
            "bert",
            opinions / "text.txt",
            out=bert,
            preset="lecture",
            tokenizer="word",
            max_steps=2,
            settings=ONE_CORE | shape,
            quiet=True,
        )
    return Path(glassformer.finetune(bert, "classify", **options))


def with_accuracy(run: Path, accuracy: float, margin: float = 0.05) -> Path:
    path = run / "test.json"
    test = json.loads(path.read_text())
    interval = [accuracy - margin, accuracy + margin]
    test["scores"] |= {"accuracy": accuracy, "accuracy_interval": interval}
    path.write_text(json.dumps(test))
    return run


def test_what_two_classifiers_say_about_pre_training(opinions: Path) -> None:
    tuned, fresh = (classifier(opinions, name, name == "tuned") for name in ("tuned", "fresh"))
    name = "pretraining_helps"
    assert said(name, with_accuracy(tuned, 0.9), with_accuracy(fresh, 0.5)) == f"{name}: passed"
    assert "intervals overlap" in said(name, with_accuracy(tuned, 0.55), fresh)
    assert "does not hold" in said(name, with_accuracy(tuned, 0.4), fresh)
    assert "comes first" in said(name, fresh, tuned)
    assert "fine-tuned as well" in said(name, tuned, tuned)
    assert "was not fine-tuned" in said(name, fresh, fresh)
    assert "is a run of a bert, not of a classifier" in said(name, opinions / "bert", fresh)
    assert "not the folder of a run" in said(name, opinions, fresh)
    longer = classifier(opinions, "longer", is_tuned=False, max_steps=4)
    assert "training.max_steps is 3 in one run and 4" in said(name, tuned, longer)
    untested = classifier(opinions, "untested", is_tuned=False, test_data=None)
    assert "data.test_paths" in said(name, tuned, untested)
    (fresh / "test.json").unlink()
    assert "no result on test data" in said(name, tuned, fresh)
