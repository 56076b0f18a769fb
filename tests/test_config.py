"""Settings are typed, closed and frozen, and whoever misspells one is told where and how."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from glassformer.config import Config, Count, flatten, parse, read_yaml, write_yaml
from glassformer.errors import GlassformerError, UsageError
from glassformer.training.preparation import assign

# Nine lists, each of nine times the one before: 600 bytes that stand for 387 million words.
BOMB = "a0: &a0 [lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


class Training(Config):
    learning_rate: float = Field(1e-3, gt=0)
    max_steps: Count | None = Field(None, ge=1)


class Experiment(Config):
    name: str
    training: Training = Training()
    tags: tuple[str, ...] = ()


def read(path: Path) -> Experiment:
    values, lines = read_yaml(path)
    return parse(Experiment, values, path.name, lines)


def complaint(path: Path, text: str) -> str:
    """What reading a file with this text says."""
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GlassformerError) as error:
        read(path)
    return str(error.value)


# --- keys and values ---


def test_an_unknown_key_comes_with_its_line_and_the_nearest_key(tmp_path: Path) -> None:
    text = "name: a\n\ntraining:\n  # how fast\n  learnin_rate: 1\n"
    assert complaint(tmp_path / "x.yaml", text) == (
        "unknown key training.learnin_rate in x.yaml, line 5. Did you mean learning_rate?"
    )


def test_an_unknown_key_like_no_other_comes_with_all_keys(tmp_path: Path) -> None:
    assert complaint(tmp_path / "x.yaml", "name: a\nzzz: 1\n") == (
        "unknown key zzz in x.yaml, line 2. Known keys: name, training, tags."
    )


def test_a_wrong_value_comes_with_its_key_and_its_line(tmp_path: Path) -> None:
    message = complaint(tmp_path / "x.yaml", "name: a\ntraining:\n  learning_rate: fast\n")
    assert message.startswith("training.learning_rate in x.yaml, line 3 is 'fast': it must be a ")


def test_a_value_out_of_range_comes_with_the_limit(tmp_path: Path) -> None:
    message = complaint(tmp_path / "x.yaml", "name: a\ntraining: {max_steps: 0}\n")
    assert message == ("training.max_steps in x.yaml, line 2 is 0: it must be 1 or more.")


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path / "x.yaml", "tags: [a]\n") == "name is missing in x.yaml."


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    message = complaint(tmp_path / "x.yaml", "nam: a\ntraining: {max_steps: 0, seed: 1}\n")
    assert "name is missing" in message
    assert "unknown key nam in x.yaml, line 1. Did you mean name?" in message
    assert "training.max_steps in x.yaml, line 2" in message
    assert "unknown key training.seed" in message


@pytest.mark.parametrize("rate", [".nan", ".inf"])
def test_a_number_that_is_none_is_refused(tmp_path: Path, rate: str) -> None:
    message = complaint(tmp_path / "x.yaml", f"name: a\ntraining: {{learning_rate: {rate}}}\n")
    assert "finite" in message


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Training().max_steps = 5  # type: ignore[misc]


# --- numbers ---


@pytest.mark.parametrize(
    ("text", "count"), [("9e9", 9_000_000_000), ("1.5e3", 1500), ("2000", 2000), ("1_000", 1000)]
)
def test_a_count_may_be_written_as_people_do(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "x.yaml").write_text(f"max_steps: {text}")
    values, _ = read_yaml(tmp_path / "x.yaml")
    assert parse(Training, values).max_steps == count
    assert parse(Training, {"max_steps": text}).max_steps == count


@pytest.mark.parametrize("text", ["2.5", "1e-3", "many", "inf", "nan", ""])
def test_what_is_no_whole_number_is_no_count(text: str) -> None:
    with pytest.raises(GlassformerError, match=r"^max_steps is "):
        parse(Training, {"max_steps": text})


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "0.001", "'1e-3'"])
def test_a_small_number_is_a_number_although_yaml_reads_a_word(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(f"learning_rate: {text}")
    values, _ = read_yaml(tmp_path / "x.yaml")
    assert parse(Training, values).learning_rate == 0.001


# --- files ---


def test_a_key_given_twice_is_an_error_with_its_line(tmp_path: Path) -> None:
    text = "name: a\ntraining:\n  max_steps: 1\n  learning_rate: 1\n  max_steps: 2\n"
    assert complaint(tmp_path / "x.yaml", text).endswith(
        "x.yaml, line 5: training.max_steps is set twice. Keep one."
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1, 2\nb: 3\n", "line 2"),
        ("a: 'open\n", "line 2"),
        ("\tname: a\n", "line 1"),
        ("", "is not a recipe"),
        ("- a\n- b\n", "is not a recipe"),
        ("just words", "is not a recipe"),
        ("a: 1\n---\nb: 2\n", "line 2"),
        ("name: !!python/object:os.system x\n", "line 1: a recipe can contain only plain values"),
        ("name: a\ntags: [2020-13-45]\n", "line 2: a recipe can contain only plain values"),
        ("name: &loop {a: *loop}\n", "far too many values"),
        (BOMB, "far too many values"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: \x00", "not YAML"),
    ],
)
def test_what_is_no_recipe_is_an_error_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    message = complaint(tmp_path / "x.yaml", text)
    assert "x.yaml" in message
    assert problem in message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match=r"no\.yaml does not exist"):
        read_yaml(tmp_path / "no.yaml")


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"name: \xe9\n")
    with pytest.raises(GlassformerError, match="byte 6: invalid UTF-8"):
        read_yaml(tmp_path / "x.yaml")
    with pytest.raises(GlassformerError, match="directory"):
        read_yaml(tmp_path)


@given(
    name=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    rate=st.floats(1e-12, 1e6),
    steps=st.none() | st.integers(1, 10**12),
    tags=st.lists(st.sampled_from(["no", "1e5", "null", "é ü", "a: b", "- x", "'", "2020-01-01"])),
)
def test_a_config_written_is_the_config_read(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    rate: float,
    steps: int | None,
    tags: list[str],
) -> None:
    training = Training(learning_rate=rate, max_steps=steps)
    config = Experiment(name=name, training=training, tags=tuple(tags))
    path = tmp_path_factory.getbasetemp() / "round.yaml"
    path.write_text(write_yaml(config), encoding="utf-8")
    assert read(path) == config


# --- --set ---


def test_set_changes_one_value_and_makes_its_section() -> None:
    values: dict[str, Any] = {"training": {"seed": 1}}
    assign(values, "training.learning_rate=1e-3")
    assign(values, "model.name = gpt")
    assign(values, "data.paths=[a.txt, b.txt]")
    assert values["training"] == {"seed": 1, "learning_rate": "1e-3"}
    assert values["model"] == {"name": "gpt"}
    assert values["data"]["paths"] == ["a.txt", "b.txt"]


def test_set_takes_everything_after_the_first_equals_sign() -> None:
    values: dict[str, Any] = {}
    assign(values, "name=a=b")
    assert values == {"name": "a=b"}


@pytest.mark.parametrize("text", ["learning_rate", "=5", " =5", ""])
def test_set_without_key_and_value_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="is not KEY=VALUE"):
        assign({}, text)


@pytest.mark.parametrize(
    "text", ["a=[", "a=2020-13-45", "a=!!python/name:os.system", "a={x: y: z}"]
)
def test_set_refuses_what_is_not_plain_yaml(text: str) -> None:
    with pytest.raises(UsageError, match="not YAML"):
        assign({}, text)


def test_set_cannot_reach_into_a_value() -> None:
    with pytest.raises(UsageError, match="seed is a value, not a section"):
        assign({"training": {"seed": 1}}, "training.seed.more=2")


def test_flatten_names_every_value_by_its_dotted_key() -> None:
    nested = {"a": {"b": 1, "c": {"d": [2]}}, "e": None}
    assert list(flatten(nested)) == [("a.b", 1), ("a.c.d", [2]), ("e", None)]
