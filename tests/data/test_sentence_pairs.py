"""Pairs that cannot be learned from are left out with a note; no source is on both sides."""

from pathlib import Path

import pytest
from sentence_pair_files import everything, many, split, tabbed
from written_files import written

from glassformer.config import parse
from glassformer.data.pair_files import Pair
from glassformer.data.sentence_pairs import PairsConfig, pairs_of
from glassformer.data.text_files import EmptyError
from glassformer.errors import GlassformerError, UsageError

# --- which files ---


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "pass --data for files with both sides, or --source and --target"),
        ({"paths": "a", "source_paths": "b", "target_paths": "c"}, "pass one or the other"),
        ({"source_paths": "a"}, "--source is given without --target"),
        ({"target_paths": "a"}, "--target is given without --source"),
        (
            {"source_paths": ["a", "b"], "target_paths": "c"},
            "--source names 2 files and --target 1: pass the same number",
        ),
        (
            {"paths": "a", "validation_paths": "b", "validation_target_paths": "c"},
            "--validation-data is for files with both sides, --valid-source and --valid-target",
        ),
        (
            {"paths": "a", "validation_source_paths": "b"},
            "--valid-source is given without --valid-target",
        ),
        ({"paths": "a", "max_length_ratio": 0.5}, "max_length_ratio is 0.5"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(
    settings: dict[str, object], problem: str
) -> None:
    with pytest.raises(GlassformerError) as error:
        parse(PairsConfig, settings)
    assert problem in str(error.value)


def test_the_same_is_said_of_files_to_evaluate_on() -> None:
    with pytest.raises(UsageError, match=r"--source is given without --target: .* side\.$"):
        pairs_of(source_paths=["a"])


def test_a_config_names_its_files() -> None:
    assert PairsConfig(paths=("a", "b"), validation_paths=("c",)).names == ("a", "b")
    assert PairsConfig(source_paths=("a",), target_paths=("b",)).names == ("a", "b")


LONG = "one two three four five six seven eight nine"


# --- cleaning ---


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ([("", "rien"), ("nothing", " ")], "2 pairs with an empty side"),
        ([("Tom", "Tom")], "1 pair with both sides equal"),
        ([(LONG, "un deux"), ("un deux", LONG)], "2 pairs with one side more than 4 times as long"),
        (
            [("sentence 3", "phrase 3"), ("sentence 4", "phrase 4")],
            "2 pairs identical to an earlier",
        ),
    ],
)
def test_what_cannot_be_learnt_from_is_left_out_and_said(
    tmp_path: Path, bad: list[tuple[str, str]], why: str
) -> None:
    path = written(tmp_path / "a.tsv", tabbed(*many(20), *bad))
    found = split(path)
    assert sorted((p.source, p.target) for p in everything(found)) == sorted(many(20))
    (note,) = found.notes
    assert note.startswith(f"left out: {why}")
    assert note.endswith(f"(first: {path}:21)")
    assert len(pairs_of([path])) == 20 + len(bad)


@pytest.mark.parametrize(
    ("pair", "settings"),
    [
        ((LONG, "un deux trois"), {}),
        ((LONG, "un"), {"max_length_ratio": 9}),
        (("one two three four five six seven eight", "un"), {}),
        (("We shall meet again at noon under the big tree", "我们中午在大树下再见面"), {}),
        (("We shall meet again at noon under the big tree", "เราจะพบกันอีกครั้งตอนเที่ยงใต้ต้นไม้ใหญ่"), {}),
        (("sentence 3", "another phrase"), {}),
    ],
)
def test_what_is_merely_unlike_is_kept(
    tmp_path: Path, pair: tuple[str, str], settings: dict[str, object]
) -> None:
    found = split(written(tmp_path / "a.tsv", tabbed(*many(20), pair)), **settings)
    assert len(everything(found)) == 21
    assert found.notes == []


def test_sides_of_unlike_length_are_kept_where_they_are_the_nature_of_the_data(
    tmp_path: Path,
) -> None:
    uneven = [(f"{n}", f"{LONG} {n}") for n in range(6)]
    path = written(tmp_path / "a.tsv", tabbed(*uneven, *many(20)))
    found = split(path)
    assert len(everything(found)) == 26
    why = "with one side more than 4 times as long as the other"
    assert found.notes == [f"kept: 6 of 26 pairs {why}"]
    fewer = split(written(tmp_path / "b.tsv", tabbed(*uneven[:5], *many(20))))  # just a fifth
    assert len(everything(fewer)) == 20
    asked = split(path, max_length_ratio=4)  # what users ask for is done
    assert len(everything(asked)) == 20
    assert asked.notes == [f"left out: 6 pairs {why} (first: {path}:1)"]


def test_copies_are_kept_where_copying_is_the_task(tmp_path: Path) -> None:
    copies = [(f"{n}", f"{n}") for n in range(6)]
    path = written(tmp_path / "a.tsv", tabbed(*copies, *many(5)))
    found = split(path)
    assert len(everything(found)) == 11
    assert found.notes == ["kept: 6 of 11 pairs with both sides equal"]


def test_too_few_pairs_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(("a", "b"), ("c", ""), ("a", "b")))
    with pytest.raises(GlassformerError) as error:
        split(path)
    assert str(error.value) == (
        f"{path} has 1 usable pair. Provide at least 2. "
        f"Left out: 1 pair with an empty side (first: {path}:2). "
        f"Left out: 1 pair identical to an earlier one (first: {path}:3)."
    )


# --- splitting ---


def test_the_split_depends_on_content_and_seed_alone(tmp_path: Path) -> None:
    forth = written(tmp_path / "a.tsv", tabbed(*many(200)))
    back = written(tmp_path / "b.tsv", tabbed(*reversed(many(200))))
    chosen = [
        {pair.source for pair in split(path, seed).validation}
        for path, seed in ((forth, 1), (back, 1), (forth, 2))
    ]
    assert chosen[0] == chosen[1] != chosen[2]
    assert everything(split(forth, 1)) == everything(split(forth, 1))
    assert split(forth).held_out == "10 of 200 pairs, a random sample"


def test_no_source_is_on_both_sides(tmp_path: Path) -> None:
    pairs = [(f"source {n // 3}", f"target {n}") for n in range(300)]
    found = split(written(tmp_path / "a.tsv", tabbed(*pairs)), validation_fraction=0.2)
    training, validation = ({p.source for p in part} for part in (found.training, found.validation))
    assert not training & validation
    assert len(found.training) + len(found.validation) == 300
    assert 50 <= len(found.validation) <= 60


SPELLINGS = ("Café {}", "café  {}", "CAFÉ {}", "Cafe\u0301 {}", "ｃafé\u3000{}")


def test_no_source_is_on_both_sides_in_another_spelling(tmp_path: Path) -> None:
    pairs = [(text.format(n), f"{n} {text}") for n in range(40) for text in SPELLINGS]
    found = split(written(tmp_path / "a.tsv", tabbed(*pairs)), validation_fraction=0.2)
    training, validation = (
        {p.source.split()[1] for p in part} for part in (found.training, found.validation)
    )
    assert not training & validation
    assert len(everything(found)) == 200
    # "café  1" is read as "café 1"; four of the five spellings are near-duplicates of the other.
    assert found.notes == [
        "160 sources differ from another only in case, whitespace or Unicode normalization; such "
        "pairs are kept, on the same side of the split"
    ]


def test_validation_data_that_repeats_sources_in_another_spelling_is_noted(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(("CAFÉ 1", "x"), *many(20)))
    other = written(tmp_path / "v.tsv", tabbed(("café  1", "y"), ("new", "neuf")))
    found = split(path, validation_paths=other)
    assert found.notes == [
        f"training data: 1 pair with a source in the validation data (first: {path}:1)"
    ]


def test_at_least_one_and_at_most_a_thousand_are_held_out(tmp_path: Path) -> None:
    few = split(written(tmp_path / "a.tsv", tabbed(*many(2))))
    assert (len(few.training), len(few.validation)) == (1, 1)
    pairs = [(f"source {n // 7}", f"target {n}") for n in range(9_000)]
    lots = split(written(tmp_path / "b.tsv", tabbed(*pairs)), validation_fraction=0.4)
    assert 990 <= len(lots.validation) <= 1_000


def test_pairs_of_one_source_cannot_be_split(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(("Go.", "Va !"), ("Go.", "Allez !")))
    with pytest.raises(GlassformerError, match="all pairs have the same source"):
        split(path)


def test_files_for_validation_are_left_as_given_but_for_empty_sides(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(*many(20)))
    given = [("Tom", "Tom"), ("sentence 3", "phrase 3"), ("sentence 3", "phrase 3"), ("x", LONG)]
    lines = [*given, ("", "")]
    source = written(tmp_path / "v.en", "".join(f"{line}\n" for line, _ in lines))
    target = written(tmp_path / "v.fr", "".join(f"{line}\n" for _, line in lines))
    found = split(path, validation_source_paths=source, validation_target_paths=target)
    assert [(p.source, p.target) for p in found.validation] == given
    assert len(found.training) == 20
    assert found.held_out == f"all of {source}, {target}"
    assert found.notes == [
        f"left out: 1 pair in the validation data with an empty side (first: {source}:5)",
        f"training data: 1 pair with a source in the validation data (first: {path}:4)",
    ]


def test_validation_may_be_one_file_and_must_have_a_pair(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(*many(20)))
    other = written(tmp_path / "v.tsv", tabbed(("new", "neuf")))
    found = split(path, validation_paths=other, reverse=True)
    assert [*found.validation] == [Pair("neuf", "new", f"{other}:1")]
    assert found.training[0] == Pair("phrase 0", "sentence 0", f"{path}:1")
    with pytest.raises(GlassformerError, match="has no pair with both sides"):
        split(path, validation_paths=written(tmp_path / "w.tsv", "a\t\n"))
    with pytest.raises(EmptyError):
        split(path, validation_paths=written(tmp_path / "e.tsv", ""))
