"""Taggers learn a label for every word, whatever pieces the words and sentences are read in."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_tasks import (
    AtBatch,
    Contents,
    best,
    check_that_it_resumes_exactly,
    config_of,
    curve,
    recipe_for,
    sentences,
    trained,
)
from torch.nn import functional as F

from glassformer.checkpoint.folder import load_model
from glassformer.data.sequences import IGNORED, Sequences
from glassformer.data.tagged import read_sentences, read_tagged
from glassformer.models.classifier import TokenTagger
from glassformer.text.words import encode_words
from glassformer.training.prepare import prepare, prepared
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.tasks.tag import Tag, checked

PIECES = {"kind": "wordpiece", "vocab_size": 90}  # so few that names are cut into pieces
FEW: dict[str, Any] = {"max_steps": 4, "eval_steps": 2, "save_steps": 4}


def ready(recipe: Recipe, folder: Path, said: list[str] | None = None) -> Tag:
    task = prepare(recipe, folder, [].append if said is None else said.append)
    assert isinstance(task, Tag)
    return task


def write(path: Path, *lines: str) -> Path:
    """Sentences of words with their tags: "Ada/B-NAME works/O"."""
    blocks = ["".join(f"{word.replace('/', chr(9))}\n" for word in line.split()) for line in lines]
    path.write_text("\n".join(blocks))
    return path


def marks_of(rows: Sequences) -> list[int]:
    return [int(target) for target in rows.targets if target != IGNORED]


# --- learning ---


@pytest.mark.parametrize("name", ["tagger", "gpt-tagger"])
def test_every_kind_learns_what_is_plain_to_see(tmp_path: Path, name: str):
    run = trained(recipe_for(name, sentences(tmp_path)), tmp_path / "run")
    assert best(run, "val_f1") >= 0.9
    assert best(run, "val_accuracy") >= 0.9
    assert config_of(run)["labels"] == ["O", "B-NAME", "NUM"]


def test_names_in_pieces_are_learned_from_their_first_piece(tmp_path: Path):
    recipe = recipe_for("tagger", sentences(tmp_path), tokenizer=PIECES)
    run = trained(recipe, tmp_path / "run")
    saved = load_model(run)
    words = ["Leonhard", "meets", "42", "Sofia"]
    tokens = encode_words(saved.tokenizer, words)
    assert any(len(ids) > 1 for ids in tokens)
    logits = saved.model(torch.tensor([[id for ids in tokens for id in ids]]))[0]
    starts = [sum(map(len, tokens[:place])) for place in range(len(words))]
    found = [saved.model.labels[int(logits[start].argmax())] for start in starts]
    assert found == ["B-NAME", "O", "NUM", "B-NAME"]


def test_the_saved_model_is_as_good_as_it_was_in_training(tmp_path: Path):
    run = trained(recipe_for("tagger", sentences(tmp_path), **FEW), tmp_path / "run")
    task, model = prepared(RunFolder(run).recipe(), run), load_model(run).model
    assert task.validate(model).columns() == pytest.approx(RunFolder(run).standing(4)["best"])


# --- which tokens speak for a word ---


def test_only_the_first_piece_of_a_word_has_a_target(tmp_path: Path):
    recipe = recipe_for("tagger", sentences(tmp_path), tokenizer=PIECES)
    task = ready(recipe, tmp_path / "run")
    is_first = [not task.tokenizer.token(int(id)).startswith("##") for id in task.training.items]
    assert not all(is_first)
    assert [bool(target != IGNORED) for target in task.training.targets] == is_first


def test_the_loss_is_the_cross_entropy_at_the_first_pieces(tmp_path: Path):
    recipe = recipe_for("tagger", sentences(tmp_path), tokenizer=PIECES)
    task = ready(recipe, tmp_path / "run")
    model, batch = task.build().eval(), task.batch(0)
    logits = model(batch.ids, batch.is_text)
    expected = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)
    torch.testing.assert_close(task.loss(model, batch), expected)


def test_rare_tags_weigh_more_if_the_recipe_says_so(tmp_path: Path):
    objective = {"class_weights": True, "label_smoothing": 0.1}
    recipe = recipe_for("tagger", sentences(tmp_path), objective=objective)
    task = ready(recipe, tmp_path / "run")
    counts = torch.bincount(torch.tensor(marks_of(task.training)))
    model, batch = task.build().eval(), task.batch(0)
    is_word = batch.targets != IGNORED
    expected = F.cross_entropy(
        model(batch.ids, batch.is_text)[is_word],
        batch.targets[is_word],
        counts.sum() / (3 * counts),
        label_smoothing=0.1,
    )
    torch.testing.assert_close(task.loss(model, batch), expected)


def test_sentences_of_one_word_are_learned_from(tmp_path: Path):
    lines = [f"{name}/B-NAME" for name in ("Ada", "Alan", "Emmy")] + ["works/O", "sees/O", "and/O"]
    path = write(tmp_path / "ones.conll", *lines * 5)
    held = write(tmp_path / "held.conll", "Ada/B-NAME", "and/O")
    recipe = recipe_for("tagger", path, held_out=held, tokenizer={"kind": "word"}, max_steps=40)
    run = trained(recipe, tmp_path / "run")
    assert best(run, "val_f1") == 1


# --- long sentences ---


def test_long_sentences_are_read_in_pieces_and_every_word_once(tmp_path: Path):
    said: list[str] = []
    path = sentences(tmp_path)
    recipe = recipe_for("tagger", path, {"context_length": 5}, tokenizer=PIECES)
    task = ready(recipe, tmp_path / "run", said)
    assert any("too long for the model's context of 5 tokens, and read" in line for line in said)
    split = read_tagged(checked(recipe).data, recipe.training.seed)
    assert task.training.lengths.max() <= 5
    for rows, part in ((task.training, split.training), (task.validation, split.validation)):
        tags = [task.labels.index(tag) for sentence in part for tag in sentence.tags]
        assert marks_of(rows) == tags
    assert len(task.pieces) == len(split.validation)
    assert sum(task.pieces) == len(task.validation) > len(task.pieces)


def test_what_is_said_of_pieces_is_joined_into_sentences(tmp_path: Path):
    recipe = recipe_for("tagger", sentences(tmp_path), {"context_length": 5}, tokenizer=PIECES)
    run = trained(recipe, tmp_path / "run")
    task, model = prepared(RunFolder(run).recipe(), run), load_model(run).model
    assert isinstance(task, Tag)
    assert isinstance(model, TokenTagger)
    split = read_tagged(checked(recipe).data, recipe.training.seed)
    scores = task.validate(model).scores
    assert scores.num_sentences == len(split.validation)
    assert scores.num_words == sum(len(sentence.words) for sentence in split.validation)
    assert scores.f1 is not None
    assert scores.f1 >= 0.9


def test_an_entity_that_is_cut_in_two_counts_as_one(tmp_path: Path):
    line = "in/O Ada/B-NAME Emmy/I-NAME Grace/I-NAME"
    path = write(tmp_path / "words.conll", *[line, "works/O with/O Ada/B-NAME"] * 10)
    held, model = write(tmp_path / "held.conll", line), {"context_length": 2}
    recipe = recipe_for("tagger", path, model, held_out=held, tokenizer={"kind": "word"})
    task = ready(recipe, tmp_path / "run")
    assert task.pieces == (2,)

    class Knows(torch.nn.Module):
        """Says what is right."""

        device = torch.device("cpu")
        temperature = torch.tensor(1.0)

        def forward(self, ids: torch.Tensor, is_text: torch.Tensor) -> torch.Tensor:
            tag_of = {"in": "O", "Ada": "B-NAME", "Emmy": "I-NAME", "Grace": "I-NAME"}
            names = [[task.tokenizer.token(int(id)) for id in row] for row in ids]
            tags = torch.tensor(
                [[task.labels.index(tag_of[name]) for name in row] for row in names]
            )
            return 9.0 * F.one_hot(tags, len(task.labels))

    scores = task.validate(Knows()).scores  # type: ignore[arg-type]
    assert (scores.f1, scores.types[0].support) == (1, 1)


def test_a_word_longer_than_the_context_still_has_its_tag(tmp_path: Path):
    lines = [f"Ada/B-NAME {'works' * repeated}/O 7/NUM" for repeated in range(1, 10)]
    path = write(tmp_path / "words.conll", *lines)
    recipe = recipe_for("tagger", path, {"context_length": 4}, tokenizer={"kind": "char"})
    task = ready(recipe, tmp_path / "run")
    assert task.training.lengths.max() == 4
    words = sum(len(sentence.words) for sentence in read_sentences([str(path)]))
    assert len(marks_of(task.training)) + len(marks_of(task.validation)) == words


# --- judging ---


def test_entities_are_judged_by_f1_and_other_tags_by_accuracy(tmp_path: Path):
    entities = ready(recipe_for("tagger", sentences(tmp_path)), tmp_path / "entities")
    plain = ready(recipe_for("tagger", sentences(tmp_path, name_tag="PROPN")), tmp_path / "plain")
    assert (entities.measure, plain.measure) == ("f1", "accuracy")
    assert entities.columns == ("val_loss", "val_accuracy", "val_f1")
    assert plain.columns == ("val_loss", "val_accuracy")
    for task in (entities, plain):
        assert tuple(task.validate(task.build()).columns()) == task.columns
    worse = {"val_loss": 0.1, "val_accuracy": 0.99, "val_f1": 0.5}
    assert entities.is_better({"val_loss": 0.2, "val_accuracy": 0.9, "val_f1": 0.6}, than=worse)
    assert not plain.is_better({"val_loss": 0.0, "val_accuracy": 0.9}, than=worse)


@pytest.mark.parametrize(("unseen", "name_tag"), [("X", "PROPN"), ("B-X", "PROPN"), ("B-X", "B-N")])
def test_tags_that_were_never_seen_count_as_wrong(tmp_path: Path, unseen: str, name_tag: str):
    held = write(tmp_path / "held.conll", f"the/O Ada/{name_tag} 12/NUM city/{unseen}")
    said: list[str] = []
    recipe = recipe_for("tagger", sentences(tmp_path, name_tag=name_tag), held_out=held)
    task = ready(recipe, tmp_path / "task", said)
    assert task.unseen == (unseen,)
    assert unseen not in task.labels
    assert any("count as wrong" in line for line in said)
    run = trained(recipe, tmp_path / "run")
    assert best(run, "val_accuracy") == 0.75
    assert best(run, "val_loss") < 1
    assert ("val_f1" in RunFolder(run).standing(60)["best"]) == (name_tag == "B-N")


def test_held_out_sentences_without_entities_are_judged_all_the_same(tmp_path: Path):
    held = write(tmp_path / "held.conll", "the/O city/O 12/NUM")
    run = trained(recipe_for("tagger", sentences(tmp_path), held_out=held), tmp_path / "run")
    assert curve(run, "val_f1") == [0, 0, 0]
    assert best(run, "val_accuracy") == 1  # where F1 is equal, the loss decides


def test_samples_and_trials_show_the_words_as_they_were_written(tmp_path: Path):
    """Whatever the tokenizer makes of them: these have marks, and sentences of several rows."""
    data = write(tmp_path / "a.conll", *["Ada/B-NAME isn't/O @home/O 3.50/O née/O ./O"] * 20)
    held_out = write(tmp_path / "b.conll", " ".join(["O'Neill/B-NAME 3.50/O"] * 20))
    recipe = recipe_for("tagger", data, held_out=held_out, tokenizer=PIECES)
    task = ready(recipe, tmp_path / "run")
    assert len(task.validation) > 1
    model = task.build()
    assert isinstance(model, TokenTagger)
    for step in range(len(task.validation)):
        *pairs, last = task.sample(model, step).split()
        words = [pair.rpartition("/")[0] for pair in (pairs if last == "…" else [*pairs, last])]
        assert set(words) == {"O'Neill", "3.50"}
        assert (last == "…") == (len(task.words[step]) > 12)
    assert [word for words in task.words for word in words] == ["O'Neill", "3.50"] * 20
    assert task.trials("run") == (("tag", "run", " ".join(["O'Neill 3.50"] * 6)),)


def test_a_sample_shows_words_with_their_tags(tmp_path: Path):
    run = trained(recipe_for("tagger", sentences(tmp_path), tokenizer=PIECES), tmp_path / "run")
    sample = (run / "samples.txt").read_text().split("--- step 60 ---\n")[1].split()
    assert all(pair.rpartition("/")[2] in ("O", "B-NAME", "NUM") for pair in sample)
    assert all(pair.startswith("##") is False for pair in sample)


# --- exactly ---


def test_a_run_cut_off_resumes_to_the_same_bytes_and_is_verified(
    tmp_path: Path, at_batch: AtBatch, contents: Contents
):
    model = {"context_length": 8, "dropout": 0.1}
    steps: dict[str, Any] = {"max_steps": 12, "eval_steps": 4, "save_steps": 3}
    recipe = recipe_for("tagger", sentences(tmp_path), model, tokenizer=PIECES, **steps)
    check_that_it_resumes_exactly(recipe, tmp_path, at_batch, contents, batch=7)
    facts = json.loads((tmp_path / "cut" / "data" / "data.json").read_text())
    assert max(facts["pieces"]) > 1
