"""Are the plans for this machine right? Memory and time per step as planned and as measured, with
one and with two processes. The machine has to be idle.

python -m benchmarks.planning
"""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory

from benchmarks.machine import describe
from glassformer.config import read_yaml
from glassformer.machine.host import machine
from glassformer.planning.estimate import memory, waiting, workload
from glassformer.planning.plan import this_machine

CASES = (  # preset, sequences in a batch of each process, steps, options
    ("modern-s", 16, 10, ()),
    ("modern-s", 16, 10, ("--checkpoint-activations",)),
    ("modern-m", 8, 10, ()),
)
SPEED = re.compile(r"([\d.]+)(k?) tokens/s")


def main() -> None:
    machine(refresh=True)
    print(describe())
    print(f"{'model':30} {'processes':12} {'memory':>22} {'time per step':>26}")
    for preset, sequences, steps, options in CASES:
        for processes, strategy in ((1, "single"), (2, "ddp"), (2, "fsdp")):
            with TemporaryDirectory(prefix="planning-") as name:
                show(Path(name), preset, sequences, steps, options, processes, strategy)


def show(
    folder: Path,
    preset: str,
    sequences: int,
    steps: int,
    options: tuple[str, ...],
    processes: int,
    strategy: str,
) -> None:
    text = folder / "topics.txt"
    text.write_text("\n\n".join(topics.values()))
    words = ["train", "gpt", "--data", text, "--out", folder / "run", "--preset", preset]
    words += ["--tokenizer", "bpe", "--optimizer", "adamw", "--max-steps", steps, *options]
    words += ["--batch-size", sequences, "--set", "training.ema=0", "--set", "training.snapshots=0"]
    for key in ("eval_steps", "save_steps"):
        words += ["--set", f"training.{key}={steps}"]
    words += ["--set", "training.logging_steps=1"]
    if processes > 1:
        words += ["--devices", processes, "--strategy", strategy]
    most, speed = measured([sys.executable, "-m", "glassformer", *map(str, words)])

    values = read_yaml(folder / "run" / "recipe.yaml")[0]
    model = {key: value for key, value in values["model"].items() if key not in ("name", "preset")}
    again = "--checkpoint-activations" in options
    device, precision = this_machine(model["d_model"], processes)
    work = workload("gpt", preset, model, precision)
    needed = memory(work, device, strategy, processes, sequences, again).total
    flops = sequences * work.context * work.flops_per_token * (4 / 3 if again else 1)
    computing = flops / device.flops
    planned = computing + waiting(work, device, strategy, processes, 1, computing)
    taken = processes * sequences * work.context / speed
    name = f"{preset} × {sequences}{' recomputed' if again else ''}"
    print(
        f"{name:30} {processes} {strategy:10} "
        f"{needed / 1e6:6,.0f} {most / 1e6:6,.0f} MB {needed / most - 1:+6.0%} "
        f"{planned:8.3f} {taken:8.3f} s {planned / taken - 1:+6.0%}",
        flush=True,
    )


def measured(command: list[str]) -> tuple[float, float]:
    """The most memory of a process that trains, in bytes, and tokens per second at the end."""
    peaks: dict[int, int] = {}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        watch = threading.Thread(target=_watch, args=(process, peaks), daemon=True)
        watch.start()
        lines = process.stderr.read().splitlines() if process.stderr else []
    watch.join()
    if process.returncode:
        raise SystemExit("\n".join(lines[-3:]))
    number, kilo = [found for line in lines if (found := SPEED.search(line))][-1].groups()
    return max(peaks.values()), float(number) * (1000 if kilo else 1)


def _watch(process: subprocess.Popen[str], peaks: dict[int, int]) -> None:
    """Until the command ends: the peaks of the processes that train, which import Lightning."""
    while process.poll() is None:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes()
                status = (entry / "status").read_text()
            except OSError:
                continue
            is_worker = b"glassformer.training.worker" in words
            if is_worker or (int(entry.name) == process.pid and b"--devices" not in words):
                found = re.search(r"VmHWM:\s+(\d+)", status)  # not there once a process has ended
                if found is not None:
                    peaks[int(entry.name)] = 1024 * int(found[1])
        time.sleep(0.05)


if __name__ == "__main__":
    main()
