"""glassformer data: write built-in data into a folder."""

from pathlib import Path
from typing import Annotated

from glassformer.cli.options import argument, count, option, switch
from glassformer.cli.output import say
from glassformer.cli.verb import Rows, Verb
from glassformer.data.built_in import SETS, write_built_in


class ListsData(Verb):
    """A verb whose help lists the built-in data."""

    def tables(self) -> dict[str, Rows]:
        about = ((name, each.about) for name, each in SETS.items())
        return {"Data": [(name, f"{text[:1].upper()}{text[1:]}.") for name, text in about]}


def data(
    name: Annotated[str, argument("NAME", "Data to write, from the list below.")],
    out: Annotated[Path, option("FOLDER", "Folder to write.")],
    count: Annotated[int | None, count("Number of drawn scenes (default: 2000).")] = None,
    seed: Annotated[int | None, option("N", "Random seed (default: 0).", min=0)] = None,
    force: Annotated[bool, switch("--force", "Replace an existing folder.")] = False,
) -> None:
    """Write built-in images into a folder, to try models on.

    Examples:
      glassformer data digits --out digits
      glassformer data shapes --out shapes --count 2000
    """
    written = write_built_in(name, out, count, seed, force)
    say(f"{out}: {written}")
