"""glassformer doctor: what can this machine do?"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import print_json
from glassformer.wording import counted, install

if TYPE_CHECKING:
    from glassformer.runtime.host import Machine

EXTRAS = {  # optional features, and the packages they need
    "hub": ("pyarrow", "datasets"),
    "wandb": ("wandb",),
    "serve": ("fastapi", "uvicorn"),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "ctranslate2": ("ctranslate2",),
    "corpus": ("datatrove", "trafilatura", "warcio", "py3langid", "zstandard", "idna", "brotli"),
}


def doctor(
    refresh: Annotated[
        bool, options.option(None, "Measure again instead of using cached measurements.")
    ] = False,
    as_json: options.JsonObject = False,
) -> None:
    """Show what this machine can do and the chosen settings.

    Examples:
      glassformer doctor
      glassformer doctor --refresh --json
    """
    from glassformer.runtime.host import machine
    from glassformer.runtime.load import busy_cores

    host = machine(refresh=refresh, notify=lambda text: typer.echo(text, err=True))
    busy = busy_cores()
    extras = {name: _versions(packages) for name, packages in EXTRAS.items()}
    if as_json:
        print_json({**asdict(host), "busy_cores": busy, "extras": extras})
        return
    parts = {
        "Machine": _machine(host) | _busy(busy, host.cores_usable),
        "Precision": _precisions(host),
        "Extras": {name: _extra(versions) for name, versions in extras.items()},
    }
    for title, lines in parts.items():
        typer.echo(title)
        for name, text in lines.items():
            typer.echo(f"  {name:<12} {text}")


def _machine(host: "Machine") -> dict[str, str]:
    lines = {
        "versions": f"glassformer {host.glassformer}, torch {host.torch}, Python {host.python}",
        "device": f"{host.device} ({host.device_name})",
        "processor": host.cpu,
        "cores": f"{host.cores_usable} of {host.cores_logical} usable",
        "threads": f"{host.threads}",
    }
    if host.memory_bytes is not None:
        lines["memory"] = f"{host.memory_bytes / 2**30:.1f} GiB"
    return lines


def _busy(cores: float | None, usable: int) -> dict[str, str]:
    """A line if other programs use so much of the machine that it matters."""
    from glassformer.runtime.load import NOTICEABLE

    if cores is None or cores < NOTICEABLE:
        return {}
    used = f"{min(cores, usable):.1f} of {counted(usable, 'core')}"
    return {"busy": f"other programs use {used}; training will be slower"}


def _precisions(host: "Machine") -> dict[str, str]:
    """The speed of each precision by the width of a model, and which one is used from where on."""
    from glassformer.runtime.precision import choose

    widths = [speed.width for speed in host.probe["float32"].speeds]
    lines = {
        name: str(each.problem)
        if not each.speeds
        else f"{' / '.join(f'{speed.tflops:.3g}' for speed in each.speeds)} TFLOP/s"
        for name, each in host.probe.items()
    }
    if len(widths) > 1:
        lines |= {"": f"in models of width {' / '.join(map(str, widths))}"}
    chosen = [(width, *choose(host.probe, width)) for width in widths or [0]]
    for number, (width, name, reason) in enumerate(chosen):
        if not number or name != chosen[number - 1][1]:
            lines[f"from {width}" if number else "chosen"] = f"{name}: {reason}"
    return lines


def _extra(versions: dict[str, str | None]) -> str:
    text = ", ".join(f"{package} {version or 'missing'}" for package, version in versions.items())
    return text if all(versions.values()) else f"{text}. To install: {install(*versions)}"


def _versions(packages: tuple[str, ...]) -> dict[str, str | None]:
    from importlib import metadata  # slow to import

    versions: dict[str, str | None] = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions
