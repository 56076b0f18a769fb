"""Whatever a user gets wrong: one sentence, the right exit code, and nothing left behind."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassformer.files import locked


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def refused(glassformer: Any, small: list[str], tmp_path: Path) -> Any:
    """Train in vain on a file with this content: the error, after a look at what is left."""

    def train(name: str, content: str | bytes | None, *words: str, code: int = 1) -> str:
        if content is not None:
            written(tmp_path / name, content)
        before = names(tmp_path)
        result = glassformer("train", "gpt", "--data", name, *small, *words)
        assert result.code == code
        assert result.out == ""
        assert names(tmp_path) == before
        return str(result.error)

    return train


# --- data ---


def test_an_empty_file(refused: Any) -> None:
    assert refused("empty.txt", "") == "empty.txt is empty. Pass a file that contains text."


def test_a_text_shorter_than_one_context(refused: Any) -> None:
    error = refused("short.txt", "hello world, hello")
    assert "18 tokens" in error
    assert "context of 32" in error
    assert "--set model.context_length=" in error


def test_bytes_that_are_no_utf8(refused: Any) -> None:
    error = refused("other.txt", b"caf\x82 " * 100)  # cp850
    assert error.startswith("other.txt, byte 3: invalid UTF-8 (0x82), and no other encoding fits.")
    assert "pass the --encoding" in error


def test_a_column_that_is_not_there(refused: Any) -> None:
    error = refused("reviews.csv", "stars,words\n5,good\n", "--text-column", "label")
    assert error.startswith('reviews.csv has no column "label" (columns: stars, words).')


def test_a_file_that_is_not_there(refused: Any, tmp_path: Path) -> None:
    written(tmp_path / "notes.txt", "text")
    assert refused("note.txt", None) == "note.txt does not exist. Did you mean notes.txt?"


# --- the recipe ---


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--out", "notes.txt"), "notes.txt is a file, not a folder"),
        (("--out", "notes.txt/run"), "notes.txt/run"),
    ],
)
def test_a_setting_that_cannot_be(
    refused: Any, text: str, words: tuple[str, ...], error: str
) -> None:
    assert error in refused("notes.txt", text, *words)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--encoding", "klingon"), "unknown encoding 'klingon'. Pass, for example, "),
        (("--seed", "-1"), "--seed is -1: it must be 0 or more."),
        (
            ("--set", "training.learnin_rate=1"),
            "unknown key training.learnin_rate on the command line.",
        ),
        (("--set", "learning_rate=1"), "Did you mean training.learning_rate?"),
        (
            ("--set", "training.lr=1"),
            "training.lr on the command line. Did you mean learning_rate?",
        ),
        (("--set", "training.batch_size=1"), "Did you mean per_device_train_batch_size?"),
        (("--set", "training.epochs=1"), "Did you mean num_train_epochs?"),
        (("--set", "lr=1"), "Did you mean training.learning_rate?"),
        (("--lr", "0"), "--learning-rate is 0.0: it must be above 0."),
        (("--batch-size", "0"), "'--batch-size': 0 is not a positive whole number."),
        (("--set", "model.num_heads=5"), "d_model 32 is not a multiple of num_heads 5"),
        (
            ("--preset", "gpt3"),
            'there is no preset "gpt3". Did you mean gpt2? Available presets: nano, ',
        ),
        (("--tokenizer", "letters"), "'--tokenizer': 'letters' is not one of 'auto', 'char',"),
        (("--seed", "1.5"), "'--seed': '1.5': it must be a whole number."),
        (("--ema", "x"), "'--ema': 'x': it must be a number."),
        (("--ema", "2"), "--ema is 2.0: it must be below 1."),
        (("--time-limit", "soon"), "--time-limit is 'soon': use a time such as 90s, 15m"),
        (("--time-limit", "5"), "'--time-limit': 5 what? Pass --time-limit 5m or 5s."),
        (("--time-limit", "1.5"), "1.5 what? Pass --time-limit 1.5m or 1.5s."),
        (
            ("--bidirectional",),
            "--bidirectional does not apply to gpt. It is an option of: rnn-class",
        ),
        (
            ("--one-direction",),
            "--one-direction does not apply to gpt. It is an option of: rnn-class",
        ),
        (
            ("--label-column", "a"),
            "--label-column does not apply to gpt. It is an option of: bag, ",
        ),
        (("--set", "training.seed=x"), "--set training.seed is 'x': it must be a whole number."),
        (("--set", "training.report_to=x"), "report_to is 'x': it must be 'tensorboard' or 'wa"),
        (("--max-steps", "many"), "'--max-steps': many is not a positive whole number."),
        (("--max-steps", "0"), "'--max-steps': 0 is not a positive whole number."),
        (("--set", "learning_rate"), "--set learning_rate is not KEY=VALUE."),
        (("--set", "training.seed=["), "--set training.seed=[: the value is not YAML."),
    ],
)
def test_a_command_that_means_nothing(
    refused: Any, text: str, words: tuple[str, ...], error: str
) -> None:
    assert error in refused("notes.txt", text, *words, code=2)


def test_a_model_that_is_not_there(glassformer: Any) -> None:
    result = glassformer("train", "gtp", "--data", "x")
    assert (result.code, result.error) == (2, 'there is no model "gtp". Did you mean gpt?')
    assert "Available models: gpt, rnn-lm, bert" in glassformer("train", "zzz", "--data", "x").error


def test_only_models_that_the_help_lists_are_named(glassformer: Any) -> None:
    help = glassformer("train", "--help").out
    for words in (("zzz",), ("bag", "--layers", "2")):
        _, _, listed = glassformer("train", *words, "--data", "x").error.rpartition(": ")
        names = listed.rstrip(".").split(", ")
        assert len(names) > 2
        for name in names:
            assert f"\n  {name} " in help


@pytest.mark.parametrize(("words", "error"), [((), "no model."), (("gpt",), "no data.")])
def test_a_command_without_model_or_data(
    glassformer: Any, words: tuple[str, ...], error: str
) -> None:
    result = glassformer("train", *words)
    assert result.code == 2
    assert result.error.startswith(error)
    assert "--data " in result.error


def test_a_misspelt_key_in_a_file(glassformer: Any, tmp_path: Path) -> None:
    written(tmp_path / "x.yaml", "model:\n  name: gpt\ndata: {paths: x}\ntraining:\n  sead: 1\n")
    result = glassformer("train", "--recipe", "x.yaml")
    assert result.error == "unknown key training.sead in x.yaml, line 5. Did you mean seed?"


@pytest.mark.parametrize("content", ["a: [", "a: 2020-13-45", "training:", "model: gpt", "", "- a"])
def test_a_file_that_is_no_recipe(glassformer: Any, tmp_path: Path, content: str) -> None:
    written(tmp_path / "x.yaml", content)
    result = glassformer("train", "--recipe", "x.yaml", "--max-steps", "5")
    assert result.code in (1, 2)
    assert result.error


# --- runs ---


def test_a_run_that_is_finished(glassformer: Any, run: Any, small: list[str]) -> None:
    before = names(run.folder)
    words = ["train", "gpt", "--data", run.notes, "--out", run.folder, *small]
    result = glassformer(*words)
    assert result.code == 1
    assert "finished run" in result.error
    assert "--force" in result.error
    assert names(run.folder) == before


def test_a_run_that_stopped(glassformer: Any, run: Any, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "r")
    shutil.rmtree(tmp_path / "r" / "checkpoints" / "step-20")
    result = glassformer("train", "gpt", "--data", run.notes, "--out", "r")
    assert "stopped at step 18" in result.error
    assert "Use --resume to continue it, --force to start over" in result.error


def test_resuming_with_another_recipe(glassformer: Any, run: Any) -> None:
    words = ["--seed", "5", "--set", "training.learning_rate=1"]
    result = glassformer("train", "--resume", "--out", run.folder, *words)
    assert result.code == 1
    assert "--seed was 0, is now 5; training.learning_rate was 0.007, is now 1.0" in result.error


def test_resuming_nothing(glassformer: Any, tmp_path: Path) -> None:
    result = glassformer("train", "--resume", "--out", "nothing")
    assert result.code == 1
    assert result.error.startswith("there is nothing to resume: nothing does not exist.")
    assert names(tmp_path) == []


# --- models and prompts ---


@pytest.mark.parametrize("verb", ["generate", "score"])
def test_characters_that_the_model_does_not_know(glassformer: Any, run: Any, verb: str) -> None:
    result = glassformer(verb, run.folder, "the Ω and the 猫")
    assert (result.code, result.out) == (1, "")
    assert "no token for 'Ω', '猫'" in result.error


@pytest.mark.parametrize("verb", ["generate", "score"])
def test_a_folder_without_a_model(glassformer: Any, tmp_path: Path, verb: str) -> None:
    assert glassformer(verb, "nothing", "x").error.startswith("nothing does not exist.")
    assert "there is no config.json in it" in glassformer(verb, tmp_path, "x").error


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--temperature", "-1"), "--temperature is -1.0"),
        (("--max-new-tokens", "0"), "'--max-new-tokens': 0 is not a positive whole number."),
        (("--top-p", "1.5"), "--top-p is 1.5: it must be 1 or less."),
        (("--top", "0"), "'--top': 0 is not a positive whole number."),
        (("--top", "3", "--top-k", "2"), "leave out --top-k"),
    ],
)
def test_a_setting_of_generation_that_cannot_be(
    glassformer: Any, run: Any, words: tuple[str, ...], error: str
) -> None:
    result = glassformer("generate", run.folder, "the", *words)
    assert (result.code, result.out) == (2, "")
    assert error in result.error


@pytest.mark.parametrize("context", ["33", "1e9"])
def test_a_context_that_the_model_does_not_have(glassformer: Any, run: Any, context: str) -> None:
    words = ("evaluate", run.folder, "--data", run.notes, "--context-length", context)
    result = glassformer(*words)
    assert result.code == 2
    assert "the model supports 1 to 32" in result.error


def test_nothing_to_score(glassformer: Any, run: Any) -> None:
    assert glassformer("score", run.folder, stdin="").error == "there is no text to score."


def test_stdin_that_is_no_utf8(glassformer: Any, run: Any) -> None:
    result = glassformer("score", run.folder, stdin=b"caf\xe9")
    problem = "stdin, byte 3: invalid UTF-8. Convert it, for example with iconv."
    assert (result.code, result.error) == (1, problem)


# --- as a program ---


def test_a_mistake_is_one_sentence_and_exit_code_1(
    program: Any, small: list[str], tmp_path: Path
) -> None:
    result = program("train", "gpt", "--data", "nothing.txt", *small)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: nothing.txt does not exist. ")
    assert result.err.count("\n") == 1
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "words", [("train", "--no-such-option"), ("sing",), ("train", "--seed", "x")]
)
def test_wrong_usage_is_exit_code_2(program: Any, words: tuple[str, ...]) -> None:
    result = program(*words)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err
    assert "Error: " in result.err


def test_debug_shows_the_traceback(program: Any) -> None:
    result = program("--debug", "generate", "nothing", "x")
    assert result.code == 1
    assert "Traceback" in result.err


def test_an_error_of_the_machine_is_one_sentence_too(
    glassformer: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *given: Any) -> None:
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr("glassformer.training.command.train", full)
    result = glassformer("train", "gpt", "--data", run.notes)
    assert result.code == 1
    assert "No space left on device" in result.error


# --- where a run may be ---


def test_the_root_of_a_disk_is_no_run(refused: Any) -> None:
    assert refused("x.txt", "words " * 2000, "--out", "/", code=2) == (
        "/ is the root of a disk. Choose a folder for the run."
    )


@pytest.mark.parametrize("out", [".", "..", "sub/.."])
def test_the_current_folder_cannot_be_replaced_by_a_run(
    refused: Any, tmp_path: Path, out: str
) -> None:
    (tmp_path / "sub").mkdir()
    error = refused("x.txt", "words " * 2000, "--out", out)
    assert "is the current folder or contains it" in error
    assert "Choose another --out" in error


def test_a_run_that_another_process_trains(
    glassformer: Any, small: list[str], tmp_path: Path, text: str
) -> None:
    written(tmp_path / "x.txt", text)
    words = ["train", "gpt", "--data", "x.txt", "--out", "run", "--max-steps", "1", *small]
    with locked(tmp_path / "run"):
        for flag in ("--force", "--resume", "--dry-run"):
            result = glassformer(*words, flag)
            if flag == "--dry-run":  # it touches nothing
                assert result.code == 0
            else:
                assert result.code == 1
                assert f"run is being trained by process {os.getpid()}." in result.error
    assert glassformer(*words, "--json").code == 0


def test_defaults_of_generation_that_would_fill_the_memory(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    shutil.copytree(run.folder, tmp_path / "copy")
    (tmp_path / "copy" / "generation_config.json").write_text('{"num_return_sequences": 1e7}')
    error = glassformer("generate", tmp_path / "copy", "the").error
    assert "num_return_sequences" in error
    assert "10000" in error


def test_a_text_without_quotes_is_recognised(glassformer: Any) -> None:
    result = glassformer("translate", "runs/x", "A", "man", "sleeps.")
    assert result.code == 2
    assert result.error.endswith("(man sleeps.). A text with spaces needs quotes.")


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("translate", "runs/x", "A man", "A dog"), "several are lines of a file or of standard"),
        (("tag", "runs/x", "A man", "A dog"), "several are lines of a file or of standard input."),
        (("generate", "runs/x", "A man", "A dog"), "Pass one text at a time."),
        (("verify", "runs/x", "runs/y"), "Leave it out; a name with spaces needs quotes."),
    ],
)
def test_quotes_that_are_there_are_not_blamed(
    glassformer: Any, words: tuple[str, ...], cure: str
) -> None:
    result = glassformer(*words)
    assert result.code == 2
    assert cure in result.error
    assert "A text with spaces" not in result.error
