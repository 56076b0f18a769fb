"""What can be wrong with sentence pairs and translators: one sentence, the right code, no rests."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAIRS = "".join(f"number {n}\tNUMBER {n}\n" for n in range(30))

FILES: dict[str, str | bytes] = {
    "pairs.tsv": PAIRS,
    "pairs.csv": "en,fr,id\n" + "".join(f"a {n},b {n},{n}\n" for n in range(9)),
    "three": "a\nb\nc\n",
    "two": "x\ny\n",
    "five": "1\n2\n3\n4\n5\n",
    "no target.tsv": "a\t\nb\t \nc\t\n",
    "blank": "\n\n\n",
    "one column.tsv": "a\nb\n",
    "nothing.tsv": "",
    "binary.tsv": b"a\tb\n\x00\x01\xff\xfe\t\x00\n",
    "latin.tsv": PAIRS.encode() + "caf\u00e9\tCAF\u00c9\n".encode("cp850"),
    "long.tsv": "".join(f"{'a b c d ' * 40}{n}\t{'x y z ' * 40}{n}\n" for n in range(9)),
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return tmp_path


DATA = {
    "more lines in the source": (
        ("--source", "three", "--target", "two"),
        "three has 1 more line than two (3 and 2). Each line must be the translation of the same",
    ),
    "more lines in the target": (
        ("--source", "two", "--target", "five"),
        "five has 3 more lines than two (5 and 2).",
    ),
    "unequal validation": (
        ("--data", "pairs.tsv", "--valid-source", "three", "--valid-target", "two"),
        "three has 1 more line than two (3 and 2).",
    ),
    "an empty side": (
        ("--data", "no target.tsv"),
        "no target.tsv has 0 usable pairs. Provide at least 2. Left out: 3 pairs with an empty "
        "side (first: no target.tsv:1).",
    ),
    "an empty side in a file of its own": (
        ("--source", "three", "--target", "blank"),
        "three, blank has 0 usable pairs. Provide at least 2. Left out: 3 pairs with an empty",
    ),
    "one column": (
        ("--data", "one column.tsv"),
        "one column.tsv:1: expected at least 2 fields, found 1. Write each line as source, tab",
    ),
    "nothing at all": (("--data", "nothing.tsv"), "nothing.tsv is empty."),
    "a binary file": (("--data", "binary.tsv"), "binary.tsv is a binary file, not text."),
    "a binary side": (
        ("--source", "binary.tsv", "--target", "two"),
        "binary.tsv is a binary file, not text.",
    ),
    "another encoding": (
        ("--data", "latin.tsv"),
        "invalid UTF-8 (0x82), and no other encoding fits. Save it as UTF-8, or pass",
    ),
    "an unknown column": (
        ("--data", "pairs.csv", "--source-column", "de", "--target-column", "fr"),
        'pairs.csv has no column "de" (columns: en, fr, id).',
    ),
    "sentences that are all too long": (
        ("--data", "long.tsv", "--set", "model.context_length=32"),
        "every sentence is longer than",
    ),
    "a missing file": (("--data", "pears.tsv"), "pears.tsv does not exist."),
    "a missing side": (("--source", "four", "--target", "two"), "four does not exist."),
}


@pytest.mark.parametrize("case", DATA)
def test_pairs_that_nothing_can_be_learned_from(glassformer: Any, files: Path, case: str) -> None:
    words, error = DATA[case]
    result = glassformer("train", "translator", *words, "--set", "training.precision=float32")
    assert (result.code, result.out) == (1, ""), result.err
    assert error in result.error
    assert sorted(path.name for path in files.iterdir()) == sorted(FILES)


BOTH = "--data is for files with both sides, --source and --target are for files with one side each"

COMMANDS = {
    "a source alone": (
        ("translator", "--source", "three"),
        "--source is given without --target: pass a file for each side",
    ),
    "a target alone": (
        ("translator", "--target", "three"),
        "--target is given without --source: pass a file for each side",
    ),
    "both ways at once": (
        ("translator", "--data", "pairs.tsv", "--source", "three", "--target", "two"),
        BOTH,
    ),
    "validation of one side": (
        ("translator", "--data", "pairs.tsv", "--valid-source", "three"),
        "--valid-source is given without --valid-target",
    ),
    "more files of one side": (
        ("translator", "--source", "three", "--source", "two", "--target", "two"),
        "--source names 2 files and --target 1: pass the same number of files",
    ),
    "no data": (("translator",), "no data. Pass --data FILE"),
    "an attention for gpt": (
        ("gpt", "--data", "three", "--attention", "dot"),
        "--attention does not apply to gpt. It is an option of: rnn-translator.",
    ),
    "an attention for a Transformer": (
        ("translator", "--data", "pairs.tsv", "--attention", "additive"),
        "--attention does not apply to translator. It is an option of: rnn-translator.",
    ),
    "an attention that there is not": (
        ("rnn-translator", "--data", "pairs.tsv", "--attention", "fancy"),
        "'fancy' is not one of 'additive', 'dot', 'general', 'none'.",
    ),
    "dot attention with two directions": (
        ("rnn-translator", "--data", "pairs.tsv", "--attention", "dot", "--bidirectional"),
        "use general attention, or pass --one-direction",
    ),
    "a side for gpt": (
        ("gpt", "--source", "three", "--target", "two", "--data", "three"),
        "--source does not apply to gpt. It is an option of: translator, rnn-translator.",
    ),
    "one column for both": (
        (
            *("translator", "--data", "pairs.csv"),
            *("--source-column", "en", "--target-column", "en"),
        ),
        'column "en" cannot be both the source and the target.',
    ),
    "a share of own words for a Transformer": (
        ("translator", "--data", "pairs.tsv", "--set", "objective.scheduled_sampling=0.5"),
        "objective.scheduled_sampling does not work with translator",
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_that_trains_no_translator(glassformer: Any, files: Path, case: str) -> None:
    words, error = COMMANDS[case]
    result = glassformer("train", *words)
    assert (result.code, result.out) == (2, ""), result.err
    assert error in result.error
    assert sorted(path.name for path in files.iterdir()) == sorted(FILES)


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--source", "three", "--target", "two"), 1, "three has 1 more line than two (3 and 2)."),
        (("--source", "three"), 2, "--source is given without --target: pass a file for each"),
        (("--target", "three"), 2, "--target is given without --source: pass a file for each"),
        (("--data", "pairs.tsv", "--source", "three", "--target", "two"), 2, BOTH),
        (
            ("--data", "pairs.csv", "--source-column", "de"),
            1,
            'has no column "de" (columns: en, fr',
        ),
        (("--data", "binary.tsv"), 1, "binary.tsv is a binary file, not text."),
        (("--data", "pears.tsv"), 1, "pears.tsv does not exist."),
        (("--data", "long.tsv"), 1, "every sentence is longer than"),
        (
            ("--data", "pairs.tsv", "--text-column", "x"),
            2,
            "not accept --text-column. It accepts --data, --source,",
        ),
        (
            ("--data", "pairs.tsv", "--label-column", "x"),
            2,
            "not accept --label-column. It accepts --data, --source,",
        ),
        (
            ("--data", "pairs.tsv", "--context-length", "4"),
            2,
            "not accept --context-length. It accepts",
        ),
        ((), 2, "no data. Pass --data FILE, or for a translator --source FILE"),
    ],
)
def test_pairs_that_nothing_can_be_measured_on(
    glassformer: Any, files: Path, translator: Path, words: tuple[str, ...], code: int, error: str
) -> None:
    result = glassformer("evaluate", translator, *words, "--json")
    assert (result.code, result.out) == (code, ""), result.err
    assert error in result.error


@pytest.mark.parametrize("option", ["source", "target", "source-column", "target-column"])
def test_a_gpt_is_not_measured_on_pairs(glassformer: Any, shelf: Path, option: str) -> None:
    words = ("--data", shelf / "text.txt", f"--{option}", "x")
    result = glassformer("evaluate", shelf / "runs" / "gpt", *words)
    assert (result.code, result.out) == (2, "")
    assert f"does not accept --{option}. It accepts --data, " in result.error


def test_only_a_translator_has_bleu(glassformer: Any, shelf: Path) -> None:
    words = ("--data", shelf / "text.txt", "--bleu-tokenizer", "zh")
    result = glassformer("evaluate", shelf / "runs" / "gpt", *words)
    assert (result.code, result.out) == (2, "")
    assert "does not accept --bleu-tokenizer. It accepts --data, " in result.error


@pytest.mark.parametrize("verb", ["generate", "score", "classify", "tag", "fill"])
def test_a_translator_names_its_own_verbs(glassformer: Any, translator: Path, verb: str) -> None:
    result = glassformer(verb, translator, "one [MASK]")
    assert (result.code, result.out) == (2, "")
    verbs = "translate, inspect and evaluate"
    assert result.error == f"{translator} cannot {verb}. This model supports {verbs}."


def test_a_gpt_does_not_translate(glassformer: Any, shelf: Path) -> None:
    run, verbs = shelf / "runs" / "gpt", "generate, chat, score, neighbours, inspect and evaluate"
    result = glassformer("translate", run, "one")
    assert (result.code, result.out) == (2, "")
    assert result.error == f"{run} cannot translate. This model supports {verbs}."
    result = glassformer("inspect", run, "one", "--view", "alignment", "--out", "out.png")
    assert (result.code, result.out) == (2, "")
    assert f'{run} has no view "alignment". Pass --view with one of: story' in result.error


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--num-return-sequences", "6"), "--num-return-sequences 6"),
        (
            ("--num-beams", "4", "--num-beam-groups", "3"),
            "--num-beam-groups 3",
        ),
        (("--num-beams", "0"), "0 is not a positive whole number."),
        (("--num-beams", "1e9"), "--num-beams is 1000000000: it must be 1000 or less."),
        (("--diversity-penalty", "-1"), "--diversity-penalty is -1.0: it must be 0 or more."),
        (
            ("--diversity-penalty", "1"),
            "--num-beam-groups",
        ),
        (("--prefix", "ONE " * 40), "prefix has 40 tokens"),
        (("--length-penalty", "nan"), "--length-penalty"),
    ],
)
def test_a_search_that_makes_no_sense(
    glassformer: Any, translator: Path, words: tuple[str, ...], error: str
) -> None:
    result = glassformer("translate", translator, "one", *words)
    assert (result.code, result.out) == (2, ""), result.err
    assert error in result.error


def test_a_line_that_is_no_utf8_is_numbered(glassformer: Any, translator: Path) -> None:
    result = glassformer("translate", translator, stdin=b"one\ntwo\ncaf\xe9\n")
    assert (result.code, len(result.out.splitlines())) == (1, 2)  # what came before is translated
    assert result.error == "stdin, line 3: invalid UTF-8. Convert it, for example with iconv."


def test_a_byte_order_mark_is_no_text(glassformer: Any, translator: Path) -> None:
    marked = glassformer("translate", translator, "--json", stdin=b"\xef\xbb\xbfone two\n")
    assert marked.out == glassformer("translate", translator, "--json", stdin="one two\n").out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("one", "--layer", "1"), "layer 1"),
        (("one", "--head", "2"), "head 2"),
        (("one " * 60,), "the source has 61 tokens"),
        (("one", "--target", "ONE " * 60), "the translation has 61 tokens"),
        (("one", "--target", " "), "--target is empty."),
        ((" ",), "the text is empty."),
        (("one", "--out", "out.gif"), "out.gif: the name must end in .html, .png, .svg or .json."),
    ],
)
def test_a_picture_that_cannot_be_drawn(
    glassformer: Any, translator: Path, tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    out = () if "--out" in words else ("--out", "out.png")
    result = glassformer("inspect", translator, *words, *out, "--view", "alignment")
    assert (result.code, result.out) == (2, ""), result.err
    assert error in result.error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["translate", "inspect", "evaluate"])
def test_a_folder_without_a_model(glassformer: Any, files: Path, verb: str) -> None:
    words = {"evaluate": ("--data", "pairs.tsv"), "inspect": ("x", "--view", "alignment")}
    result = glassformer(verb, "nothing", *words.get(verb, ("x",)))
    assert (result.code, result.out) == (1, "")
    assert result.error.startswith("nothing does not exist.")


def test_a_reader_that_goes_away_leaves_no_traceback(translator: Path) -> None:
    """As in `glassformer translate RUN < in.en | head -1`."""
    command = [sys.executable, "-m", "glassformer", "translate", str(translator)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, "--num-beams", "1"], **pipes, env=os.environ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(b"one two\n" * 600)
    assert b"Traceback" not in err
