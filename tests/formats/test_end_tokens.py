"""Every token that ends a text in other tools ends one here, and in what is exported."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from published import publish

import glassformer
from glassformer.checkpoint.open import open_model
from glassformer.errors import GlassformerError
from glassformer.formats.export_hub import write_hub
from glassformer.formats.export_onnx import usage
from glassformer.formats.exporting import write_inputs

END = 5  # </s>


def a_folder(folder: Path, eos: Any) -> Path:
    publish("gpt2", folder)
    settings = {"do_sample": False, "eos_token_id": eos}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


def third_word(folder: Path) -> int:
    """An ordinary token that the model writes soon."""
    model: Any = hf.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        found = model.generate(torch.tensor([[10, 11]]), max_new_tokens=3, eos_token_id=None)
    return int(found[0, -1])


def test_an_ordinary_token_ends_a_text_and_is_exported(tmp_path: Path) -> None:
    last = third_word(a_folder(tmp_path / "gpt2", END))
    folder = a_folder(tmp_path / "gpt2", [END, last])
    ours: Any = glassformer.load(folder)
    found = ours.generate("w4 w5", max_new_tokens=12)
    assert found.finish_reason == "stop"
    assert found.num_tokens <= 2
    for out in (tmp_path / "hf", tmp_path / "onnx"):
        out.mkdir()
    saved = open_model(folder)
    write_hub(saved, tmp_path / "hf", "")
    written = json.loads((tmp_path / "hf/generation_config.json").read_text())
    assert written["eos_token_id"] == [END, last]
    theirs: Any = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    ids = theirs.generate(torch.tensor([[10, 11]]), max_new_tokens=12, do_sample=False)
    assert ids.shape[1] == 2 + found.num_tokens + 1  # with the end
    assert write_inputs(tmp_path / "onnx", saved)["eos_token_id"] == [END, last]
    assert f"if token in [{END}, {last}]:" in usage(saved)


@pytest.mark.parametrize(
    ("eos", "said"),
    [
        (999, "eos_token_id is 999, but the vocabulary has only 61 tokens"),
        ([END, -1], "eos_token_id is -1, but the vocabulary has only 61 tokens"),
        ("</s>", "eos_token_id is '</s>' instead of the number of a token"),
        ([True], "eos_token_id is True instead of the number of a token"),
    ],
)
def test_what_is_no_token_is_refused(tmp_path: Path, eos: Any, said: str) -> None:
    folder = a_folder(tmp_path, eos)
    with pytest.raises(GlassformerError, match=f"generation_config.json: {said}"):
        glassformer.load(folder)
