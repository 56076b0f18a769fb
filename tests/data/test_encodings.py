"""Each file is decoded by itself, and what is not UTF-8 is reported."""

import codecs
from pathlib import Path

import numpy as np
import pytest
from vietnamese import TEXT as VIETNAMESE
from vietnamese import windows_1258
from written_files import written

from glassformer.data.documents import read_documents
from glassformer.data.encodings import likely_encodings
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError

RUSSIAN = "Все счастливые семьи похожи друг на друга."
SAMPLES = {
    "windows-1252": ["Une journée d'été à la plage", "Größe", "“it’s” – so…", "à"],
    "windows-1251": [RUSSIAN, "Привет", "МОСКВА ГОВОРИТ", "Україна, ми любимо її"],
    "koi8-r": [RUSSIAN, "Привет, как дела? Мы живём в Москве.", "лаосский\nчешский\nканнада"],
    "koi8-u": ["Річка тече крізь місто, і ґрунт тут є родючим.", "Привіт, її ім'я", "Київ і Львів"],
    "cp866": [RUSSIAN, "Привет, как дела? Мы живём в Москве."],
    "cp1125": ["Річка тече крізь місто, і ґрунт тут є родючим.", "Київ і Львів"],
    "windows-1250": [
        "Příliš žluťoučký kůň úpěl ďábelské ódy.",
        "Árvíztűrő tükörfúrógép",
        "Proszę zamknąć książkę, żeby światło świeciło.",
    ],
    "iso8859-2": ["gęślą jaźń", "Škoda že niečo také ľúbi"],
    "windows-1254": ["Şimdi bütün dosyaları açıyor, sonra kapatıyor."],
    "windows-1257": ["Nepavyko atidaryti failo: klaidą pranešė įrenginys, čia žinutė."],
    "windows-1253": ["Καλημέρα κόσμε"],
    "windows-1255": ["שלום לכולם, זה הקובץ הראשון של התיקייה"],
    "windows-1256": ["لا يمكن فتح الملف لأن المجلد غير موجود"],
    "iso8859-5": [RUSSIAN, "Привет, как дела? Мы живём в Москве."],
    "cp874": ["สวัสดีชาวโลก", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"],
    "cp932": [
        "① これは㈱の説明です。",
        "吾輩は猫である。名前はまだ無い。",
        "コンピュータのプログラム",
        "場所を指定する\n黒\n中国",
    ],
    "euc_jis_2004": [
        "① これは説明です。",
        "吾輩は猫である。名前はまだ無い。",
        "引数はプロセスIDかジョブIDでなければいけません",
    ],
    "gb18030": ["我们在中国的学校里学习,他说这是一个好主意。"],
    "big5": ["我們在學校裡學習,他說這是一個好主意。"],
    "cp949": ["나는 학교에 갑니다. 오늘은 날씨가 좋습니다."],
}


def text_of(path: str, encoding: str = "utf-8") -> str:
    (document,) = read_documents([path], encoding=encoding)
    return document.text


@pytest.mark.parametrize(
    ("codec", "text"), [(codec, text) for codec, texts in SAMPLES.items() for text in texts]
)
def test_the_encoding_of_a_text_is_detected(codec: str, text: str) -> None:
    assert likely_encodings(text.encode(codec))[0] == codec


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp850", "café"),
        ("cp737", "Καλημέρα κόσμε"),
        ("cp862", "שלום לכולם"),
        ("cp862", "שלום לכולם, זה הקובץ הראשון של התיקייה"),
    ],
)
def test_no_encoding_is_better_than_a_wrong_one(codec: str, text: str) -> None:
    assert likely_encodings(text.encode(codec)) == []


@pytest.mark.parametrize(
    "text",
    [
        "Voilà où naît l'été: ça brûle, même à Noël.",
        "Não há informação: avô, pães, você.",
        "Æblerne på øen så ærligt ud.",
        "Þetta er ágætt veður í dag, sagði hún.",
        "Perché così, è già più di metà.",
        "Õhtul läheb külmaks, ütles mõni.",
        "Straße für Français, señor; über Köln nach Orléans.",
    ],
)
def test_languages_of_the_west_are_not_taken_for_others(text: str) -> None:
    assert likely_encodings(text.encode("windows-1252"))[0] == "windows-1252"


@pytest.mark.parametrize("all_tones_apart", [False, True])
@pytest.mark.parametrize(
    "text", [VIETNAMESE, "Việt Nam rất đẹp", "Đường này đẹp", "MỘT HAI BA BỐN"]
)
def test_vietnamese_is_detected(text: str, all_tones_apart: bool) -> None:
    assert likely_encodings(windows_1258(text, all_tones_apart))[0] == "windows-1258"


def test_an_encoding_that_is_passed_is_for_files_that_are_not_utf_8(tmp_path: Path) -> None:
    written(tmp_path / "a.txt", "naïve")
    written(tmp_path / "b.txt", "naïve".encode("cp850"))
    found = [each.text for each in read_documents([str(tmp_path)], encoding="cp850")]
    assert found == ["naïve", "naïve"]


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path / "a.txt", RUSSIAN.encode(codec))
    assert text_of(path) == text_of(path, "latin-1") == RUSSIAN


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["plain text\n", RUSSIAN, "日本語の本文\n" * 9, "smile 😀\n" * 9000]
)
def test_utf_16_without_a_mark_is_detected(tmp_path: Path, codec: str, text: str) -> None:
    written(tmp_path / "a.txt", text.encode(codec))
    with collecting() as report:
        (document,) = read_documents([str(tmp_path)])
    assert document.text == text
    assert codec in " ".join(report.notes())


@pytest.mark.parametrize(
    "content",
    [
        np.arange(3000, dtype="<u2").tobytes(),
        np.arange(3000, dtype="<u4").tobytes(),
        np.sin(np.arange(3000)).astype("<f4").tobytes(),
        b"text\0text\0 and more",
        b"a,b\n1,2\n\0,2\n",
        b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\0\x3e\0",
    ],
)
def test_numbers_are_not_utf_16(tmp_path: Path, content: bytes) -> None:
    written(tmp_path / "a.txt", content)
    with collecting() as report, pytest.raises(GlassformerError, match="no files to read"):
        list(read_documents([str(tmp_path)]))
    assert report.notes() == ["skipped 1 .txt (binary)"]


def test_utf_16_without_a_mark_is_read_if_it_is_passed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "plain".encode("utf-16-le"))
    assert text_of(path, "utf-16-le") == "plain"


def test_stray_bytes_do_not_change_the_rest_of_a_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", f"{RUSSIAN}\n".encode() * 99 + b"caf\xe9\n")
    with collecting() as report:
        assert text_of(path) == f"{RUSSIAN}\n" * 99 + "café\n"
    assert "UTF-8 with stray bytes of windows-1252" in report.notes()[0]


def test_an_encoding_must_fit_the_whole_file(tmp_path: Path) -> None:
    # 0x81 is not a character of windows-1252; latin-1 has a control there.
    path = written(tmp_path / "a.txt", b"caf\xe9\n" * 300_000 + b"\x81")
    assert text_of(path).endswith("café\n\x81")


def test_the_first_files_are_named_with_their_encodings(tmp_path: Path) -> None:
    for number in range(5):
        written(tmp_path / f"{number}.txt", f"café {number}".encode("latin-1"))
    written(tmp_path / "6.txt", codecs.BOM_UTF8 + b"plain")
    with collecting() as report:
        assert len(list(read_documents([str(tmp_path)]))) == 6
    read, encodings = report.notes()
    assert read == "read 6 .txt"
    assert encodings.startswith("5 files are not UTF-8 and read in another encoding: ")
    assert f": {tmp_path / '0.txt'}, " in encodings
    assert ", and 2 more (windows-1252). " in encodings
