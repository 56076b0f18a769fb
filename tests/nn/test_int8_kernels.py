"""The kernel for int8 weights is chosen by what it does here, not by what a processor claims."""

import subprocess
import sys

import pytest
import torch

from glassformer.machine import facts, precision
from glassformer.machine.precision import Measurement, Speed, measure
from glassformer.nn import int8_kernels
from glassformer.nn.int8_kernels import KERNELS, ROWS, TOLERANCE, Digits, largest_error


def speeds(*tflops: float) -> Measurement:
    return Measurement(tuple(Speed(rows, 1, x) for rows, x in zip(ROWS, tflops, strict=True)))


def test_the_fastest_kernel_that_works_is_chosen():
    measured = {"onednn": speeds(1, 1, 1), "fbgemm": speeds(2, 1, 4), "float32": speeds(1, 1, 0.5)}
    assert int8_kernels.fastest(measured) == "fbgemm"


def test_a_kernel_further_down_must_be_clearly_faster():
    measured = {"onednn": speeds(1, 1, 1), "fbgemm": speeds(1.05, 1.05, 1.05)}
    assert int8_kernels.fastest(measured) == "onednn"


def test_without_a_kernel_that_works_float32_is_used_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    died = {"onednn": Measurement(problem="died: SIGILL"), "float32": speeds(1, 1, 1)}
    monkeypatch.setattr(precision, "measure", lambda commands, timeout: died)
    int8_kernels.int8_kernel.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"saves no time \(onednn: died: SIGILL\)"):
            assert int8_kernels.int8_kernel() == "float32"
    finally:
        int8_kernels.int8_kernel.cache_clear()
    assert int8_kernels.fastest({}) == "float32"


NEEDS = {"onednn": {"avx512_vnni", "avx_vnni"}, "fbgemm": {"avx2"}, "qnnpack": {"avx2", "asimd"}}


@pytest.mark.parametrize("kernel", NEEDS)
def test_torch_still_has_what_a_kernel_stands_on(kernel):
    """Otherwise, all that could be noticed is that 8-bit weights have become slow."""
    if not NEEDS[kernel] & {*facts.cpu_flags().split()}:
        pytest.skip("not for this processor")
    (found,) = measure({kernel: int8_kernels._command(kernel)}, 60).values()
    assert found.problem is None


def test_a_kernel_that_dies_or_fails_is_left_out():
    dies = [sys.executable, "-c", "import os; input(); os.kill(os.getpid(), 4)"]
    found = measure({"float32": int8_kernels._command("float32"), "onednn": dies}, timeout=60)
    assert found["onednn"].problem == "died: SIGILL"
    assert [speed.width for speed in found["float32"].speeds] == list(ROWS)
    assert int8_kernels.fastest(found) == "float32"


def test_the_chosen_kernel_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    trials = []

    def counted(commands, timeout):
        trials.append(commands.keys())
        return {name: speeds(1, 2, 3) for name in commands} | {"float32": speeds(1, 1, 1)}

    monkeypatch.setattr(precision, "measure", counted)
    for _ in range(2):
        int8_kernels.int8_kernel.cache_clear()
        assert int8_kernels.int8_kernel() == next(iter(KERNELS))
    int8_kernels.int8_kernel.cache_clear()
    assert trials == [KERNELS.keys()]


def test_sums_that_overflow_are_noticed():
    """Whole numbers that saturate at 16 bits, as those of processors without VNNI do."""
    exact = KERNELS["float32"]

    def saturating(digits, packed):
        halves = (digits - 128.0).view(len(digits), -1, 2), packed.view(len(packed), -1, 2)
        sums = torch.einsum("rpi,opi->rop", *halves)
        return sums.clamp(-(2**15), 2**15 - 1).sum(-1)

    wrong = Digits(lambda weight, scale: weight.float(), saturating)
    assert largest_error(exact) < TOLERANCE < largest_error(wrong)


def test_an_unknown_kernel_ends_with_an_error():
    done = subprocess.run(
        int8_kernels._command("nonsense"), input="go\n", capture_output=True, text=True
    )
    assert done.returncode == 1
