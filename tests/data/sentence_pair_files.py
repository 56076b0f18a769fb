"""What the tests of sentence pairs share: files to write, and ways to read them."""

from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from glassformer.data.pair_files import Pair
from glassformer.data.sentence_pairs import PairsConfig, PairSplit, pairs_of, read_pairs
from glassformer.errors import GlassformerError


def sides(path: str, **options: Any) -> list[tuple[str, str]]:
    found = pairs_of([path], **options)
    return [(pair.source, pair.target) for pair in found]


def complaint(path: str, **options: str) -> str:
    with pytest.raises(GlassformerError) as error:
        sides(path, **options)
    return str(error.value)


def split(path: str = "", seed: int = 0, **settings: object) -> PairSplit:
    values = {"paths": path, **settings} if path else settings
    return read_pairs(PairsConfig.model_validate(values), seed, Path(gettempdir()))


def everything(found: PairSplit) -> list[Pair]:
    return [*found.training, *found.validation]


def tabbed(*pairs: tuple[str, str]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def many(number: int, start: int = 0) -> list[tuple[str, str]]:
    return [(f"sentence {n}", f"phrase {n}") for n in range(start, start + number)]


def tmx(*units: str, header: str = '<header srclang="en"/>', before: str = "") -> str:
    body = "\n".join(units)
    top = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    return f'{before or top}\n<tmx version="1.4">{header}<body>\n{body}\n</body></tmx>\n'


def unit(**texts: str) -> str:
    variants = (
        f'<tuv xml:lang="{language.replace("_", "-")}"><seg>{text}</seg></tuv>'
        for language, text in texts.items()
    )
    return f"<tu>{''.join(variants)}</tu>"


TMX = tmx(unit(en_US="Go.", fr="Va !"), unit(FR="Bonjour,\n  Tom.", EN="Good day, Tom."))
