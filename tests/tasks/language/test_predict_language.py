"""Writing: whole or piece by piece, one text or many, until a stop, an end or a limit."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer
from glassformer.checkpoint.model_folder import GENERATION, save_model
from glassformer.errors import GlassformerError
from glassformer.generation.sampling import Sampling, decode
from glassformer.tasks.language.predictor import LanguagePredictor


def ids_written(predictor, prompt, count, seed):
    """The ids themselves, as the sampler gives them."""
    ids = predictor.tokenizer.encode(prompt)
    steps = decode(predictor.model, [ids], sampling=Sampling(), max_new_tokens=count, seed=seed)
    return [token for (token,) in steps]


def complaint(predictor, **setting):
    with pytest.raises(GlassformerError) as error:
        predictor.generate("ab", **setting)
    return str(error.value)


# One text


def test_the_text_is_that_of_the_tokens_up_to_the_end_of_text(predictor):
    for seed in range(10):
        ids = ids_written(predictor, "ab", 30, seed)
        end = predictor.tokenizer.end_of_text
        ids = ids[: ids.index(end)] if end in ids else ids
        completion = predictor.generate("ab", max_new_tokens=30, seed=seed)
        assert (completion.text, completion.num_tokens) == (
            predictor.tokenizer.decode(ids),
            len(ids),
        )


def test_a_text_that_nothing_ends_has_max_new_tokens(fond_of, chars):
    a = chars.tokenizer.encode("a")
    completion = fond_of(chars.tokenizer, a).generate("b", max_new_tokens=20)
    assert completion.text == "a" * 20
    assert (completion.finish_reason, completion.num_tokens) == ("length", 20)


def test_the_end_of_text_ends_the_text_and_leaves_no_trace(fond_of, predictor):
    tokenizer = predictor.tokenizer
    completion = fond_of(tokenizer, [tokenizer.end_of_text]).generate("ab")
    assert completion.as_json() == {
        "prompt": "ab",
        "text": "",
        "finish_reason": "stop",
        "num_tokens": 0,
    }


def test_an_empty_prompt_begins_after_the_end_of_the_text_before(predictor):
    end = predictor.tokenizer.end_of_text
    with torch.inference_mode():
        likeliest = predictor.model(torch.tensor([[end]]))[0, -1].argmax()
    completion = predictor.generate("", max_new_tokens=1, do_sample=False)
    assert completion.text == predictor.tokenizer.decode([int(likeliest)])


def test_without_an_end_of_text_an_empty_prompt_is_refused(without_end):
    assert without_end.generate("a", max_new_tokens=3).num_tokens == 3
    with pytest.raises(GlassformerError, match="prompt is empty"):
        without_end.generate("")


def test_unknown_characters_of_a_prompt_are_named_before_anything_is_written(chars):
    for write in (chars.generate, chars.stream):
        with pytest.raises(GlassformerError, match="no token for 'x', '!'"):
            write("axb!")


def test_the_same_seed_writes_the_same_and_no_seed_something_else(predictor):
    def written(seed):
        return predictor.generate("ab", max_new_tokens=40, seed=seed).text

    assert written(1) == written(1)
    assert len({written(None) for _ in range(5)}) > 1


# Piece by piece


@pytest.mark.parametrize("stop", [(), ("a",), ("ba", "\n")], ids=str)
def test_the_stream_joined_is_the_generated_text(predictor, stop):
    for seed in range(10):
        settings = {"max_new_tokens": 30, "seed": seed, "stop": stop}
        whole = predictor.generate("ab", **settings).text
        assert "".join(predictor.stream("ab", **settings)) == whole


def test_a_stream_gives_out_each_token_as_it_is_written(fond_of, chars):
    predictor = fond_of(chars.tokenizer, chars.tokenizer.encode("ab"))
    pieces = list(predictor.stream("a", max_new_tokens=9))
    assert [len(piece) for piece in pieces] == [1] * 9


def test_a_stream_never_splits_a_character(fond_of, bpe):
    tokenizer = bpe.tokenizer
    ids = {tokenizer.token(id): id for id in range(tokenizer.vocab_size)}
    predictor = fond_of(tokenizer, [ids["<0xC3>"], ids["<0xA9>"], ids["<0xBC>"]])
    pieces = list(predictor.stream("a", max_new_tokens=200, seed=0))
    whole = tokenizer.decode(ids_written(predictor, "a", 200, seed=0))
    assert "".join(pieces) == whole
    assert {"é", "ü", "�"} <= set(whole)


def test_a_stream_of_random_bytes_is_their_decoding(bpe):
    for seed in range(5):
        ids = ids_written(bpe, "漢", 60, seed)
        if bpe.tokenizer.end_of_text not in ids:
            streamed = "".join(bpe.stream("漢", max_new_tokens=60, seed=seed))
            assert streamed == bpe.tokenizer.decode(ids)


# Stop strings


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))
def test_a_stop_string_ends_the_text_and_never_leaks(without_end, seed, stops):
    said = {"max_new_tokens": 25, "seed": seed}
    whole = without_end.generate("a", **said).text
    completion = without_end.generate("a", **said, stop=tuple(stops))
    ends = [whole.index(stop) + len(stop) for stop in stops if stop in whole]
    assert whole.startswith(completion.text)
    assert not any(stop in completion.text for stop in stops)
    assert completion.finish_reason == ("stop" if ends else "length")
    assert completion.num_tokens == min(ends, default=25)  # nothing is written after the stop


def test_a_single_stop_string_need_not_be_a_list(fond_of, chars):
    predictor = fond_of(chars.tokenizer, chars.tokenizer.encode("a"))
    assert predictor.generate("b", stop="aa").text == ""
    fond = LanguagePredictor(predictor.model, chars.preprocessing, {"stop": "aa"})
    assert fond.generate("b").finish_reason == "stop"


def test_a_stop_string_in_the_prompt_stops_nothing(fond_of, chars):
    predictor = fond_of(chars.tokenizer, chars.tokenizer.encode("a"))
    assert predictor.generate("b", stop=("b",), max_new_tokens=5).finish_reason == "length"


# Several texts


def test_a_batch_writes_for_each_prompt_what_it_would_alone(predictor):
    prompts = ["a", "abba baab", "é\n"]
    together = predictor.generate_batch(prompts, do_sample=False, max_new_tokens=12)
    alone = [predictor.generate(prompt, do_sample=False, max_new_tokens=12) for prompt in prompts]
    assert together == alone


def test_several_texts_of_each_prompt_come_side_by_side(chars):
    texts = chars.generate_batch(["a", "b"], num_return_sequences=3, max_new_tokens=20, seed=1)
    assert [text.prompt for text in texts] == ["a"] * 3 + ["b"] * 3
    assert len({text.text for text in texts}) > 3


def test_a_batch_of_no_prompts_is_no_texts(chars):
    assert chars.generate_batch([]) == []


@pytest.mark.parametrize("verb", ["generate", "stream"])
def test_a_verb_for_one_text_does_not_pretend_to_write_several(chars, verb):
    with pytest.raises(GlassformerError, match="Pass a list"):
        getattr(chars, verb)("a", num_return_sequences=3)


def test_a_default_of_several_texts_is_for_batches(chars):
    predictor = LanguagePredictor(chars.model, chars.preprocessing, {"num_return_sequences": 3})
    assert predictor.generate("a", seed=1) == chars.generate("a", seed=1)
    assert len(predictor.generate_batch(["a"])) == 3


# Settings


def test_a_misspelt_setting_is_an_error_that_suggests_the_right_one(chars):
    assert "Did you mean temperature?" in complaint(chars, temprature=1)


@pytest.mark.parametrize(
    ("setting", "limit"),
    [
        ({"temperature": -1}, "0 or more"),
        ({"temperature": float("nan")}, "finite number"),
        ({"top_k": 0}, "1 or more"),
        ({"top_p": 1.5}, "1 or less"),
        ({"min_p": -0.1}, "0 or more"),
        ({"repetition_penalty": 0}, "above 0"),
        ({"max_new_tokens": 0}, "1 or more"),
        ({"seed": -1}, "0 or more"),
        ({"stop": 3}, "a list"),
    ],
    ids=str,
)
def test_a_setting_out_of_range_is_named_with_its_value_and_limit(chars, setting, limit):
    ((name, value),) = setting.items()
    assert f"{name} in the settings is {value!r}: it must be" in (
        message := complaint(chars, **setting)
    )
    assert limit in message


def test_an_empty_stop_string_is_refused(chars):
    assert "stop string is empty" in complaint(chars, stop="")


def test_the_settings_in_the_folder_are_the_defaults(tmp_path, chars):
    save_model(tmp_path, chars.model, chars.preprocessing)
    (tmp_path / GENERATION).write_text(json.dumps({"do_sample": False, "max_new_tokens": 5}))
    predictor = glassformer.load(tmp_path)
    greedy = chars.generate("ab", do_sample=False, max_new_tokens=5)
    assert predictor.generate("ab") == greedy
    assert len(predictor.generate("ab", max_new_tokens=2).text) <= 2


# What may come next


def test_next_tokens_are_the_softmax_sorted(predictor):
    ids = predictor.tokenizer.encode("abba é abba")
    with torch.inference_mode():
        expected = predictor.model(torch.tensor([ids[-8:]]))[0, -1].softmax(-1)
    found = predictor.next_tokens("abba é abba", top=5)
    best = expected.sort(descending=True)
    assert [each.token for each in found] == [
        predictor.tokenizer.token(id) for id in best.indices[:5].tolist()
    ]
    assert [each.probability for each in found] == pytest.approx(best.values[:5].tolist())


def test_all_next_tokens_together_are_certain(predictor):
    found = predictor.next_tokens("a", top=10_000)
    assert len(found) == predictor.tokenizer.vocab_size
    assert sum(each.probability for each in found) == pytest.approx(1)


def test_no_next_tokens_cannot_be_asked_for(chars):
    with pytest.raises(GlassformerError, match="top is 0"):
        chars.next_tokens("a", top=0)


@pytest.mark.parametrize("size", [1, 6, 7, 8, 9, 17])
def test_beams_write_all_that_is_asked_for_after_a_prompt_of_any_length(without_end, size):
    prompt = ("abbab" * 4)[:size]
    found = without_end.generate(prompt, num_beams=3, max_new_tokens=20)
    assert (found.num_tokens, found.finish_reason) == (20, "length")


def test_beams_continue_many_prompts_as_each_alone(chars):
    prompts = ["a", "abba", "abbabbab", "abbabbabba"]
    together = chars.generate_batch(prompts, num_beams=3, max_new_tokens=12)
    alone = [chars.generate(prompt, num_beams=3, max_new_tokens=12) for prompt in prompts]
    assert [each.text for each in together] == [each.text for each in alone]


def test_the_best_text_may_be_unfinished(fond_of, chars):
    """Each step goes on with probability 0.9: the empty text is complete, but far less likely."""
    predictor = fond_of(chars.tokenizer, chars.tokenizer.encode("a"))
    predictor.model.head.bias.data[chars.tokenizer.end_of_text] = -2.2
    found = predictor.generate("a", num_beams=2, max_new_tokens=5)
    assert (found.text, found.finish_reason) == ("aaaaa", "length")
