"""The page about a corpus: what became of its pages, step by step."""

from typing import Any

from glassformer.story.page import assembled

STYLES = ("page.css", "report.css", "corpus.css")
SCRIPTS = ("elements.js", "corpus.js")


def page(values: dict[str, Any]) -> str:
    """One HTML page. Equal values give equal bytes."""
    return assembled("Corpus", "", STYLES, SCRIPTS, values)
