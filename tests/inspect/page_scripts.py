"""Scripts that the tests run at the end of a page, in `scripts/`."""

from pathlib import Path


def script(name: str) -> str:
    return (Path(__file__).with_name("scripts") / f"{name}.js").read_text(encoding="utf-8")
