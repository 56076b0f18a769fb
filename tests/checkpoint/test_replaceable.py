"""--force replaces a model, and nothing else that lies in its folder."""

from pathlib import Path

import pytest

from glassformer.checkpoint.model_folder import check_replaceable
from glassformer.errors import GlassformerError, UsageError


def filled(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return folder


@pytest.mark.parametrize(
    "names",
    [
        ("preprocessor_config.json", "tokenizer.json", "lora.safetensors", "README.md"),
        ("model-00001-of-00002.safetensors", "model.safetensors.index.json", "chat_template.jinja"),
        ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "vocab.txt"),
        ("onnx/model_quantized.onnx", "encoder.onnx", ".gitattributes", "merges.txt"),
        ("model.bin", "shared_vocabulary.json", "source.spm", "target_tokenizer.json"),
    ],
)
def test_a_folder_of_a_model_alone_is_replaced(tmp_path: Path, names: tuple[str, ...]) -> None:
    folder = filled(tmp_path / "model", "config.json", *names)
    check_replaceable(folder, force=True)
    with pytest.raises(GlassformerError, match="already contains a model"):
        check_replaceable(folder, force=False)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("my-notes.md", "my-notes.md"),
        ("photos/cat.jpg", "photos/"),
        ("1_Pooling/thesis.odt", "1_Pooling/thesis.odt"),
        ("another-model.gguf", "another-model.gguf"),
        (".git/HEAD", ".git/"),
    ],
)
def test_a_folder_with_other_files_is_refused(tmp_path: Path, name: str, shown: str) -> None:
    folder = filled(tmp_path / "model", "config.json", "model.safetensors", name)
    for force in (False, True):
        with pytest.raises(GlassformerError) as caught:
            check_replaceable(folder, force)
        assert str(caught.value) == (
            f"{folder} contains other files ({shown}). Choose another --out."
        )


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    folder = filled(tmp_path / "folder", "README.md", "tokenizer.json", "vocab.txt", "merges.txt")
    with pytest.raises(GlassformerError, match=r"other files \(README.md, merges.txt, .*, …\)"):
        check_replaceable(folder, force=True)


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    check_replaceable(tmp_path, force=False)


@pytest.mark.parametrize(
    ("out", "source", "relation"),
    [
        ("model", "model", "is"),
        ("model", "link", "is"),
        ("link", "model", "is"),
        ("model/../model", "model", "is"),
        ("model", "model/weights.gguf", "contains"),
        ("model", "model/linked.gguf", "contains"),
        ("link", "model/weights.gguf", "contains"),
    ],
)
def test_the_source_is_never_replaced(tmp_path: Path, out: str, source: str, relation: str) -> None:
    filled(tmp_path, "model/config.json", "model/weights.gguf", "elsewhere.gguf")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    (tmp_path / "model/linked.gguf").symlink_to(tmp_path / "elsewhere.gguf")
    with pytest.raises(UsageError, match=rf"/{out} {relation} the source \(.*{source}\)\. Choose"):
        check_replaceable(tmp_path / out, True, tmp_path / source)


def test_a_new_folder_inside_the_source_replaces_nothing(tmp_path: Path) -> None:
    filled(tmp_path, "model/config.json")
    check_replaceable(tmp_path / "model/exported", True, tmp_path / "model")


def test_a_folder_with_a_similar_name_is_not_the_source(tmp_path: Path) -> None:
    filled(tmp_path, "model/config.json", "model-hf/config.json")
    check_replaceable(tmp_path / "model-hf", True, tmp_path / "model")
