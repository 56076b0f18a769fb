"""Figures of matplotlib that depend on nothing but what they show: equal ones have equal bytes."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#333333"
# Fallbacks, if installed, for characters that the first font does not have.
_FONTS = (
    *("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP"),
    *("PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic"),
    *("WenQuanYi Zen Hei", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari"),
    "Arial Unicode MS",
)


@contextmanager
def drawing() -> Iterator[None]:
    """matplotlib without the settings of its user, and with fonts for most scripts."""
    with _silence():
        import matplotlib

        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams["font.family"] = _installed_fonts()
            matplotlib.rcParams["svg.hashsalt"] = "glassformer"
            matplotlib.rcParams["svg.fonttype"] = "none"  # a browser has more fonts than we do
            yield


def written(figure: "Figure", kind: str) -> bytes:
    """The bytes of a "png" or "svg", without a date."""
    image = io.BytesIO()
    fixed = {"Date": None, "Creator": None} if kind == "svg" else {}
    around: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.15}
    figure.savefig(image, format=kind, dpi=150, metadata=fixed, **around)
    return image.getvalue()


def masking() -> Any:
    """Blues, with a grey of its own for what a mask hides."""
    from matplotlib import colormaps

    return colormaps["Blues"].with_extremes(bad="#cccccc")


def later(length: int) -> Any:
    """(T, T): what a causal mask hides."""
    return np.triu(np.ones((length, length), dtype=bool), 1)


def _installed_fonts() -> list[str]:
    from matplotlib.font_manager import fontManager

    found = {font.name for font in fontManager.ttflist}
    return [*(name for name in _FONTS if name in found), "sans-serif"]  # the last for SVG viewers


@contextmanager
def _silence() -> Iterator[None]:
    """No warnings about characters that no font has: they are drawn as boxes."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        logger.setLevel(level)
