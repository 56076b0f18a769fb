"""`inspect` shows what the model itself computed, for every kind of model."""

import math

import numpy as np
import pytest
import torch
from translators import translator

from glassformer.errors import UsageError
from glassformer.models.bag import Bag, BagConfig
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.classifier import Classifier, ClassifierConfig, Tagger, TaggerConfig
from glassformer.nn.observe import without_heads
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.tasks.tag.predictor import TagPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

SHAPE = {"num_layers": 2, "d_model": 16, "num_heads": 2, "context_length": 8}
TEXT = "one two three four five six"


def words(*special):
    return train_tokenizer("word", [TEXT] * 3, None, list(special))


def test_a_language_model_predicts_the_next_token_with_the_probabilities_of_its_score(chars):
    seen, score = chars.inspect("abba é"), chars.score("abba é")
    assert seen.tokens == list("abba é")
    assert seen.attention.shape == (1, 2, 6, 6)
    assert seen.hidden.shape == (2, 6, 16)
    assert [each.logprob for each in seen.predictions[:-1]] == pytest.approx(score.logprobs[1:])
    assert [each.actual for each in seen.predictions] == [*"bba é", None]
    best = chars.next_tokens("abba é", top=3)
    found = [(each.token, each.probability) for each in seen.predictions[-1].options[:3]]
    assert [token for token, _ in found] == [each.token for each in best]
    assert [p for _, p in found] == pytest.approx([each.probability for each in best])
    assert seen.lens[-1][2][0].token == seen.predictions[2].options[0].token
    assert seen.effects().divergence.shape == (1, 2)


def test_of_a_text_longer_than_the_context_the_end_is_read_and_the_rest_counted(chars):
    seen = chars.inspect("abba é\nbaab")
    assert "".join(seen.tokens) == "a é\nbaab"
    assert seen.subject.num_left_out == 3
    assert seen.as_json()["num_tokens_left_out"] == 3


def test_layers_and_heads_narrow_what_is_kept(with_context):
    predictor = with_context(16)
    whole, part = predictor.inspect("abba"), predictor.inspect("abba", layers=[0], heads=[1])
    assert np.array_equal(part.attention, whole.attention[:, [1]])
    assert part.as_json()["heads"] == [1]
    with pytest.raises(UsageError, match=r"no head 2: the last one is 1"):
        predictor.inspect("abba", heads=[2])


def test_the_json_has_every_number_unrounded(chars):
    seen = chars.inspect("abba")
    found = seen.as_json()
    assert found["tokens"] == list("abba")
    assert found["attention"] == seen.attention.tolist()
    assert found["predictions"][1]["options"][0]["token"] == seen.predictions[1].options[0].token
    assert "<table" in seen._repr_html_()


def test_a_masked_model_predicts_its_own_positions():
    tokenizer = words(*BERT_TOKENS)
    torch.manual_seed(1)
    model = Bert(BertConfig(**SHAPE, vocab_size=tokenizer.vocab_size)).eval()
    predictor = MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=tokenizer))
    seen = predictor.inspect("one [MASK] three")
    assert seen.tokens == ["[CLS]", "one", "[MASK]", "three", "[SEP]"]
    assert [each.actual for each in seen.predictions] == [None, "one", None, "three", None]
    assert seen.attention.shape == (2, 2, 5, 5)
    (guesses,) = predictor.fill("one [MASK] three", top=30)
    options = {each.token: each.probability for each in seen.predictions[2].options}
    shared = [each for each in guesses if each.token in options]
    assert shared
    for each in shared:
        assert options[each.token] == pytest.approx(each.probability, rel=1e-4)


@pytest.mark.parametrize(
    ("text", "looked_at"), [("one [MASK] three [MASK]", "[MASK]"), ("one two", "two")]
)
def test_a_masked_model_is_looked_at_where_its_first_mask_or_last_word_is(text, looked_at):
    tokenizer = words(*BERT_TOKENS)
    model = Bert(BertConfig(**SHAPE, vocab_size=tokenizer.vocab_size)).eval()
    predictor = MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=tokenizer))
    view = predictor.ablation(text)
    assert view.as_json()["position"] == 2
    assert f"prediction at '{looked_at}'" in view.text()
    assert np.array_equal(view.effects.divergence, view.seen.effects(2).divergence)
    assert not np.array_equal(view.effects.divergence, view.seen.effects(-1).divergence)


def test_of_a_text_too_long_for_a_masked_model_the_middle_is_left_out():
    tokenizer = words(*BERT_TOKENS)
    model = Bert(BertConfig(**SHAPE, vocab_size=tokenizer.vocab_size)).eval()
    predictor = MaskedPredictor(model, MaskedTextPreprocessing(tokenizer=tokenizer))
    seen = predictor.inspect(f"{TEXT} {TEXT}")
    assert seen.tokens == ["[CLS]", "one", "two", "three", "four", "five", "six", "[SEP]"]
    (note,) = seen.notes
    assert "reads 8 tokens; 6 from the middle of the text are left out" in note


def test_several_labels_have_the_probabilities_of_classify():
    tokenizer = words()
    torch.manual_seed(2)
    labels = {"labels": ("a", "b", "c"), "multi_label": True}
    model = Classifier(ClassifierConfig(**SHAPE, vocab_size=tokenizer.vocab_size, **labels))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    predictor = ClassifyPredictor(model, TextPreprocessing(tokenizer=tokenizer))
    seen = predictor.inspect("one two three")
    found = {each.token: each.probability for each in seen.predictions[0].options}
    assert found == pytest.approx(predictor.classify("one two three").scores, rel=1e-5)
    p = torch.tensor([found[label] for label in "abc"], dtype=torch.float64)
    with without_heads({model.encoder.blocks.attentions[0].tap: [1]}):
        changed = predictor.inspect("one two three").predictions[0].options
    q = torch.tensor([{o.token: o.probability for o in changed}[label] for label in "abc"])
    expected = (p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()).sum()
    assert seen.effects().divergence[0, 1] == pytest.approx(float(expected), rel=1e-3)


def test_a_transformer_translator_has_two_streams_and_attention_between_them():
    predictor = translator("transformer")
    seen = predictor.inspect("one two three", target="two one")
    assert seen.tokens == ["<|startoftext|>", "two", "one"]
    source, target = seen.subject.streams
    assert source.tokens == ["one", "two", "three", "<|endoftext|>"]
    assert target.memory == "source"
    assert seen.attention.shape == (2, 2, 3, 3)
    assert seen.cross_attention.shape == (2, 2, 3, 4)
    assert [each.actual for each in seen.predictions] == ["two", "one", "<|endoftext|>"]
    logprobs = predictor.score("one two three", "two one").logprobs
    assert [each.logprob for each in seen.predictions] == pytest.approx(logprobs, rel=1e-4)
    found = seen.as_json()
    assert found["source_tokens"] == source.tokens
    assert np.shape(found["source_attention"]) == (2, 2, 4, 4)
    aligned = predictor.align("one two three", target="two one", layer=1, head=0)
    assert np.allclose(aligned.weights, seen.cross_attention[1, 0], atol=1e-6)


def test_a_translation_that_is_cut_off_is_noted():
    predictor = translator(target_length={"ratio": 1.0, "offset": 0})
    note = "the translation reached the maximum length and was cut off"
    with torch.no_grad():
        predictor.model.head.bias[predictor.preprocessing.end] = -100
    seen = predictor.inspect("one two three")
    assert seen.notes == (note,)
    assert note in repr(seen)
    assert predictor.inspect("one two three", target="two one").notes == ()


def test_a_recurrent_translator_has_only_attention_to_the_source():
    seen = translator("rnn").inspect("one two three", target="two one")
    assert seen.cross_attention.shape == (1, 1, 3, 4)
    assert np.allclose(seen.cross_attention.sum(-1), 1, atol=1e-5)
    assert "attention" not in seen.as_json()
    with pytest.raises(UsageError, match="rnn-translator has no layers of self-attention"):
        _ = seen.attention
    without = translator("rnn without attention").inspect("one two", target="two")
    assert without.cross_attention is None


@pytest.mark.parametrize("is_tagger", [False, True])
def test_labels_are_predicted_for_the_text_or_for_each_token(is_tagger):
    tokenizer = words()
    torch.manual_seed(1)
    config = SHAPE | {"vocab_size": tokenizer.vocab_size, "labels": ("good", "bad", "so-so")}
    kind = TagPredictor if is_tagger else ClassifyPredictor
    model = Tagger(TaggerConfig(**config)) if is_tagger else Classifier(ClassifierConfig(**config))
    predictor = kind(model, TextPreprocessing(tokenizer=tokenizer))
    seen = predictor.inspect("one two three")
    assert seen.attention.shape == (2, 2, 3, 3)
    assert len(seen.predictions) == (3 if is_tagger else 1)
    assert [each.actual for each in seen.predictions] == [None] * len(seen.predictions)
    total = math.fsum(each.probability for each in seen.predictions[0].options)
    assert total == pytest.approx(1)
    if not is_tagger:
        assert seen.predictions[0].position is None
        scores = predictor.classify("one two three").scores
        found = {each.token: each.probability for each in seen.predictions[0].options}
        assert found == pytest.approx(scores)


def test_a_bag_of_words_has_predictions_but_nothing_to_look_into():
    tokenizer = words()
    model = Bag(BagConfig(vocab_size=tokenizer.vocab_size, labels=("a", "b"), d_model=4))
    seen = ClassifyPredictor(model, TextPreprocessing(tokenizer=tokenizer)).inspect("one two")
    assert not seen.has_layers
    assert "attention" not in seen.as_json()
    assert len(seen.predictions) == 1


def test_the_members_of_an_ensemble_sum_to_the_logits_and_a_bag_alone_is_noted():
    tokenizer = words()
    shape = SHAPE | {"vocab_size": tokenizer.vocab_size, "labels": ("a", "b"), "bag": True}
    model = Classifier(ClassifierConfig(**shape)).eval()
    torch.nn.init.normal_(model.bag.embedding.weight)
    predictor = ClassifyPredictor(model, TextPreprocessing(tokenizer=tokenizer))
    seen = predictor.inspect("one two")
    assert seen.notes == ()
    layers, bag = seen.subject.members
    assert layers.weight == bag.weight == 1.0
    assert layers.logits + bag.logits == pytest.approx(seen.logits[0], abs=1e-4)
    found = {each.token: each.probability for each in seen.predictions[0].options}
    assert found == pytest.approx(predictor.classify("one two").scores)
    model.weigh([0.0, 1.0])
    assert predictor.ablation("one two").effects.divergence.max() == 0
    assert "the bag of n-grams predicts the label alone" in predictor.inspect("one two").notes[0]


def test_an_empty_text_is_an_error(chars):
    with pytest.raises(UsageError, match="the text is empty"):
        chars.inspect(" \n")
