"""How fast is data of any size made ready for training, and how much memory does it take?

python -m benchmarks.reading_memory --size 1G [text jsonl csv tsv]

Writes a text, documents in JSONL, labelled texts in CSV and sentence pairs in TSV, each of this
size, and prepares a training on each in a process of its own. Memory is the peak above the imports.
"""

import argparse
import csv
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import numpy as np

from benchmarks.machine import describe

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
ALPHABETS = (  # and how many of ten words are written in each
    ("etaoinshrdlucmfwypvbgkjqxz", 6, 10),
    ("оеаинтсрвлкмдпуяыьгзбчйхж", 2, 10),
    ("αοιετσνηυρπκμλωδγχθφβξζψ", 1, 10),
    ("的一是不了人我在有他这中大来上国个到说们", 1, 3),
)
WORDS, ROW_WORDS = 50_000, 26  # about 200 bytes in a row
LABELS = ("sport", "politics", "science", "culture")


def rows(size: int, seed: int = 0) -> Iterator[str]:
    """Lines of random words with the frequencies of a language (Zipf's law)."""
    random = np.random.default_rng(seed)
    shares = np.array([share for _, share, _ in ALPHABETS]) / 10
    words = []
    for script in random.choice(len(ALPHABETS), WORDS, p=shares):
        letters, _, longest = ALPHABETS[script]
        words.append("".join(random.choice(list(letters), random.integers(1, longest + 1))))
    dictionary = np.array(words, dtype=object)
    frequencies = np.cumsum(1 / np.arange(1, WORDS + 1))
    while size > 0:
        places = np.searchsorted(frequencies, frequencies[-1] * random.random((4096, ROW_WORDS)))
        for line in dictionary[places]:
            row = " ".join(line) + "."
            size -= len(row.encode()) + 1
            yield row
            if size <= 0:
                return


def write_text(file: TextIO, size: int) -> None:
    file.writelines(f"{row}\n" for row in rows(size))


def write_jsonl(file: TextIO, size: int) -> None:
    file.writelines(json.dumps({"text": row}, ensure_ascii=False) + "\n" for row in rows(size))


def write_csv(file: TextIO, size: int) -> None:
    writer = csv.writer(file)
    writer.writerow(["text", "label"])
    writer.writerows((row, LABELS[number % 4]) for number, row in enumerate(rows(size)))


def write_tsv(file: TextIO, size: int) -> None:
    pairs = zip(rows(size // 2, seed=1), rows(size // 2, seed=2), strict=False)
    file.writelines(f"{source}\t{target}\n" for source, target in pairs)


KINDS: dict[str, tuple[Callable[[TextIO, int], None], str]] = {
    "text": (write_text, "gpt"),
    "jsonl": (write_jsonl, "gpt"),
    "csv": (write_csv, "bag"),
    "tsv": (write_tsv, "translator"),
}


def prepare_in_this_process(model: str, path: str) -> None:
    from glassformer.training.preparation import make_recipe, prepare

    recipe = make_recipe(
        {"model": {"name": model}, "data": {"paths": [path]}, "training": {"max_steps": 1}}
    )
    before, start, work = peak(), time.perf_counter(), time.process_time()
    with TemporaryDirectory(dir=Path(path).parent) as folder:
        prepare(recipe, Path(folder) / "run", lambda line: print(line, file=sys.stderr))
    print(time.perf_counter() - start, time.process_time() - work, peak() - before)


def peak() -> int:
    """The most memory that this process has used, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="1G", help="of each file, such as 100M (default: 1G)")
    parser.add_argument("--prepare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help="text, jsonl, csv, tsv")
    given = parser.parse_args()
    if given.prepare:
        prepare_in_this_process(*given.prepare)
        return
    size = re.fullmatch(r"(\d+)([kmg]?)b?", given.size.lower())
    if size is None or not KINDS.keys() >= set(given.kinds):
        parser.error("sizes are written as 100M or 1G, kinds as text, jsonl, csv or tsv")
    num_bytes = int(size[1]) * UNITS[size[2]]
    print(describe())
    for kind in given.kinds:
        with TemporaryDirectory(prefix="glassformer-") as folder:
            write, model = KINDS[kind]
            path = Path(folder) / f"data.{'txt' if kind == 'text' else kind}"
            with path.open("w", encoding="utf-8", newline="") as file:
                write(file, num_bytes)
            command = [sys.executable, "-m", "benchmarks.reading_memory", "--prepare", model, path]
            found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            seconds, work, memory = map(float, found.stdout.split())
            megabytes = path.stat().st_size / 1e6
            print(
                f"{kind}, {megabytes:,.0f} MB, train {model}: {seconds:.0f} s, "
                f"{megabytes / seconds:.1f} MB/s ({work:.0f} s of CPU time); "
                f"{memory / 1e6:.0f} MB above the imports",
                flush=True,
            )


if __name__ == "__main__":
    main()
