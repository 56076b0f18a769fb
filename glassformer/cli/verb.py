"""A verb of the command line that says in plain words what is wrong with an option."""

from typing import Any

import typer
from typer.core import TyperCommand


class Verb(TyperCommand):
    """Typer tells what pydantic told it; what is read here are our own sentences."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from glassformer.config import reason

            if isinstance(error.__cause__, ValidationError):
                (problem,) = error.__cause__.errors()
                said = "" if problem["type"] == "value_error" else f"{problem['input']!r}: "
                error.message = f"{said}{reason(dict(problem))}."
            raise
