"""How likely is a text? Every number against a computation of its own."""

import math

import pytest
import torch

from glassformer.errors import GlassformerError


def log_p(predictor, before, token):
    """log p(token | before), read from scratch."""
    with torch.inference_mode():
        logits = predictor.model(torch.tensor([before]))[0, -1]
    return logits.double().log_softmax(-1)[token].item()


def test_each_token_is_scored_given_the_ones_before_it(predictor):
    ids = predictor.tokenizer.encode("abba")
    expected = [log_p(predictor, ids[:n], ids[n]) for n in range(1, len(ids))]
    score = predictor.score("abba")
    assert score.logprobs[0] is None
    assert score.logprobs[1:] == pytest.approx(expected, abs=1e-5)
    assert score.total == pytest.approx(sum(expected), abs=1e-5)


def test_the_first_token_is_scored_apart_given_the_end_of_text(predictor):
    first, *_ = predictor.tokenizer.encode("abba")
    expected = log_p(predictor, [predictor.tokenizer.end_of_text], first)
    assert predictor.score("abba").first_logprob == pytest.approx(expected, abs=1e-5)


def test_without_an_end_of_text_the_first_token_has_no_score(without_end):
    score = without_end.score("ab")
    assert score.first_logprob is None
    assert score.as_json()["first_logprob"] is None


def test_tokens_are_shown_as_a_reader_knows_them(bpe):
    assert bpe.score("aé漢字").tokens[0] == "a"
    assert "".join(bpe.score("b é").tokens) == "b é"


@pytest.mark.parametrize("context", [2, 3, 8, 9])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 10, 12, 13, 16, 17, 40])
def test_a_text_of_any_length_is_scored_with_half_a_context_before_each_token(
    with_context, context, length
):
    predictor, half = with_context(context), context // 2
    text = ("abbab é\n" * 5)[:length]
    ids = predictor.tokenizer.encode(text)
    expected = []
    for n in range(1, length):
        begin = next(start for start in range(0, n, half) if start + context > n)
        assert begin == 0 or n - begin >= context / 2
        expected.append(log_p(predictor, ids[begin:n], ids[n]))
    score = predictor.score(text)
    assert len(score.tokens) == len(score.logprobs) == length
    assert score.logprobs[1:] == pytest.approx(expected, abs=1e-4)


def test_perplexity_follows_from_the_total(predictor):
    score = predictor.score("é abba 漢")
    assert score.perplexity == pytest.approx(math.exp(-score.total / (len(score.tokens) - 1)))


@pytest.mark.parametrize("text", ["a", "ab é", "abba é\nbaab 漢字\n" * 3])
def test_bits_per_byte_are_those_of_an_evaluation_of_the_text(predictor, tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    found = predictor.evaluate([str(tmp_path / "a.txt")])
    assert predictor.score(text).bits_per_byte == found.bits_per_byte


def test_the_bits_and_the_bytes_are_of_the_same_tokens(without_end, bpe):
    score = without_end.score("abb")  # nothing comes before the first token
    assert score.bits_per_byte == pytest.approx(-score.total / math.log(2) / 2)
    assert without_end.score("a").bits_per_byte is None
    score = bpe.score("é")  # the first token may be half a character
    assert score.document.num_bytes == 2


def test_a_certain_text_has_perplexity_one(fond_of, chars):
    score = fond_of(chars.tokenizer, chars.tokenizer.encode("a")).score("aaaa")
    assert score.perplexity == 1.0


def test_an_impossible_text_still_has_a_number(fond_of, chars):
    score = fond_of(chars.tokenizer, chars.tokenizer.encode("a")).score("abbb")
    assert score.total == pytest.approx(-30_000, rel=0.01)
    assert math.isfinite(score.perplexity)


def test_a_single_token_has_no_total_and_no_perplexity(chars):
    score = chars.score("a")
    assert score.first_logprob < 0
    assert score.as_json() == {
        "tokens": ["a"],
        "logprobs": [None],
        "total": 0,
        "first_logprob": score.first_logprob,
        "perplexity": None,
        "bits_per_byte": score.bits_per_byte,
    }


def test_the_json_of_a_score_has_its_six_fields(predictor):
    found = predictor.score("abba").as_json()
    assert list(found) == [
        *("tokens", "logprobs", "total", "first_logprob", "perplexity", "bits_per_byte")
    ]
    assert found["total"] == sum(found["logprobs"][1:])


def test_the_greedy_text_is_scored_as_it_was_written(chars):
    written = chars.generate("ab", do_sample=False, max_new_tokens=4).text
    score = chars.score("ab" + written)
    for place, token in enumerate(score.tokens[2:], 2):
        best = chars.next_tokens("".join(score.tokens[:place]), top=1)[0]
        assert best.token == token
        assert math.log(best.probability) == pytest.approx(score.logprobs[place], abs=1e-4)


def test_an_empty_text_cannot_be_scored(predictor):
    with pytest.raises(GlassformerError, match="no text to score"):
        predictor.score("")


def test_unknown_characters_are_named(chars):
    with pytest.raises(GlassformerError, match="no token for 'x', '!'"):
        chars.score("axb!")
