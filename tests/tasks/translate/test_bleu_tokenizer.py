"""BLEU is computed on words, or on characters where a script has no blanks between words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import UsageError
from glassformer.tasks import bleu
from glassformer.tasks.bleu import choose_bleu_tokenizer, tokenized_bleu

CHINESE = "今天天气很好我们去公园散步吧。"
JAPANESE = "今日は天気がいいので公園を散歩しましょう。"
KOREAN = "오늘은 날씨가 좋아서 공원에서 산책해요."
SAMPLES = {
    "A man sleeps in the park.": "13a",
    "Ein Mann schläft.": "13a",
    "Мужчина спит в парке.": "13a",
    "رجل ينام في الحديقة": "13a",
    "आदमी सो रहा है": "13a",
    "": "13a",
    "12 + 3 = 15": "13a",
    CHINESE: "zh",
    "我喜欢 Python 和 PyTorch": "zh",
    "ผู้ชายคนหนึ่งนอนหลับ": "char",
    "ຜູ້ຊາຍນອນ": "char",
    "បុរសម្នាក់កំពុងគេង": "char",
    "လူတစ်ယောက်အိပ်နေသည်": "char",
    "མི་ཞིག་གཉིད་ཉལ་འདུག": "char",
}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    names: set[str] = set()
    monkeypatch.setattr(bleu, "_is_installed", names.__contains__)
    return names


@pytest.mark.parametrize("text", SAMPLES)
def test_the_script_decides(text: str, installed: set[str]) -> None:
    assert choose_bleu_tokenizer([text]) == (SAMPLES[text], None)


def test_japanese_and_korean_are_split_into_words_if_mecab_is_installed(
    installed: set[str],
) -> None:
    name, note = choose_bleu_tokenizer([JAPANESE])
    assert name == "char"
    assert note is not None
    assert "pip install 'sacrebleu[ja]'" in note
    name, note = choose_bleu_tokenizer([KOREAN])
    assert name == "13a"
    assert note is not None
    assert "pip install 'sacrebleu[ko]'" in note
    installed |= {"ja-mecab", "ko-mecab"}
    assert choose_bleu_tokenizer([JAPANESE]) == ("ja-mecab", None)
    assert choose_bleu_tokenizer([KOREAN]) == ("ko-mecab", None)


def test_a_few_characters_of_another_script_change_nothing() -> None:
    assert choose_bleu_tokenizer([CHINESE] * 9 + ["这是の"])[0] == "zh"
    assert choose_bleu_tokenizer(["The sign says 出口."] * 5 + ["A man sleeps."])[0] == "13a"
    assert choose_bleu_tokenizer([JAPANESE] * 9 + [CHINESE] * 3)[0] in ("char", "ja-mecab")


@given(st.lists(st.text(max_size=20), max_size=5))
def test_any_text_has_a_tokenizer_that_computes(references: list[str]) -> None:
    name, _ = choose_bleu_tokenizer(references)
    assert name in ("13a", "zh", "char", "ja-mecab", "ko-mecab")


def test_the_order_of_the_references_makes_no_difference() -> None:
    mixed = [CHINESE, "A man sleeps.", JAPANESE, KOREAN]
    assert choose_bleu_tokenizer(mixed) == choose_bleu_tokenizer(mixed[::-1])


def test_one_wrong_character_of_chinese_or_thai_is_not_everything() -> None:
    for right in (CHINESE, "ผู้ชายคนหนึ่งนอนหลับ"):
        wrong = f"{right[:-2]}坏{right[-1]}"
        bleu = tokenized_bleu(choose_bleu_tokenizer([right])[0])
        assert bleu.corpus_score([wrong], [[right]]).score > 70
        assert bleu.corpus_score([right], [[right]]).score == pytest.approx(100)


def test_a_tokenizer_that_is_not_installed_is_refused_with_a_cure(installed: set[str]) -> None:
    with pytest.raises(UsageError, match=r"ja-mecab .* pip install 'sacrebleu\[ja\]'"):
        tokenized_bleu("ja-mecab")


@pytest.mark.parametrize("texts", [["12 + 3", "7"], ["twenty seven", "four"], ["ja", "nein"]])
def test_references_shorter_than_four_words_are_compared_by_characters(texts: list[str]) -> None:
    chosen, note = choose_bleu_tokenizer(texts)
    assert chosen == "char"
    assert note is not None
    assert "no reference has four words" in note
    assert choose_bleu_tokenizer([*texts, "a man sleeps here"])[0] == "13a"
