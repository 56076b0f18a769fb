"""Tagged sentences are split reproducibly and without leaks."""

from pathlib import Path

import pytest
from written_files import written

from glassformer.data.split import LabelledSplit
from glassformer.data.tagged_sentences import Sentence, TaggedConfig, read_tagged
from glassformer.errors import GlassformerError

CONLLU = """# sent_id = 1
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tyou\tyou\tPRON\tPRP\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
"""


def split(path: str, seed: int = 0, **settings: object) -> LabelledSplit[Sentence]:
    return read_tagged(TaggedConfig.model_validate({"paths": path, **settings}), seed)


def sentences(path: Path, number: int) -> str:
    return written(path, "\n".join(f"word{n}\tB\nand\tO\n" for n in range(number)))


def test_sentences_are_held_out_at_random(tmp_path: Path) -> None:
    path = sentences(tmp_path / "a.conll", 50)
    found = split(path)
    assert (len(found.training), len(found.validation)) == (45, 5)
    assert found.held_out == "5 of 50 sentences, a random sample of every label"
    assert (found.labels, found.notes, found.label_column) == (("O", "B"), [], None)
    assert split(path) == found
    assert split(path, seed=1).validation != found.validation


def test_equal_sentences_stay_on_one_side(tmp_path: Path) -> None:
    lines = "\n".join(f"word{n % 20}\tB\nand\tO\n" for n in range(60))
    found = split(written(tmp_path / "a.conll", lines))
    assert found.validation
    assert not {each.words for each in found.training} & {each.words for each in found.validation}
    assert "40 sentences repeat another exactly" in found.notes[0]


def test_tags_that_training_lacks_stay_in_with_a_note(tmp_path: Path) -> None:
    path = sentences(tmp_path / "a.conll", 3)
    other = written(tmp_path / "b.conll", "word0 B\nand O\n\nx Z\ny Z\nz Q\n")
    found = split(path, validation_paths=other)
    assert len(found.validation) == 2
    assert (found.labels, found.held_out) == (("O", "B"), f"all of {other}")
    assert found.notes == [
        "2 labels in the validation data do not occur in training and will count as wrong: "
        "Z (2), Q (1)",
        "1 sentence in the validation data also occurs in training",
    ]


def test_the_column_that_was_used_is_known(tmp_path: Path) -> None:
    more = CONLLU.replace("go", "run").replace("#\t", "*\t")
    path = written(tmp_path / "a.conllu", f"{CONLLU}\n{more}")
    assert split(path).label_column == "upos"
    assert split(path, label_column="xpos").label_column == "xpos"
    rows = '{"tokens": ["a", "b"], "ner_tags": [0, 1]}\n{"tokens": ["c", "d"], "ner_tags": [0, 1]}'
    rows = written(tmp_path / "a.jsonl", rows)
    assert (split(rows).text_column, split(rows).label_column) == ((), "ner_tags")
    assert split(rows, text_column="tokens").text_column == ("tokens",)


def test_too_little_to_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match='every word has the same tag \\("O"\\)'):
        split(written(tmp_path / "a.conll", "a O\n\nb O\n"))
    with pytest.raises(GlassformerError, match="none can be held out"):
        split(sentences(tmp_path / "b.conll", 1))


def test_sentences_of_the_same_words_up_to_case_stay_on_one_side(tmp_path: Path) -> None:
    lines = "\n".join(f"{word}{n}\tB\nand\tO\n" for n in range(20) for word in ("Word", "WORD"))
    found = split(written(tmp_path / "a.conll", lines))
    words = [
        {each.words[0].lower() for each in part} for part in (found.training, found.validation)
    ]
    assert words[1]
    assert not words[0] & words[1]
    assert found.notes[0].startswith("20 sentences differ from another only in case")


def test_tags_have_one_name(tmp_path: Path) -> None:
    lines = "".join(
        f"word{n}\t{('1', '1.0')[n % 2]}\nand\t{('True', 'true')[n % 2]}\n\n" for n in range(9)
    )
    assert split(written(tmp_path / "a.conll", lines)).labels == ("1", "true")


def test_validation_without_a_known_tag_is_refused(tmp_path: Path) -> None:
    path = sentences(tmp_path / "a.conll", 5)
    with pytest.raises(GlassformerError, match="has no label in common with"):
        split(path, validation_paths=written(tmp_path / "b.conll", "x Z\ny Q\n"))
