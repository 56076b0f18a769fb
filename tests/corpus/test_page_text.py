"""Text of pages: decoded whatever they claim, extracted within limits, judged by named rules."""

import pytest
from small_warcs import html, prose
from vietnamese import TEXT as VIETNAMESE
from vietnamese import windows_1258

from glassformer.corpus.extractor import Extractor, decoded
from glassformer.corpus.quality import judge, language_of, scrubbed, words

RUSSIAN = (
    "Москва является столицей России и крупнейшим городом страны. Город расположен на реке с тем "
    "же названием и имеет богатую историю. Каждый год сюда приезжают миллионы туристов."
)
JAPANESE = (
    "東京は日本の首都であり、世界で最も人口の多い都市の一つです。この街には古い神社や寺がたくさんあり、毎年多くの"
    "観光客が訪れます。電車や地下鉄がとても便利で、どこへでも簡単に行くことができます。"
)
UKRAINIAN = (
    "Київ є столицею України та найбільшим містом країни. Місто розташоване на берегах Дніпра і "
    "має багату історію. Щороку сюди приїжджають мільйони туристів із різних країн."
)
THAI = (
    "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย และเป็นศูนย์กลางของการปกครอง การศึกษา และการค้า "
    "เมืองนี้ตั้งอยู่บนฝั่งแม่น้ำเจ้าพระยา มีวัดวาอารามมากมายที่นักท่องเที่ยวชื่นชอบ อาหารริมทางมีชื่อเสียงไปทั่วโลก"
)


@pytest.mark.parametrize(
    ("text", "codec", "claim"),
    [
        (RUSSIAN, "cp1251", "text/html"),
        (RUSSIAN, "cp1251", "text/html; charset=utf-8"),
        (RUSSIAN, "cp1251", "text/html; charset=iso-8859-1"),
        (RUSSIAN, "utf-8", "text/html; charset=windows-1251"),
        (RUSSIAN, "utf-16", "text/html"),
        (JAPANESE, "cp932", "text/html"),
        (JAPANESE, "cp932", "text/html; charset=utf-8"),
        (JAPANESE, "euc_jp", "text/html; charset=nonsense"),
    ],
)
def test_a_page_is_decoded_although_its_charset_is_wrong(text: str, codec: str, claim: str) -> None:
    assert text in decoded(html(text).encode(codec), claim)


@pytest.mark.parametrize("claim", ["text/html", "text/html; charset=utf-8", "text/html; charset=x"])
@pytest.mark.parametrize(
    ("text", "codec"), [(RUSSIAN, "cp866"), (RUSSIAN, "koi8-u"), (UKRAINIAN, "koi8-u")]
)
def test_cyrillic_of_any_age_is_detected(text: str, codec: str, claim: str) -> None:
    assert text in decoded(html(text).encode(codec), claim)


@pytest.mark.parametrize("charset", ["", "utf-8", "iso-8859-1", "windows-1252", "windows-1258"])
@pytest.mark.parametrize("all_tones_apart", [False, True])
def test_vietnamese_is_detected_and_its_tones_are_joined(
    charset: str, all_tones_apart: bool
) -> None:
    page = windows_1258(html(VIETNAMESE), all_tones_apart)
    assert VIETNAMESE in decoded(page, f"text/html; charset={charset}")


FRENCH = "Le chef-d'œuvre coûte 500 € et sa sœur en a payé 300 €."
ARABIC = "هذا النهر هو الاطول في البلاد ويمر في مدن كثيرة من الشمال الى الجنوب"
KOREAN = "서울은 대한민국의 수도이며 한강이 도시를 가로질러 흐릅니다."
CHINESE = "北京是中国的首都，也是全国的政治和文化中心。"


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        (FRENCH, "iso-8859-15"),
        (ARABIC, "iso-8859-6"),
        ("Річка тече крізь місто, і ґрунт тут є родючим.", "koi8-u"),
        ("Sewwa u ħelwa, iż-żgħażagħ ġew.", "iso-8859-3"),
        ("Москва является столицей.", "mac-cyrillic"),
        (JAPANESE, "iso-2022-jp"),
        (JAPANESE, "euc-jp"),
        (KOREAN, "iso-2022-kr"),
        (CHINESE, "hz-gb-2312"),
        (CHINESE, "gb2312"),
    ],
)
@pytest.mark.parametrize("where", ["header", "page"])
def test_a_charset_in_which_all_bytes_are_text_counts(text: str, charset: str, where: str) -> None:
    claim = f"text/html; charset={charset}" if where == "header" else "text/html"
    page = html(text, "Title", f'<meta charset="{charset}">').encode(charset)
    assert text in decoded(page, claim)


def test_escape_sequences_need_no_charset() -> None:
    assert JAPANESE in decoded(html(JAPANESE).encode("iso-2022-jp"), "text/html")


def test_a_charset_that_is_right_counts() -> None:
    page = html("Ünïcödé wörds", head='<meta charset="latin-1">').encode("latin-1")
    assert "Ünïcödé wörds" in decoded(page, "text/html")


def test_one_damaged_byte_does_not_change_the_encoding() -> None:
    page = html(RUSSIAN).encode() + b"\xd0"
    assert RUSSIAN in decoded(page, "text/html; charset=utf-8")


@pytest.mark.parametrize("depth", [250, 300, 1500])
def test_a_deeply_nested_page_is_read_to_its_end(depth: int) -> None:
    nested = "<div>" * depth + f"<p>{prose(2)}</p>" + "</div>" * depth
    page = html(prose(1)).replace("</article>", f"{nested}<p>{prose(3)}</p></article>")
    assert prose(3) in _extracted(page.encode())


def test_a_page_that_cannot_be_read_to_its_end_is_not_cut() -> None:
    extractor = Extractor(20)
    try:
        found = extractor.extract(html("<div>" * 5000 + prose(1)).encode(), "text/html", True)
    finally:
        extractor.close()
    assert (found.rule, found.text) == ("failed", "")
    assert "nested too deeply" in found.detail


def test_no_text_contains_controls_or_halves_of_characters() -> None:
    page = html(f"{prose(1)} \x00\x01&#xD800;&#0;\x1b end").encode()
    with_text = _extracted(page)
    assert "end" in with_text
    with_text.encode()
    assert not [each for each in with_text if ord(each) < 32 and each != "\n"]


def _extracted(page: bytes, seconds: int = 20) -> str:
    extractor = Extractor(seconds)
    try:
        return extractor.extract(page, "text/html; charset=utf-8", True).text
    finally:
        extractor.close()


def test_a_page_that_takes_too_long_costs_one_count_and_the_next_is_extracted() -> None:
    extractor = Extractor(seconds=1)
    slow = b"".join(b"<p>Some words, %d, and <b>more</b>.</p>" % each for each in range(120_000))
    try:
        assert extractor.extract(slow, "text/html", True).rule == "time_limit"
        after = extractor.extract(html(prose(3), "Later").encode(), "text/html", True)
        assert (after.rule, after.title) == ("", "Later")
        assert prose(3) in after.text
    finally:
        extractor.close()


def test_markup_without_text_and_menus_are_left_out() -> None:
    text = _extracted(html(prose(1)).encode())
    assert prose(1) in text
    assert "About" not in text
    extractor = Extractor(5)
    try:
        found = [extractor.extract(each, "", True).rule for each in (b"", b"<p>", b"<div>" * 200)]
    finally:
        extractor.close()
    assert found == ["no_text"] * 3


# --- languages and quality ---


@pytest.mark.parametrize(
    ("text", "language"), [(prose(1), "en"), (RUSSIAN, "ru"), (JAPANESE, "ja"), (THAI, "th")]
)
def test_the_language_is_recognised(text: str, language: str) -> None:
    found, probability = language_of(text)
    assert found == language
    assert probability > 0.9


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (prose(1), None),
        ("Too short.", "too_few_words"),
        (" ".join([prose(1, 3)] * 8), "repeated_phrases"),
        ("\n".join([prose(1, 1), *[prose(2, 1)] * 9]), "repeated_lines"),
        (f"{prose(1)} function() {{ return 1 }}", "curly_bracket"),
        (f"{prose(1)} Lorem ipsum dolor.", "lorem_ipsum"),
        (prose(1, 12).replace(".", ""), "too_few_sentences"),
        (
            "\n".join(f"{number * 7919} {number * 104729} 12:30 1789" for number in range(60)),
            "few_letters",
        ),
    ],
)
def test_each_rule_of_quality_has_a_name(text: str, rule: str | None) -> None:
    assert judge(("gopher", "c4"), "en").rule_against(text) == rule


def test_rules_about_words_do_not_drop_scripts_without_spaces() -> None:
    different = {"ja": JAPANESE, "th": THAI}
    for language, text in different.items():
        rule = judge(("gopher", "c4"), language).rule_against(text)
        assert rule in (None, "too_few_sentences")


@pytest.mark.parametrize(
    "text", [prose(1), "It’s well-known — naïve, 12.5 % of_all…", RUSSIAN, "Ελληνικά, και άλλα"]
)
def test_both_ways_to_find_words_agree(text: str) -> None:
    assert words().word_tokenize(text) == words().word_tokenize(f"{text} 字")[:-1]


def test_personal_data_is_replaced_and_nothing_else() -> None:
    text = "Write to jane.doe+x@mail.example.co.uk or 8.8.8.8, not 10.0.0.1 or 1.2.3, at 12:30:45."
    assert scrubbed(text) == (
        "Write to email@example.com or 192.0.2.1, not 10.0.0.1 or 1.2.3, at 12:30:45."
    )
    assert scrubbed("DNS 2001:4860:4860::8888 answers") == "DNS 2001:db8::1 answers"
    assert scrubbed("a-" * 300_000) == "a-" * 300_000  # and takes no time


def test_punctuation_is_no_word_without_letters() -> None:
    text = prose(1).replace(" ", " ( ", 40)
    assert judge(("gopher",), "en").rule_against(text) is None


def test_numbers_are_words_without_letters() -> None:
    text = " ".join(f"{each} {number} {number + 7}" for number, each in enumerate(prose(1).split()))
    assert judge(("gopher",), "en").rule_against(text) == "few_letters"
