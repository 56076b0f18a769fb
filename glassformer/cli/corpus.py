"""glassformer corpus: a corpus of the web, step by step. One file per step."""

import typer

from glassformer.cli.corpus_build import build
from glassformer.cli.corpus_fetch import fetch
from glassformer.cli.corpus_links import links
from glassformer.cli.corpus_report import report
from glassformer.cli.verb import Verb, Verbs

corpus = typer.Typer(
    cls=Verbs,
    help="Build a corpus from web pages that people recommended: collect links, fetch their pages, "
    "extract and filter the text. Run glassformer corpus COMMAND --help for the options of a step, "
    "with examples.",
    no_args_is_help=True,
    rich_markup_mode=None,  # see cli/verb.py
)
for step in (links, fetch, build, report):
    corpus.command(cls=Verb)(step)
