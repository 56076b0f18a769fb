"""How much speed is left while another program computes: training of all families, generation and
beam search, beside one Python process and beside a torch program with two threads, against
transformers in the same state. Use a machine that is idle otherwise.

    make bench-busy                                  # about 15 minutes
    python -m benchmarks.busy --only gpt bert

Each worker is a process of its own that measures whenever it is asked, so all states are visited
in turns. Training is that of `glassformer train` with default settings: the number of threads is
tried on real steps in each state, as at the beginning of a run. The other program's threads wait as
torch's do by default; so do those of transformers.
"""

import argparse
import csv
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory
from typing import Any

PYTHON = "while True: pass"
TORCH = "import torch; a = torch.rand(256, 256)\nwhile True: a @ a"
STATES = {"idle": None, "python": PYTHON, "torch": TORCH}
SECONDS, ROUNDS = 3.0, 2
TEXT, LABELLED, WORDS = "text.txt", "labelled.csv", "words.conll"
PAIRS = ("--source", "pairs.a", "--target", "pairs.b")
TRAININGS = {
    "gpt": (TEXT, "nano"),
    "rnn-lm": (TEXT, None),
    "bert": (TEXT, None),
    "bag": (LABELLED, None),
    "rnn-classifier": (LABELLED, None),
    "classifier": (LABELLED, None),
    "tagger": (WORDS, None),
    "translator": ("pairs", None),
    "rnn-translator": ("pairs", None),
    "vit": ("digits/train", None),
    "multiscale-vit": ("digits/train", None),
    "image-gpt": ("digits/train", None),
    "captioner": ("shapes/captions.csv", None),
    "show-attend-tell": ("shapes/captions.csv", None),
}
Work = Callable[[], int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=EVERYTHING, default=EVERYTHING)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        answer(given.worker, given.data)
        return
    from benchmarks.machine import describe

    print(describe())
    print(f"{'':24} {'idle':>12} {'python':>8} {'torch':>8}   threads", flush=True)
    with TemporaryDirectory(prefix="busy-") as name:
        write_data(Path(name))
        for each in given.only:
            show(each, measured(each, Path(name), given.rounds))


def measured(name: str, data: Path, rounds: int) -> dict[str, list[tuple[float, int]]]:
    """Items per second and threads in each state, by round."""
    words = [sys.executable, "-m", "benchmarks.busy", "--worker", name, "--data", str(data)]
    found: dict[str, list[tuple[float, int]]] = {state: [] for state in STATES}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n", f"{name} does not run"
        for _ in range(rounds):
            for state, program in STATES.items():
                with beside(program):
                    worker.stdin.write("measure\n")
                    worker.stdin.flush()
                    speed, threads = worker.stdout.readline().split()
                    found[state].append((float(speed), int(threads)))
        worker.stdin.close()
    return found


@contextmanager
def beside(program: str | None) -> Iterator[None]:
    if program is None:
        yield
        return
    other = subprocess.Popen([sys.executable, "-c", program])
    try:
        time.sleep(4.0 if "torch" in program else 0.5)  # until it computes
        yield
    finally:
        other.kill()
        other.wait()


def show(name: str, found: dict[str, list[tuple[float, int]]]) -> None:
    speed = {state: statistics.median(s for s, _ in rounds) for state, rounds in found.items()}
    threads = (str(statistics.median_low(t for _, t in rounds)) for rounds in found.values())
    ratios = " ".join(f"{speed[state] / speed['idle']:8.2f}" for state in ("python", "torch"))
    print(f"{name:24} {speed['idle']:10,.0f}/s {ratios}   {' '.join(threads)}", flush=True)


# --- a worker ---


def answer(name: str, data: Path) -> None:
    """Measure whenever asked."""
    if not name.startswith("transformers"):
        import glassformer  # noqa: F401  before torch, as for a user

    import torch

    with TemporaryDirectory(prefix="busy-run-") as folder:
        if name in TRAININGS:
            prepare_step = training(name, data, Path(folder))
        else:
            work = MAKERS[name](data)
            prepare_step = lambda: work  # noqa: E731
        print("ready", flush=True)
        for _ in sys.stdin:
            step = prepare_step()
            step()
            items, begin = 0, time.perf_counter()
            while (passed := time.perf_counter() - begin) < SECONDS:
                items += step()
            print(items / passed, torch.get_num_threads(), flush=True)


def training(name: str, data: Path, folder: Path) -> Callable[[], Work]:
    """Steps of our training; the number of threads is chosen each time."""
    import torch

    from glassformer.training.finetuning import new_model
    from glassformer.training.learner import Learner
    from glassformer.training.loop import learn
    from glassformer.training.preparation import prepare, use_machine
    from glassformer.training.time_limit import choose_threads

    made = recipe(name, data)
    objective = prepare(made, folder, lambda _: None)
    setup = use_machine(made)
    model = new_model(objective.recipe).to(setup.device)
    objective.initialize(model)
    learner = Learner(model, objective, setup)
    steps = iter(range(1, 10**9))

    def begin() -> Work:
        torch.set_num_threads(choose_threads(objective, setup))

        def step() -> int:
            learn(learner, next(steps), rate=0.1)
            return int(objective.items_per_step)

        return step

    return begin


def recipe(name: str, data: Path) -> Any:
    from glassformer.training.preparation import make_recipe

    source, preset = TRAININGS[name]
    paths = {"paths": [str(data / source)]}
    if source == "pairs":
        paths = {"source_paths": [str(data / "pairs.a")], "target_paths": [str(data / "pairs.b")]}
    model = {"name": name} | ({"preset": preset} if preset else {})
    return make_recipe({"model": model, "data": paths})


def peer(config: str, model: str, shape: tuple[int, ...], **sizes: int) -> Callable[[Path], Work]:
    """Training of a model of transformers on ids (rows, tokens) or images (rows, 3, 32, 32)."""

    def make(data: Path) -> Work:
        import torch
        import transformers

        from benchmarks.steps import update

        settings = getattr(transformers, config)(**sizes)
        learner = getattr(transformers, model)(settings)
        optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-4)
        if is_text := len(shape) == 2:
            ids = torch.randint(2, settings.vocab_size, shape)
            inputs = {"input_ids": ids, "labels": ids}
        else:
            labels = torch.randint(settings.num_labels, shape[:1])
            inputs = {"pixel_values": torch.rand(shape), "labels": labels}
        items = math.prod(shape) if is_text else shape[0]

        def step() -> int:
            learner(**inputs).loss.backward()
            update(learner, optimizer)
            return items

        return step

    return make


PROMPT, NEW = 16, 32


def generate(data: Path) -> Work:
    import torch

    from glassformer.generation.sampling import Sampling, decode
    from glassformer.models.gpt import GPT, GPTConfig
    from glassformer.models.presets import GPT_PRESETS

    model = GPT(GPTConfig(**GPT_PRESETS["gpt2"])).eval()
    prompt = torch.randint(50257, (1, PROMPT)).tolist()

    def step() -> int:
        greedy = Sampling(do_sample=False)
        return len(list(decode(model, prompt, sampling=greedy, max_new_tokens=NEW, seed=0)))

    return step


def transformers_generate(data: Path) -> Work:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None)).eval()
    prompt = torch.randint(50257, (1, PROMPT))

    @torch.inference_mode()
    def step() -> int:
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW,
            min_new_tokens=NEW,
            do_sample=False,
            pad_token_id=0,
        )
        return NEW

    return step


def beam_search(data: Path) -> Work:
    import torch

    from glassformer.generation.beam import Beams
    from glassformer.tasks.translate.scores import search_translations
    from glassformer.training.finetuning import new_model
    from glassformer.training.preparation import prepare

    folder = Path(data) / "translator-run"
    objective: Any = prepare(recipe("translator", data), folder, lambda _: None)
    model: Any = new_model(objective.recipe).eval()
    rows = torch.randint(8, 1000, (16, 20)).tolist()
    torch.manual_seed(0)

    def step() -> int:
        languages = objective.dataset.preprocessing
        search_translations(model, languages, rows, Beams(num_beams=4), max_new_tokens=24)
        return len(rows)

    return step


MAKERS: dict[str, Callable[[Path], Work]] = {
    "generate": generate,
    "beam search": beam_search,
    "transformers gpt": peer(
        "GPT2Config",
        "GPT2LMHeadModel",
        (32, 64),
        vocab_size=100,
        n_positions=64,
        n_embd=128,
        n_layer=4,
        n_head=4,
    ),
    "transformers bert": peer(
        "BertConfig",
        "BertForMaskedLM",
        (32, 128),
        vocab_size=4096,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
    ),
    "transformers vit": peer(
        "ViTConfig",
        "ViTForImageClassification",
        (64, 3, 32, 32),
        hidden_size=192,
        intermediate_size=768,
        image_size=32,
        patch_size=4,
        num_hidden_layers=6,
        num_attention_heads=3,
        num_labels=10,
    ),
    "transformers translator": peer(
        "MarianConfig",
        "MarianMTModel",
        (64, 16),
        vocab_size=4096,
        d_model=128,
        max_position_embeddings=128,
        encoder_layers=3,
        encoder_attention_heads=4,
        encoder_ffn_dim=512,
        decoder_layers=3,
        decoder_attention_heads=4,
        decoder_ffn_dim=512,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    ),
    "transformers generate": transformers_generate,
}
EVERYTHING = [*TRAININGS, *MAKERS]


# --- data that every machine has ---


def write_data(folder: Path) -> None:
    """Python's reference manual in several shapes, and drawn images."""
    draw = random.Random(0)
    (folder / TEXT).write_text("\n\n".join(topics.values()))
    lines = [
        (line.strip(), number % 4)
        for number, text in enumerate(topics.values())
        for line in text.splitlines()
        if len(line.split()) > 4
    ]
    draw.shuffle(lines)
    with (folder / LABELLED).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("text", "label"))
        table.writerows((line, f"part {label}") for line, label in lines)
    words = [line.split()[:20] for line, _ in lines]
    tags = ("LONG", "SHORT")
    sentences = ("\n".join(f"{w} {tags[len(w) < 5]}" for w in sentence) for sentence in words)
    (folder / WORDS).write_text("\n\n".join(sentences) + "\n")
    (folder / "pairs.a").write_text("\n".join(" ".join(s) for s in words) + "\n")
    (folder / "pairs.b").write_text("\n".join(" ".join(reversed(s)) for s in words) + "\n")
    for name in ("digits", "shapes"):
        command = [sys.executable, "-m", "glassformer", "data", name, "--out", str(folder / name)]
        subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
