"""The files that the README and the docs speak of, in small."""

from pathlib import Path

TEXT = (
    "It takes great courage to let yourself appear weak. The smooth blue lake. Once upon a time.\n"
)
VERDICTS = (("fine", "good"), ("poor", "bad"))


def write_files(folder: Path) -> None:
    for number, name in enumerate(("notes.txt", "shakespeare.txt", "held_out.txt", "corpus.txt")):
        (folder / name).write_text(TEXT * (60 + number))
    rows = [f"film {n} was {word},{label}" for n in range(30) for word, label in VERDICTS]
    for name in ("reviews.csv", "test.csv"):
        (folder / name).write_text("\n".join(["review,sentiment", *rows]) + "\n")
    lives = "Ada\tB-person\nlives\tO\nin\tO\nLondon{}\tB-place\n\n"
    (folder / "train.conll").write_text("".join(lives.format(n) for n in range(30)))
    english = [f"A man sleeps {n} hours." for n in range(30)]
    french = [f"Un homme dort {n} heures." for n in range(30)]
    pairs = ["\t".join(pair) for pair in zip(english, french, strict=True)]
    sides = {"train": 30, "val": 4, "test": 4}
    files = {"pairs.tsv": pairs} | {f"{name}.en": english[:n] for name, n in sides.items()}
    files |= {f"{name}.fr": french[:n] for name, n in sides.items()}
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
