"""The vectors of all-MiniLM-L6-v2 are those that sentence-transformers defines."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import glassformer

TEXTS = [
    "A man is eating food.",
    "",
    " ",
    "Someone eats a meal.",
    "The girl is carrying a baby.",
    "Ein Mann isst etwas.",
    "Привет, мир! 你好，世界。 مرحبا بالعالم नमस्ते दुनिया",
    "Ünïcödé, e\u0301 and ﬁ: naïve café №5 👩‍🚀",
    "[CLS] is no special token [MASK] here? [SEP]",
    "line one\nline two\ttab\x00\u200b",
    "word " * 400,  # longer than the 256 tokens that are read
    "antidisestablishmentarianism" * 5,
]


def by_definition(folder: Path, texts: list[str]) -> np.ndarray[Any, Any]:
    """Mean of the last hidden states of real tokens, scaled to length 1: what modules.json says,
    in transformers."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    model = hf.AutoModel.from_pretrained(folder).eval()
    inputs = tokenizer(
        texts,
        padding=True,
        truncation=True,
        max_length=256,
        return_tensors="pt",
        split_special_tokens=True,
    )
    with torch.inference_mode():
        states = model(**inputs).last_hidden_state  # (B, T, D)
    mask = inputs["attention_mask"].unsqueeze(-1).float()  # (B, T, 1)
    mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, dim=1).numpy()


@pytest.fixture(scope="module")
def model(minilm: Path) -> Any:
    return glassformer.load(minilm)


def test_vectors_equal_those_of_the_definition(minilm: Path, model: Any) -> None:
    expected = by_definition(minilm, TEXTS)
    assert np.abs(model.embed(TEXTS) - expected).max() <= 1e-5
    alone = np.stack([model.embed(text) for text in TEXTS])
    assert np.abs(alone - expected).max() <= 1e-5


def test_similar_sentences_are_near_each_other(model: Any) -> None:
    eats, meal, baby = model.embed([TEXTS[0], TEXTS[3], TEXTS[4]])
    assert eats @ meal > 0.6 > 0.3 > eats @ baby


def test_the_command_line_reports_what_it_cut(minilm: Path, model: Any) -> None:
    command = [sys.executable, "-m", "glassformer", "embed", str(minilm)]
    texts = TEXTS[0] + "\n" + "word " * 400 + "\n"
    result = subprocess.run(command, input=texts, capture_output=True, text=True, check=True)
    assert "1 of 2 texts: only the first 256 tokens are read" in result.stderr
    first = np.array(result.stdout.splitlines()[0].split(), float)
    assert np.abs(first - model.embed(TEXTS[0])).max() <= 1e-5


def test_the_exported_folder_gives_the_same_vectors(
    minilm: Path, model: Any, tmp_path: Path
) -> None:
    found = glassformer.export_model(minilm, "hf", tmp_path / "hf")
    assert len(found.differences) == 2  # by glassformer and by transformers
    assert max(found.differences.values()) <= 1e-4
    texts = TEXTS[:4]
    assert np.abs(by_definition(tmp_path / "hf", texts) - model.embed(texts)).max() <= 1e-5
