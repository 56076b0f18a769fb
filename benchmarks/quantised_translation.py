"""Sentences per second of beam search with 4 beams: glassformer against CTranslate2.

A translator of Marian's usual shape (6 + 6 layers, 512 wide) with random weights is written by
`glassformer export --format hf`, which CTranslate2's converter reads. Sentences have different
lengths; random weights seldom end one, so most translations have the longest length. The share of
equal tokens is of the best translation of each sentence.
"""

import argparse
import json
import pydoc_data.topics
import tempfile
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from ctranslate2.converters import transformers
from transformers import AutoTokenizer

from benchmarks.machine import describe
from benchmarks.quantised_generation import KINDS, Run, report
from glassformer.api import export_model
from glassformer.checkpoint.model_folder import save_model
from glassformer.generation.beam import Beams
from glassformer.models.transformer import Transformer, TransformerConfig
from glassformer.nn.int8_kernels import int8_kernel
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.tasks import load_for
from glassformer.tasks.translate.predictor import TranslatePredictor
from glassformer.tasks.translate.scores import search_translations
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import START

BEAMS, LONGEST, SENTENCES = 4, 32, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{describe()}, ctranslate2 {ctranslate2.__version__}; int8 kernel: {int8_kernel()}")
    with tempfile.TemporaryDirectory() as name:
        runs, sources = translators(Path(name))
        report(f"{BEAMS} beams", runs, sources, len(sources), given.rounds)


def translators(folder: Path) -> tuple[dict[str, Run], list[str]]:
    lines = "\n".join(pydoc_data.topics.topics.values()).splitlines()
    texts = [line.strip() for line in lines if 20 < len(line.strip()) < 100]
    tokenizer = train_tokenizer("bpe", texts, 8000, special_tokens=(START,))
    preprocessing = PairPreprocessing(tokenizer=tokenizer)
    torch.manual_seed(0)
    shape: dict[str, Any] = {"num_layers": 6, "d_model": 512, "num_heads": 8}
    shape |= {"pre_norm": False, "final_norm": False, "context_length": 128}
    model = Transformer(TransformerConfig(vocab_size=tokenizer.vocab_size, **shape))
    with torch.no_grad():
        model.target_embedding.weight[preprocessing.start] = 0  # theirs starts from zeros
    save_model(folder / "ours", model, preprocessing)
    export_model(folder / "ours", "hf", folder / "hf")
    # It would remove the last token, which is <pad> in the vocabularies of Marian, but not here.
    transformers.MarianMTLoader._remove_pad_weights = lambda self, spec: None
    runs: dict[str, Run] = {}
    for kind in KINDS:
        quantize = None if kind == "float32" else kind
        predictor = load_for(folder / "ours", TranslatePredictor, "translate", quantize)
        runs[f"glassformer {kind}"] = ours_with(predictor)
        converter = ctranslate2.converters.TransformersConverter(str(folder / "hf"))
        converter.convert(str(folder / kind), quantization=kind)
        about = json.loads((folder / kind / "config.json").read_text())
        about["unk_token"] = about["eos_token"]  # it must have one; byte-level BPE never uses it
        (folder / kind / "config.json").write_text(json.dumps(about))
        translator = ctranslate2.Translator(
            str(folder / kind), compute_type=kind, intra_threads=torch.get_num_threads()
        )
        runs[f"CTranslate2 {kind}"] = theirs_with(translator, preprocessing, folder / "hf")
    return runs, texts[:: len(texts) // SENTENCES][:SENTENCES]


def ours_with(predictor: TranslatePredictor) -> Run:
    def run(sources: list[str]) -> list[list[int]]:
        preprocessing = predictor.preprocessing
        rows = preprocessing.encode_source(sources)
        beams = Beams(num_beams=BEAMS)
        found = search_translations(
            predictor.model, preprocessing, rows, beams, max_new_tokens=LONGEST
        )
        return [list(best.ids) for best, *_ in found]

    return run


def theirs_with(translator: Any, preprocessing: PairPreprocessing, folder: Path) -> Run:
    known = {id: name for name, id in AutoTokenizer.from_pretrained(folder).get_vocab().items()}
    ids = {name: id for id, name in known.items()}

    def run(sources: list[str]) -> list[list[int]]:
        rows = preprocessing.encode_source(sources)
        found = translator.translate_batch(
            [[known[id] for id in row] for row in rows],
            beam_size=BEAMS,
            max_decoding_length=LONGEST,
            max_batch_size=SENTENCES,
            batch_type="examples",
            suppress_sequences=[[known[preprocessing.start]]],
        )
        return [[ids[name] for name in each.hypotheses[0]] for each in found]

    return run


if __name__ == "__main__":
    main()
