"""What is saved with a model is what is loaded, or the file that is wrong is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from preprocessing_kinds import EXAMPLES, TEXT

import glassformer
from glassformer.checkpoint.model_folder import load_model, save_model
from glassformer.errors import GlassformerError
from glassformer.models.bag import Bag, BagConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.rnn import RNNClassifier, RNNClassifierConfig
from glassformer.models.transformer import Transformer, TransformerConfig
from glassformer.preprocessing import SETTINGS, Preprocessing, kinds, load_preprocessing

SHAPE: dict[str, Any] = {"num_layers": 1, "d_model": 8, "num_heads": 2, "context_length": 8}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refusal(folder: Path) -> str:
    """The one sentence that a folder gets, or two with the cure."""
    with pytest.raises(GlassformerError) as error:
        load_preprocessing(folder)
    message = str(error.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < 400
    return message


# --- there and back ---


def test_there_is_an_example_of_every_kind() -> None:
    assert {each.kind for each in EXAMPLES.values()} == kinds().keys()
    assert all(type(each) is kinds()[each.kind] for each in EXAMPLES.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_kind_comes_back_with_its_bytes_and_values(tmp_path: Path, name: str) -> None:
    saved = EXAMPLES[name]
    names = saved.save(tmp_path / "a")
    again = load_preprocessing(tmp_path / "a")
    assert type(again) is type(saved)
    assert again.model_dump() == saved.model_dump()
    assert again.sizes == saved.sizes
    assert again.tokenizers.keys() == saved.tokenizers.keys()
    for key, tokenizer in saved.tokenizers.items():
        assert again.tokenizers[key].encode(TEXT) == tokenizer.encode(TEXT)
    again.save(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert set(names) == contents(tmp_path / "a").keys() <= set(saved.file_names())


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_settings_are_one_readable_object_without_a_tokenizer(
    tmp_path: Path, name: str
) -> None:
    EXAMPLES[name].save(tmp_path)
    settings = json.loads((tmp_path / SETTINGS).read_text(encoding="utf-8"))
    assert settings.pop("kind") == EXAMPLES[name].kind
    assert settings.keys() == EXAMPLES[name].model_dump().keys()
    assert not settings.keys() & {"tokenizer", "target_tokenizer"}
    assert "\\u" not in (tmp_path / SETTINGS).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("text", {"text_column": ("title", "body"), "label_column": "verdict"}),
        ("series", {"text_column": ("x", "y"), "label_column": "move"}),
        ("pair", {"source_column": "en", "target_column": "Über", "reverse": True}),
    ],
)
def test_a_model_remembers_the_columns_of_its_data(
    tmp_path: Path, name: str, columns: dict[str, Any]
) -> None:
    EXAMPLES[name].save(tmp_path)
    found = load_preprocessing(tmp_path)
    assert {key: getattr(found, key) for key in columns} == columns


def test_plans_and_cards_show_its_sizes() -> None:
    assert EXAMPLES["plain"].summary() == EXAMPLES["plain"].facts() == {}
    assert EXAMPLES["pair"].facts() == {
        "tokenizer": "word",
        "vocab_size": EXAMPLES["pair"].tokenizers["tokenizer"].vocab_size,
        "target_tokenizer": "word",
        "target_vocab_size": EXAMPLES["pair"].tokenizers["target_tokenizer"].vocab_size,
    }
    assert EXAMPLES["pair"].summary().keys() == {"tokenizer", "target tokenizer"}
    assert EXAMPLES["series"].facts() == {"num_features": 2}


# --- what is wrong with it ---


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"text"', "[" * 100_000, '{"\xff"}'])
def test_settings_that_are_no_json_object_are_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / SETTINGS).write_bytes(text.encode("latin-1"))
    assert f"{SETTINGS} is damaged" in refusal(tmp_path)


def test_settings_nested_without_end_are_damaged(tmp_path: Path) -> None:
    nested = '{"a": ' * 50_000 + "1" + "}" * 50_000
    (tmp_path / SETTINGS).write_text(f'{{"kind": "text", "text_column": {nested}}}')
    assert f"{SETTINGS} is damaged" in refusal(tmp_path)


def test_missing_settings_are_named(tmp_path: Path) -> None:
    assert f"{tmp_path / SETTINGS} does not exist" in refusal(tmp_path)


@pytest.mark.parametrize("kind", ["texts", "", "Preprocessing", None, 3, ["text"], {"text": 1}])
def test_an_unknown_kind_is_named_with_the_known_ones(tmp_path: Path, kind: Any) -> None:
    EXAMPLES["text"].save(tmp_path)
    settings = json.loads((tmp_path / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps(settings | {"kind": kind}))
    assert f'unknown kind "{kind}". Known kinds: plain, text' in refusal(tmp_path)
    del settings["kind"]
    (tmp_path / SETTINGS).write_text(json.dumps(settings))
    assert 'unknown kind "None"' in refusal(tmp_path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_unknown_key_is_named(tmp_path: Path, name: str) -> None:
    EXAMPLES[name].save(tmp_path)
    settings = json.loads((tmp_path / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps(settings | {"colour": "red"}))
    assert f"unknown key colour in {tmp_path / SETTINGS}" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("name", "changes", "error"),
    [
        (
            "text",
            {"is_causal": "perhaps"},
            "is_causal in .* is 'perhaps': it must be true or",
        ),
        ("text", {"label_column": 3}, "label_column in .* is 3: it must be text"),
        ("text", {"text_column": {"a": 1}}, "text_column in .* it must be a list"),
        ("masked_text", {"mlm_probability": 0}, "it must be above 0"),
        ("masked_text", {"mlm_probability": 1}, "it must be below 1"),
        ("masked_text", {"mlm_probability": float("nan")}, "it must be"),
        ("pair", {"reverse": []}, "it must be true or false"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(
    tmp_path: Path, name: str, changes: dict[str, Any], error: str
) -> None:
    EXAMPLES[name].save(tmp_path)
    settings = json.loads((tmp_path / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps(settings | changes))
    with pytest.raises(GlassformerError, match=error):
        load_preprocessing(tmp_path)
    assert SETTINGS in refusal(tmp_path)


@pytest.mark.parametrize("name", ["text", "masked_text", "pair"])
def test_a_missing_tokenizer_is_named(tmp_path: Path, name: str) -> None:
    EXAMPLES[name].save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert f"{tmp_path / 'tokenizer.json'} does not exist" in refusal(tmp_path)


# --- does it belong to the model? ---


def translator(preprocessing: Preprocessing, **sizes: int | None) -> Transformer:
    return Transformer(TransformerConfig(**SHAPE, **(preprocessing.sizes | sizes)))


def complaint(folder: Path) -> str:
    with pytest.raises(GlassformerError) as error:
        glassformer.load(folder)
    assert str(error.value).endswith(".")
    return str(error.value)


def without_checksums(folder: Path) -> None:
    """The weights as another tool writes them."""
    from safetensors.torch import load_file, save_file

    save_file(load_file(folder / "model.safetensors"), folder / "model.safetensors")


def test_a_target_tokenizer_that_was_saved_and_is_missing_is_reported(tmp_path: Path) -> None:
    save_model(tmp_path, translator(EXAMPLES["pair"]), EXAMPLES["pair"])
    assert load_model(tmp_path).preprocessing.sizes == EXAMPLES["pair"].sizes
    (tmp_path / "target_tokenizer.json").unlink()
    assert f"{tmp_path / 'target_tokenizer.json'} does not exist" in complaint(tmp_path)
    without_checksums(tmp_path)
    assert "target_vocab_size is missing here" in complaint(tmp_path)


def test_a_vocabulary_larger_than_the_models_is_refused(tmp_path: Path) -> None:
    text = EXAMPLES["text"]
    size = text.sizes["vocab_size"]
    assert size is not None
    for room, fits in ((size + 9, True), (size, True), (size - 1, False)):
        save_model(tmp_path, GPT(GPTConfig(vocab_size=room, **SHAPE)), text)
        if fits:
            assert glassformer.load(tmp_path)
        else:
            assert f"vocab_size is {size} here and {room} in the model" in complaint(tmp_path)
    pair = EXAMPLES["pair"]
    save_model(tmp_path, translator(pair, target_vocab_size=2), pair)
    assert "target_vocab_size is" in complaint(tmp_path)


def test_the_preprocessing_of_another_model_is_refused(tmp_path: Path) -> None:
    size = EXAMPLES["text"].sizes["vocab_size"]
    labels = ("a", "b")
    models = {
        "series": Bag(BagConfig(vocab_size=size, d_model=8, labels=labels)),
        "text": RNNClassifier(
            RNNClassifierConfig(num_features=2, d_embedding=8, d_model=8, labels=labels)
        ),
        "pair, one vocabulary": GPT(GPTConfig(vocab_size=size, **SHAPE)),
        "plain": GPT(GPTConfig(vocab_size=size, **SHAPE)),
    }
    for name, model in models.items():
        save_model(tmp_path / name, model, EXAMPLES[name])
        message = complaint(tmp_path / name)
        assert SETTINGS in message
        assert "does not fit the model" in message or "belong to this model" in message
