"""glassformer corpus report: what was kept and dropped while a corpus was built."""

from pathlib import Path
from typing import Annotated

from glassformer.cli.options import JsonObject, argument, output
from glassformer.cli.output import print_json, say


def report(
    corpus: Annotated[Path, argument("CORPUS", "Folder that corpus build wrote.")],
    out: Annotated[
        Path | None, output("FILE", "HTML file to write (default: report.html in the corpus).")
    ] = None,
    as_json: JsonObject = False,
) -> None:
    """Write a page about a corpus: what each step kept and dropped, with examples.

    The page works offline.

    Examples:
      glassformer corpus report corpus
      glassformer corpus report corpus --json
    """
    from glassformer.corpus.report import report

    page = report(corpus, out, write=not as_json or out is not None)
    if page.path is not None:
        say(f"wrote {page.path}")
    if as_json:
        print_json(page.as_json())
