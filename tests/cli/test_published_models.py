"""Hugging Face folders on the command line: imported, used directly, fine-tuned, exported."""

import json
from pathlib import Path
from typing import Any

import pytest
from published import publish


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of each kind."""
    folder = tmp_path_factory.mktemp("hub")
    for name in ("gpt2", "bert", "bert-body", "roberta", "bert-classifier", "bert-tagger"):
        publish(name, folder / name)
    publish("marian", folder / "marian")
    return folder


def lines(result: Any) -> list[Any]:
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_every_verb_takes_a_folder_directly(glassformer: Any, folders: Path) -> None:
    written = glassformer(
        "generate", folders / "gpt2", "w1 w2", "--max-new-tokens", 3, "--temperature", 0, "--json"
    )
    assert lines(written)[0]["num_tokens"] <= 3
    (scored,) = lines(glassformer("score", folders / "gpt2", "w1 w2 w3", "--json"))
    assert scored["tokens"] == ["w1", "w2", "w3"]
    (filled,) = lines(glassformer("fill", folders / "bert", "w1 [MASK] w3", "--json"))
    assert len(filled["guesses"][0]) == 5
    (judged,) = lines(glassformer("classify", folders / "bert-classifier", "w1 w2", "--json"))
    assert {*judged["scores"]} == {"bad", "fine", "good"}
    (tagged,) = lines(glassformer("tag", folders / "bert-tagger", "w1 w2", "--json"))
    assert len(tagged["tags"]) == 2
    (translated,) = lines(glassformer("translate", folders / "marian", "w1 w2", "--json"))
    assert translated["translations"]
    (embedded,) = lines(glassformer("embed", folders / "bert-body", "w1 w2", "--json"))
    assert sum(value**2 for value in embedded["embedding"]) == pytest.approx(1)
    seen = glassformer("inspect", folders / "gpt2", "w1 w2 w3", "--view", "heads", "--json")
    assert seen.code == 0, seen.err


def test_embed_reads_lines_of_stdin(glassformer: Any, folders: Path) -> None:
    result = glassformer("embed", folders / "bert-body", stdin="w1 w2\nw3\n")
    assert [len(line.split()) for line in result.out.splitlines()] == [32, 32]
    long = glassformer("embed", folders / "bert-body", " ".join(["w1"] * 50))
    assert "1 of 1 text: only the first 32 tokens are read" in long.err
    wrong = glassformer("embed", folders / "gpt2", "w1")
    assert (wrong.code, "cannot embed" in wrong.error) == (2, True)


def test_a_model_without_an_output_layer_says_so(glassformer: Any, folders: Path) -> None:
    result = glassformer("fill", folders / "bert-body", "w1 [MASK]")
    assert result.code == 1
    assert "no output layer" in result.error


def test_robertas_mask_can_be_written_in_both_ways(glassformer: Any, folders: Path) -> None:
    """The tokenizer here has [MASK]; both spellings mean the same place."""
    first = glassformer("fill", folders / "roberta", "w1 [MASK]", "--json")
    second = glassformer("fill", folders / "roberta", "w1 <mask>", "--json")
    assert lines(first)[0]["guesses"] == lines(second)[0]["guesses"]


def test_import_writes_a_folder_and_says_how_to_try_it(glassformer: Any, folders: Path) -> None:
    result = glassformer("import", folders / "gpt2", "--out", "runs/gpt2")
    assert result.code == 0, result.err
    assert "runs/gpt2: gpt, GPT2LMHeadModel," in result.out
    assert "generate runs/gpt2 'Once upon a time'" in result.out
    again = glassformer("import", folders / "gpt2", "--out", "runs/gpt2")
    assert "already contains a model" in again.error
    needless = glassformer("import", "runs/gpt2", "--out", "runs/other")
    assert "is a model of glassformer already" in needless.error
    (found,) = lines(glassformer("import", folders / "bert-body", "--force", "--json"))
    assert (found["folder"], found["format"]) == ("runs/bert-body", "Hugging Face")
    assert "pooler" in found["notes"][0]


def test_names_with_dots_are_kept_whole(glassformer: Any, folders: Path, tmp_path: Path) -> None:
    for name in ("Small2.5-0.5B", "Small2.5-1.5B.bin"):
        (tmp_path / name).symlink_to(folders / "gpt2")
        (found,) = lines(glassformer("import", name, "--json"))
        assert found["folder"] == f"runs/{name}"
    (tmp_path / "glove.6B.2d.TXT").write_text("the 0.1 0.2\nfox 0.3 0.4\n")
    (found,) = lines(glassformer("import", "glove.6B.2d.TXT", "--json"))
    assert found["folder"] == "runs/glove.6B.2d"


def test_a_folder_can_be_fine_tuned_and_exported(
    glassformer: Any, folders: Path, tmp_path: Path
) -> None:
    rows = [f"w{n % 9} w{n % 7} w{10 + n % 2},{('no', 'yes')[n % 2]}" for n in range(80)]
    (tmp_path / "data.csv").write_text("\n".join(["text,label", *rows]))
    sets = ("pooling=first", "pooler=true", "bag=false", "head_dropout=0.1")
    options = [word for each in sets for word in ("--set", f"model.{each}")]
    options += ["--set", "training.precision=float32", "--set", "training.num_threads=1"]
    options += ["--set", "training.report_to=[]"]
    trained = glassformer(
        *("finetune", folders / "bert", "--task", "classify", "--data", "data.csv"),
        *("--max-steps", 3, "--out", "runs/tuned", *options),
    )
    assert trained.code == 0, trained.err
    (judged,) = lines(glassformer("classify", "runs/tuned", "w1 w2", "--json"))
    assert {*judged["scores"]} == {"no", "yes"}
    (found,) = lines(glassformer("export", "runs/tuned", "--out", "exports/tuned", "--json"))
    assert found["architecture"] == "BertForSequenceClassification"
    assert max(found["differences"].values()) <= 1e-4
    (again,) = lines(glassformer("classify", "exports/tuned", "w1 w2", "--json"))
    assert again["scores"] == pytest.approx(judged["scores"], abs=1e-5)


def test_chat_answers_an_argument_or_each_line(glassformer: Any, folders: Path) -> None:
    options = ("--max-new-tokens", 3, "--temperature", 0, "--json")
    (one,) = lines(glassformer("chat", folders / "gpt2", "w1 w2", *options))
    assert one["message"] == "w1 w2"
    several = glassformer("chat", folders / "gpt2", *options, stdin="w1\n\nw2 w3\n")
    assert [each["message"] for each in lines(several)] == ["w1", "w2 w3"]
    assert "only a model trained on such texts answers well" in several.err
    long = glassformer("chat", folders / "gpt2", *options, stdin="w1 w2 w3 w4 w5 w6\n" * 4)
    assert "no longer fits in the context of 32 tokens" in long.err
    assert len(lines(long)) == 4
    assert "will not be read" not in long.err
    cut = glassformer("chat", folders / "gpt2", "w1 " * 40, *options)
    assert "the message is too long for the context of 32 tokens: the first " in cut.err
    assert "will not be read" in cut.err
    assert "left out" not in cut.err
    wrong = glassformer("chat", folders / "bert", "w1")
    assert (wrong.code, "cannot chat" in wrong.error) == (2, True)


def test_export_refuses_an_unknown_format(glassformer: Any, folders: Path) -> None:
    result = glassformer("export", folders / "gpt2", "--format", "onyx")
    assert (result.code, "hf, onnx, ctranslate2, gguf" in result.error) == (2, True)


def test_export_names_what_does_not_fit_a_format(glassformer: Any, folders: Path) -> None:
    refused = glassformer("export", folders / "gpt2", "--format", "gguf", "--out", "exports/g")
    assert (refused.code, "positions is learned" in refused.error) == (1, True)
    wrong = glassformer("export", folders / "gpt2", "--format", "gguf", "--dtype", "Q4_0")
    assert (wrong.code, "F32, F16, Q8_0" in wrong.error) == (2, True)
    assert not Path("exports/g").exists()
