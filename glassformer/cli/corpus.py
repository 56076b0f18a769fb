"""glassformer corpus: a corpus of the web, step by step: links, fetch, build, report."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from glassformer.cli import options
from glassformer.cli.options import Flag, Float, Integer, Strings, argument, count, option, switch
from glassformer.cli.output import note, notify, print_json, print_result
from glassformer.cli.verb import Verb, Verbs, heed_signals

# --- links ---


def links(
    posts: Annotated[
        list[str],
        option("PATH", "Reddit-style dumps: .jsonl, .json or .csv, plain, .gz or .zst; folders."),
    ],
    out: Annotated[Path, option("FOLDER", "Folder to write.")],
    min_score: Annotated[float, option("N", "Lowest score of a post whose link is kept.")] = 3,
    exclude_domains: Annotated[
        Path | None,
        option("FILE", "Domains to drop, one per line, in addition to a built-in list."),
    ] = None,
    include_domains: Annotated[
        Path | None, option("FILE", "Domains to keep, one per line; links to others are dropped.")
    ] = None,
    max_bad_lines: Annotated[
        int, option("N", "Number of lines that may be skipped because they cannot be read.", min=0)
    ] = 100,
    force: options.ForceFolder = False,
    as_json: options.JsonObject = False,
) -> None:
    """Collect links from posts with a minimum score, each page once.

    Examples:
      glassformer corpus links --posts RS_2013-08.zst --out links
      glassformer corpus links --posts a.jsonl b.csv.gz --min-score 10 --out links --json
    """
    from glassformer.corpus.links import LinkRules, collect_links, read_domains

    rules = LinkRules(
        min_score,
        *(
            frozenset() if file is None else read_domains(file)
            for file in (exclude_domains, include_domains)
        ),
    )
    result = collect_links(posts, out, rules, max_bad_lines, force, note)
    print_result(result, as_json)
    notify(f"wrote {out}")


# --- fetch ---

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def size(text: str) -> int:
    """A number of bytes, such as 500k, 10M or 1G."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)B?", text)
    number = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if number < 1:
        raise typer.BadParameter(f"{text} is not a size. Pass, for example, 500k, 10M or 1G.")
    return number


def fetch(
    links: Annotated[Path, option("FOLDER", "Folder that corpus links wrote.")],
    out: Annotated[Path, option("FOLDER", "Folder for the WARC files; continued if it exists.")],
    limit: Annotated[int | None, count("Fetch only the first N links, a random sample.")] = None,
    contact: Annotated[
        str | None, option("TEXT", "Your URL or e-mail address, sent to every site.")
    ] = None,
    user_agent: Annotated[
        str | None, option("NAME", "Name and version sent to sites (default: glassformer/VERSION).")
    ] = None,
    delay: Annotated[float, option("SECONDS", "Pause between requests to the same host.")] = 1.0,
    workers: Annotated[int, count("Number of hosts to fetch from at the same time.")] = 16,
    timeout: Annotated[float, option("SECONDS", "Time limit for a page, in total.")] = 30.0,
    max_page_size: Annotated[
        int | None,
        option("SIZE", "Size limit of a page, decompressed (default: 10M).", parser=size),
    ] = None,
    retry: Annotated[
        bool, switch("--retry", "Retry links whose hosts could not be reached or failed.")
    ] = False,
    as_json: options.JsonObject = False,
) -> None:
    """Fetch the pages of links into WARC files.

    Only public addresses are contacted, and robots.txt is obeyed. Run the same command again to
    continue after Ctrl-C or a power cut.

    Examples:
      glassformer corpus fetch --links links --out pages --contact https://example.org/about
      glassformer corpus fetch --links links --out sample --limit 1000 --delay 2 --json
    """
    from glassformer.corpus.fetch import FetchSettings, fetch_pages

    values = {"contact": contact, "user_agent": user_agent, "max_page_size": max_page_size}
    passed: Any = {name: value for name, value in values.items() if value is not None}
    settings = FetchSettings(workers, delay, timeout, limit=limit, **passed)
    if not contact:
        note("sites cannot reach you. Pass --contact with your URL or e-mail address.")
    heed_signals("stopped. Run the same command again to continue.")
    result = fetch_pages(links, out, settings, retry)
    print_result(result, as_json)
    notify(f"wrote {out}")


# --- build ---


class Rules(options.Group, heading="Rules"):
    """Which pages become part of the corpus."""

    language: Strings = option("CODE", "Language to keep, or any (may be repeated; default: en).")
    language_threshold: Float = option("P", "Lowest probability of the language (default: 0.7).")
    quality: Strings = option(
        "SET", "Quality rules: gopher, c4 or none (may be repeated; default: gopher and c4)."
    )
    similarity: Float = option(
        "X", "Drop texts that share this fraction of their shingles with another (default: 0.8)."
    )
    scrub_pii: Flag = switch("--scrub-pii", "Replace e-mail addresses and public IP addresses.")
    max_page_bytes: Integer = count("Size limit of a page, decompressed (default: 10,000,000).")
    page_seconds: Integer = count("Limit of processor time per page, in seconds (default: 20).")


class Work(options.Group, heading="Execution"):
    """Where the work is done."""

    executor: Literal["local", "slurm", "ray"] | None = option(
        None, "Where tasks run (default: local)."
    )
    workers: Integer = count("Number of parallel tasks (default: number of processors).")
    executor_options: Strings = option(
        "KEY=VALUE", "Option of Slurm or Ray, such as partition=cpu (may be repeated)."
    )


@options.takes(Rules, Work)
def build(
    warc: Annotated[list[str], option("PATH", "WARC files, folders or patterns.")],
    out: Annotated[Path, option("FOLDER", "Folder to write.")],
    links: Annotated[
        Path | None, option("FOLDER", "Keep only pages that these links lead to.")
    ] = None,
    *,
    force: options.ForceFolder = False,
    as_json: options.JsonObject = False,
    **values: Any,
) -> None:
    """Build a corpus: extract and filter text, drop duplicates.

    Run the same command again to continue a build that was stopped.

    Examples:
      glassformer corpus build --warc pages --links links --out corpus
      glassformer corpus build --warc 'crawl/*.warc.gz' --language de --language fr --out corpus
    """
    from glassformer.corpus.build import build
    from glassformer.corpus.executors import make_executor
    from glassformer.corpus.quality import build_settings
    from glassformer.progress import ProgressLine, bar

    heed_signals("stopped. Run the same command again to continue.")
    kind, workers, assignments = (values.pop(option.name, None) for option in Work.parameters)
    settings = build_settings(values)
    with ProgressLine(sys.stderr) as line:

        def show(step: str, done: int, total: int) -> None:
            line.show(f"{step} {bar(done, total)} {done:,}/{total:,}")

        progress = show if line.is_terminal else None
        executor = make_executor(kind, workers, assignments, progress)
        corpus = build(warc, out, settings, links, executor, force)
    note(*corpus.notes)
    print_result(corpus, as_json)
    notify(f"wrote {out}; see {out / 'report.html'}")


# --- report ---


def report(
    corpus: Annotated[Path, argument("CORPUS", "Folder that corpus build wrote.")],
    out: Annotated[
        Path | None,
        options.output("FILE", "HTML file to write (default: report.html in the corpus)."),
    ] = None,
    as_json: options.JsonObject = False,
) -> None:
    """Write a page about a corpus: what was kept and dropped.

    The page has examples for each step, and works offline.

    Examples:
      glassformer corpus report corpus
      glassformer corpus report corpus --json
    """
    from glassformer.corpus.build import report

    page = report(corpus, out, write=not as_json or out is not None)
    if page.path is not None:
        notify(f"wrote {page.path}")
    if as_json:
        print_json(page.as_json())


# --- all steps together ---

corpus = typer.Typer(
    cls=Verbs,
    help="Build a corpus from web pages that people recommended. Collect links, fetch their pages, "
    "extract and filter the text. Run glassformer corpus COMMAND --help for the options of a step, "
    "with examples.",
    no_args_is_help=True,
    rich_markup_mode=None,  # see cli/verb.py
)
for step in (links, fetch, build, report):
    corpus.command(cls=Verb)(step)
