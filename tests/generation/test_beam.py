"""Beam search against exhaustive search, against greedy decoding, and against the model's word."""

import math
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from table_decoder import VOCABULARY, TableDecoder, all_tokens, last_token, window_after
from transformers import GPT2Config, GPT2LMHeadModel

from glassformer.generation.beam import Beams, Hypothesis, Trace, beam_search
from glassformer.generation.sampling import Sampling, decode
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.rnn import RNNLanguageModel, RNNLanguageModelConfig
from glassformer.models.rnn_seq2seq import RNNTranslator, RNNTranslatorConfig
from glassformer.models.transformer import Transformer, TransformerConfig
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.text.tokenizer_training import train_tokenizer

END = 0
# The likeliest first token leads nowhere good: greedy decoding takes it, a beam of two does not.
GARDEN_PATH = [
    [1.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.6, 0.4],
    [0.3, 0.3, 0.2, 0.2],
    [0.9, 0.0, 0.1, 0.0],
]


def search(
    decoder,
    prompts,
    num_beams=4,
    limit=6,
    ends=(END,),
    trace=None,
    memory=None,
    prefer_complete=True,
    **more,
):
    return beam_search(
        decoder,
        prompts,
        Beams(num_beams=num_beams, **more),
        max_new_tokens=limit,
        ends=ends,
        trace=trace,
        memory=memory,
        prefer_complete=prefer_complete,
    )


def exhaustive(logprobs_after, vocabulary, limit, length_penalty, end=END):
    """Every sequence that ends within `limit` tokens, with its score; best first."""
    found = []
    for length in range(1, limit + 1):
        for body in product([t for t in range(vocabulary) if t != end], repeat=length - 1):
            ids = [*body, end]
            total = sum(logprobs_after(ids[:place])[token] for place, token in enumerate(ids))
            found.append((total / length**length_penalty, body))
    return sorted(found, reverse=True)


def table_logprobs(predict, prompt):
    return lambda ids: torch.tensor(predict([*prompt, *ids])).log_softmax(-1).tolist()


def test_a_beam_leaves_the_garden_path_that_greedy_decoding_takes():
    decoder = TableDecoder(last_token(GARDEN_PATH), None)
    greedy, wide = (search(decoder, [[1]], num_beams=k, length_penalty=0)[0][0] for k in (1, 2))
    assert greedy.ids[0] == 2
    assert wide.ids == (3,)
    assert wide.logprob == pytest.approx(math.log(0.4 * 0.9), abs=1e-5)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4),
    st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0]),
    st.integers(1, 4),
)
def test_a_beam_wide_enough_finds_what_exhaustive_search_finds(prompt, penalty, wanted):
    limit = 3
    decoder = TableDecoder(all_tokens, None)
    best = exhaustive(table_logprobs(all_tokens, prompt), VOCABULARY, limit, penalty)
    (found,) = search(
        decoder,
        [prompt],
        num_beams=VOCABULARY**limit,
        limit=limit,
        length_penalty=penalty,
        num_return_sequences=wanted,
    )
    assert [each.ids for each in found] == [body for _, body in best[:wanted]]
    assert [each.score for each in found] == pytest.approx([s for s, _ in best[:wanted]], abs=1e-4)
    assert all(each.is_complete for each in found)


def tiny_models():
    torch.manual_seed(0)
    gpt = GPTConfig(vocab_size=5, context_length=12, num_layers=2, d_model=8, num_heads=2)
    rnn = RNNLanguageModelConfig(vocab_size=5, context_length=12, d_embedding=8, d_model=8)
    for model in (GPT(gpt), RNNLanguageModel(rnn)):
        for weight in model.parameters():
            torch.nn.init.normal_(weight)
        yield model.eval()


@pytest.mark.parametrize("model", [*tiny_models()], ids=["gpt", "rnn-lm"])
def test_on_tiny_models_too(model):
    def logprobs(ids):
        with torch.no_grad():
            return model(torch.tensor([[1, 2, *ids]]))[0, -1].log_softmax(-1).tolist()

    best = exhaustive(logprobs, 5, 3, 1.0)
    (found,) = search(model, [[1, 2]], num_beams=125, limit=3, num_return_sequences=5)
    assert [each.ids for each in found] == [body for _, body in best[:5]]
    assert [each.score for each in found] == pytest.approx([s for s, _ in best[:5]], abs=1e-4)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=5), min_size=1))
def test_one_beam_is_greedy_decoding(prompts):
    decoder = TableDecoder(all_tokens, None)
    steps = decode(
        decoder,
        prompts,
        sampling=Sampling(do_sample=False),
        max_new_tokens=8,
        seed=0,
        is_finished=lambda row, token: token == END,
    )
    rows = zip(*steps, strict=True)
    greedy = [tuple(t for t in row if t not in (None, END)) for row in rows]
    assert [found.ids for (found,) in search(decoder, prompts, num_beams=1, limit=8)] == greedy


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=5), min_size=2),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.6, 1.0]),
)
def test_beside_others_a_sentence_is_searched_as_if_alone(prompts, num_beams, penalty):
    decoder = TableDecoder(all_tokens, None)
    limits = [3 + len(prompt) for prompt in prompts]
    more = {"num_beams": num_beams, "length_penalty": penalty, "num_return_sequences": num_beams}
    together = search(decoder, prompts, limit=limits, **more)
    for prompt, limit, found in zip(prompts, limits, together, strict=True):
        (alone,) = search(decoder, [prompt], limit=limit, **more)
        assert [each.ids for each in found] == [each.ids for each in alone]


def translators():
    torch.manual_seed(1)
    shape = {"vocab_size": 11, "context_length": 24, "dropout": 0.0}
    small = {"num_layers": 2, "d_model": 8, "num_heads": 2}
    yield Transformer(TransformerConfig(**shape, **small))
    yield Transformer(TransformerConfig(**shape, **small, positions="rotary", pre_norm=False))
    for cell, attention in (("gru", "additive"), ("lstm", "general"), ("rnn", "none")):
        wide = {"d_embedding": 8, "d_model": 8, "num_layers": 2}
        yield RNNTranslator(RNNTranslatorConfig(**shape, **wide, cell=cell, attention=attention))


def wild(model):
    """With weights large enough that sentences differ."""
    torch.manual_seed(2)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    return model.eval()


@pytest.mark.parametrize("model", [*translators()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_translators_beams_share_its_memory_and_keep_their_own_past(model, groups):
    """Reordered caches and folded memories give what reading each sequence anew gives."""
    wild(model)
    source = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [9, 1, 2, 0]])
    is_text = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]).bool()
    more = {"num_beam_groups": groups, "diversity_penalty": 0.7 * (groups - 1)}
    with torch.no_grad():
        memory = model.encode(source, is_text)
    found = search(model, [[1]] * 3, limit=9, memory=memory, num_return_sequences=4, **more)
    for row, hypotheses in enumerate(found):
        assert 2 <= len(hypotheses) <= 4  # two groups may have found the same
        order = [(not each.is_complete, -each.score) for each in hypotheses]
        assert order == sorted(order)
        for each in hypotheses:
            ids = [*each.ids, *([END] if each.is_complete else [])]
            words = source[row][is_text[row]]
            with torch.no_grad():
                logits = model(words[None], torch.tensor([[1, *ids[:-1]]]))[0]
            logprobs = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])
            assert each.logprob == pytest.approx(float(logprobs.sum()), abs=1e-3)
            assert each.score == pytest.approx(each.logprob / len(ids), abs=1e-6)


def searched_to_the_end(predict, prompt, num_beams, limit, penalty):
    """The complete sequences of a beam search that never stops early, best first."""
    beams, complete = [(0.0, ())], []
    for length in range(1, limit + 1):
        offers = [
            (total + logprob, (*ids, token))
            for total, ids in beams
            for token, logprob in enumerate(table_logprobs(predict, prompt)(ids))
        ]
        offers = sorted(offers, key=lambda offer: -offer[0])
        complete += [
            (total / length**penalty, ids[:-1])
            for total, ids in offers[:num_beams]
            if ids[-1] == END
        ]
        beams = [(total, ids) for total, ids in offers if ids[-1] != END][:num_beams]
    return sorted(complete, reverse=True)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4),
    st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]),
    st.integers(2, 5),
    st.integers(1, 2),
    st.integers(4, 12),
)
def test_stopping_early_loses_nothing(prompt, penalty, num_beams, wanted, limit):
    best = searched_to_the_end(all_tokens, prompt, num_beams, limit, penalty)[:wanted]
    (found,) = search(
        TableDecoder(all_tokens, None),
        [prompt],
        num_beams=num_beams,
        limit=limit,
        length_penalty=penalty,
        num_return_sequences=wanted,
    )
    assert [(each.ids, each.is_complete) for each in found][: len(best)] == [
        (ids, True) for _, ids in best
    ]


def test_the_search_stops_as_soon_as_nothing_can_win():
    steps = []

    class Counting(TableDecoder):
        def step(self, ids, state):
            steps.append(len(ids))
            return super().step(ids, state)

    decoder = Counting(last_token(GARDEN_PATH), None)
    (short,) = search(decoder, [[1]], num_beams=3, limit=4, length_penalty=0)
    few = len(steps)
    (long,) = search(decoder, [[1]], num_beams=3, limit=400, length_penalty=0)
    assert short == long
    assert len(steps) - few < 10


def test_sentences_that_are_done_make_room():
    sizes = []

    class Counting(TableDecoder):
        def step(self, ids, state):
            sizes.append(len(ids))
            return super().step(ids, state)

    search(Counting(last_token(GARDEN_PATH), None), [[1], [1]], ends=(), limit=[2, 6])
    assert sizes[-1] < max(sizes)


def test_what_was_cut_off_is_only_returned_if_nothing_came_to_its_end():
    never_ends = [[0.0, 0.5, 0.5, 0.0]] * 4
    (found,) = search(TableDecoder(last_token(never_ends), None), [[1]], num_beams=2, limit=3)
    assert not found[0].is_complete
    assert len(found[0].ids) == 3
    (found,) = search(TableDecoder(last_token(GARDEN_PATH), None), [[1]], num_beams=2, limit=3)
    assert found[0].is_complete


def test_an_end_that_is_found_because_a_better_sequence_was_cut_off_reports_it():
    counts = TableDecoder(
        lambda ids: [2.0, 0.0, 6.0, 0.0] if len(ids) < 6 else [9.0, 0.0, 0.0, 0.0]
    )
    (cut_off,) = search(counts, [[1]], num_beams=2, limit=3)
    assert cut_off[0].is_complete
    assert cut_off[0].finish_reason == "length"
    (found,) = search(counts, [[1]], num_beams=2, limit=9)
    assert (found[0].ids, found[0].finish_reason) == ((2,) * 5, "stop")
    (greedy,) = search(counts, [[1]], num_beams=1, limit=6)
    assert (greedy[0].ids, greedy[0].finish_reason) == ((2,) * 5, "stop")


def test_without_an_end_there_are_only_lengths():
    (found,) = search(TableDecoder(all_tokens, None), [[1]], ends=(), limit=5)
    assert len(found[0].ids) == 5


def test_no_run_of_tokens_occurs_twice_and_the_score_is_still_the_models():
    loop = [[0.0, 0.9, 0.1, 0.0], [0.0, 0.9, 0.1, 0.0], [0.5, 0.4, 0.1, 0.0], [1.0, 0.0, 0.0, 0.0]]
    decoder = TableDecoder(last_token(loop), None)
    (free,) = search(decoder, [[1]], limit=5, length_penalty=2.0)
    (found,) = search(decoder, [[1]], limit=5, length_penalty=2.0, no_repeat_ngram_size=2)
    runs = list(zip((1, *found[0].ids), found[0].ids, strict=False))
    assert len(set(runs)) == len(runs)
    assert free[0].ids != found[0].ids
    ids, logprob = [1, *found[0].ids, END], 0.0
    for before, token in pairwise(ids):
        logprob += math.log(loop[before][token])
    assert found[0].logprob == pytest.approx(logprob, abs=1e-4)


def test_diverse_groups_begin_differently():
    decoder = TableDecoder(all_tokens, None)
    more = {"num_beams": 4, "limit": 4, "num_return_sequences": 4}
    (alike,) = search(decoder, [[2]], **more)
    (diverse,) = search(decoder, [[2]], **more, num_beam_groups=4, diversity_penalty=100.0)
    first = {(each.ids or (END,))[0] for each in diverse}
    assert len(first) == 4
    assert len({(each.ids or (END,))[0] for each in alike}) < 4


@settings(deadline=None, max_examples=40)
@given(st.integers(0, VOCABULARY - 1), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([1, 2, 4]))
def test_what_is_returned_is_distinct_and_its_best_the_same_for_any_number(start, penalty, groups):
    decoder = TableDecoder(all_tokens, None)
    more = {"limit": 5, "num_beam_groups": groups}
    more |= {"diversity_penalty": penalty} if groups > 1 else {}
    (several,) = search(decoder, [[start]], num_return_sequences=4, **more)
    assert len({(each.ids, each.is_complete) for each in several}) == len(several)
    if groups == 1:
        (one,) = search(decoder, [[start]], **more)
        assert one[0] == several[0]


def test_a_trace_is_a_tree_with_a_fate_for_every_candidate():
    trace = Trace()
    (found,) = search(TableDecoder(all_tokens, None), [[2]], num_beams=3, limit=4, trace=trace)
    nodes = {each.node: each for each in trace.nodes}
    assert {each.fate for each in nodes.values()} <= {
        *("kept", "complete", "outscored", "hopeless", "cut off")
    }
    for each in nodes.values():
        if each.parent is not None:
            parent = nodes[each.parent]
            assert (parent.step, parent.sentence) == (each.step - 1, each.sentence)
            assert parent.fate == "kept"
            assert parent.logprob >= each.logprob
    last = max((n for n in nodes.values() if n.fate == "complete"), key=lambda n: n.score)
    path = []
    while last.parent is not None:
        last = nodes[last.parent]
        path.insert(0, last.token)
    assert tuple(path) == found[0].ids


# --- unfinished texts, which compete with finished ones ---


def exhaustive_with_unfinished(logprobs_after, vocabulary, limit, length_penalty):
    """Every text of at most `limit` tokens, whether it ends or is cut off there; best first."""
    others = [token for token in range(vocabulary) if token != END]
    complete = exhaustive(logprobs_after, vocabulary, limit, length_penalty)
    found = [(score, body, True) for score, body in complete]
    for body in product(others, repeat=limit):
        total = sum(logprobs_after(body[:place])[token] for place, token in enumerate(body))
        found.append((total / limit**length_penalty, body, False))
    return sorted(found, reverse=True)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4),
    st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0]),
    st.integers(1, 4),
)
def test_finished_and_unfinished_texts_compete_by_score(prompt, penalty, wanted):
    logprobs = table_logprobs(all_tokens, prompt)
    best = exhaustive_with_unfinished(logprobs, VOCABULARY, 3, penalty)[:wanted]
    (found,) = search(
        TableDecoder(all_tokens, None),
        [prompt],
        num_beams=VOCABULARY**3,
        limit=3,
        length_penalty=penalty,
        num_return_sequences=wanted,
        prefer_complete=False,
    )
    assert [(each.ids, each.is_complete) for each in found] == [each[1:] for each in best]
    assert [each.score for each in found] == pytest.approx([each[0] for each in best], abs=1e-4)


@pytest.mark.parametrize("model", [*tiny_models()], ids=["gpt", "rnn-lm"])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_on_tiny_models_finished_and_unfinished_texts_compete(model, penalty):
    def logprobs(ids):
        with torch.no_grad():
            return model(torch.tensor([[1, 2, *ids]]))[0, -1].log_softmax(-1).tolist()

    best = exhaustive_with_unfinished(logprobs, 5, 3, penalty)[:6]
    (found,) = search(
        model,
        [[1, 2]],
        num_beams=125,
        limit=3,
        length_penalty=penalty,
        num_return_sequences=6,
        prefer_complete=False,
    )
    assert [(each.ids, each.is_complete) for each in found] == [each[1:] for each in best]


def test_the_empty_text_does_not_win_because_it_is_finished():
    likely = [[1.0, 0.0, 0.0], [0.05, 0.0, 0.95], [0.1, 0.9, 0.0]]
    decoder = TableDecoder(last_token(likely), None)
    (found,) = search(decoder, [[2]], num_beams=2, limit=4, prefer_complete=False)
    assert (found[0].ids, found[0].is_complete) == ((1, 2, 1, 2), False)
    (found,) = search(decoder, [[2]], num_beams=2, limit=4)  # a translation is a whole sentence
    assert found[0].is_complete


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4),
    st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]),
    st.integers(2, 5),
    st.integers(4, 12),
)
def test_stopping_early_loses_no_unfinished_text(prompt, penalty, num_beams, limit):
    beams, best = [(0.0, ())], []
    logprobs = table_logprobs(all_tokens, prompt)
    for length in range(1, limit + 1):
        offers = [
            (total + logprob, (*ids, token))
            for total, ids in beams
            for token, logprob in enumerate(logprobs(ids))
        ]
        offers = sorted(offers, key=lambda offer: -offer[0])
        best += [
            (total / length**penalty, ids[:-1], True)
            for total, ids in offers[:num_beams]
            if ids[-1] == END
        ]
        beams = [(total, ids) for total, ids in offers if ids[-1] != END][:num_beams]
    best += [(total / limit**penalty, ids, False) for total, ids in beams]
    (found,) = search(
        TableDecoder(all_tokens, None),
        [prompt],
        num_beams=num_beams,
        limit=limit,
        length_penalty=penalty,
        prefer_complete=False,
    )
    assert (found[0].ids, found[0].is_complete) == max(best)[1:]


# --- several ends ---


def several_ends_exhaustively(logprobs_after, limit, length_penalty, ends):
    """As `exhaustive`; a text that may end with several tokens has the score of the likeliest."""
    best = {}
    for end in ends:
        others = [t for t in range(VOCABULARY) if t not in ends]
        for length in range(1, limit + 1):
            for body in product(others, repeat=length - 1):
                ids = [*body, end]
                total = sum(logprobs_after(ids[:place])[token] for place, token in enumerate(ids))
                best[body] = max(best.get(body, -math.inf), total / length**length_penalty)
    return sorted(((score, body) for body, score in best.items()), reverse=True)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4),
    st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0]),
    st.sampled_from([(0, 3), (5, 1, 2), (6, 0, 1, 2, 3)]),
)
def test_every_end_completes_a_text(prompt, penalty, ends):
    best = several_ends_exhaustively(table_logprobs(all_tokens, prompt), 3, penalty, ends)[:3]
    (found,) = search(
        TableDecoder(all_tokens, None),
        [prompt],
        num_beams=VOCABULARY**3,
        limit=3,
        ends=ends,
        length_penalty=penalty,
        num_return_sequences=3,
    )
    assert [each.ids for each in found] == [body for _, body in best]
    assert [each.score for each in found] == pytest.approx([s for s, _ in best], abs=1e-4)


def test_enough_beams_go_on_when_all_offer_every_end():
    ends = (0, 1, 2)
    likely = [0.3, 0.3, 0.3, 0.04, 0.03, 0.02, 0.01]
    decoder = TableDecoder(lambda ids: [math.log(p) for p in likely])
    (found,) = search(
        decoder,
        [[3]],
        num_beams=3,
        limit=2,
        ends=ends,
        num_return_sequences=3,
        length_penalty=-10.0,
    )
    assert [(each.ids, each.is_complete) for each in found] == [
        ((), True),
        ((3,), True),
        ((3, 3), False),
    ]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("num_beams", [2, 3, 5])
def test_several_ends_are_those_of_transformers(num_beams, penalty):
    shape = {"vocab_size": 23, "n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
    theirs = GPT2LMHeadModel(GPT2Config(**shape, tie_word_embeddings=False)).eval()

    def predict(ids):
        with torch.inference_mode():
            return theirs(torch.tensor([ids])).logits[0, -1].tolist()

    ended = set()
    for seed in range(20):
        torch.manual_seed(seed)
        for weight in theirs.parameters():
            torch.nn.init.normal_(weight, std=0.6)
        options = {"num_beams": num_beams, "length_penalty": penalty, "max_new_tokens": 8}
        expected = theirs.generate(
            torch.tensor([[3, 4]]),
            attention_mask=torch.ones(1, 2),
            do_sample=False,
            early_stopping="never",
            eos_token_id=[20, 21, 22],
            pad_token_id=22,
            **options,
        )[0, 2:].tolist()
        (found,) = search(
            TableDecoder(predict),
            [[3, 4]],
            num_beams=num_beams,
            length_penalty=penalty,
            limit=8,
            ends=(20, 21, 22),
            prefer_complete=False,
        )
        ended.add(expected[-1] if expected[-1] >= 20 else None)
        assert list(found[0].ids) == [id for id in expected if id < 20]
        assert found[0].is_complete == (expected[-1] >= 20)
    assert len(ended & {20, 21, 22}) >= 2


def test_a_text_is_searched_to_any_of_its_ends():
    """As sampling does; the second is what ends an answer."""
    reader = train_tokenizer("bpe", ["a dog is no fox"] * 9, 270, special_tokens=["<|im_end|>"])
    preprocessing = TextPreprocessing(tokenizer=reader, end_tokens=("<|im_end|>",))
    shape = {"vocab_size": reader.vocab_size, "context_length": 32, "output_bias": True}
    torch.manual_seed(0)
    model = GPT(GPTConfig(**shape, num_layers=1, d_model=8, num_heads=2)).eval()
    with torch.no_grad():
        model.head.bias[reader.special_tokens["<|im_end|>"]] += 50
    predictor = LanguagePredictor(model, preprocessing)
    found = predictor.generate("a dog", num_beams=3, max_new_tokens=9)
    assert (found.text, found.finish_reason) == ("", "stop")


# --- the end of the context ---


@pytest.mark.parametrize("context", [1, 2, 5, 8])
def test_without_a_memory_the_window_slides_as_in_sampling(context):
    prompts = [
        [(3 * n + 1) % VOCABULARY for n in range(size)] for size in range(1, 2 * context + 3)
    ]
    decoder = TableDecoder(all_tokens, context)
    steps = decode(decoder, prompts, sampling=Sampling(do_sample=False), max_new_tokens=20, seed=0)
    greedy = [tuple(row) for row in zip(*steps, strict=True)]
    for number, prompt in enumerate(prompts):
        ((found,),) = search(decoder, [prompt], num_beams=1, limit=20, ends=())
        assert found.ids == greedy[number]
    together = search(decoder, prompts, num_beams=1, limit=20, ends=())
    assert [found.ids for (found,) in together] == greedy


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12), min_size=1, max_size=3
    ),
    st.sampled_from([1, 2, 5, 8]),
    st.integers(1, 3),
)
def test_each_beam_sees_the_window_that_sampling_would_see(prompts, context, num_beams):
    found = search(
        TableDecoder(all_tokens, context),
        prompts,
        num_beams=num_beams,
        limit=14,
        num_return_sequences=num_beams,
        prefer_complete=False,
    )
    for prompt, several in zip(prompts, found, strict=True):
        for each in several:
            ids = [*each.ids, END] if each.is_complete else each.ids
            assert each.is_complete or len(ids) == 14
            logprobs = [
                torch.tensor(all_tokens(window_after(prompt, ids[:place], context))).log_softmax(-1)
                for place in range(len(ids))
            ]
            total = sum(float(row[token]) for row, token in zip(logprobs, ids, strict=True))
            assert each.logprob == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("model", [*tiny_models()], ids=["gpt", "rnn-lm"])
@pytest.mark.parametrize("size", [1, 6, 10, 11, 12, 13, 24, 30])
def test_a_model_writes_all_that_is_asked_for_whatever_the_length_of_the_prompt(model, size):
    prompt = [(7 * n + n // 3) % 5 for n in range(size)]
    steps = decode(model, [prompt], sampling=Sampling(do_sample=False), max_new_tokens=25, seed=0)
    greedy = tuple(token for (token,) in steps)
    ((one,),) = search(model, [prompt], num_beams=1, limit=25, ends=())
    assert one.ids == greedy
    ((several,),) = search(model, [prompt], num_beams=3, limit=25, ends=())
    assert len(several.ids) == 25


def test_the_context_of_a_decoder_with_a_memory_limits_what_is_written():
    model = wild(next(translators()))
    with torch.no_grad():
        memory = model.encode(torch.tensor([[3, 4]]), torch.ones(1, 2).bool())
    (found,) = search(model, [[1, 2, 3]], limit=50, ends=(), memory=memory)
    assert len(found[0].ids) == 22  # of a context of 24


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_beams": 2, "num_return_sequences": 3},
        {"num_beams": 4, "num_beam_groups": 3},
        {"num_beams": 4, "diversity_penalty": 0.5},
        {"num_beams": 10**6},
    ],
)
def test_settings_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ValidationError, match="num_beams"):
        Beams(**wrong)


def test_no_prompts_no_results():
    assert search(TableDecoder(all_tokens, None), []) == []
    assert isinstance(search(TableDecoder(all_tokens, None), [[1]])[0][0], Hypothesis)
