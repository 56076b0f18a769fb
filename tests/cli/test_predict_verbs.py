"""`classify`, `tag`, `fill`, `evaluate` and `compare`: text in; labels, words and scores out."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoint.model_folder import load_model, save_model
from glassformer.models.bag import Bag, BagConfig


def rows(result: Any) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def runs(shelf: Path) -> Path:
    return shelf / "runs"


# --- classify ---


def test_classify_names_the_label_and_how_sure_it_is(program: Any, runs: Path) -> None:
    result = program("classify", runs / "reviews", "a good fox")
    label, score = result.out.split()
    assert (result.code, result.err, label) == (0, "", "good")
    assert 0.5 < float(score) <= 1


def test_classify_as_json_has_the_label_and_all_scores(glassformer: Any, runs: Path) -> None:
    (found,) = rows(glassformer("classify", runs / "encoder", "a bad dog", "--json"))
    assert found.keys() == {"text", "label", "scores"}
    assert (found["text"], found["label"]) == ("a bad dog", "bad")
    assert list(found["scores"]) == ["bad", "good"]
    assert sum(found["scores"].values()) == pytest.approx(1)


@pytest.mark.parametrize("name", ["reviews", "encoder"])
def test_lines_of_any_length_are_answered_in_their_order(
    glassformer: Any, runs: Path, name: str
) -> None:
    lines = ["a good", "bad " * 400, "", "lazy dog good", "the bad", "good " * 90, "x" * 3000]
    found = rows(glassformer("classify", runs / name, "--json", stdin="\n".join(lines)))
    assert [row["text"] for row in found] == lines
    labels = [row["label"] for row in found]
    assert labels[:2] + labels[3:6] == ["good", "bad", "good", "bad", "good"]
    for line, row in zip(lines, found, strict=True):
        if not line:  # as an argument, it would be a mistake
            continue
        (alone,) = rows(glassformer("classify", runs / name, line, "--json"))
        assert row["scores"] == pytest.approx(alone["scores"], abs=1e-5)


def test_of_a_line_without_words_nothing_is_said(glassformer: Any, runs: Path) -> None:
    words, lines = ("classify", runs / "reviews", "--json"), "a good fox\n\n  \nthe bad\n"
    found = rows(glassformer(*words, stdin=lines))
    assert [row["label"] for row in found] == ["good", None, None, "bad"]
    assert found[1] == {"text": "", "label": None, "scores": {}}
    assert [row["scores"] for row in found[::3]] == [
        row["scores"] for row in rows(glassformer(*words, stdin="a good fox\nthe bad\n"))
    ]
    several = rows(glassformer("classify", runs / "topics", "--json", stdin="\n"))
    assert several == [{"text": "", "labels": [], "scores": {}}]


def test_more_lines_than_are_read_at_once_keep_their_order(glassformer: Any, runs: Path) -> None:
    lines = [("a good fox", "the bad dog")[number // 7 % 2] for number in range(2500)]
    found = rows(glassformer("classify", runs / "reviews", "--json", stdin="\n".join(lines)))
    assert [row["label"] for row in found] == [line.split()[1] for line in lines]


def test_beside_each_of_several_answers_stands_its_text(glassformer: Any, runs: Path) -> None:
    lines = glassformer("classify", runs / "reviews", stdin="a good fox\r\n\r\nthe bad\r\n").out
    first, empty, last = lines.splitlines()
    assert first.split() == ["good", first.split()[1], "a", "good", "fox"]
    assert empty == ""  # nothing is said of it, and the others stay in their places
    assert last.split()[::3] == ["bad", "bad"]


def test_nothing_in_is_nothing_out(glassformer: Any, runs: Path) -> None:
    result = glassformer("classify", runs / "reviews", stdin="")
    assert (result.code, result.out) == (0, "")
    assert result.err == "note: stdin is empty: there is nothing to read.\n"


def test_of_several_labels_json_gives_a_list(glassformer: Any, runs: Path) -> None:
    lines = "the fox good\nthe fox good bad\nthe fox\n"
    found = rows(glassformer("classify", runs / "topics", "--json", stdin=lines))
    assert [sorted(row["labels"]) for row in found] == [["good"], ["bad", "good"], []]
    assert all("label" not in row and set(row["scores"]) == {"good", "bad"} for row in found)
    shown = glassformer("classify", runs / "topics", stdin=lines).out.splitlines()
    assert shown[2].startswith("-  ")


def test_the_columns_of_the_training_are_read_again(
    glassformer: Any, runs: Path, tmp_path: Path
) -> None:
    table = written(
        tmp_path / "new.csv",
        "verdict,body,title",
        "x,the good fox,the dog",
        "x,the dog,bad fox",
        "x,,",
        "x,,a good fox",
    )
    found = rows(glassformer("classify", runs / "pairs", "--data", table, "--json"))
    assert [row["label"] for row in found] == ["good", "bad", "good"]
    assert found[0]["text"] == "the dog\nthe good fox"
    assert [row["source"] for row in found] == [f"{table}:{line}" for line in (2, 3, 5)]
    (other,) = rows(
        glassformer("classify", runs / "pairs", "--data", table, "--text-column", "title", "--json")
    )[:1]
    assert other["text"] == "the dog"


def test_a_file_of_text_is_one_text(glassformer: Any, runs: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "the good fox", "jumps good")
    (found,) = rows(glassformer("classify", runs / "reviews", "--data", path, "--json"))
    assert (found["label"], found["source"]) == ("good", str(path))


# --- tag ---


def test_tag_gives_every_word_its_tag(program: Any, runs: Path) -> None:
    result = program("tag", runs / "names", "the fox Ada Lovelace jumps")
    pairs = [line.split("\t") for line in result.out.splitlines() if line]
    assert result.code == 0, result.err
    assert [word for word, _ in pairs] == ["the", "fox", "Ada", "Lovelace", "jumps"]
    assert [tag for _, tag in pairs] == ["O", "O", "B-NAME", "I-NAME", "O"]


def test_tag_as_json_has_the_entities(glassformer: Any, runs: Path) -> None:
    (found,) = rows(glassformer("tag", runs / "names", "the fox Ada Lovelace", "--json"))
    assert found["entities"] == [{"type": "NAME", "text": "Ada Lovelace", "words": [2, 3]}]
    assert len(found["scores"]) == len(found["words"]) == len(found["tags"]) == 4


def test_one_word_and_none_at_all_are_sentences_too(glassformer: Any, runs: Path) -> None:
    lines = "Ada\n\nthe quick Ada Lovelace\n"
    found = rows(glassformer("tag", runs / "names", "--json", stdin=lines))
    assert [row["words"] for row in found] == [["Ada"], [], ["the", "quick", "Ada", "Lovelace"]]
    assert [len(row["tags"]) for row in found] == [1, 0, 4]
    assert found[2]["tags"][2:] == ["B-NAME", "I-NAME"]


def test_tagged_sentences_are_written_as_they_are_read(
    glassformer: Any, runs: Path, tmp_path: Path
) -> None:
    lines = "the fox Ada Lovelace jumps\na dog Ada Lovelace\n"
    written(
        tmp_path / "own.conll", *glassformer("tag", runs / "names", stdin=lines).out.split("\n")
    )
    words = ("evaluate", runs / "names", "--data", "own.conll", "--json")
    (found,) = rows(glassformer(*words))
    assert (found["accuracy"], found["num_sentences"], found["num_words"]) == (1, 2, 9)


def test_tag_reads_files_of_sentences_and_tables(
    glassformer: Any, runs: Path, tmp_path: Path
) -> None:
    written(tmp_path / "a.txt", "the fox", "", "Ada Lovelace jumps")
    written(tmp_path / "b.csv", "id,body", "1,a dog", "2,", "3,Ada Lovelace")
    written(tmp_path / "c.conll", "New York\tB-NAME", "jumps\tO")
    data = ("--data", "a.txt", "--data", "b.csv", "--data", "c.conll", "--text-column", "body")
    found = rows(glassformer("tag", runs / "names", *data, "--json"))
    assert [" ".join(row["words"]) for row in found] == [
        *("the fox", "", "Ada Lovelace jumps", "a dog", "Ada Lovelace", "New York jumps")
    ]
    places = ("a.txt:1", "a.txt:2", "a.txt:3", "b.csv:2", "b.csv:4", "c.conll:1")
    assert [row["source"] for row in found] == list(places)
    assert found[2]["entities"][0]["text"] == "Ada Lovelace"
    plain = glassformer("tag", runs / "names", "--data", "a.txt").out
    assert plain == glassformer("tag", runs / "names", stdin=(tmp_path / "a.txt").read_text()).out
    assert plain.startswith("the\tO\nfox\tO\n\n\nAda\t")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("the fox", "--data", "x"), "both a text and --data were passed. Leave out"),
        (("the fox", "--text-column", "x"), "--text-column needs --data"),
    ],
)
def test_what_tag_cannot_read(
    glassformer: Any, runs: Path, words: tuple[str, ...], error: str
) -> None:
    result = glassformer("tag", runs / "names", *words)
    assert (result.code, result.out) == (2, "")
    assert error in result.error


def test_tag_reads_the_files_of_a_folder(glassformer: Any, runs: Path, tmp_path: Path) -> None:
    error = glassformer("tag", runs / "names", "--data", ".").error
    assert error == ". contains no files to read. Text files and tables are read."
    written(tmp_path / "a.txt", "the fox", "Ada Lovelace")
    result = glassformer("tag", runs / "names", "--data", ".", "--json")
    assert [row["source"] for row in rows(result)] == ["a.txt:1", "a.txt:2"]
    assert "note: read 1 .txt" in result.err


# --- fill ---


def test_fill_shows_the_likeliest_tokens(program: Any, runs: Path) -> None:
    result = program("fill", runs / "bert", "the quick [MASK] fox", "--top", "3")
    assert (result.code, result.err) == (0, "")
    chances = [float(line.split("%")[0]) for line in result.out.splitlines()]
    assert len(chances) == 3
    assert chances == sorted(chances, reverse=True)


def test_fill_as_json_has_guesses_for_each_mask(glassformer: Any, runs: Path) -> None:
    lines = "the [MASK] fox [MASK]\n[MASK]\n"
    two, one = rows(glassformer("fill", runs / "bert", "--top", "2", "--json", stdin=lines))
    assert [len(mask) for mask in two["guesses"]] == [2, 2]
    assert [len(mask) for mask in one["guesses"]] == [2]
    guess = two["guesses"][1][0]
    assert guess.keys() == {"token", "probability", "text"}
    assert guess["text"].startswith("the [MASK] fox")


def test_a_line_without_a_mask_does_not_stop_the_others(glassformer: Any, runs: Path) -> None:
    lines = "the [MASK] fox\nthe fox\n\na [MASK]\n"
    result = glassformer("fill", runs / "bert", "--top", "2", "--json", stdin=lines)
    found = rows(result)
    assert [[len(mask) for mask in row["guesses"]] for row in found] == [[2], [], [], [2]]
    assert [row["text"] for row in found] == lines.splitlines()
    notes = [f"note: stdin, line {n}: no [MASK] found." for n in (2, 3)]
    assert result.err.splitlines() == notes
    plain = glassformer("fill", runs / "bert", "--top", "1", stdin=lines).out.splitlines()
    assert [bool(line) for line in plain] == [True, False, False, True]


def test_several_masks_are_numbered(glassformer: Any, runs: Path) -> None:
    out = glassformer("fill", runs / "bert", "[MASK] fox [MASK]", "--top", "1").out.splitlines()
    assert (out[0], out[2], len(out)) == ("--- 1 ---", "--- 2 ---", 4)


# --- evaluate ---


@pytest.mark.parametrize(("run", "data"), [("reviews", "reviews.csv"), ("pairs", "pairs.csv")])
def test_evaluate_reads_the_columns_of_the_training(
    glassformer: Any, runs: Path, shelf: Path, run: str, data: str
) -> None:
    (found,) = rows(glassformer("evaluate", runs / run, "--data", shelf / data, "--json"))
    assert found["accuracy"] > 0.9
    assert found["num_examples"] >= 160
    assert {"macro_f1", "loss", "accuracy_interval"} <= found.keys()
    assert 2 * found["classes"]["good"]["support"] == found["num_examples"]


def test_evaluate_shows_a_table_of_the_classes(glassformer: Any, runs: Path, shelf: Path) -> None:
    out = glassformer("evaluate", runs / "encoder", "--data", shelf / "reviews.csv").out
    first, head, *classes = out.splitlines()
    assert first.startswith("accuracy 1.0000 (95% interval ")
    assert head.split() == ["class", "precision", "recall", "F1", "support"]
    assert [line.split()[0] for line in classes] == ["bad", "good"]


def test_labels_never_seen_are_named_and_counted(
    glassformer: Any, runs: Path, tmp_path: Path
) -> None:
    table = ["review,sentiment", "a good fox,good", "a dog,odd", "a fox,odd", "the fox,new"]
    written(tmp_path / "test.csv", *table)
    result = glassformer("evaluate", runs / "reviews", "--data", "test.csv", "--json")
    (found,) = rows(result)
    assert found["unknown_labels"] == {"odd": 2, "new": 1}
    assert (found["num_examples"], found["accuracy"]) == (4, 0.25)
    assert result.err.startswith("note: 3 of 4 examples have labels that the model does not know")
    assert "odd (2), new (1)" in result.err


def test_entities_are_scored_and_tags_never_seen_counted(
    glassformer: Any, runs: Path, tmp_path: Path
) -> None:
    written(tmp_path / "x.conll", "the\tO", "fox\tB-DOG", "Ada\tB-NAME", "Lovelace\tI-NAME")
    result = glassformer("evaluate", runs / "names", "--data", "x.conll", "--json")
    (found,) = rows(result)
    assert (found["precision"], found["recall"], found["accuracy"]) == (1, 0.5, 0.75)
    assert found["unknown_tags"] == {"B-DOG": 1}
    assert "count as wrong: B-DOG (1)" in result.err


def test_a_masked_model_is_measured_by_its_guesses(
    glassformer: Any, runs: Path, shelf: Path
) -> None:
    words = ("evaluate", runs / "bert", "--data", shelf / "text.txt")
    (found,) = rows(glassformer(*words, "--json"))
    assert found["loss"] > 0
    assert found["num_tokens"] > 10
    assert f"loss {found['loss']:.4f} per masked token" in glassformer(*words).out


# --- compare ---


@pytest.fixture
def test_csv(tmp_path: Path) -> Path:
    """Two words for each review, and one label in five wrong: nobody gets all of them right."""
    table = ["review,sentiment"]
    for number in range(40):
        said = ("good", "bad")[number % 2]
        table.append(f"the {said} fox,{said if number % 5 else ('bad', 'good')[number % 2]}")
    return written(tmp_path / "test.csv", *table)


def test_compare_sets_models_beside_a_baseline(
    glassformer: Any, runs: Path, shelf: Path, test_csv: Path, monkeypatch: Any
) -> None:
    shutil.copytree(runs, test_csv.parent / "runs")  # the baseline learns from what they did:
    shutil.copy(shelf / "reviews.csv", test_csv.parent)
    models = ("runs/encoder", "runs/reviews")
    result = glassformer("compare", *models, "--data", test_csv, "--json")
    found = {row["model"]: row for row in rows(result)}
    assert set(found) == {*models, "TF-IDF + logistic regression"}
    losses = [row["loss"] for row in found.values()]
    assert losses == sorted(losses)  # all are equally right: the lower loss decides
    for row in found.values():
        low, high = row["interval"]
        assert low < row["accuracy"] == 0.8 < high
        assert {"macro_f1", "loss", "num_parameters"} <= row.keys()
    shown = glassformer("compare", *reversed(models), "--data", test_csv).out.splitlines()
    assert [line.split("  ")[0] for line in shown[1:]] == list(found)
    assert shown[0].startswith("model ")
    assert "95% interval" in shown[0]
    assert len(shown) == 4
    assert len({len(line) for line in shown}) == 1  # columns stand under each other
    left = glassformer("compare", *models, "--data", test_csv, "--no-baseline").out
    assert "TF-IDF" not in left


def test_the_best_comes_first(glassformer: Any, runs: Path, test_csv: Path, shelf: Path) -> None:
    columns = ("--text-column", "review", "--label-column", "sentiment", "--no-baseline", "--json")
    models = [runs / name for name in ("pairs", "reviews", "encoder")]
    found = rows(glassformer("compare", *models, "--data", test_csv, *columns))
    scores = [row["accuracy"] for row in found]
    assert scores == sorted(scores, reverse=True)
    text = rows(
        glassformer("compare", runs / "gpt", runs / "gpt", "--data", shelf / "text.txt", "--json")
    )
    assert next(iter(text[0])) == "model"
    assert [row["bits_per_byte"] for row in text] == sorted(row["bits_per_byte"] for row in text)
    assert text[0]["interval"] is None


def test_taggers_are_compared_by_f1(glassformer: Any, runs: Path, shelf: Path) -> None:
    words = ("compare", runs / "names", "--data", shelf / "names.conll")
    (found,) = rows(glassformer(*words, "--json"))
    assert found["f1"] > 0.9
    low, high = found["interval"]
    assert 0 < low <= found["f1"] <= high <= 1
    assert 0 <= found["expected_calibration_error"] < 0.2
    assert rows(glassformer(*words, "--json")) == [found]
    assert glassformer(*words).out.splitlines()[0].split()[:3] == ["model", "parameters", "F1"]


def test_without_the_data_of_the_training_there_is_no_baseline_and_a_note(
    glassformer: Any, runs: Path, test_csv: Path
) -> None:
    result = glassformer("compare", runs / "reviews", "--data", test_csv)
    assert result.code == 0
    assert "note: no baseline: reviews.csv does not exist." in result.err
    assert "TF-IDF" not in result.out


def test_data_with_other_labels_than_at_training_makes_no_baseline(
    glassformer: Any, runs: Path, test_csv: Path
) -> None:
    changed = ["review,sentiment", *(f"the fox {n},{('good', 'odd')[n % 2]}" for n in range(40))]
    written(test_csv.parent / "reviews.csv", *changed)
    written(test_csv, "review,sentiment", "a good dog,good", "a fox,odd")
    result = glassformer("compare", runs / "reviews", "--data", test_csv)
    assert result.code == 0, result.err
    assert "has different labels than" in result.err


def test_models_that_know_different_labels_say_which_left_something_out(
    glassformer: Any, runs: Path, test_csv: Path, tmp_path: Path
) -> None:
    saved = load_model(runs / "reviews")
    assert isinstance(saved.model.config, BagConfig)
    other = Bag(saved.model.config.model_copy(update={"labels": ("good", "odd")}))
    save_model(tmp_path / "other", other, saved.preprocessing)
    written(test_csv, "review,sentiment", "a good dog,good", "a bad dog,bad")
    models = (runs / "reviews", "other")
    result = glassformer("compare", *models, "--data", test_csv, "--no-baseline")
    assert result.err.startswith("note: other: 1 of 2 examples have labels that the model does not")


def test_models_of_other_labels_are_not_compared(
    glassformer: Any, runs: Path, tmp_path: Path
) -> None:
    saved = load_model(runs / "reviews")
    assert isinstance(saved.model.config, BagConfig)
    stars = Bag(saved.model.config.model_copy(update={"labels": ("1", "2")}))
    save_model(tmp_path / "stars", stars, saved.preprocessing)
    result = glassformer("compare", runs / "reviews", "stars", "--data", "x.csv")
    assert result.code == 2
    assert "have no label in common (bad, good; 1, 2)" in result.error


def test_a_text_without_words_has_no_label(glassformer: Any, runs: Path) -> None:
    assert glassformer("classify", runs / "reviews", "  ").error == "the text is empty."


def test_the_recipe_of_a_classifier_is_a_recipe_again(glassformer: Any, tmp_path: Path) -> None:
    lines = [f"a {word} fox {n},{word}" for n in range(30) for word in ("good", "bad")]
    written(tmp_path / "r.csv", "review,sentiment", *lines)
    said = ("train", "bag", "--data", "r.csv", "--max-steps", "2", "--print-recipe")
    (tmp_path / "r.yaml").write_text(glassformer(*said).out)
    again = glassformer("train", "--recipe", "r.yaml", "--print-recipe")
    assert (again.code, again.out) == (0, (tmp_path / "r.yaml").read_text())


def test_verify_of_a_classifier_speaks_of_nothing_that_is_gone(
    glassformer: Any, runs: Path
) -> None:
    result = glassformer("verify", runs / "reviews")
    assert (result.code, result.out[:10]) == (0, "identical:")
    assert "is gone" not in result.err
