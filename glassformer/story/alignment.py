"""A picture of an alignment: an image, a page, or its numbers, depending on the file name."""

from pathlib import Path

from glassformer.atomic_files import write_file, write_json_line
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspection.alignment import Alignment
from glassformer.story.heat_map import heat_map
from glassformer.story.labels import shortened, visible
from glassformer.story.page import assembled, part

STYLES = ("page.css", "alignment.css")
SCRIPTS = ("elements.js", "heat_map.js", "alignment.js")
LONGEST_TITLE = 160  # letters


def draw(alignment: Alignment, path: Path, title: str | None = None) -> None:
    """Write the picture to `path`, whole or not at all. Equal alignments give equal bytes."""
    check_ending(path)
    ending = path.suffix.lower()
    if not alignment.target_tokens and ending != ".json":
        raise GlassformerError(f"{path} was not drawn: the output is empty.")
    if ending == ".html":
        write_file(path, page(alignment, title))
    elif ending == ".json":
        write_json_line(path, alignment.as_json())
    else:
        words = title or title_of(alignment)
        write_file(path, heat_map(alignment, words, alignment.about(), ending.removeprefix(".")))


def check_ending(path: Path) -> None:
    """Raise unless `path` ends like a kind of picture; called before any work is done."""
    if path.suffix.lower() not in (".html", ".png", ".svg", ".json"):
        raise UsageError(f"{path}: the name must end in .html, .png, .svg or .json.")


def title_of(alignment: Alignment) -> str:
    """Both sentences."""
    source, target = (
        shortened(visible(text), LONGEST_TITLE // 2)
        for text in (alignment.source, alignment.target)
    )
    return f"{source} → {target}"


def page(alignment: Alignment, title: str | None = None) -> str:
    """One self-contained HTML page, which loads nothing from the network."""
    score = None if alignment.score is None else f"score {alignment.score:.3f}"
    heads = None if alignment.heads is None else alignment.heads.round(5).tolist()
    data = alignment.as_json() | {
        "title": title or title_of(alignment),
        "about": ", ".join(part for part in (alignment.model, score) if part),
        "source_labels": [visible(token) for token in alignment.source_tokens],
        "target_labels": [visible(token) for token in alignment.target_tokens],
        "heads": heads,
        "chosen": list(alignment.chosen),
    }
    return assembled("Alignment", part("alignment.html"), STYLES, SCRIPTS, data)
