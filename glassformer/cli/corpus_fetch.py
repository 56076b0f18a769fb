"""glassformer corpus fetch: the pages of links, politely, into WARC files."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.options import JsonObject, count, option, switch
from glassformer.cli.output import note, print_result, say
from glassformer.cli.signals import heed_signals

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def size(text: str) -> int:
    """A number of bytes, such as 500k, 10M or 1G."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)B?", text)
    number = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if number < 1:
        raise typer.BadParameter(f"{text} is not a size. Pass, for example, 500k, 10M or 1G.")
    return number


def fetch(
    links: Annotated[Path, option("FOLDER", "Links, from glassformer corpus links.")],
    out: Annotated[Path, option("FOLDER", "Folder for the WARC files; continued if it exists.")],
    limit: Annotated[int | None, count("Fetch only the first N links, a random sample.")] = None,
    contact: Annotated[
        str | None, option("TEXT", "Your URL or e-mail address, which is sent to every site.")
    ] = None,
    user_agent: Annotated[
        str | None, option("NAME", "Name and version sent to sites (default: glassformer/VERSION).")
    ] = None,
    delay: Annotated[float, option("SECONDS", "Pause between requests to the same host.")] = 1.0,
    workers: Annotated[int, count("Number of hosts to fetch from at the same time.")] = 16,
    timeout: Annotated[float, option("SECONDS", "Longest time for a page, in total.")] = 30.0,
    max_page_size: Annotated[
        int | None, option("SIZE", "Largest page, decompressed (default: 10M).", parser=size)
    ] = None,
    retry: Annotated[
        bool, switch("--retry", "Try links again whose hosts could not be reached or failed.")
    ] = False,
    as_json: JsonObject = False,
) -> None:
    """Fetch the pages of links into WARC files: public addresses only, as robots.txt allows.

    Run the same command again to continue after Ctrl-C or a power cut.

    Examples:
      glassformer corpus fetch --links links --out pages --contact https://example.org/about
      glassformer corpus fetch --links links --out sample --limit 1000 --delay 2 --json
    """
    from glassformer.corpus.fetch import FetchSettings, fetch_pages

    given = {"contact": contact, "user_agent": user_agent, "max_page_size": max_page_size}
    chosen: Any = {name: value for name, value in given.items() if value is not None}
    settings = FetchSettings(workers, delay, timeout, limit=limit, **chosen)
    if not contact:
        note("sites cannot reach you. Pass --contact with your URL or e-mail address.")
    heed_signals("stopped. Run the same command again to continue.")
    result = fetch_pages(links, out, settings, retry)
    print_result(result, as_json)
    say(f"wrote {out}")
