"""The loss on files of text, against the definition."""

import math

import pytest
import torch

from glassformer.errors import GlassformerError
from glassformer.tasks.language.scores import LanguageResult
from glassformer.text.words import ByteCount


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abba é\nbaab 漢字\n" * 20, encoding="utf-8")
    return str(path)


def naive_loss(predictor, ids, context):
    """Mean of -log p over windows side by side, each read on its own."""
    total = 0.0
    for start in range(0, len(ids) - 1, context):
        window = torch.tensor(ids[start : start + context + 1])
        with torch.inference_mode():
            logprobs = predictor.model(window[None, :-1])[0].double().log_softmax(-1)
        total -= logprobs.gather(1, window[1:, None]).sum().item()
    return total / (len(ids) - 1)


@pytest.mark.parametrize("context", [None, 1, 5, 8])
def test_the_loss_is_the_mean_over_windows_side_by_side(predictor, file, context):
    end = predictor.tokenizer.end_of_text
    ids = [end, *predictor.tokenizer.encode("abba é\nbaab 漢字\n" * 20), end]
    found = predictor.evaluate([file], context_length=context)
    assert found.loss == pytest.approx(naive_loss(predictor, ids, context or 8), rel=1e-5)
    assert found.num_tokens == len(ids) - 1


def test_documents_are_read_one_after_the_other_between_ends_of_text(chars, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"body": "ab"}\n{"body": "bba"}\n')
    end, encode = chars.tokenizer.end_of_text, chars.tokenizer.encode
    ids = [end, *encode("ab"), end, *encode("bba"), end]
    found = chars.evaluate([str(tmp_path / "rows.jsonl")], text_column=["body"])
    assert found.loss == pytest.approx(naive_loss(chars, ids, 8), rel=1e-5)
    assert (found.num_tokens, found.num_bytes) == (7, 5)


def test_the_json_of_an_evaluation_has_its_six_fields(chars, file):
    found = chars.evaluate([file])
    assert found.as_json() == {
        "loss": found.loss,
        "perplexity": pytest.approx(math.exp(found.loss)),
        "bits_per_byte": pytest.approx(found.loss * found.num_tokens / math.log(2) / 400),
        "num_tokens": 301,
        "num_bytes": 400,
        "num_unknown_bytes": 0,
    }


def test_even_a_hopeless_loss_has_a_finite_perplexity():
    assert math.isfinite(LanguageResult(loss=1e6, num_tokens=1, size=ByteCount(1)).perplexity)


@pytest.mark.parametrize("context", [0, -1, 9])
def test_a_context_that_the_model_does_not_have_is_refused(chars, file, context):
    with pytest.raises(GlassformerError, match=rf"context of {context} .* 1 to 8"):
        chars.evaluate([file], context_length=context)


def test_a_single_file_need_not_be_a_list(chars, file):
    assert chars.evaluate(file) == chars.evaluate([file])


def test_dropout_is_off_and_the_model_stays_as_it_was(with_context, file):
    plain, dropping = with_context(8), with_context(8, dropout=0.5)
    dropping.model.train()
    assert dropping.evaluate([file]).loss == pytest.approx(plain.evaluate([file]).loss, rel=1e-5)
    assert dropping.model.training


def test_unknown_characters_are_named(chars, tmp_path):
    (tmp_path / "a.txt").write_text("axb")
    with pytest.raises(GlassformerError, match="no token for 'x'"):
        chars.evaluate([str(tmp_path / "a.txt")])


def test_a_text_with_nothing_to_predict_is_refused(without_end, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(GlassformerError, match="fewer than two tokens"):
        without_end.evaluate([str(tmp_path / "a.txt")])


def test_a_model_from_its_folder_measures_as_it_did_in_memory(chars, with_context, file):
    assert chars.evaluate([file]) == with_context(8).evaluate([file])


def test_where_no_token_comes_first_the_first_token_counts_neither_bits_nor_bytes(
    without_end, tmp_path
):
    (tmp_path / "a.txt").write_text("abb")
    found = without_end.evaluate([str(tmp_path / "a.txt")])
    assert (found.num_tokens, found.num_bytes) == (2, 2)
    assert found.bits_per_byte == pytest.approx(found.loss / math.log(2))
    scored = without_end.score("abb")
    assert scored.bits_per_byte == pytest.approx(found.bits_per_byte, rel=1e-5)


def test_an_evaluation_of_one_text_includes_its_end(predictor, tmp_path):
    (tmp_path / "a.txt").write_text("ab é")  # within one context
    found = predictor.evaluate([str(tmp_path / "a.txt")])
    end = predictor.tokenizer.end_of_text
    ids = [end, *predictor.tokenizer.encode("ab é")]
    with torch.inference_mode():
        logprobs = predictor.model(torch.tensor([ids]))[0].log_softmax(-1)
    total = sum(float(logprobs[place, id]) for place, id in enumerate(ids[1:]))
    assert found.loss * found.num_tokens == pytest.approx(
        -total - float(logprobs[-1, end]), rel=1e-4
    )
