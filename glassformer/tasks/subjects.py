"""Models with a text, as `inspect` looks at them: what differs between tasks.

    of_language      each position predicts the next token
    of_masked        each position predicts its own token
    of_vector        all positions give one vector
    of_labels        a label for the whole text, or for each token
    of_translation   a sentence, and the translation that is written about it

A `Subject` says what to run, and which sequences are read or written. Tokens, attention, lens,
ablation and predictions are then computed by the same code for all models
(`inspect/inspection.py`). `Search` is how a text is continued. `image_subjects.py` has the same for
images.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import UsageError
from glassformer.generation.beam import Beams, Hypothesis, Trace, beam_search
from glassformer.generation.protocol import Decoder
from glassformer.inspect import Array
from glassformer.inspect.capture import stacks_of
from glassformer.inspect.inspection import Entry, Member, Stream, Subject, adds_vectors, is_rotary
from glassformer.inspect.residual import linear_read_out
from glassformer.models import name_of
from glassformer.models.bert import Bert
from glassformer.models.ensemble import Ensemble
from glassformer.models.heads import Labeller, LanguageModel, TokenTagger
from glassformer.models.sources import Translator
from glassformer.models.stack import StreamWiring
from glassformer.nn.layers import Embedding
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.truncation import Frame

# --- the search tree: every candidate with its parent, and the path to the winner ---

BEAMS, STEPS = 4, 10  # of a tree that fits on a page


@dataclass(frozen=True, kw_only=True)
class Search:
    """How a text is continued: by a few beams for the tree, greedily for a comparison."""

    decoder: Decoder
    prompt: Sequence[int]
    ends: Sequence[int]
    device: torch.device
    memory: Callable[[], Any] = lambda: None
    """Encodes the source, if there is one."""
    steps: int = STEPS
    forbidden: Sequence[int] = ()
    prefer_complete: bool = True

    def tree(self, name_of: Callable[[int], str]) -> dict[str, Any]:
        """The tree of a search, the winner, and what greedy decoding would write."""
        trace = Trace()
        best, greedy = self._best(BEAMS, trace), self._best(1)
        nodes = [asdict(node) | {"token": name_of(node.token)} for node in trace.nodes]
        return {
            "num_beams": BEAMS,
            "nodes": nodes,
            "winner": _path(trace, best, self.ends),
            "best": [name_of(id) for id in best.ids],
            "greedy": [name_of(id) for id in greedy.ids],
            "score": best.score,
            "greedy_score": greedy.score,
        }

    def greedy_ids(self) -> list[int]:
        """What greedy decoding writes, whether it comes to an end or not."""
        return list(replace(self, prefer_complete=False)._best(1).ids)

    @torch.inference_mode()
    def _best(self, num_beams: int, trace: Trace | None = None) -> Hypothesis:
        """The best sequence that a search finds."""
        ((best, *_),) = beam_search(
            self.decoder,
            [list(self.prompt)],
            Beams(num_beams=num_beams),
            max_new_tokens=self.steps,
            ends=self.ends,
            memory=self.memory(),
            device=self.device,
            trace=trace,
            prefer_complete=self.prefer_complete,
            forbidden=self.forbidden,
        )
        return best


def _path(trace: Trace, best: Hypothesis, ends: Sequence[int]) -> list[int]:
    """The nodes that spell a sequence, from the first token on; of several ends, the likeliest."""
    steps: list[Sequence[int]] = [*([id] for id in best.ids)]
    if best.is_complete:
        steps.append(ends)
    path: list[int] = []
    for ids in steps:
        parent = path[-1] if path else None
        children = [n for n in trace.nodes if n.parent == parent and n.token in ids]
        if not children:
            break
        path.append(max(children, key=lambda node: node.logprob).node)
    return path


# --- a subject for each kind of task ---

SPARE_STEPS = 4  # by which a text that is searched may exceed the one that is shown
WRITTEN_STEPS = 40  # tokens by which a text is continued
CUT_OFF = "the translation reached the maximum length and was cut off"
BAG_ALONE = (
    "the bag of n-grams predicts the label alone, and attention explains nothing of it: the layers "
    "did not improve the predictions on held-out texts"
)


def of_language(model: LanguageModel, preprocessing: TextPreprocessing, text: str) -> Subject:
    """A text that a language model reads; each position predicts the next token. Of a text longer
    than the context, the end is read."""
    tokenizer = preprocessing.tokenizer
    whole = [*tokenizer.begins_with, *tokenizer.encode(not_empty(text))]
    ids = whole[-model.context_length :]
    search = Search(
        decoder=model,
        prompt=ids,
        ends=preprocessing.ends,
        device=model.device,
        prefer_complete=False,
    )
    return _of_text(
        model,
        preprocessing,
        text,
        ids,
        is_causal=True,
        predicts="next",
        actual=[*ids[1:], None],
        search=lambda: search.tree(tokenizer.token),
        write=lambda: tokenizer.decode(replace(search, steps=WRITTEN_STEPS).greedy_ids()),
        again=lambda other: of_language(other, preprocessing, text),
        num_left_out=len(whole) - len(ids),
        part_left_out="beginning",
    )


def of_masked(
    model: Bert, preprocessing: MaskedTextPreprocessing, text: str, whole: Sequence[int]
) -> Subject:
    """A text that a masked language model reads; each position predicts its own token, which is
    known unless it is masked. `whole` are the tokens of the text."""
    not_empty(text)
    frame, mask = preprocessing.frame(model.context_length), preprocessing.mask
    ids = list(frame.put(whole))
    last = _last(ids, frame)
    actual = [
        id if len(frame.before) <= position <= last and id != mask else None
        for position, id in enumerate(ids)
    ]
    return _of_text(
        model,
        preprocessing,
        text,
        ids,
        "encoder.",
        predicts="same",
        actual=actual,
        again=lambda other: of_masked(other, preprocessing, text, whole),
        num_left_out=_num_left_out(whole, frame),
        focus=ids.index(mask) if mask in ids else last,
    )


def of_vector(
    model: Bert, preprocessing: MaskedTextPreprocessing, text: str, limit: int
) -> Subject:
    """A text that an encoder without an output layer turns into one vector. Of a text longer than
    `limit`, the beginning is read, as `embed` does it."""
    frame = preprocessing.frame(limit)
    (whole,) = preprocessing.encode([not_empty(text)])
    ids = [*frame.before, *whole[: frame.room], *frame.after] or [0]
    row = torch.tensor([ids], device=model.device)
    return _of_text(
        model,
        preprocessing,
        text,
        ids,
        "encoder.",
        run=lambda: model.embed(row),
        run_rows=None,
        predicts="vector",
        actual=(),
        num_left_out=_num_left_out(whole, frame),
        part_left_out="end",
        focus=0,
        first_token=_last(ids, frame),
        is_carried=False,
        read_out=None,
        linear="the model predicts nothing",
    )


def of_labels(model: Labeller, preprocessing: TextPreprocessing, text: str) -> Subject:
    """A text that a classifier or a tagger reads: a label for all of it, or for each token."""
    (whole,) = preprocessing.encode([not_empty(text)])
    (row,), _ = preprocessing.rows([whole], model.context_length)
    ids = [int(id) for id in row]
    inputs = torch.tensor([ids], device=model.device)
    is_tagger = isinstance(model, TokenTagger)
    read_out: Callable[[Tensor, Tensor], Tensor] | None = getattr(model, "read_out", None)
    tokenizer, frame = preprocessing.tokenizer, preprocessing.frame(model.context_length)
    members = _members(model, inputs)

    def run_rows() -> Tensor:
        logits = model(inputs) / model.temperature  # (B, C), or (B, T, C) for a tagger
        return logits[:, None] if logits.dim() == 2 else logits

    return _of_text(
        model,
        preprocessing,
        text,
        ids,
        f"{model.body_name}." if model.body_name else "",
        is_causal=model.is_causal,
        run=lambda: run_rows()[0],
        run_rows=None if members else run_rows,
        read_at={"first": [0], "last": [-1]}.get(getattr(model.config, "pooling", "")),
        name_of=model.labels.__getitem__,
        token_of=tokenizer.token,
        labels=model.labels,
        predicts="same" if is_tagger else "whole",
        actual=[None] * (len(ids) if is_tagger else 1),
        again=lambda other: of_labels(other, preprocessing, text),
        num_left_out=_num_left_out(whole, frame),
        focus=_last(ids, frame) if is_tagger else 0,
        read_out=None if read_out is None else partial(_read_out, model, read_out, inputs),
        linear="a bag of n-grams adds to the logits"
        if members
        else linear_read_out(model, inputs[0]),
        contributions=None if members else _contributions(model, inputs[0]),
        reads_words_alone=model.reads_words_alone,
        longest_ngram=getattr(model.config, "ngrams", 1),
        reads_letters=getattr(model.config, "char_ngrams", 0) > 0,
        bias=(model.head.bias / model.temperature).detach().cpu().numpy(),
        has_several_labels=model.config.multi_label,
        num_vectors=tokenizer.vocab_size,  # a bag has some for sequences of tokens as well
        # Beside the layers, a bag reads the words themselves: it has no vectors to look at.
        is_carried=not members,
        members=members,
        remarks=(BAG_ALONE,) if members and not members[0].weight else (),
    )


def of_translation(
    model: Translator,
    preprocessing: PairPreprocessing,
    text: str,
    source_ids: list[int],
    ids: list[int],
) -> Subject:
    """A sentence and its translation, each as tokens; each position of the translation predicts
    the next token."""
    tokenizer = preprocessing.target
    rows = [torch.tensor([row], device=model.device) for row in (source_ids, ids[:-1])]
    stacks = stacks_of(model)
    source = _stream(
        model,
        "source",
        preprocessing.source,
        source_ids,
        stack=stacks.get("encoder"),
        embedding=model.embedding,
    )
    written = _stream(
        model,
        "target",
        tokenizer,
        ids[:-1],
        stack=stacks.get("decoder"),
        is_causal=True,
        embedding=model.target_embedding,
        memory="source",
        memory_taps=() if "decoder" in stacks else model.taps,
        memory_score=getattr(model, "score_kind", ""),
    )
    search = Search(
        decoder=model,
        prompt=ids[:1],
        ends=(preprocessing.end,),
        device=model.device,
        memory=lambda: model.encode(rows[0]),
        forbidden=preprocessing.forbidden,
        steps=len(ids) + SPARE_STEPS,
    )
    return Subject(
        model=name_of(model),
        text=text,
        streams=(source, written),
        run=lambda: model(*rows)[0],
        run_rows=lambda: model(*rows),
        name_of=tokenizer.token,
        predicts="next",
        actual=ids[1:],
        separator=_separator(tokenizer),
        search=lambda: search.tree(tokenizer.token),
        write=lambda: preprocessing.decode(search.greedy_ids()),
        again=lambda other: of_translation(other, preprocessing, text, source_ids, ids),
        read_out=getattr(model, "read_out", None),
        linear=linear_read_out(model),
        embedding=model.target_embedding.weight,
        positions=getattr(model, "positions", None),
        entry=entry_of(model),
        module=model,
        is_carried=True,
        preprocessing=preprocessing,
        remarks=() if ids[-1] == preprocessing.end else (CUT_OFF,),
    )


def _of_text(
    model: Any,
    preprocessing: TextPreprocessing,
    text: str,
    ids: list[int],
    body: str = "",
    is_causal: bool = False,
    num_vectors: int | None = None,
    **more: Any,
) -> Subject:
    """A text that a model reads in one stream; `body` is the prefix of the embedding's name in the
    model. More values are those of the subject, also in place of the usual ones."""
    tokenizer = preprocessing.tokenizer
    row = torch.tensor([ids], device=model.device)
    modules = dict(model.named_modules())
    table = modules.get(f"{body}embedding")
    weight = getattr(table, "weight", None)
    stream = _stream(
        model,
        "text",
        tokenizer,
        ids,
        stack=next(iter(stacks_of(model).values()), None),
        is_causal=is_causal,
        embedding=table if isinstance(table, Embedding) else None,
    )
    usual: dict[str, Any] = {
        "run": lambda: model(row)[0],
        "run_rows": lambda: model(row),
        "name_of": tokenizer.token,
        "module": model,
        "is_carried": True,
        "embedding": None if weight is None else weight[:num_vectors],
        "positions": modules.get(f"{body}positions"),
        "read_out": getattr(model, "read_out", None),
        "linear": linear_read_out(model),
    }
    return Subject(
        model=name_of(model),
        text=text,
        streams=(stream,),
        separator=_separator(tokenizer),
        entry=entry_of(model),
        preprocessing=preprocessing,
        **usual | more,
    )


def _stream(model: Any, name: str, tokenizer: Tokenizer, ids: list[int], **more: Any) -> Stream:
    tokens = [tokenizer.token(id) for id in ids]
    return Stream(name, tokens, ids, tokenizer=tokenizer, is_rotary=is_rotary(model), **more)


def _num_left_out(whole: Sequence[int], frame: Frame) -> int:
    return max(0, len(whole) - (frame.room or len(whole)))


def not_empty(text: str) -> str:
    """The text itself; raise if there is nothing to read."""
    if not isinstance(text, str):
        raise UsageError(f"one text is read at a time, but got {type(text).__name__}.")
    if not text.strip():
        raise UsageError("the text is empty.")
    return text


def _last(ids: Sequence[int], frame: Frame) -> int:
    """The position of the last token of the text, before the ids that frame it."""
    return max(0, len(ids) - len(frame.after) - 1)


def _separator(tokenizer: Tokenizer) -> str:
    return "" if tokenizer.keeps_spacing else " "


def entry_of(model: Any) -> Entry:
    """How the tokens of the last stream enter a model that knows its wiring."""
    wired = getattr(model, "wiring", None)
    if wired is None:
        return Entry()
    stream: StreamWiring = wired().streams[-1]
    return Entry(
        is_widened=_does_something(model, stream.widen),
        is_scaled=stream.is_scaled,
        has_segments=stream.segments is not None,
        is_normed=_does_something(model, stream.embedding_norm),
        adds_positions=adds_vectors(model.get_submodule(stream.positions)),
    )


def _does_something(model: Any, name: str | None) -> bool:
    return name is not None and not isinstance(model.get_submodule(name), nn.Identity)


def _read_out(
    model: Labeller, read: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, states: Tensor
) -> Tensor:
    """Logits (1, C) or (T, C) from the states of a layer (T, D)."""
    logits = read(states[None], inputs) / model.temperature
    return logits if logits.dim() == 2 else logits[0]


@torch.inference_mode()
def _members(model: Labeller, inputs: Tensor) -> tuple[Member, ...]:
    """What the layers and the bag of an ensemble add to the logits; nothing for other models."""
    if not isinstance(model, Ensemble) or model.bag is None:
        return ()
    shares = (model.shares / model.temperature).tolist()
    return tuple(
        Member(share, (share * logits[0]).cpu().numpy())
        for share, logits in zip(shares, model.members(inputs), strict=True)
    )


@torch.inference_mode()
def _contributions(model: Labeller, ids: Tensor) -> Array | None:
    """How much each token adds to each logit, if the logits are a sum over tokens: (T, C)."""
    logits = model.contributions(ids)
    return None if logits is None else (logits / model.temperature).float().cpu().numpy()
