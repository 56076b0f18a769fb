"""Trains ten small models and writes a page of each into build/pages, for the site. `make course`
runs it; models that are trained already are kept.

    python docs/ready.py [NAME …]
"""

import itertools
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import glassformer
from glassformer.data.built_in import write_built_in
from glassformer.inspect.playground import playground
from glassformer.inspect.views import draw

ROOT = Path(__file__).parent.parent / "build"
PAGES, RUNS, DATA = ROOT / "pages", ROOT / "runs", ROOT / "data"


@dataclass(frozen=True)
class Ready:
    """A model to train on built-in data, and what its page is about."""

    title: str
    text: str
    model: str
    data: Callable[[], Path]
    input: Any
    options: dict[str, Any] = field(default_factory=dict)


def manual() -> Path:
    """Python's reference manual."""
    path = DATA / "manual.txt"
    path.write_text("\n\n".join(topics.values()), encoding="utf-8")
    return path


ARTICLES = {"the": "le", "a": "un"}
NOUNS = {"cat": "chat", "dog": "chien", "bird": "oiseau", "horse": "cheval", "boy": "garçon"}
ADJECTIVES = {"red": "rouge", "black": "noir", "sad": "triste", "calm": "calme"}
VERBS = {"sleeps": "dort", "eats": "mange", "sings": "chante", "runs": "court", "falls": "tombe"}


def sentences() -> list[tuple[str, str]]:
    """English and French: the adjective changes its place."""
    made = []
    for words in itertools.product(ARTICLES, ADJECTIVES, NOUNS, VERBS, ARTICLES, NOUNS):
        article, adjective, noun, verb, other, thing = words
        english = f"{article} {adjective} {noun} {verb} near {other} {thing}."
        french = f"{ARTICLES[article]} {NOUNS[noun]} {ADJECTIVES[adjective]} {VERBS[verb]} "
        made.append((english, french + f"près d'{ARTICLES[other]} {NOUNS[thing]}."))
    return random.Random(0).sample(made, 1500)


def pairs() -> Path:
    path = DATA / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in sentences()), encoding="utf-8")
    return path


GOOD, BAD = ("good", "fine", "lovely", "bright"), ("bad", "dull", "poor", "weak")


def reviews() -> Path:
    """Opinions in which “not” turns the label round."""
    rows, path = ["text,label"], DATA / "reviews.csv"
    choose = random.Random(0)
    for _ in range(1500):
        word, isnt = choose.choice(GOOD + BAD), choose.random() < 0.5
        thing = choose.choice(("film", "book", "song", "play", "story"))
        start = choose.choice(("i think", "we found", "they said", "in the end"))
        label = "positive" if (word in GOOD) != isnt else "negative"
        rows.append(f"{start} the {thing} was {'not ' if isnt else ''}{word},{label}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def built_in(name: str) -> Callable[[], Path]:
    def write() -> Path:
        folder = DATA / name
        if not folder.is_dir():
            write_built_in(name, folder)
        return folder / "captions.csv" if name == "shapes" else folder / "train"

    return write


def digit() -> Path:
    return sorted((DATA / "digits" / "test" / "3").iterdir())[0]


def scene() -> Path:
    return sorted((DATA / "shapes" / "images").iterdir())[3]


READY = {
    "gpt": Ready(
        "A GPT",
        "pieces of words, from Python’s reference manual",
        "gpt",
        manual,
        "The exception is raised when the statement returns a value",
        {
            "tokenizer": "bpe",
            "preset": "modern-xs",
            "max_steps": 300,
            "settings": {"tokenizer.vocab_size": 1500},
        },
    ),
    "nano": Ready(
        "A nano GPT",
        "three layers of three heads: every matrix can be read",
        "gpt",
        manual,
        "An exception",
        {"preset": "nano", "max_steps": 600},
    ),
    "rnn": Ready(
        "A recurrent language model",
        "an LSTM, without attention",
        "rnn-lm",
        manual,
        "The class statement",
        {"tokenizer": "char", "max_steps": 400},
    ),
    "bert": Ready(
        "A BERT",
        "fills a masked word",
        "bert",
        manual,
        "The [MASK] statement is used to define a function.",
        {"preset": "xs", "max_steps": 600},
    ),
    "classifier": Ready(
        "A Transformer that judges reviews",
        "what “not” does to a word",
        "classifier",
        reviews,
        "i think the film was not good",
        {"max_steps": 300, "settings": {"model.bag": False}},
    ),
    "translator": Ready(
        "A Transformer that translates",
        "English to French, from a small grammar: follow the adjective",
        "translator",
        pairs,
        "the black cat sleeps near a bird.",
        {"preset": "tiny", "max_steps": 500},
    ),
    "rnn-translator": Ready(
        "A recurrent translator with attention",
        "the same sentences, with an alignment",
        "rnn-translator",
        pairs,
        "the black cat sleeps near a bird.",
        {"max_steps": 400},
    ),
    "vit": Ready(
        "A Vision Transformer",
        "handwritten digits in patches",
        "vit",
        built_in("digits"),
        digit,
        {},
    ),
    "painter": Ready(
        "An ImageGPT",
        "paints digits pixel by pixel from a palette",
        "image-gpt",
        built_in("digits"),
        digit,
        {"palette": 16, "max_steps": 300},
    ),
    "captioner": Ready(
        "A captioner",
        "drawn scenes: which word looked where",
        "captioner",
        built_in("shapes"),
        scene,
        {"max_steps": 400},
    ),
}


def write(name: str, ready: Ready) -> None:
    out, data = RUNS / name, ready.data()
    if not (out / "report.html").is_file():
        options = {"force": True, "quiet": True} | ready.options
        print(glassformer.train(ready.model, data=data, out=out, **options).summary(), flush=True)
    given = ready.input() if callable(ready.input) else ready.input
    draw(glassformer.load(out).inspect(given), PAGES / f"{name}.html")
    glassformer.report(out, out=PAGES / f"{name}-report.html")


def main(names: list[str]) -> None:
    for folder in (PAGES, RUNS, DATA):
        folder.mkdir(parents=True, exist_ok=True)
    for name in names or READY:
        write(name, READY[name])
    pages = [
        {"file": "playground.html", "title": "The playground", "text": "a GPT learns in the page"}
    ]
    (PAGES / "playground.html").write_text(playground())
    for name, ready in READY.items():
        if (PAGES / f"{name}.html").is_file():
            report = f"{ready.text} (<a href='{name}-report.html'>report of its training</a>)"
            pages.append({"file": f"{name}.html", "title": ready.title, "text": report})
    (PAGES / "pages.json").write_text(json.dumps(pages, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
