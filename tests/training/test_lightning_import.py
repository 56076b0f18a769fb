"""Lightning is imported late, quickly, and still when the quick way fails."""

import subprocess
import sys

import pytest

IMPORT_FIT = "from glassformer.training.lightning_import import import_fit\nfit = import_fit()\n"
REPORT = "print(fit.__module__, 'torchmetrics' in sys.modules, gc.isenabled())"


def in_new_process(program: str) -> str:
    """What a fresh Python prints."""
    program = f"import gc, sys\n{program}\n{REPORT}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_command_line_does_without_torchmetrics() -> None:
    found = in_new_process(f"import glassformer.cli.main\n{IMPORT_FIT}")
    assert found == "glassformer.training.fit False True"


def test_a_python_session_keeps_the_real_torchmetrics() -> None:
    found = in_new_process(
        f"{IMPORT_FIT}import torchmetrics, lightning.pytorch.core.module as module\n"
        "assert module.Metric is torchmetrics.Metric"
    )
    assert found == "glassformer.training.fit True True"


def test_a_lightning_that_needs_more_of_torchmetrics_gets_it() -> None:
    """Here it needs `Metric`, which the stand-in is made to lack."""
    found = in_new_process(
        "import glassformer.cli.main\nfrom glassformer.training import lightning_import\n"
        f"lightning_import.USED = ()\n{IMPORT_FIT}"
    )
    assert found == "glassformer.training.fit True True"


@pytest.mark.parametrize("started_by", ["glassformer.cli.main", "glassformer"])
def test_a_lightning_that_cannot_be_imported_is_reported(started_by: str) -> None:
    program = f"import sys, {started_by}\nsys.modules['lightning_utilities'] = None\n{IMPORT_FIT}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "lightning_utilities" in done.stderr
