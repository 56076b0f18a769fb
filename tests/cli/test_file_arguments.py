"""An argument that names a file stands for the content of the file."""

from pathlib import Path
from typing import Any

import pytest

from glassformer import tasks
from glassformer.cli.output import KnownWords
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.wording import as_argument


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "wörds and more.txt"
    path.write_bytes(b"a fine film caf\xe9\n")
    return path


@pytest.mark.parametrize(
    ("verb", "model", "options"),
    [
        ("classify", "reviews", ()),
        ("tag", "names", ()),
        ("generate", "gpt", ("--max-new-tokens", "3", "--seed", "1")),
        ("score", "gpt", ()),
    ],
)
def test_a_file_is_read(
    glassformer: Any, shelf: Path, file: Path, verb: str, model: str, options: tuple[str, ...]
) -> None:
    folder = shelf / "runs" / model
    by_name = glassformer(verb, folder, file.name, *options)
    by_text = glassformer(verb, folder, "a fine film café", *options)
    assert by_name.code == by_text.code == 0, by_name.err
    assert by_name.out == by_text.out
    note = f"note: {file.name} is a file: its content is read."
    assert note in by_name.err
    assert note not in by_text.err


@pytest.mark.parametrize(
    ("verb", "model"), [("classify", "reviews"), ("tag", "names"), ("score", "gpt")]
)
def test_a_text_that_begins_like_an_option(
    glassformer: Any, shelf: Path, verb: str, model: str
) -> None:
    """As the last line of a training writes it."""
    assert as_argument("a fine film") == ("a fine film",)
    result = glassformer(verb, shelf / "runs" / model, *as_argument("- a fine film"))
    assert (result.code, result.err) == (0, "")


def test_fill_reads_the_lines_of_a_file(glassformer: Any, shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "masked.txt").write_text("a [MASK] film\nnone\n")
    result = glassformer("fill", shelf / "runs/bert", "masked.txt", "--json")
    assert len(result.out.splitlines()) == 2
    assert "masked.txt, line 2: no [MASK] found." in result.err


def test_translate_reads_the_lines_of_a_file(
    glassformer: Any, translator: Path, tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("one two\nthree\n")
    by_name = glassformer("translate", translator, "lines.txt")
    assert by_name.out == glassformer("translate", translator, stdin="one two\nthree\n").out
    assert len(by_name.out.splitlines()) == 2


def test_a_binary_file_is_refused(glassformer: Any, shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\0\0")
    result = glassformer("classify", shelf / "runs/reviews", "a.png")
    assert result.error == "a.png is a binary file, not text. Pass a text file or a table."


@pytest.mark.parametrize(("verb", "model"), [("classify", "reviews"), ("tag", "names")])
def test_the_rows_of_a_table_are_not_one_text(
    glassformer: Any, shelf: Path, tmp_path: Path, verb: str, model: str
) -> None:
    (tmp_path / "a.csv").write_text("text,label\na fine film,pos\n")
    result = glassformer(verb, shelf / "runs" / model, "a.csv")
    assert (result.code, result.out) == (2, "")
    assert result.error == "a.csv is a table. To use its rows, pass --data a.csv."


PIPE_IN = "To use the argument itself as text, pipe it in."


@pytest.mark.parametrize(
    ("verb", "model"),
    [
        ("classify", "reviews"),
        ("tag", "names"),
        ("fill", "bert"),
        ("embed", "bert"),
        ("generate", "gpt"),
        ("score", "gpt"),
        ("chat", "gpt"),
        ("inspect", "gpt"),
    ],
)
def test_a_mistyped_name_of_a_file_is_not_a_text(
    glassformer: Any, shelf: Path, tmp_path: Path, verb: str, model: str
) -> None:
    (tmp_path / "lines.txt").write_text("a fine film\n")
    result = glassformer(verb, shelf / "runs" / model, "lines.txtt")
    assert (result.code, result.out) == (1, "")
    said = f"there is no file lines.txtt. Did you mean lines.txt? {PIPE_IN}"
    assert result.error == said


def test_a_mistyped_name_is_not_translated(
    glassformer: Any, translator: Path, tmp_path: Path
) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "test.en").write_text("one\n")
    result = glassformer("translate", translator, "texts/tset.en")
    assert (result.code, result.out) == (1, "")
    assert "Did you mean texts/test.en?" in result.error


@pytest.mark.parametrize("name", ["film.txt", "reviews/film", "reviews/film.v2", "../photo.JPG"])
def test_what_looks_like_a_file_is_refused_only_if_it_must_be_one(
    glassformer: Any, shelf: Path, name: str
) -> None:
    result = glassformer("classify", shelf / "runs/reviews", name)
    if name == "reviews/film":
        assert result.code == 0
        return
    assert (result.code, result.out) == (1, "")
    assert result.error == f"there is no file {name}. Check the name. {PIPE_IN}"
    assert glassformer("classify", shelf / "runs/reviews", stdin=f"{name}\n").code == 0


@pytest.mark.parametrize(
    "text",
    [
        *("the end of film.txt", "Mr.Smith", "and/or", "a film. the end", "1/2.5", "film", "..."),
        *("https://example.org/film.html", "a film\nnotes.txt", f"{'long' * 90}.txt"),
    ],
)
def test_a_text_with_dots_and_slashes_is_a_text(glassformer: Any, shelf: Path, text: str) -> None:
    result = glassformer("classify", shelf / "runs/reviews", text)
    assert result.code == 0
    assert "file" not in result.err


# --- texts that the model does not know ---


def test_a_text_without_a_known_word_gets_a_note(glassformer: Any, shelf: Path) -> None:
    model = shelf / "runs/reviews"
    unknown = glassformer("classify", model, "zyzzyva xylyl!")
    assert unknown.code == 0
    note = "note: the text has no word that the model knows: its label says nothing about it"
    assert note in unknown.err
    assert "no word" not in glassformer("classify", model, "zyzzyva fox").err
    several = glassformer("classify", model, stdin="a fox\nzyzzyva\n\nxylyl\n")
    assert "note: 2 of 3 texts have no word that the model knows: their labels say" in several.err


@pytest.mark.parametrize(("kind", "without"), [("word", 2), ("char", 1), ("bpe", 0)])
def test_words_are_unknown_only_to_some_kinds_of_tokenizers(
    capsys: pytest.CaptureFixture[str], kind: Any, without: int
) -> None:
    words = KnownWords(
        train_tokenizer(kind, ["a fox and a dog."] * 9, None if kind == "char" else 300)
    )
    words.look(["the fox", "gnd.", "", "чай, вода."])
    words.note("its tags say", "their tags say")
    said = capsys.readouterr().err
    assert said == (
        f"note: {without} of 3 texts have no word that the model knows: their tags say nothing "
        "about them\n"
        if without
        else ""
    )


def test_several_files_may_follow_one_option(glassformer: Any, small: Any, tmp_path: Path) -> None:
    for name in ("a.txt", "b c.txt"):
        (tmp_path / name).write_text(f"{name} and more words\n" * 400)
    for words in (("gpt", "--data", "a.txt", "b c.txt"), ("--data", "a.txt", "b c.txt", "gpt")):
        result = glassformer("train", *words, *small, "--print-recipe", "--json")
        assert '"paths": ["a.txt", "b c.txt"]' in result.out, result.err


def test_a_model_that_has_a_verb_is_never_refused_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own:
        verbs = ("classify",)

    monkeypatch.setattr(tasks, "load", lambda path, quantize=None: Own())
    assert isinstance(tasks.load_for("runs/x", ClassifyPredictor, "classify"), Own)
