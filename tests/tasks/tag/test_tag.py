"""Taggers learn a label for every word, however words and sentences are split into tokens."""

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
    ready,
    recipe_for,
    reopened,
    sentences,
    trained,
)
from torch.nn import functional as F

from glassformer.checkpoint.model_folder import load_model
from glassformer.data.batches import IGNORED, LabelledRows
from glassformer.data.tagged_sentences import read_sentences, read_tagged
from glassformer.errors import GlassformerError
from glassformer.tasks import load
from glassformer.tasks.evaluating import order
from glassformer.text.words import encode_words

PIECES = {"kind": "wordpiece", "vocab_size": 90}  # so few that names are cut into pieces
FEW: dict[str, Any] = {"max_steps": 4, "eval_steps": 2, "save_steps": 4}


def write(path: Path, *lines: str) -> Path:
    """Sentences of words with their tags: "Ada/B-NAME works/O"."""
    blocks = ["".join(f"{word.replace('/', chr(9))}\n" for word in line.split()) for line in lines]
    path.write_text("\n".join(blocks))
    return path


def marks_of(rows: LabelledRows) -> list[int]:
    return [int(target) for target in rows.targets if target != IGNORED]


# --- learning ---


@pytest.mark.parametrize("name", ["tagger", "gpt-tagger"])
def test_every_model_learns_an_easy_task(tmp_path: Path, name: str):
    run = trained(recipe_for(name, sentences(tmp_path)), tmp_path / "run")
    assert best(run)["val_f1"] >= 0.9
    assert best(run)["val_accuracy"] >= 0.9
    assert config_of(run)["labels"] == ["O", "B-NAME", "NUM"]


def test_names_in_pieces_are_learned_from_their_first_piece(tmp_path: Path):
    recipe = recipe_for("tagger", sentences(tmp_path), tokenizer=PIECES)
    run = trained(recipe, tmp_path / "run")
    saved = load_model(run)
    words = ["Leonhard", "meets", "42", "Sofia"]
    tokens = encode_words(saved.preprocessing.tokenizer, words)
    assert any(len(ids) > 1 for ids in tokens)
    logits = saved.model(torch.tensor([[id for ids in tokens for id in ids]]))[0]
    starts = [sum(map(len, tokens[:place])) for place in range(len(words))]
    found = [saved.model.labels[int(logits[start].argmax())] for start in starts]
    assert found == ["B-NAME", "O", "NUM", "B-NAME"]


def test_the_saved_model_is_as_good_as_it_was_in_training(tmp_path: Path):
    run = trained(recipe_for("tagger", sentences(tmp_path), **FEW), tmp_path / "run")
    objective, model = reopened(run)
    scores = objective.validate(model).scores()
    assert {f"val_{name}": scores[name] for name in objective.measures} == best(run)


# --- which tokens speak for a word ---


def test_only_the_first_piece_of_a_word_has_a_target(tmp_path: Path):
    recipe = recipe_for("tagger", sentences(tmp_path), tokenizer=PIECES)
    objective, _ = ready(recipe, tmp_path / "run")
    rows, tokenizer = objective.dataset.training, objective.dataset.preprocessing.tokenizer
    is_first = [not tokenizer.token(int(id)).startswith("##") for id in rows.items]
    assert not all(is_first)
    assert [bool(target != IGNORED) for target in rows.targets] == is_first


def test_the_loss_is_the_cross_entropy_at_the_first_pieces(tmp_path: Path):
    recipe = recipe_for("tagger", sentences(tmp_path), tokenizer=PIECES)
    objective, model = ready(recipe, tmp_path / "run")
    batch = objective.batch(0)
    logits = model.eval()(batch.ids, batch.is_text)
    expected = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)
    torch.testing.assert_close(objective.loss(model, batch), expected)


def test_rare_tags_weigh_more_if_the_recipe_asks_for_it(tmp_path: Path):
    weighted = {"class_weights": True, "label_smoothing": 0.1}
    recipe = recipe_for("tagger", sentences(tmp_path), objective=weighted)
    objective, model = ready(recipe, tmp_path / "run")
    counts = torch.bincount(torch.tensor(marks_of(objective.dataset.training)))
    batch = objective.batch(0)
    is_word = batch.targets != IGNORED
    expected = F.cross_entropy(
        model.eval()(batch.ids, batch.is_text)[is_word],
        batch.targets[is_word],
        counts.sum() / (3 * counts),
        label_smoothing=0.1,
    )
    torch.testing.assert_close(objective.loss(model, batch), expected)


def test_sentences_of_one_word_are_learned_from(tmp_path: Path):
    lines = [f"{name}/B-NAME" for name in ("Ada", "Alan", "Emmy")] + ["works/O", "sees/O", "and/O"]
    path = write(tmp_path / "ones.conll", *lines * 5)
    held = write(tmp_path / "held.conll", "Ada/B-NAME", "and/O")
    recipe = recipe_for("tagger", path, held_out=held, tokenizer={"kind": "word"}, max_steps=40)
    run = trained(recipe, tmp_path / "run")
    assert best(run)["val_f1"] == 1


# --- long sentences ---


def test_long_sentences_are_read_in_pieces_and_every_word_once(tmp_path: Path):
    messages: list[str] = []
    path = sentences(tmp_path)
    recipe = recipe_for("tagger", path, {"context_length": 5}, tokenizer=PIECES)
    objective, _ = ready(recipe, tmp_path / "run", messages.append)
    assert any("exceed the model's context of 5 tokens and are read" in line for line in messages)
    split, data = read_tagged(recipe.data, recipe.training.seed), objective.dataset
    assert data.training.lengths.max() <= 5
    tags = [data.labels.index(tag) for sentence in split.training for tag in sentence.tags]
    assert marks_of(data.training) == tags
    assert data.spelled.rows.lengths.max() <= 5
    assert len(marks_of(data.spelled.rows)) == sum(len(each.words) for each in split.validation)
    assert [each.tags for each in data.held_out] == [each.tags for each in split.validation]
    pieces = data.spelled.num_pieces
    assert len(pieces) == len(split.validation)
    assert sum(pieces) == len(data.spelled.rows) > len(pieces)


def test_the_tags_of_pieces_are_joined_into_sentences(tmp_path: Path):
    recipe = recipe_for("tagger", sentences(tmp_path), {"context_length": 5}, tokenizer=PIECES)
    run = trained(recipe, tmp_path / "run")
    objective, model = reopened(run)
    split = read_tagged(recipe.data, recipe.training.seed)
    found = objective.validate(model)
    assert found.num_sentences == len(split.validation)
    assert found.num_words == sum(len(sentence.words) for sentence in split.validation)
    assert found.f1 is not None
    assert found.f1 >= 0.9


def test_an_entity_that_is_cut_in_two_counts_as_one(tmp_path: Path):
    line = "in/O Ada/B-NAME Emmy/I-NAME Grace/I-NAME"
    path = write(tmp_path / "words.conll", *[line, "works/O with/O Ada/B-NAME"] * 10)
    held, model = write(tmp_path / "held.conll", line), {"context_length": 2}
    recipe = recipe_for("tagger", path, model, held_out=held, tokenizer={"kind": "word"})
    objective, _ = ready(recipe, tmp_path / "run")
    data = objective.dataset
    assert data.spelled.num_pieces == [2]

    class Knows(torch.nn.Module):
        """Always predicts the right tag."""

        device = torch.device("cpu")
        temperature = torch.tensor(1.0)
        labels = data.labels

        def forward(self, ids: torch.Tensor, is_text: torch.Tensor) -> torch.Tensor:
            tag_of = {"in": "O", "Ada": "B-NAME", "Emmy": "I-NAME", "Grace": "I-NAME"}
            token = data.preprocessing.tokenizer.token
            tags = [[self.labels.index(tag_of[token(int(id))]) for id in row] for row in ids]
            return 9.0 * F.one_hot(torch.tensor(tags), len(self.labels))

    found = objective.validate(Knows())
    assert (found.f1, found.types[0].support) == (1, 1)


def test_a_word_longer_than_the_context_still_has_its_tag(tmp_path: Path):
    lines = [f"Ada/B-NAME {'works' * repeated}/O 7/NUM" for repeated in range(1, 10)]
    path = write(tmp_path / "words.conll", *lines)
    recipe = recipe_for("tagger", path, {"context_length": 4}, tokenizer={"kind": "char"})
    objective, _ = ready(recipe, tmp_path / "run")
    learned, held_out = objective.dataset.training, objective.dataset.spelled.rows
    assert learned.lengths.max() == 4
    words = sum(len(sentence.words) for sentence in read_sentences([str(path)]))
    assert len(marks_of(learned)) + len(marks_of(held_out)) == words


# --- judging ---


def test_entities_are_judged_by_f1_and_other_tags_by_accuracy(tmp_path: Path):
    data = sentences(tmp_path)
    entities, tagger = ready(recipe_for("tagger", data), tmp_path / "entities")
    data = sentences(tmp_path, name_tag="PROPN")
    plain, plain_tagger = ready(recipe_for("tagger", data), tmp_path / "plain")
    assert (entities.measure, plain.measure) == ("f1", "accuracy")
    assert entities.measures == ("loss", "accuracy", "f1")
    assert plain.measures == ("loss", "accuracy")
    assert entities.validate(tagger).f1 is not None
    assert plain.validate(plain_tagger).f1 is None
    assert order(entities.measure, 0.6, loss=0.2) < order(entities.measure, 0.5, loss=0.1)
    assert order(plain.measure, 0.99, loss=0.1) < order(plain.measure, 0.9, loss=0.2)


@pytest.mark.parametrize(("unseen", "name_tag"), [("X", "PROPN"), ("B-X", "PROPN"), ("B-X", "B-N")])
def test_tags_that_were_never_seen_count_as_wrong(tmp_path: Path, unseen: str, name_tag: str):
    held = write(tmp_path / "held.conll", f"the/O Ada/{name_tag} 12/NUM city/{unseen}")
    messages: list[str] = []
    recipe = recipe_for("tagger", sentences(tmp_path, name_tag=name_tag), held_out=held)
    objective, _ = ready(recipe, tmp_path / "ready", messages.append)
    assert unseen not in objective.dataset.labels
    assert any("count as wrong" in line for line in messages)
    run = trained(recipe, tmp_path / "run")
    assert best(run)["val_accuracy"] == 0.75
    assert best(run)["val_loss"] < 1
    assert ("val_f1" in best(run)) == (name_tag == "B-N")


def test_held_out_sentences_without_entities_are_judged_all_the_same(tmp_path: Path):
    held = write(tmp_path / "held.conll", "the/O city/O 12/NUM")
    run = trained(recipe_for("tagger", sentences(tmp_path), held_out=held), tmp_path / "run")
    assert curve(run, "val_f1") == [0, 0, 0]
    assert best(run)["val_accuracy"] == 1  # where F1 is equal, the loss decides


def test_samples_and_trials_show_the_words_as_they_were_written(tmp_path: Path):
    """Not as the tokenizer splits them: with punctuation, and in sentences of several rows."""
    data = write(tmp_path / "a.conll", *["Ada/B-NAME isn't/O @home/O 3.50/O née/O ./O"] * 20)
    held_out = write(tmp_path / "b.conll", " ".join(["O'Neill/B-NAME 3.50/O"] * 20))
    recipe = recipe_for("tagger", data, held_out=held_out, tokenizer=PIECES)
    objective, model = ready(recipe, tmp_path / "run")
    assert len(objective.dataset.spelled.rows) > 1
    *pairs, last = objective.sample(model, 3).split()
    assert [pair.rpartition("/")[0] for pair in pairs] == ["O'Neill", "3.50"] * 6
    assert last == "…"
    assert objective.dataset.held_out[0].words == ("O'Neill", "3.50") * 20
    assert objective.trials("run") == (("tag", "run", " ".join(["O'Neill 3.50"] * 6)),)


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
    objective, _ = reopened(tmp_path / "cut")
    assert max(objective.dataset.spelled.num_pieces) > 1


def bilou(path: Path, count: int = 60) -> Path:
    lines = [f"the/O Ada{n % 7}/B-NAME Byron/L-NAME met/O Kurt{n % 5}/U-NAME" for n in range(count)]
    return write(path, *lines)


def test_the_scheme_of_the_training_tags_is_reported_saved_and_scored(tmp_path: Path) -> None:
    messages: list[str] = []
    recipe = recipe_for("tagger", bilou(tmp_path / "a.conll"))
    objective, model = ready(recipe, tmp_path / "ready", messages.append)
    assert "tags: BILOU, scored as entities" in messages
    assert objective.dataset.preprocessing.tag_scheme == "BILOU"
    assert objective.validate(model).scheme == "BILOU"
    run = trained(recipe, tmp_path / "run")
    part = write(tmp_path / "part.conll", "Ada1/U-NAME met/O Kurt2/U-NAME")
    found = load(run).evaluate(str(part))
    assert found.scheme == "BILOU"
    assert "scheme BILOU" in found.text()


@pytest.mark.parametrize(
    "tags", [("B", "I", "O", "PAD"), ("b-per", "i-per", "o", "o"), ("PER-B", "PER-I", "O", "O")]
)
def test_tags_without_a_known_scheme_are_reported(tmp_path: Path, tags: tuple[str, ...]) -> None:
    lines = [f"Ada{n % 7}/{tags[0]} Byron/{tags[1]} met/{tags[2]} x/{tags[3]}" for n in range(60)]
    messages: list[str] = []
    recipe = recipe_for("tagger", write(tmp_path / "a.conll", *lines))
    objective, _ = ready(recipe, tmp_path / "ready", messages.append)
    assert objective.measure == "accuracy"
    assert any("note: the tags follow no scheme of entities" in line for line in messages)


def test_iob1_stays_iob1_where_the_data_does_not_show_it(tmp_path: Path) -> None:
    lines = [f"the/O Ada{n % 7}/I-NAME Byron/I-NAME Kurt{n % 5}/B-NAME" for n in range(60)]
    recipe = recipe_for("tagger", write(tmp_path / "a.conll", *lines))
    run = trained(recipe, tmp_path / "run")
    part = write(tmp_path / "part.conll", "the/O met/O")
    assert load(run).evaluate(str(part)).scheme == "IOB1"


@pytest.mark.parametrize("part", ["training", "held out"])
def test_tags_of_several_schemes_are_refused_before_the_training(tmp_path: Path, part: str) -> None:
    good = bilou(tmp_path / "good.conll")
    mixed = write(
        tmp_path / "mixed.conll",
        *(f"Ada{n}/B-NAME Byron/E-NAME met/O Kurt/U-NAME" for n in range(20)),
    )
    recipe = (
        recipe_for("tagger", mixed)
        if part == "training"
        else recipe_for("tagger", good, held_out=mixed)
    )
    with pytest.raises(GlassformerError, match=r"the tags mix B-, E-, U-, .* Rewrite the tags"):
        ready(recipe, tmp_path / "ready")
