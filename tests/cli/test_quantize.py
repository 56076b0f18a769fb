"""8-bit weights on the command line: used, measured, saved."""

import json
from pathlib import Path
from typing import Any

import pytest


def test_a_quantised_model_writes_scores_and_is_compared(glassformer: Any, run: Any) -> None:
    words = ("--temperature", "0", "--max-new-tokens", "5")
    text = glassformer("generate", run.folder, "the quick", "--quantize", "int8", *words)
    assert text.code == 0
    assert text.out.startswith("the quick")
    scored = glassformer("score", run.folder, "the quick fox", "--quantize", "int8", "--json")
    exact = glassformer("score", run.folder, "the quick fox", "--json")
    losses = [json.loads(each.out)["total"] for each in (scored, exact)]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert losses[0] != losses[1]


def test_evaluate_prints_the_scores_before_and_after(glassformer: Any, run: Any) -> None:
    words = ("evaluate", run.folder, "--data", run.notes, "--quantize", "int8")
    first, second, summary, *_ = glassformer(*words).out.splitlines()
    assert first.startswith("float32: ")
    assert second.startswith("int8: ")
    assert "in float32" in summary
    found = json.loads(glassformer(*words, "--json").out)
    assert abs(found["change"]) < 0.01
    change = found["perplexity"] / found["float32"]["perplexity"] - 1
    assert found["change"] == pytest.approx(change)


def test_a_model_is_saved_quantised_with_what_it_costs_in_its_card(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    words = ("--format", "safetensors", "--quantize", "int8", "--out", out)
    done = glassformer("export", run.folder, *words)
    assert done.code == 0, done.err
    assert "on held-out data: " in done.err
    card = (out / "README.md").read_text()
    assert "## Quantisation" in card
    assert "in float32" in card
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (out, run.folder)]
    assert sizes[0] < sizes[1]
    options = ("the quick", "--temperature", "0", "--max-new-tokens", "5")
    again, original = (glassformer("generate", each, *options) for each in (out, run.folder))
    assert again.code == original.code == 0
    evaluated = glassformer("evaluate", out, "--data", run.notes)
    assert evaluated.code == 0


def test_what_is_quantised_already_has_no_scores_in_float32(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    glassformer("export", run.folder, "--format", "safetensors", "--quantize", "int8", "--out", out)
    words = ("evaluate", out, "--data", run.notes)
    again = glassformer(*words, "--quantize", "int8")
    assert f"note: the weights of {out} are int8 already" in again.err
    assert again.out == glassformer(*words).out
    found = glassformer(*words, "--quantize", "int8", "--json")
    assert "int8 already" in found.err
    assert json.loads(found.out) == json.loads(glassformer(*words, "--json").out)


def test_a_quantised_model_is_for_prediction_only(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    glassformer("export", run.folder, "--format", "safetensors", "--quantize", "int8", "--out", out)
    assert "8-bit weights. Export the original to hf" in glassformer("export", out).error
    data = tmp_path / "data.csv"
    rows = [f"{'the fox ' * n}{n},{'good' if n % 2 else 'bad'}" for n in range(40)]
    data.write_text("\n".join(["text,label", *rows]))
    tuned = glassformer(
        *("finetune", out, "--task", "classify", "--data", data, "--max-steps", "1"),
        *("--out", tmp_path / "tuned"),
    )
    further = glassformer(
        *("train", "--from", out, "--data", run.notes, "--max-steps", "1"),
        *("--out", tmp_path / "tuned"),
    )
    for refused in (tuned, further):
        assert "has 8-bit weights, which cannot be trained" in refused.error
        assert "held out" not in refused.err  # no data was read
    assert not (tmp_path / "tuned").exists()


def test_bad_input_is_answered_in_a_sentence(glassformer: Any, run: Any, tmp_path: Path) -> None:
    assert "int4" in glassformer("generate", run.folder, "a", "--quantize", "int4").error
    found = glassformer("export", run.folder, "--quantize", "int8", "--out", tmp_path / "x")
    assert "quantised with --format safetensors, not hf" in found.error
    found = glassformer("export", run.folder, "--data", run.notes, "--out", tmp_path / "x")
    assert "Pass both or neither" in found.error
    assert not (tmp_path / "x").exists()
