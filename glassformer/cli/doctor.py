"""`glassformer doctor`: what this machine can do, what will be chosen, and why."""

from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.wording import install

if TYPE_CHECKING:
    from glassformer.runtime import Machine

EXTRAS = {  # what can be added, and the packages it needs
    "hub": ("pyarrow", "datasets"),
    "wandb": ("wandb",),
}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    refresh: Annotated[bool, typer.Option(help="Measure again, even if known.")] = False,
) -> None:
    """Show what this machine can do, what glassformer will choose, and why."""
    import json

    from glassformer.runtime import machine

    found = machine(refresh=refresh, notify=lambda text: typer.echo(text, err=True))
    if as_json:
        extras = {name: _versions(packages) for name, packages in EXTRAS.items()}
        typer.echo(json.dumps({**found.as_dict(), "extras": extras}))
        return
    parts = {
        "Machine": _machine_lines(found),
        "Precision": _precision_lines(found),
        "Extras": _extra_lines(),
    }
    for title, lines in parts.items():
        typer.echo(title)
        for name, text in lines:
            typer.echo(f"  {name:<12} {text}")


def _machine_lines(found: "Machine") -> Iterator[tuple[str, str]]:
    yield "versions", f"glassformer {found.glassformer}, torch {found.torch}, Python {found.python}"
    yield "device", f"{found.device} ({found.device_name})"
    yield "processor", found.cpu
    yield "cores", f"{found.cores_usable} usable of {found.cores_logical}"
    yield "threads", f"{found.threads}"
    if found.memory_bytes is not None:
        yield "memory", f"{found.memory_bytes / 2**30:.1f} GiB"


def _precision_lines(found: "Machine") -> Iterator[tuple[str, str]]:
    for name, measurement in found.probe.items():
        if measurement.tflops is None:
            yield name, f"{measurement.problem}"
        else:
            yield name, f"{measurement.tflops:.3g} TFLOP/s"
    yield "chosen", f"{found.precision}: {found.reason}"


def _extra_lines() -> Iterator[tuple[str, str]]:
    for name, packages in EXTRAS.items():
        versions = _versions(packages)
        text = ", ".join(
            f"{package} {version or 'missing'}" for package, version in versions.items()
        )
        yield name, text if all(versions.values()) else f"{text}. To add: {install(*packages)}"


def _versions(packages: tuple[str, ...]) -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions
