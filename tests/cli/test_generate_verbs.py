"""`generate`, `score` and `evaluate`: text in, text and numbers out."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def rows(result: Any) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


# --- generate ---


def test_generate_continues_the_prompt(program: Any, run: Any) -> None:
    result = program("generate", run.folder, "the fox", "--max-new-tokens", "20", "--seed", "3")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("the fox")
    assert 8 < len(result.out) <= len("the fox") + 20 + 1


def test_generate_reads_the_prompt_from_stdin(glassformer: Any, run: Any) -> None:
    options = ("--max-new-tokens", "20", "--seed", "3")
    piped = glassformer("generate", run.folder, *options, stdin="the fox\n")
    assert piped.out == glassformer("generate", run.folder, "the fox", *options).out


def test_the_same_seed_writes_the_same_text(glassformer: Any, run: Any) -> None:
    words = ("generate", run.folder, "the", "--max-new-tokens", "30", "--seed")
    texts = [glassformer(*words, seed).out for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_json_has_one_object_per_text(glassformer: Any, run: Any) -> None:
    options = ("--num-return-sequences", "3", "--max-new-tokens", "9", "--seed", "1", "--json")
    found = rows(glassformer("generate", run.folder, "the", *options))
    assert len(found) == 3
    assert {row["prompt"] for row in found} == {"the"}
    assert all(0 < row["num_tokens"] <= 9 for row in found)
    assert len({row["text"] for row in found}) == 3


def test_several_texts_are_numbered(glassformer: Any, run: Any) -> None:
    options = ("--num-return-sequences", "2", "--max-new-tokens", "9", "--seed", "1")
    out = glassformer("generate", run.folder, "the", *options).out
    assert out.startswith("--- 1 ---\nthe")
    assert "\n--- 2 ---\nthe" in out


def test_stop_ends_before_a_text_typed_with_backslashes(glassformer: Any, run: Any) -> None:
    options = ("--max-new-tokens", "300", "--seed", "1", "--num-return-sequences", "4", "--json")
    for stop, cut in ((r"\n", "\n"), (" ", " "), (r"\n\n", "\n\n")):
        found = rows(glassformer("generate", run.folder, "the", *options, "--stop", stop))
        assert not any(cut in row["text"] for row in found)
    assert {row["finish_reason"] for row in found} <= {"stop", "length"}


def test_top_shows_the_likeliest_next_tokens(glassformer: Any, run: Any) -> None:
    (found,) = rows(glassformer("generate", run.folder, "the", "--top", "4", "--json"))
    chances = [candidate["probability"] for candidate in found["candidates"]]
    assert len(chances) == 4
    assert chances == sorted(chances, reverse=True)
    shown = glassformer("generate", run.folder, "the", "--top", "4").out.splitlines()
    assert f"{chances[0]:.2%}" in shown[0]
    assert repr(found["candidates"][0]["token"]) in shown[0]


def test_temperature_zero_takes_the_likeliest_token(glassformer: Any, run: Any) -> None:
    (top,) = rows(glassformer("generate", run.folder, "the", "--top", "1", "--json"))
    options = ("--temperature", "0", "--max-new-tokens", "1", "--json")
    (greedy,) = rows(glassformer("generate", run.folder, "the", *options))
    assert greedy["text"] == top["candidates"][0]["token"]


@pytest.mark.parametrize("option", ["--top-k", "--no-repeat-ngram-size"])
def test_every_way_to_choose_is_heard(glassformer: Any, run: Any, option: str) -> None:
    words = ("generate", run.folder, "the", "--max-new-tokens", "40", "--seed", "1")
    assert glassformer(*words, option, "1").out != glassformer(*words).out


def test_a_reader_who_leaves_early_is_no_error_to_talk_about(run: Any) -> None:
    words = ["generate", str(run.folder), "the", "--max-new-tokens", "3000", "--stop", "~"]
    command = [sys.executable, "-m", "glassformer", *words]
    with subprocess.Popen(command, stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5)
        process.stdout.close()
        assert process.stderr.read() == b""


# --- score ---


def test_score_shows_every_token_and_the_total(program: Any, run: Any) -> None:
    result = program("score", run.folder, stdin="the fox\n")
    lines = result.out.splitlines()
    assert (result.code, len(lines)) == (0, 8)
    assert "'t'  (given the beginning of the text; counted only in the bits per byte)" in lines[0]
    assert lines[-1].startswith("total -")


def test_the_tokens_of_a_score_add_up(glassformer: Any, run: Any) -> None:
    (found,) = rows(glassformer("score", run.folder, "the fox", "--json"))
    assert found["tokens"] == list("the fox")
    assert found["logprobs"][0] is None
    assert sum(found["logprobs"][1:]) == pytest.approx(found["total"])
    assert found["perplexity"] == pytest.approx(math.exp(-found["total"] / 6))


# --- evaluate ---


def test_evaluate_measures_a_text(glassformer: Any, run: Any) -> None:
    result = glassformer("evaluate", run.folder, "--data", run.notes)
    assert result.code == 0
    assert result.out.startswith("loss ")
    assert "perplexity" in result.out
    assert "bits per byte" in result.out


def test_an_evaluation_is_the_same_in_all_its_units(glassformer: Any, run: Any, text: str) -> None:
    (found,) = rows(glassformer("evaluate", run.folder, "--data", run.notes, "--json"))
    assert found["num_tokens"] == len(text) + 1
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    bits = found["loss"] * found["num_tokens"] / math.log(2)
    assert found["bits_per_byte"] == pytest.approx(bits / len(text))


def test_a_shorter_context_can_be_asked_for(glassformer: Any, run: Any) -> None:
    words = ("evaluate", run.folder, "--data", run.notes, "--json")
    (whole,), (short,) = rows(glassformer(*words)), rows(glassformer(*words, "--context-length", 4))
    assert short["loss"] != whole["loss"]
    assert short["num_tokens"] == whole["num_tokens"]


def test_loading_a_model_does_not_import_the_compiler(run: Any) -> None:
    program = (
        "import sys, glassformer as g; g.load(sys.argv[1]); print('torch._dynamo' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(run.folder)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_words_that_a_model_does_not_know_are_named_on_stderr(
    glassformer: Any, run: Any, small: list[str]
) -> None:
    words = ["--data", run.notes, "--max-steps", "1", "--tokenizer", "word", "--out", "words"]
    glassformer("train", "gpt", *words, *small)
    result = glassformer("score", "words", "the platypus jumps")
    assert "note: 1 of the text's 3 tokens are words that the model does not know" in result.err
    assert "note: bits per byte include words that the tokenizer does not know" in result.err
    known = glassformer("score", "words", "the dog jumps").err
    assert known.startswith("note: bits per byte do not include spacing")
    assert len(known.splitlines()) == 1


def test_a_damaged_generation_config_is_named(glassformer: Any, run: Any, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "copy")
    (tmp_path / "copy" / "generation_config.json").write_text('{"temperature": -1}')
    error = glassformer("generate", tmp_path / "copy", "the").error
    assert "temperature in" in error
    assert "generation_config.json is -1" in error
