"""glassformer neighbours: which words are near a word, alone and in a sentence?"""

from functools import partial
from typing import Annotated

from glassformer.cli import options
from glassformer.cli.output import note, print_result

_context = partial(options.option, rich_help_panel="Context")


def neighbours(
    model: options.Model,
    word: Annotated[str, options.argument("WORD", "Word whose neighbours to print.")],
    context: Annotated[
        str | None,
        _context("TEXT", "Sentence with the word: also print its neighbours after attention."),
    ] = None,
    temperature: Annotated[
        float,
        _context(
            "X", "Divide the scores by √d · X before the softmax; higher gives more equal weights."
        ),
    ] = 1.0,
    top: Annotated[
        int, options.count("Number of neighbours to print.", rich_help_panel="Output")
    ] = 10,
    as_json: options.JsonObject = False,
) -> None:
    """Print the words with the most similar vectors.

    With a context, attention weights the words of the sentence by their dot products with the
    word, and the neighbours of the weighted sum show what the word means there. For a Transformer,
    the neighbours of the word's state after each layer follow.

    Examples:
      glassformer neighbours runs/word-vectors-notes station
      glassformer neighbours runs/glove station --context "The train slowly left the station"
    """
    from glassformer.predict.neighbour_search import NeighbourFinder
    from glassformer.tasks import load_for

    # mypy expects a class that can be made; this one is only asked for.
    finder = load_for(model, NeighbourFinder, "show neighbours")  # type: ignore[type-abstract]
    result = finder.neighbours(word, context, top, temperature)
    print_result(result, as_json)
    note(*result.notes)
