"""Small models of every family with random weights, saved as transformers saves them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors
from torch import Tensor, nn

SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "</s>"]
VOCAB = 61
FRAME = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
GPT2 = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": VOCAB, "n_positions": 32}
GPT2 |= {"bos_token_id": 5, "eos_token_id": 5}
LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 5,
    "eos_token_id": 5,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
BERT = {
    "vocab_size": VOCAB,
    "max_position_embeddings": 32,
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "layer_norm_eps": 1e-6,
    "pad_token_id": 1,
    "id2label": {0: "bad", 1: "fine", 2: "good"},
}
ROBERTA = BERT | {"max_position_embeddings": 34, "type_vocab_size": 1}
DISTIL = {
    "vocab_size": VOCAB,
    "max_position_embeddings": 32,
    "n_layers": 2,
    "n_heads": 4,
    "dim": 32,
    "hidden_dim": 64,
    "pad_token_id": 1,
    "id2label": BERT["id2label"],
}
MARIAN = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 32,
    "activation_function": "swish",
    "scale_embedding": True,
    "pad_token_id": 1,
    "eos_token_id": 5,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 16,
    "patch_size": 4,
    "id2label": BERT["id2label"],
}
SWIN = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "image_size": 32}
SWIN |= {"patch_size": 2, "id2label": BERT["id2label"]}
IMAGE_GPT = {"vocab_size": 21, "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 36}


@dataclass(frozen=True)
class Case:
    """A model of theirs, and how both are asked for the same numbers."""

    build: Callable[[], Any]
    inputs: str

    def theirs(self) -> Any:
        torch.manual_seed(0)
        model = self.build()
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:  # which Marian computes
                nn.init.normal_(weight, std=0.2)
        if hasattr(model, "final_logits_bias"):
            nn.init.normal_(model.final_logits_bias)
        return model.eval()


def _case(inputs: str, name: str, values: dict[str, Any], **more: Any) -> Case:
    kind = getattr(hf, name)
    return Case(lambda: kind(kind.config_class(**values | more)), inputs)


CASES = {
    "gpt2": _case("text", "GPT2LMHeadModel", GPT2),
    "gpt2-untied": _case(
        "text", "GPT2LMHeadModel", GPT2, tie_word_embeddings=False, activation_function="relu"
    ),
    "llama": _case("text", "LlamaForCausalLM", LLAMA),
    "llama-tied": _case("text", "LlamaForCausalLM", LLAMA, tie_word_embeddings=True),
    "llama-biases": _case("text", "LlamaForCausalLM", LLAMA, attention_bias=True, mlp_bias=True),
    "llama3": _case("text", "LlamaForCausalLM", LLAMA, rope_parameters=LLAMA3),
    "llama-linear": _case("text", "LlamaForCausalLM", LLAMA, rope_parameters=LINEAR),
    "llama-wide-heads": _case(
        "text", "LlamaForCausalLM", LLAMA, head_dim=10, rope_parameters=LLAMA3, mlp_bias=False
    ),
    "qwen3-narrow": _case(
        "text", "Qwen3ForCausalLM", LLAMA, head_dim=6, rope_parameters=LLAMA3, sliding_window=4
    ),
    "qwen3": _case("text", "Qwen3ForCausalLM", LLAMA, head_dim=20, tie_word_embeddings=True),
    "bert": _case("masked", "BertForMaskedLM", BERT),
    "bert-untied": _case("masked", "BertForMaskedLM", BERT, tie_word_embeddings=False),
    "bert-classifier": _case("masked", "BertForSequenceClassification", BERT),
    "bert-tagger": _case("masked", "BertForTokenClassification", BERT),
    "bert-body": _case("masked", "BertModel", BERT),
    "roberta": _case("masked", "RobertaForMaskedLM", ROBERTA),
    "roberta-untied": _case(
        "masked", "RobertaForMaskedLM", ROBERTA, tie_word_embeddings=False, type_vocab_size=2
    ),
    "roberta-body": _case("masked", "RobertaModel", ROBERTA),
    "roberta-classifier": _case("masked", "RobertaForSequenceClassification", ROBERTA),
    "roberta-tagger": _case("masked", "RobertaForTokenClassification", ROBERTA),
    "distilbert": _case("masked", "DistilBertForMaskedLM", DISTIL),
    "distilbert-untied": _case(
        "masked", "DistilBertForMaskedLM", DISTIL, tie_word_embeddings=False
    ),
    "distilbert-body": _case("masked", "DistilBertModel", DISTIL, activation="relu"),
    "distilbert-classifier": _case("masked", "DistilBertForSequenceClassification", DISTIL),
    "distilbert-tagger": _case("masked", "DistilBertForTokenClassification", DISTIL),
    "marian": _case("pair", "MarianMTModel", MARIAN),
    "vit": _case("image", "ViTForImageClassification", VIT),
    "vit-oblong": _case(
        "image", "ViTForImageClassification", VIT, image_size=[16, 24], num_channels=1
    ),
    "swin": _case("image", "SwinForImageClassification", SWIN),
    "swin-oblong": _case(
        "image", "SwinForImageClassification", SWIN, image_size=[48, 32], mlp_ratio=2.5
    ),
    "imagegpt": _case("palette", "ImageGPTForCausalImageModeling", IMAGE_GPT),
}


def tokenizer(with_frame: bool) -> Backend:
    """One token per word: w0 w1 w2 …"""
    words = [*SPECIAL, *(f"w{number}" for number in range(VOCAB - len(SPECIAL)))]
    backend = Backend(
        models.WordLevel({word: id for id, word in enumerate(words)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(SPECIAL)
    if with_frame:
        backend.post_processor = FRAME
    return backend


def publish(name: str, folder: Path, **options: Any) -> Any:
    """Save the model of a case with its other files. Returns it."""
    case = CASES[name]
    model = case.theirs()
    model.save_pretrained(folder, **options)
    if case.inputs == "palette":
        clusters = [[number / 10 - 1, 0.0, 0.0] for number in range(20)]
        (folder / "preprocessor_config.json").write_text(json.dumps({"clusters": clusters}))
    elif case.inputs != "image":
        tokenizer(case.inputs == "masked").save(str(folder / "tokenizer.json"))
    return model


def inputs_of(name: str, model: Any) -> dict[str, Tensor]:
    """Random inputs; texts of three lengths, padded."""
    torch.manual_seed(1)
    kind, config = CASES[name].inputs, model.config
    if kind == "image":
        size = config.image_size
        sides = (size, size) if isinstance(size, int) else size
        return {"pixel_values": torch.randn(3, config.num_channels, *sides)}
    if kind == "palette":
        return {"input_ids": torch.randint(0, 20, (2, 36))}
    ids = torch.randint(2, VOCAB, (3, 20))  # no padding inside a text
    if kind == "text":
        return {"input_ids": ids}
    mask = torch.arange(20) < torch.tensor([[20], [7], [1]])
    values = {"input_ids": ids.where(mask, 1), "attention_mask": mask.long()}
    if kind == "pair":
        values["decoder_input_ids"] = torch.randint(2, VOCAB, (3, 9))
    return values


@torch.no_grad()
def their_logits(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    found = model(**inputs)
    logits: Tensor = found.logits if hasattr(found, "logits") else found.last_hidden_state
    return logits
