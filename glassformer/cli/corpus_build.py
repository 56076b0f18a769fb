"""glassformer corpus build: from the pages in WARC files to a corpus of texts."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from glassformer.cli.options import (
    Flag,
    ForceFolder,
    Group,
    JsonObject,
    Number,
    Texts,
    Whole,
    count,
    option,
    switch,
    takes,
)
from glassformer.cli.output import note, print_result, say
from glassformer.cli.signals import heed_signals


class Rules(Group, heading="Rules"):
    """Which pages become part of the corpus."""

    language: Texts = option("CODE", "Language to keep, or any (may be repeated; default: en).")
    language_threshold: Number = option(
        "P", "Lowest probability of the language of a text (default: 0.7)."
    )
    quality: Texts = option(
        "SET", "Rules of quality: gopher, c4 or none (may be repeated; default: gopher and c4)."
    )
    similarity: Number = option(
        "X", "Drop texts that share this part of their shingles with another (default: 0.8)."
    )
    scrub_pii: Flag = switch("--scrub-pii", "Replace e-mail addresses and public IP addresses.")
    max_page_bytes: Whole = count("Largest page, decompressed (default: 10,000,000).")
    page_seconds: Whole = count("Processor time for one page, in seconds (default: 20).")


class Work(Group, heading="Execution"):
    """Where the work is done."""

    executor: Literal["local", "slurm", "ray"] | None = option(
        None, "Where tasks run (default: local)."
    )
    workers: Whole = count("Number of tasks at the same time (default: number of processors).")
    executor_options: Texts = option(
        "KEY=VALUE", "Option of Slurm or Ray, such as partition=cpu (may be repeated)."
    )


@takes(Rules, Work)
def build(
    warc: Annotated[list[str], option("PATH", "WARC files, folders or patterns.")],
    out: Annotated[Path, option("FOLDER", "Folder to write.")],
    links: Annotated[
        Path | None, option("FOLDER", "Keep only pages that these links lead to.")
    ] = None,
    *,
    force: ForceFolder = False,
    as_json: JsonObject = False,
    **chosen: Any,
) -> None:
    """Build a corpus: extract text, check language and quality, drop duplicates, write shards.

    A build that was stopped continues when the same command is run again.

    Examples:
      glassformer corpus build --warc pages --links links --out corpus
      glassformer corpus build --warc 'crawl/*.warc.gz' --language de --language fr --out corpus
    """
    from glassformer.corpus.build import build
    from glassformer.corpus.build_settings import build_settings
    from glassformer.corpus.executors import make_executor
    from glassformer.progress import ProgressLine, bar

    heed_signals("stopped. Run the same command again to continue.")
    kind, workers, assignments = (chosen.pop(option.name, None) for option in Work.parameters)
    settings = build_settings(chosen)
    with ProgressLine(sys.stderr) as line:

        def show(step: str, done: int, total: int) -> None:
            line.show(f"{step} {bar(done, total)} {done:,}/{total:,}")

        progress = show if line.is_terminal else None
        executor = make_executor(kind, workers, assignments, progress)
        corpus = build(warc, out, settings, links, executor, force)
    note(*corpus.notes)
    print_result(corpus, as_json)
    say(f"wrote {out}; see {out / 'report.html'}")
