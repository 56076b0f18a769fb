"""glassformer corpus links: the links in dumps of posts that enough people recommended."""

from pathlib import Path
from typing import Annotated

from glassformer.cli.options import ForceFolder, JsonObject, option
from glassformer.cli.output import note, print_result, say


def links(
    posts: Annotated[
        list[str],
        option("PATH", "Reddit-style dumps: .jsonl, .json or .csv, plain, .gz or .zst; folders."),
    ],
    out: Annotated[Path, option("FOLDER", "Folder to write.")],
    min_score: Annotated[float, option("N", "Lowest score of a post whose link is kept.")] = 3,
    exclude_domains: Annotated[
        Path | None, option("FILE", "Domains to drop, one per line, besides the built-in list.")
    ] = None,
    include_domains: Annotated[
        Path | None, option("FILE", "Domains to keep, one per line; links to others are dropped.")
    ] = None,
    max_bad_lines: Annotated[
        int, option("N", "Number of lines that may be skipped because they cannot be read.", min=0)
    ] = 100,
    force: ForceFolder = False,
    as_json: JsonObject = False,
) -> None:
    """Collect the links of posts that enough people recommended, each page once.

    Examples:
      glassformer corpus links --posts RS_2013-08.zst --out links
      glassformer corpus links --posts a.jsonl b.csv.gz --min-score 10 --out links --json
    """
    from glassformer.corpus.link_rules import LinkRules, read_domains
    from glassformer.corpus.links import collect_links

    rules = LinkRules(
        min_score,
        *(
            frozenset() if file is None else read_domains(file)
            for file in (exclude_domains, include_domains)
        ),
    )
    result = collect_links(posts, out, rules, max_bad_lines, force, note)
    print_result(result, as_json)
    say(f"wrote {out}")
