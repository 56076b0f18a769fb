"""A text much larger than what a training keeps of it in memory."""

import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTES = 12
PROGRAM = """
import resource, sys
from pathlib import Path
from glassformer.training.preparation import prepare
from glassformer.training.preparation import make_recipe

recipe = {
    "model": {"name": "gpt"},
    "data": {"paths": [sys.argv[1]]},
    "tokenizer": {"kind": "char"},
    "training": {"max_steps": 1},
}
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
prepare(make_recipe(recipe), Path(sys.argv[2]), print)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss differs")
def test_a_large_text_is_never_held_whole(tmp_path: Path) -> None:
    text = "The quick brown fox jumps over the lazy dog, naïvely 😀.\n"  # 4 bytes per character
    path = tmp_path / "text.txt"
    path.write_text(text * (MEGABYTES * 10**6 // len(text.encode())), encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, str(path), str(tmp_path / "run")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(found.stdout.split()[-1]) / 1e3 < 10 * MEGABYTES
