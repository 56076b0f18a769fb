"""Many sentences at a time: put together by length, searched side by side, handed back in order.

"A man sleeps."  →  A·man·sleeps·.·<end>  →  memory  →  beams  →  Ein·Mann·schläft·.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.data.paired import PairBatch, PairedRows
from glassformer.data.sequences import Array, Rows, end_to_end, sorted_batches
from glassformer.generation.beam import Beams, Hypothesis, Trace, beam_search
from glassformer.generation.logits import checked
from glassformer.models.translator import Translator
from glassformer.runtime.threads import side_by_side
from glassformer.text.framing import START, encode_texts
from glassformer.text.tokenizers import Tokenizer
from glassformer.training.evaluate import evaluating
from glassformer.training.losses import next_token_loss

READ_AT_ONCE = 8192  # tokens of both sides, with padding
# Tokens of the source, times beams, with padding, on each thread: bounds the memory.
SEARCHED_AT_ONCE = 4096


@dataclass(frozen=True)
class Languages:
    """The tokenizers of both sides, and what stands around a sentence.

    source   A man sleeps . <end>
    target   <start> Ein Mann schläft . <end>
    """

    source: Tokenizer
    target: Tokenizer

    @property
    def start(self) -> int:
        """What the decoder reads before its first word."""
        special = self.target.special_tokens
        return special.get(START, self.end)

    @property
    def end(self) -> int:
        return _end(self.target)

    def read(self, texts: Sequence[str]) -> list[list[int]]:
        """Sentences as the encoder reads them."""
        end = _end(self.source)
        return [[*ids, end] for ids in encode_texts(self.source, texts)]

    def write(self, texts: Sequence[str]) -> list[list[int]]:
        """Sentences as the decoder should write them."""
        rows = encode_texts(self.target, texts)
        return [[self.start, *ids, self.end] for ids in rows]

    def text(self, ids: Sequence[int]) -> str:
        return self.target.decode(ids).strip()


def _end(tokenizer: Tokenizer) -> int:
    if tokenizer.end_of_text is None:
        raise ValueError("a translator's tokenizer needs an end-of-text token")
    return tokenizer.end_of_text


def longest_answer(num_source: int, model: Translator) -> int:
    """How many tokens a translation may have: much more than any real one needs."""
    return min(model.context_length, 2 * num_source + 10)


def translate(
    model: Translator,
    languages: Languages,
    rows: Sequence[Sequence[int]],
    beams: Beams,
    prefix: Sequence[int] = (),
    trace: Trace | None = None,
) -> list[list[Hypothesis]]:
    """The best translations of each row of source tokens, in the order of the rows. All begin with
    `prefix`, which is no part of what is returned. A trace is of one row alone."""
    if not rows:
        return []
    sources = Rows(*end_to_end(rows, np.int64))

    @torch.inference_mode()
    def searched(numbers: Array) -> list[list[Hypothesis]]:
        ids, is_text, _ = sources.padded(numbers)
        memory = model.encode(
            torch.from_numpy(ids).to(model.device), torch.from_numpy(is_text).to(model.device)
        )
        return beam_search(
            model,
            [[languages.start, *prefix]] * len(numbers),
            beams,
            max_new_tokens=[longest_answer(int(n), model) for n in sources.lengths[numbers]],
            end=languages.end,
            memory=memory,
            device=model.device,
            trace=trace,
        )

    batches = sorted_batches(sources.lengths, SEARCHED_AT_ONCE // beams.num_beams)
    at_a_time = side_by_side if model.device.type == "cpu" else map
    with evaluating(model):
        results = [each for part in at_a_time(searched, batches) for each in part]
    found = dict(zip(np.concatenate(batches).tolist(), results, strict=True))
    return [found[number] for number in range(len(rows))]


def bleu_of(texts: Sequence[str], right: Sequence[str]) -> tuple[float, str]:
    """BLEU, and sacreBLEU's signature of how it was computed."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU()
    return bleu.corpus_score(texts, [right]).score, str(bleu.get_signature())


def hidden_and_targets(
    model: Translator, batch: PairBatch, own_share: float = 0.0
) -> tuple[Tensor, Tensor]:
    """At each place of the target but padding: what the head predicts from, and what is right."""
    memory = model.encode(batch.source, batch.source_is_text)
    more = {"own_share": own_share} if own_share else {}
    hidden = model.hidden(batch.target[:, :-1], memory, **more)  # (B, T - 1, D)
    is_text = batch.target_is_text[:, 1:]
    return hidden[is_text], batch.target[:, 1:][is_text]


def losses(model: Translator, pairs: PairedRows) -> Iterator[tuple[float, int]]:
    """Of every batch of `pairs`, each read once: the sum of -log p, and of how many tokens."""
    lengths = pairs.source.lengths + pairs.target.lengths
    with evaluating(model):
        for numbers in sorted_batches(lengths, READ_AT_ONCE):
            batch = PairBatch(*(part.to(model.device) for part in pairs.batch(numbers)))
            hidden, targets = hidden_and_targets(model, batch)
            mean = checked(next_token_loss(hidden, model.head, targets))
            yield mean.item() * len(targets), len(targets)
