"""The kernel for int8 weights is chosen by what it does here, not by what a processor claims."""

import subprocess
import sys

from glassformer.nn import int8
from glassformer.nn.int8_kernels import KERNELS, ROWS, largest_error
from glassformer.runtime.precision import Measurement, Speed, measure


def speeds(*tflops: float) -> Measurement:
    return Measurement(tuple(Speed(rows, 1, x) for rows, x in zip(ROWS, tflops, strict=True)))


def test_the_fastest_kernel_that_works_is_chosen():
    measured = {"x86": speeds(1, 1, 1), "bfloat16": speeds(2, 1, 4), "float32": speeds(1, 1, 0.5)}
    assert int8.fastest(measured) == "bfloat16"


def test_a_less_accurate_kernel_must_be_clearly_faster():
    measured = {"x86": speeds(1, 1, 1), "fbgemm_7_bits": speeds(1.05, 1.05, 1.05)}
    assert int8.fastest(measured) == "x86"


def test_without_a_kernel_that_works_float32_is_used():
    assert int8.fastest({"x86": Measurement(problem="died: SIGILL")}) == "float32"
    assert int8.fastest({}) == "float32"


def test_a_kernel_that_dies_or_fails_is_left_out():
    dies = [sys.executable, "-c", "import os; input(); os.kill(os.getpid(), 4)"]
    found = measure({"float32": int8._command("float32"), "x86": dies}, timeout=60)
    assert found["x86"].problem == "died: SIGILL"
    assert [speed.width for speed in found["float32"].speeds] == list(ROWS)
    assert int8.fastest(found) == "float32"


def test_the_chosen_kernel_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    trials = []

    def counted(commands, timeout):
        trials.append(commands.keys())
        return {name: speeds(1, 2, 3) for name in commands} | {"float32": speeds(1, 1, 1)}

    monkeypatch.setattr(int8, "measure", counted)
    for _ in range(2):
        int8.int8_kernel.cache_clear()
        assert int8.int8_kernel() == next(iter(KERNELS))
    int8.int8_kernel.cache_clear()
    assert trials == [KERNELS.keys()]


def test_sums_that_overflow_are_noticed():
    overflowing = KERNELS["float32"]
    wrong = type(overflowing)(
        overflowing.pack, lambda x, packed: overflowing.multiply(x, packed).clamp(max=300)
    )
    assert largest_error(overflowing) < 0.02 < largest_error(wrong)


def test_an_unknown_kernel_ends_with_an_error():
    done = subprocess.run(int8._command("nonsense"), input="go\n", capture_output=True, text=True)
    assert done.returncode == 1
