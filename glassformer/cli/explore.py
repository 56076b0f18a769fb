"""glassformer explore: the story of a text, live in the browser, for one model or several."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.known_names import known_model
from glassformer.cli.output import note


def explore(
    models: Annotated[
        list[Path],
        options.argument(
            "MODELS",
            "Run or model folders, Hugging Face folders, GGUF files or names on the hub.",
            callback=known_model,
        ),
    ],
    port: Annotated[
        int,
        options.option("N", "Port of the address; 0 chooses a free one.", min=0, max=65_535),
    ] = 8000,
    opens: Annotated[bool, options.switch("--open", "Open the page in a browser.")] = False,
) -> None:
    """Look inside models in the browser: type a text and watch it change.

    Serves the page of `inspect` at an address that only this computer can reach, until Ctrl-C.
    Several models can be shown side by side.

    Examples:
      glassformer explore runs/gpt-notes
      glassformer explore runs/before runs/after --port 8080 --open
    """
    from glassformer.server.explore import explore as serve

    def ready(address: str) -> None:
        typer.echo(f"exploring at {address} (press Ctrl-C to stop)")
        if opens:
            import webbrowser

            webbrowser.open(address)

    serve(models, port, ready, note)
