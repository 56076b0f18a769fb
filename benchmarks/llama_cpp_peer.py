"""llama.cpp as a peer in benchmarks, in a process of its own.

`llama-cpp-python` is built from its source package, so it may be in another environment: the
variable LLAMA_PYTHON is its Python. The child reads prompts as JSON, one in a line, and answers
each with the tokens that it wrote; nothing of it runs while it waits.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PYTHON = os.environ.get("LLAMA_PYTHON", sys.executable)


def version() -> str | None:
    """None: it is not installed."""
    program = "import llama_cpp; print(llama_cpp.__version__)"
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


class LlamaCpp:
    """Greedy decoding of one row by llama.cpp."""

    def __init__(self, model: Path, new: int, threads: int) -> None:
        command = [PYTHON, __file__, str(model), str(new), str(threads)]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def __call__(self, prompts: list[list[int]]) -> list[list[int]]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(prompts[0]) + "\n")
        self._child.stdin.flush()
        written: list[int] = json.loads(self._child.stdout.readline())
        return [written]


def main() -> None:
    from llama_cpp import Llama

    path, new, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    model: Callable[..., Any] = Llama(
        path, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False
    )
    for line in sys.stdin:
        tokens = model.generate(json.loads(line), temp=0.0, repeat_penalty=1.0)  # type: ignore[attr-defined]
        print(json.dumps([next(tokens) for _ in range(new)]), flush=True)


if __name__ == "__main__":
    main()
