"""Datasets of the hub give their rows, with the names of classes in place of their numbers."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from glassformer.data.documents import read_documents
from glassformer.data.labelled_texts import read_examples
from glassformer.data.tables import Row, open_hub, open_table
from glassformer.data.tagged_sentences import read_sentences
from glassformer.errors import GlassformerError, UsageError

HUB = Path("hub")  # in a test's own folder


def rows(source: str) -> list[Row]:
    return list(open_table(source, "utf-8").rows)


def save(datasets: ModuleType, name: str, columns: dict[str, Any], **features: Any) -> None:
    """A dataset with these columns; features that are not told are text."""
    kinds = {column: features.get(column, datasets.Value("string")) for column in columns}
    (HUB / name).mkdir(parents=True)
    whole = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
    whole.to_parquet(HUB / name / "train.parquet")


@pytest.fixture
def local_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The real library, which is sent to a folder here instead of to the network."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    load = datasets.load_dataset

    def load_here(name: str, config: str | None, split: str) -> Any:
        return load(str(HUB / name), config, split=split)

    monkeypatch.setattr(datasets, "load_dataset", load_here)
    folder = HUB / "films" / "reviews"
    folder.mkdir(parents=True)
    (folder / "train.csv").write_text("text,stars\nFine.,4\nBad.,1\n")
    (folder / "test.csv").write_text("text,stars\nSo so.,3\n")
    return datasets


@pytest.mark.usefixtures("local_hub")
def test_a_hub_data_set_gives_the_rows_of_its_split() -> None:
    assert rows("films/reviews") == [
        Row({"text": "Fine.", "stars": 4}, "films/reviews@train", 1),
        Row({"text": "Bad.", "stars": 1}, "films/reviews@train", 2),
    ]
    (row,) = rows("films/reviews:default@test")
    assert row.values["text"] == "So so."
    assert len(rows("films/reviews@train[:1]")) == 1


@pytest.mark.usefixtures("local_hub")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("films/reviews@dev", r"films/reviews@dev cannot be loaded: Unknown split \"dev\""),
        ("films/reviews:xl", r"films/reviews:xl cannot be loaded: BuilderConfig 'xl' not found"),
    ],
)
def test_a_wrong_split_or_config_names_the_right_ones(source: str, message: str) -> None:
    with pytest.raises(GlassformerError, match=message):
        open_hub(source)


def test_a_name_the_hub_does_not_know_says_so(
    local_hub: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise local_hub.exceptions.DatasetNotFoundError("Dataset 'no/body' doesn't exist.")

    monkeypatch.setattr(local_hub, "load_dataset", unknown)  # the real one would ask the network
    with pytest.raises(GlassformerError, match="no/body is neither a local file nor an acc"):
        open_table("no/body", "utf-8")


def test_offline_a_data_set_that_is_not_cached_is_a_clear_error(tmp_path: Path) -> None:
    script = "from glassformer.data.tables import open_table; open_table('no/body', 'utf-8')"
    settings = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | settings, capture_output=True, text=True
    )
    assert "no/body is not on this machine, and the Hugging Face hub cannot be" in done.stderr


def test_what_is_no_name_on_the_hub_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="not a dataset name such as"):
        open_hub("../secrets")


# --- classes ---


def test_a_class_has_its_name_for_a_label(local_hub: ModuleType) -> None:
    columns = {"text": ["Fine.", "Bad."], "label": [1, 0]}
    save(local_hub, "films/labelled", columns, label=local_hub.ClassLabel(names=["neg", "pos"]))
    found = read_examples(["films/labelled@train"])
    assert [(each.text, each.labels) for each in found.examples] == [
        ("Fine.", ("pos",)),
        ("Bad.", ("neg",)),
    ]


def test_classes_in_a_list_have_names_as_well(local_hub: ModuleType) -> None:
    several = local_hub.Sequence(local_hub.ClassLabel(names=["funny", "sad"]))
    columns = {"text": ["a", "b", "c"], "labels": [[0, 1], [], [1]]}
    save(local_hub, "films/topics", columns, labels=several)
    found = read_examples(["films/topics"])
    assert found.is_multi_label
    assert [each.labels for each in found.examples] == [("funny", "sad"), (), ("sad",)]


def test_tags_have_names(local_hub: ModuleType) -> None:
    words = local_hub.Sequence(local_hub.Value("string"))
    tags = local_hub.Sequence(local_hub.ClassLabel(names=["O", "B-ORG"]))
    columns = {"tokens": [["EU", "rejects"]], "ner_tags": [[1, 0]]}
    save(local_hub, "news/names", columns, tokens=words, ner_tags=tags)
    (sentence,) = read_sentences(["news/names"])
    assert (sentence.words, sentence.tags) == (("EU", "rejects"), ("B-ORG", "O"))


def test_a_row_without_a_class_is_a_row_without_a_label(local_hub: ModuleType) -> None:
    columns = {"text": ["Fine.", "Bad."], "label": [1, -1]}
    save(local_hub, "films/hidden", columns, label=local_hub.ClassLabel(names=["neg", "pos"]))
    with pytest.raises(GlassformerError, match=r'films/hidden@train:2: no label in column "la'):
        read_examples(["films/hidden"])


def test_names_of_classes_are_not_taken_for_the_text(local_hub: ModuleType) -> None:
    columns = {"headline": ["Fine.", "Bad."], "mood": [1, 0]}
    save(local_hub, "films/heads", columns, mood=local_hub.ClassLabel(names=["neg", "pos"]))
    assert [each.text for each in read_documents(["films/heads"])] == ["Fine.", "Bad."]
    found = read_examples(["films/heads"])
    assert (found.text_column, found.label_column) == (("headline",), "mood")
