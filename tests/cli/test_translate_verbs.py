"""`train translator`, `translate`, `evaluate`, `inspect` of sentence pairs, and beams for a gpt."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")

Train = Callable[..., Any]


def rows(result: Any) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.fixture
def run(translator: Path) -> Path:
    return translator


# --- train ---


def test_two_files_a_side_and_two_to_validate_on(taught: Train, lessons: Path) -> None:
    files = ("--source", "train.en", "--target", "train.fr")
    held_out = ("--valid-source", "val.en", "--valid-target", "val.fr")
    result = taught("translator", *files, *held_out, "--json", "--out", "runs/sides")
    (found,) = rows(result)
    assert "590 sentence pairs for training; held out: all of val.en, val.fr" in result.err
    assert {"run", "val_loss", "val_bleu", "best_step", "finished"} <= found.keys()
    config = json.loads((lessons / "runs" / "sides" / "config.json").read_text())
    assert config["context_length"] == 32


def test_gzipped_files_are_read_as_others(taught: Train, lessons: Path, tmp_path: Path) -> None:
    files = []
    for side in ("en", "fr"):
        text = (lessons / f"val.{side}").read_bytes()
        (tmp_path / f"val.{side}.gz").write_bytes(gzip.compress(text))
        files.append(tmp_path / f"val.{side}.gz")
    result = taught("translator", "--source", files[0], "--target", files[1], "--dry-run", "--json")
    assert rows(result)[0]["num_pairs"] + rows(result)[0]["num_validation_pairs"] == 30


@pytest.mark.parametrize(
    "attention",
    [
        ("--attention", "additive", "--bidirectional"),
        ("--attention", "none", "--bidirectional"),
        ("--attention", "general", "--bidirectional"),
        ("--attention", "dot", "--one-direction"),
    ],
    ids=lambda words: words[1],
)
def test_recurrent_translators_with_and_without_attention(
    taught: Train, lessons: Path, glassformer: Any, attention: tuple[str, ...]
) -> None:
    name = f"runs/{attention[1]}"
    shape = ("--cell", "gru", "--layers", "2")
    result = taught("rnn-translator", "--data", "pairs.tsv", *shape, *attention, "--out", name)
    assert result.code == 0, result.err
    config = json.loads((lessons / name / "config.json").read_text())
    assert (config["cell"], config["num_layers"]) == ("gru", 2)
    assert config["attention"] == attention[1]
    assert glassformer("translate", lessons / name, "one two").code == 0
    looked = glassformer("inspect", lessons / name, "one two", "--view", "alignment")
    if attention[1] == "none":
        assert (looked.code, looked.out) == (2, "")
        assert looked.error == "this translator has no attention, so there is no alignment to show."
    else:
        assert looked.code == 0, looked.err


# --- translate ---


def test_translate_writes_a_line(program: Any, run: Path) -> None:
    result = program("translate", run, "four two")
    assert (result.code, result.err, result.out) == (0, "", "FOUR TWO\n")


def test_translate_as_json_lists_the_best_first(glassformer: Any, run: Path) -> None:
    words = ("--num-beams", "5", "--num-return-sequences", "3", "--length-penalty", "0.6")
    (found,) = rows(glassformer("translate", run, "three one", *words, "--json"))
    assert list(found) == ["source", "translations"]
    assert found["source"] == "three one"
    assert [list(each) for each in found["translations"]] == [
        ["text", "score", "finish_reason"]
    ] * 3
    assert found["translations"][0]["text"] == "THREE ONE"
    scores = [each["score"] for each in found["translations"]]
    assert 0 > scores[0] >= scores[1] >= scores[2]


def test_several_translations_stand_beside_their_scores(glassformer: Any, run: Path) -> None:
    result = glassformer("translate", run, "three one", "--num-return-sequences", "2")
    first, second = (line.split("\t") for line in result.out.splitlines())
    assert first[1] == "THREE ONE" != second[1]
    assert float(first[0]) >= float(second[0])


def test_lines_are_answered_in_their_order_and_empty_ones_are_empty(
    glassformer: Any, run: Path
) -> None:
    draw = random.Random(1)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(0, 4))) for _ in range(700)]
    lines[3] = lines[600] = ""
    result = glassformer("translate", run, "--num-beams", "1", stdin="\n".join(lines) + "\n")
    assert (result.code, result.err) == (0, "")
    found = result.out.split("\n")[:-1]
    assert [not line for line in found] == [not line for line in lines]
    right = sum(line.upper() == each for line, each in zip(lines, found, strict=True))
    assert right > 500
    shown = rows(glassformer("translate", run, "--json", stdin="one\r\n\r\n two \n"))
    assert [each["source"] for each in shown] == ["one", "", " two "]
    empty = {"text": "", "score": 0.0, "finish_reason": "stop"}
    assert shown[1] == {"source": "", "translations": [empty]}


def test_an_empty_text_is_an_empty_line(glassformer: Any, run: Path) -> None:
    result = glassformer("translate", run, "")
    assert (result.code, result.out, result.err) == (0, "\n", "")
    assert glassformer("translate", run, stdin="").out == ""


def test_what_is_too_long_is_translated_in_pieces_and_said(glassformer: Any, run: Path) -> None:
    text = "one two three four. " * 20
    result = glassformer("translate", run, stdin=f"one\n{text}\n")
    assert result.code == 0
    assert len(result.out.splitlines()) == 2
    assert result.err.startswith("note: line 2 is longer than the model's context and was")
    alone = glassformer("translate", run, text)
    assert alone.err.startswith("note: the text is longer than the model's context and was")
    assert alone.out == result.out.splitlines(keepends=True)[1]


def test_translations_that_are_cut_off_are_counted_in_a_note(glassformer: Any, run: Path) -> None:
    result = glassformer(
        "translate", run, "--max-new-tokens", "1", stdin="\none two\nfour one two\n"
    )
    assert result.code == 0
    assert result.err.startswith(
        "note: 2 of 3 translations reached the maximum length and were cut off (first: line 2). "
        "Pass a larger --max-new-tokens, up to the model's context of "
    )
    alone = glassformer("translate", run, "one two", "--max-new-tokens", "1", "--json")
    assert rows(alone)[0]["translations"][0]["finish_reason"] == "length"
    assert "1 of 1 translation reached the maximum length and was cut off. Pass" in alone.err
    assert glassformer("translate", run, "one two", "--max-new-tokens", "0").code == 2


# --- evaluate ---

KEYS = {"bleu", "chrf", "signature", "loss", "perplexity", "sentences_per_second"}


def test_evaluate_says_bleu_and_all_the_rest(glassformer: Any, run: Path, lessons: Path) -> None:
    files = ("--source", lessons / "val.en", "--target", lessons / "val.fr")
    (found,) = rows(glassformer("evaluate", run, *files, "--json"))
    assert found.keys() == KEYS | {"num_sentences", "num_too_long", "num_cut_off"}
    assert found["bleu"] > 60
    assert found["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert (found["num_sentences"], found["num_too_long"]) == (30, 0)
    shown = glassformer("evaluate", run, *files).out
    assert shown.startswith(f"BLEU {found['bleu']:.2f}  chrF {found['chrf']:.2f}  loss ")
    assert shown.endswith(f"\n{found['signature']}\n")
    cut_off = glassformer("evaluate", run, *files, "--max-new-tokens", "1", "--json")
    assert rows(cut_off)[0]["num_cut_off"] == 30
    assert "note: 30 of 30 translations reached the maximum length" in cut_off.err
    (table,) = rows(glassformer("evaluate", run, "--data", lessons / "pairs.tsv", "--json"))
    assert table["num_sentences"] == 620


@pytest.mark.parametrize("name", ["13a", "intl", "zh", "char", "none"])
def test_evaluate_with_a_tokenizer_of_bleu(
    glassformer: Any, run: Path, lessons: Path, name: str
) -> None:
    files = ("--source", lessons / "val.en", "--target", lessons / "val.fr")
    (found,) = rows(glassformer("evaluate", run, *files, "--bleu-tokenizer", name, "--json"))
    assert f"|tok:{name}|" in found["signature"]


# --- inspect ---


@pytest.mark.parametrize("ending", ["png", "svg", "html", "json"])
def test_the_ending_chooses_the_picture(
    glassformer: Any, run: Path, tmp_path: Path, ending: str
) -> None:
    view = ("--view", "alignment", *(() if ending == "html" else ("--words",)))  # a page has tokens
    result = glassformer("inspect", run, "four two", *view, "--out", f"out.{ending}")
    assert (result.code, result.out, result.err) == (0, "", f"wrote out.{ending}\n")
    content = (tmp_path / f"out.{ending}").read_bytes()
    if ending == "png":
        assert content.startswith(b"\x89PNG")
    else:
        assert (b"four" if ending == "html" else b"FOUR") in content


def test_inspect_as_json_has_tokens_and_shares(glassformer: Any, run: Path) -> None:
    (found,) = rows(glassformer("inspect", run, "four two", "--view", "alignment", "--json"))
    names = ["source", "translations", "source_tokens", "target_tokens", "alignment"]
    assert list(found) == names
    assert (found["source"], found["translations"][0]["text"]) == ("four two", "FOUR TWO")
    assert len(found["alignment"]) == len(found["target_tokens"])
    for row in found["alignment"]:
        assert len(row) == len(found["source_tokens"])
        assert sum(row) == pytest.approx(1)
    options = (
        "--view",
        "alignment",
        "--words",
        "--target",
        "TWO FOUR",
        "--layer",
        "0",
        "--head",
        "1",
    )
    (other,) = rows(glassformer("inspect", run, "four two", *options, "--json"))
    assert other["target_tokens"] == ["TWO", "FOUR", "<end>"]
    assert other["source_tokens"] == ["four", "two", "<end>"]


# --- beams for a gpt ---


def test_a_gpt_searches_with_beams(glassformer: Any, shelf: Path) -> None:
    words = ("the quick", "--max-new-tokens", "5", "--json")
    beams = ("--num-beams", "4", "--num-return-sequences", "3")
    found = rows(glassformer("generate", shelf / "runs" / "gpt", *words, *beams))
    assert [list(each) for each in found] == [
        ["prompt", "text", "finish_reason", "num_tokens", "score"]
    ] * 3
    scores = [each["score"] for each in found]
    assert 0 > scores[0] >= scores[1] >= scores[2]
    (sampled,) = rows(glassformer("generate", shelf / "runs" / "gpt", *words))
    assert "score" not in sampled
    result = glassformer("generate", shelf / "runs" / "gpt", "the", *beams, "--temperature", "1")
    assert (result.code, result.out) == (2, "")
    assert "beam search" in result.error.lower()
    assert "--temperature" in result.error
