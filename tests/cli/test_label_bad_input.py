"""What can be wrong with labels, tags and masks: one sentence, the right code, nothing left."""

from pathlib import Path
from typing import Any

import pytest


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def written(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def runs(shelf: Path) -> Path:
    return shelf / "runs"


@pytest.fixture
def refused(glassformer: Any, tmp_path: Path) -> Any:
    """Train in vain on a file with this content: the error, after a look at what is left."""

    def train(content: str | bytes, *words: str, model: str = "bag", code: int = 1) -> str:
        name = "x.conll" if model == "tagger" else "x.csv"
        written(tmp_path / name, content)
        before = names(tmp_path)
        result = glassformer("train", model, "--data", name, *words)
        assert result.code == code, result.err
        assert result.out == ""
        assert names(tmp_path) == before
        return str(result.error)

    return train


@pytest.fixture
def unmeasured(glassformer: Any, tmp_path: Path) -> Any:
    """Evaluate in vain on a file with this content."""

    def evaluate(run: Path, content: str | bytes, *words: str, code: int = 1) -> str:
        name = "x.conll" if run.name == "names" else "x.csv"
        written(tmp_path / name, content)
        result = glassformer("evaluate", run, "--data", name, "--json", *words)
        assert (result.code, result.out) == (code, "")
        return str(result.error)

    return evaluate


GOOD = "".join(f"text {n},{('a', 'b')[n % 2]}\n" for n in range(30))

TABLES = {
    "a missing column": (
        "text,label\n" + GOOD,
        ("--label-column", "mood"),
        'x.csv has no column "mood" (columns: text, label).',
    ),
    "no column that plainly is the label": (
        "text,one,two\nhello,1,2\nworld,3,4\n",
        (),
        "x.csv has no obvious label column (columns: text, one, two). ",
    ),
    "a text column that is missing": (
        "text,label\n" + GOOD,
        ("--text-column", "title"),
        'x.csv has no column "title" (columns: text, label).',
    ),
    "one class only": (
        "text,label\nhello,a\nworld,a\nagain,a\n",
        (),
        'x.csv has only the label "a".',
    ),
    "a label that is not a number": (
        "text,label\n" + GOOD + "the end,NaN\n",
        (),
        'x.csv:32: no label in column "label".',
    ),
    "the text for the label": (
        "text,label\n" + GOOD,
        ("--label-column", "text"),
        'x.csv has 30 different labels for 30 examples in column "text". Pass the column',
    ),
    "an empty label": ("text,label\n" + GOOD + "the end,\n", (), "x.csv:32: no label in column"),
    "unequal numbers of columns": (
        "text,label\n" + GOOD + "the end, or not,a\n",
        (),
        "x.csv:32: expected 2 fields (text, label), found 3.",
    ),
    "empty texts only": ("text,label\n,a\n ,b\n", (), "x.csv contains no labelled text."),
    "a header alone": ("text,label\n", (), "x.csv has no rows."),
    "nothing at all": ("", (), "x.csv is empty."),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_that_cannot_be_learned_from(refused: Any, case: str) -> None:
    content, words, error = TABLES[case]
    assert error in refused(content, *words)


def test_a_class_with_one_example_and_texts_that_are_empty_are_noted(
    glassformer: Any, tmp_path: Path
) -> None:
    written(tmp_path / "x.csv", "text,label\n" + GOOD + "one,rare\n,a\n")
    words = ("train", "bag", "--data", "x.csv", "--max-steps", "2", "--out", "r")
    trained = glassformer(*words, "--set", "training.precision=float32")
    assert trained.code == 0, trained.err
    assert "too few examples to hold one out and is used only for training: rare" in trained.err
    assert "left out: 1 example without text (first: x.csv:33)" in trained.err


def test_what_was_detected_is_shown_before_the_error(glassformer: Any, tmp_path: Path) -> None:
    rows = (f"{n},the council of town {n} met on Monday,k{n}\n" for n in range(30))
    written(tmp_path / "x.csv", "".join(rows))
    words = ("train", "bag", "--data", "x.csv", "--label-column", "3")
    note, error = glassformer(*words).err.splitlines()[-2:]
    assert note.startswith("note: x.csv has no header")
    assert error.startswith("error: x.csv has 30 different labels for 30 examples")


def test_bytes_of_no_encoding_are_placed(refused: Any) -> None:
    rows = [b"text,label", *(line.encode() for line in GOOD.splitlines())]
    error = refused(b"\n".join([*rows, "café noir,b".encode("cp850")]))
    assert error.startswith("x.csv")
    assert "invalid UTF-8 (0x82), and no other encoding fits." in error


SENTENCES = "Ada\tB-NAME\nruns\tO\n\nthe\tO\nfox\tO\n\n" * 10

TAGGED = {
    "a word without a tag": (SENTENCES + "the\tO\nfox\n", 'x.conll:62: no tag for "fox".'),
    "unequal numbers of columns": (
        SENTENCES + "the\tx\tO\n",
        "x.conll:61: expected 2 columns as in the first line of words, found 3.",
    ),
    "one tag only": ("the\tO\nfox\tO\n\na\tO\n", 'every word has the same tag ("O")'),
    "nothing at all": ("", "x.conll is empty."),
}


@pytest.mark.parametrize("case", TAGGED)
def test_sentences_that_cannot_be_learned_from(refused: Any, case: str) -> None:
    content, error = TAGGED[case]
    assert error in refused(content, model="tagger")


def test_a_text_cannot_be_its_own_label(refused: Any) -> None:
    words = ("--text-column", "text", "--label-column", "text")
    assert "cannot be both the text and the label" in refused("text,label\n" + GOOD, *words, code=2)


# --- evaluate, classify, compare ---


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("text,label\na,good\n", 'x.csv has no column "sentiment" (columns: text, label).'),
        ("review,sentiment\na,odd\nb,odd\n", "x.csv has only labels that the model does not know"),
        ("review,sentiment\na,good\nb,nan\n", 'x.csv:3: no label in column "sentiment"'),
        (
            "review,sentiment\na,good\nb,bad,c\n",
            "x.csv:3: expected 2 fields (review, sentiment), found 3.",
        ),
        ("review,sentiment\n,good\n", "x.csv contains no labelled text."),
        (b"review,sentiment\ncaf\x82,good\n", "invalid UTF-8 (0x82)"),
    ],
)
def test_a_table_that_nothing_can_be_measured_on(
    unmeasured: Any, runs: Path, content: str | bytes, error: str
) -> None:
    assert error in unmeasured(runs / "reviews", content)


def test_labels_that_the_model_does_not_know_are_listed_beside_those_it_does(
    unmeasured: Any, runs: Path
) -> None:
    error = unmeasured(runs / "reviews", "review,sentiment\na,odd\nb,odd\nc,new\n")
    assert "odd (2), new (1). It knows: bad, good." in error


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("the\tO\nfox\n", 'x.conll:2: no tag for "fox".'),
        ("the\tX\nfox\tY\n", "x.conll has only tags that the model does not know: X (1), Y (1)."),
        ("", "x.conll is empty."),
    ],
)
def test_sentences_that_nothing_can_be_measured_on(
    unmeasured: Any, runs: Path, content: str, error: str
) -> None:
    assert error in unmeasured(runs / "names", content)


@pytest.mark.parametrize(
    ("run", "words", "error"),
    [
        (
            "bert",
            ("--context-length", "4"),
            "does not accept --context-length. It accepts --data, --text-column",
        ),
        (
            "reviews",
            ("--context-length", "4"),
            "does not accept --context-length. It accepts --data, --text-column",
        ),
        (
            "bert",
            ("--label-column", "x"),
            "does not accept --label-column. It accepts --data, --text-column",
        ),
        (
            "gpt",
            ("--label-column", "x"),
            "does not accept --label-column. It accepts --data, --text-column",
        ),
    ],
)
def test_an_option_of_another_task_is_refused(
    unmeasured: Any, runs: Path, run: str, words: tuple[str, ...], error: str
) -> None:
    assert error in unmeasured(runs / run, "text,label\na,good\n", *words, code=2)


VERBS = {
    "reviews": ("classify, inspect and evaluate", "tag", "fill", "generate", "score"),
    "names": ("tag, inspect and evaluate", "classify", "fill", "generate", "score"),
    "bert": (
        "fill, embed, neighbours, inspect and evaluate",
        "classify",
        "tag",
        "generate",
        "score",
    ),
    "gpt": ("generate, chat, score, neighbours, inspect and evaluate", "classify", "tag", "fill"),
}


@pytest.mark.parametrize("run", VERBS)
def test_a_verb_that_a_model_does_not_have_names_those_it_has(
    glassformer: Any, runs: Path, run: str
) -> None:
    has, *others = VERBS[run]
    for verb in others:
        result = glassformer(verb, runs / run, "the [MASK] fox")
        assert (result.code, result.out) == (2, "")
        said = f"{runs / run} cannot {verb}. This model supports {has}."
        assert result.error == said


@pytest.mark.parametrize("verb", ["classify", "tag", "fill"])
def test_a_folder_without_a_model(glassformer: Any, tmp_path: Path, verb: str) -> None:
    assert glassformer(verb, "nothing", "x").error.startswith("nothing does not exist.")
    assert "there is no config.json in it" in glassformer(verb, tmp_path, "x").error


@pytest.mark.parametrize(("verb", "run"), [("classify", "reviews"), ("tag", "names")])
def test_a_line_that_is_no_utf8_is_numbered(
    glassformer: Any, runs: Path, verb: str, run: str
) -> None:
    lines = b"a long line of good text that fills the buffer\n" * 1000
    result = glassformer(verb, runs / run, stdin=lines + b"caf\xe9\n")
    assert (result.code, result.out.count("\n") // 1000) == (1, 1 if verb == "classify" else 11)
    assert result.error == "stdin, line 1,001: invalid UTF-8. Convert it, for example with iconv."


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("a text", "--data", "x.csv"), 2, "both a text and --data were passed. Leave out"),
        (("a text", "--text-column", "x"), 2, "--text-column needs --data"),
        (("--data", "no.csv"), 1, "no.csv does not exist."),
        (("--data", "x.csv"), 1, 'x.csv has no column "review" (columns: text).'),
        (("--data", "x.csv", "--text-column", "y"), 1, 'x.csv has no column "y" (columns: text).'),
        (("--data", "x.csv", "--encoding", "klingon"), 2, "unknown encoding 'klingon'"),
    ],
)
def test_a_command_that_classifies_nothing(
    glassformer: Any, runs: Path, tmp_path: Path, words: tuple[str, ...], code: int, error: str
) -> None:
    written(tmp_path / "x.csv", "text\nthe fox\nthe dog\n")
    result = glassformer("classify", runs / "reviews", *words)
    assert (result.code, result.out) == (code, "")
    assert error in result.error


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("the fox", 2, 'no [MASK] in "the fox"'),
        ("", 2, 'no [MASK] in ""'),
        ("the " * 40 + "[MASK]", 1, "the text has 41 tokens"),
    ],
)
def test_a_text_that_cannot_be_filled(
    glassformer: Any, runs: Path, text: str, code: int, error: str
) -> None:
    result = glassformer("fill", runs / "bert", text)
    assert (result.code, result.out) == (code, "")
    assert error in result.error


def test_models_of_different_tasks_are_not_compared(
    glassformer: Any, runs: Path, shelf: Path
) -> None:
    for other in ("names", "bert", "gpt"):
        words = (runs / "reviews", runs / other, "--data", shelf / "reviews.csv")
        result = glassformer("compare", *words)
        assert (result.code, result.out) == (2, "")
        assert result.error.startswith("these models have different tasks")


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--data", "x.csv"), 2, "Missing argument 'MODELS'"),
        (("nothing", "--data", "x.csv"), 1, "nothing does not exist."),
    ],
)
def test_a_comparison_of_nothing(
    glassformer: Any, words: tuple[str, ...], code: int, error: str
) -> None:
    result = glassformer("compare", *words)
    assert (result.code, result.out) == (code, "")
    assert error in result.err


def test_a_mistake_is_one_line_in_a_process_of_its_own(program: Any, runs: Path) -> None:
    result = program("fill", runs / "reviews", "the [MASK]")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1


def test_characters_do_not_show_where_a_word_begins(
    glassformer: Any, tmp_path: Path, small: list[str]
) -> None:
    (tmp_path / "x.txt").write_text("the quick brown fox jumps over a lazy dog\n" * 50)
    words = ["train", "bert", "--data", "x.txt", "--tokenizer", "char", *small, "--dry-run"]
    result = glassformer(*words, "--set", "objective.whole_word_masking=true")
    assert (result.code, result.out) == (2, "")
    assert "objective.whole_word_masking needs tokens that show where a word begins" in result.error
