"""Several values after one option."""

import pytest

from glassformer.cli.verb import with_option_each

SEVERAL = {"--data", "--test-data"}
SINGLE = {*SEVERAL, "--out", "--set"}


def rewritten(line: str, needs_argument: bool = True) -> str:
    found = with_option_each(
        line.split(),
        SEVERAL,
        SINGLE,
        lambda value: value in ("gpt", "runs/a", "runs/b"),
        needs_argument,
    )
    return " ".join(found)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpt --data a b", "gpt --data a --data b"),
        ("--data a b gpt", "--data a --data b gpt"),
        ("--data a gpt b", "--data a gpt --data b"),
        ("gpt --data a b --out x --test-data c d", None),
        ("gpt --data=a b", "gpt --data=a --data b"),
        ("--out x gpt --data a b --force", "--out x gpt --data a --data b --force"),
        ("gpt --data a --force b", "gpt --data a --force b"),
        ("--data a b c", "--data a --data b c"),
        ("--data a", "--data a"),
        ("--data a runs/a runs/b", "--data a runs/a runs/b"),
        ("gpt --data a - b", "gpt --data a --data - --data b"),
        ("gpt --data a -- b c", "gpt --data a -- b c"),
        ("gpt --set --data a b", "gpt --set --data a b"),
        ("gpt --data", "gpt --data"),
    ],
)
def test_each_value_gets_the_option(line: str, expected: str | None) -> None:
    if expected is None:
        expected = "gpt --data a --data b --out x --test-data c --test-data d"
    assert rewritten(line) == expected


def test_a_verb_that_needs_no_argument_takes_none_from_the_values() -> None:
    assert rewritten("--data a b", needs_argument=False) == "--data a --data b"
