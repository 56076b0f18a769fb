"""Two small tasks that a translator must learn by the plainest command: to copy sentences of 2 to 6
words out of 8, and to turn them round; while it turns one round, it looks at the words of the
source from the last to the first.

    python -m proofs.translation 900
"""

import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.tasks import load_for
from glassformer.tasks.translate.predictor import TranslatePredictor

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
LEARNED_FROM, ASKED = 2000, 300  # sentences
ENOUGH = 0.9


def prove(max_steps: int) -> str:
    with TemporaryDirectory(prefix="translation-") as name:
        results = [_taught(Path(name), task, max_steps) for task in ("copy", "reverse")]
    return "\n".join(results)


def _taught(folder: Path, task: str, max_steps: int) -> str:
    draw, step = random.Random(0), -1 if task == "reverse" else 1
    sentences = list(dict.fromkeys(_sentence(draw) for _ in range(2 * LEARNED_FROM + 2 * ASKED)))
    learned_from, asked = sentences[:LEARNED_FROM], sentences[-ASKED:]
    lines = (f"{' '.join(words)}\t{' '.join(words[::step])}\n" for words in learned_from)
    (folder / f"{task}.tsv").write_text("".join(lines))
    options = ("--preset", "tiny", "--max-steps", str(max_steps))
    command = ("train", "translator", "--data", f"{task}.tsv", "--out", task, *options)
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "glassformer", *command], cwd=folder, check=True)
    seconds = time.perf_counter() - begin
    predictor = load_for(folder / task, TranslatePredictor, "translate")
    found = predictor.translate_batch([" ".join(words) for words in asked])
    pairs = zip(found, asked, strict=True)
    exact = sum(each.text == " ".join(words[::step]) for each, words in pairs) / ASKED
    verdict = f"{task}: {exact:.1%} of {ASKED} new sentences exact, {seconds:.0f} s of training"
    if task == "reverse":
        share = _anti_diagonal(predictor, asked)
        verdict += f"; {share:.1%} of the last layer's looks on the anti-diagonal"
        exact = min(exact, share)
    if exact < ENOUGH:
        raise SystemExit(f"{verdict}: less than {ENOUGH:.0%}")
    return verdict


def _sentence(draw: random.Random) -> tuple[str, ...]:
    return tuple(draw.choices(WORDS, k=draw.randint(2, 6)))


def _anti_diagonal(predictor: TranslatePredictor, sentences: list[tuple[str, ...]]) -> float:
    """How many words were written while looking most at their own place in the source. A word that
    occurs twice may be looked at in either place, so such sentences are left out."""
    right = total = 0
    last = len(predictor.model.taps) - 1
    for words in sentences:
        if len(set(words)) < len(words):
            continue
        turned = " ".join(words[::-1])
        found = predictor.align(" ".join(words), turned, layer=last, words=True)
        looked = found.weights.argmax(axis=1)[: len(words)].tolist()  # all but the end
        right += sum(map(int.__eq__, looked, reversed(range(len(words)))))
        total += len(words)
    return right / total


if __name__ == "__main__":
    print(prove(int(sys.argv[1])))
