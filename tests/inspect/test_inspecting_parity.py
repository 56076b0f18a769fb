"""`inspect` shows the attention and the states that transformers computes, on random weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, processors
from torch import nn

import glassformer

LONGEST = 512
SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "</s>"]
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
VOCAB = len(SPECIAL) + len(ALPHABET)
HEADS = {"num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 64}
BERT: dict[str, Any] = {
    **HEADS,
    "vocab_size": VOCAB,
    "num_hidden_layers": 3,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 1,
}
ROBERTA = BERT | {"max_position_embeddings": LONGEST + 2, "type_vocab_size": 1}
GPT2 = {"n_layer": 3, "n_embd": 32, "n_head": 4, "vocab_size": VOCAB, "n_positions": LONGEST}
LLAMA = {
    **HEADS,
    "vocab_size": VOCAB,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "max_position_embeddings": LONGEST,
}
ENDS = {"bos_token_id": 5, "eos_token_id": 5}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", BERT),
    "encoder": ("BertModel", BERT),
    "roberta": ("RobertaForMaskedLM", ROBERTA),
    "gpt2": ("GPT2LMHeadModel", GPT2 | ENDS),
    "llama": ("LlamaForCausalLM", LLAMA | ENDS),
}
TEXTS = {
    "one byte": "a",
    "two bytes": "é",
    "17 bytes": "seventeen letters",
    "512 tokens": "no end " * 200,
    "odd unicode": "e\u0301 \u202eשלום\u202c 👩‍👩‍👧 \ufeff\u0000 日本\U0010ffff ﬁ İ",
}
EVERY_TEXT = pytest.mark.parametrize("text", TEXTS)


def randomized(architecture: str, values: dict[str, Any]) -> Any:
    """A model of theirs that shows its attention."""
    kind = getattr(hf, architecture)
    torch.manual_seed(0)
    config = kind.config_class(**values, attn_implementation="eager")
    model = kind(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:  # which Marian computes
                parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


def byte_tokenizer(with_frame: bool) -> Backend:
    words = {word: id for id, word in enumerate([*SPECIAL, *ALPHABET])}
    backend = Backend(models.BPE(words, [], unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(SPECIAL)
    if with_frame:
        backend.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return backend


@pytest.fixture(scope="module", params=MODELS)
def pair(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A model of theirs, and ours, read from its files."""
    folder = tmp_path_factory.mktemp(request.param)
    name, values = MODELS[request.param]
    theirs = randomized(name, values)
    theirs.save_pretrained(folder)
    byte_tokenizer("ForCausal" not in name and "LMHead" not in name).save(
        str(folder / "tokenizer.json")
    )
    return theirs, glassformer.load(folder)


def compare(seen: Any, found: Any, length: int, is_normed: bool) -> None:
    """`is_normed`: their last state is the one after the last norm."""
    attention = torch.stack(found.attentions)[:, 0, :, :length, :length].numpy()
    assert seen.attention.shape == attention.shape
    assert np.abs(seen.attention - attention).max() <= 1e-6
    hidden = torch.stack(found.hidden_states)[:, 0, :length].numpy()
    assert seen.hidden.shape == hidden.shape
    last = len(hidden) - is_normed
    assert np.abs(seen.hidden[:last] - hidden[:last]).max() <= 1e-5
    assert hidden.std() > 0.1  # not a comparison of nothing with nothing


@EVERY_TEXT
def test_attention_and_states_are_those_of_transformers(pair: Any, text: str) -> None:
    theirs, ours = pair
    seen = ours.inspect(TEXTS[text])
    ids = torch.tensor([seen.subject.streams[0].ids])
    assert ids.size(1) <= LONGEST
    assert (ids.size(1) == LONGEST) == bool(seen.notes) == (text == "512 tokens")
    with torch.no_grad():
        found = theirs(ids, output_attentions=True, output_hidden_states=True)
        padded = nn.functional.pad(ids, (0, LONGEST - ids.size(1)), value=1)
        is_text = torch.arange(LONGEST)[None] < ids.size(1)
        among_padding = theirs(
            padded, attention_mask=is_text, output_attentions=True, output_hidden_states=True
        )
    is_causal = seen.stream.is_causal
    compare(seen, found, ids.size(1), is_causal)
    compare(seen, among_padding, ids.size(1), is_causal)
    if hasattr(found, "logits"):
        assert np.abs(seen.logits - found.logits[0].numpy()).max() <= 1e-4
    else:
        vector = nn.functional.normalize(found.last_hidden_state[0].mean(0), dim=0)
        assert np.abs(seen.vector - vector.numpy()).max() <= 1e-5
        assert np.abs(seen.vector - ours.embed(TEXTS[text])).max() <= 1e-6


def test_attention_of_a_translator_is_that_of_transformers(tmp_path: Path) -> None:
    values = {"vocab_size": VOCAB, "d_model": 32, "max_position_embeddings": 64}
    for side in ("encoder", "decoder"):
        values |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}
    start = {"decoder_start_token_id": 1, "forced_eos_token_id": None}
    theirs = randomized("MarianMTModel", values | start | {"pad_token_id": 1, "eos_token_id": 5})
    theirs.save_pretrained(tmp_path)
    byte_tokenizer(with_frame=False).save(str(tmp_path / "tokenizer.json"))
    seen = glassformer.load(tmp_path).inspect("日本 a", target="b é")
    source, target = (torch.tensor([each.ids]) for each in seen.subject.streams)
    with torch.no_grad():
        found = theirs(input_ids=source, decoder_input_ids=target, output_attentions=True)
    shown = seen.capture(seen.subject.streams[0]).attention, seen.attention, seen.cross_attention
    pairs = zip(
        shown,
        (found.encoder_attentions, found.decoder_attentions, found.cross_attentions),
        strict=True,
    )
    for one, other in pairs:
        assert np.abs(one - torch.stack(other)[:, 0].numpy()).max() <= 1e-6


def test_attention_and_states_of_an_image_are_those_of_transformers(tmp_path: Path) -> None:
    values = {**HEADS, "num_hidden_layers": 3, "image_size": 24, "patch_size": 4}
    theirs = randomized("ViTForImageClassification", values | {"id2label": {0: "a", 1: "b"}})
    theirs.save_pretrained(tmp_path)
    settings = {"do_resize": True, "size": {"height": 24, "width": 24}, "do_rescale": True}
    settings |= {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "noise.png")
    seen = glassformer.load(tmp_path).inspect(str(tmp_path / "noise.png"))
    values = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 127.5 - 1  # (1, 3, 24, 24)
    with torch.no_grad():
        found = theirs(values, output_attentions=True, output_hidden_states=True)
    compare(seen, found, 37, is_normed=False)


# --- what a prediction rests on ---


def their_logprobs(model: Any, given: dict[str, Any]) -> torch.Tensor:
    return model(**given).logits[0].log_softmax(-1)  # (T, V)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_integrated_gradients_are_a_plain_loop_over_transformers(name: str, tmp_path: Path) -> None:
    theirs = randomized(*MODELS[name])
    theirs.save_pretrained(tmp_path)
    byte_tokenizer(name == "bert").save(str(tmp_path / "tokenizer.json"))
    ours = glassformer.load(tmp_path)
    ours.model.double()
    theirs.double()
    found = ours.attribution("a é b").attribution
    seen = ours.inspect("a é b")
    table = theirs.get_input_embeddings().weight.detach()
    x = table[seen.subject.streams[0].ids][None]  # (1, T, D)
    baseline = table.mean(0).expand_as(x)
    place = found.prediction
    id = int(seen.logits[place].argmax())
    total, steps = torch.zeros(x.size(1), dtype=torch.float64), 300
    for step in range(steps):  # midpoints of t, with α = t²
        t = (step + 0.5) / steps
        vectors = (baseline + t**2 * (x - baseline)).requires_grad_()
        value = their_logprobs(theirs, {"inputs_embeds": vectors})[place, id]
        (gradient,) = torch.autograd.grad(value, vectors)
        total += ((x - baseline) * gradient).sum(-1)[0] * 2 * t / steps
    assert found.integrated_gradients == pytest.approx(total.numpy(), abs=2e-3)
    assert np.abs(found.integrated_gradients).max() > 0.1
    assert abs(found.error) <= 1e-3 * max(1, abs(found.logprob - found.baseline_logprob))


@pytest.mark.parametrize("name", ["bert", "gpt2", "encoder"])
def test_a_head_that_is_switched_off_is_a_head_with_columns_of_zero(
    name: str, tmp_path: Path
) -> None:
    theirs = randomized(*MODELS[name])
    theirs.save_pretrained(tmp_path)
    byte_tokenizer(name != "gpt2").save(str(tmp_path / "tokenizer.json"))
    view = glassformer.load(tmp_path).ablation("a é b")
    ids = torch.tensor([view.seen.subject.streams[0].ids])
    theirs.double()

    def output() -> torch.Tensor:
        with torch.no_grad():
            if name == "encoder":
                mean = theirs(ids).last_hidden_state[0].mean(0)
                return nn.functional.normalize(mean, dim=0)
            return their_logprobs(theirs, {"input_ids": ids})[view.seen.subject.focus]

    body = theirs.bert if name == "bert" else theirs
    layers = theirs.transformer.h if name == "gpt2" else body.encoder.layer
    whole, best = output(), int(output().argmax())
    for layer, block in enumerate(layers):
        dense = block.attn.c_proj if name == "gpt2" else block.attention.output.dense
        for head in range(4):
            kept = dense.weight.detach().clone()
            columns = slice(8 * head, 8 * head + 8)
            with torch.no_grad():  # Conv1D has its inputs in rows
                (dense.weight if name == "gpt2" else dense.weight.T)[columns] = 0
            without = output()
            with torch.no_grad():
                dense.weight.copy_(kept)
            shown = view.effects.divergence[layer, head]
            if view.effects.change is None:
                assert shown == pytest.approx(1 - float(whole @ without), rel=1e-3, abs=1e-7)
                continue
            assert shown == pytest.approx(
                float((whole.exp() * (whole - without)).sum()), rel=1e-3, abs=1e-6
            )
            change = float(without[best] - whole[best])
            assert view.effects.change[layer, head] == pytest.approx(change, rel=1e-3, abs=1e-5)
