"""Vietnamese in windows-1258, in which a tone follows its vowel as a character of its own."""

import unicodedata

TEXT = (
    "Hà Nội là thủ đô của nước Việt Nam và là một trong những thành phố lớn nhất. Thành phố này "
    "nằm bên bờ sông Hồng, có nhiều hồ đẹp và những ngôi chùa cổ. Mỗi năm có nhiều người đến thăm."
)
_TONES = "\u0300\u0301\u0303\u0309\u0323"


def windows_1258(text: str, all_tones_apart: bool) -> bytes:
    """As keyboards write it, all tones apart, or with the few letters that have theirs inside."""
    return b"".join(_encoded(each, all_tones_apart) for each in text)


def _encoded(character: str, is_apart: bool) -> bytes:
    try:
        if not is_apart:
            return character.encode("cp1258")
    except UnicodeEncodeError:
        pass
    parts = unicodedata.normalize("NFD", character)
    tones = "".join(each for each in parts if each in _TONES)
    letter = unicodedata.normalize("NFC", "".join(each for each in parts if each not in _TONES))
    return (letter + tones).encode("cp1258")
