"""The verbs about machines: doctor, what this one can do; plan, what a training would need, here or
elsewhere."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.options import Flag, Float, Integer, String, Strings, count, option, switch
from glassformer.cli.output import notify, print_json, print_result
from glassformer.cli.verb import check_preset
from glassformer.errors import UsageError
from glassformer.models import MODELS, row
from glassformer.wording import counted, install

if TYPE_CHECKING:
    from glassformer.machine.host import Machine

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
        bool, option(None, "Measure again instead of using cached measurements.")
    ] = False,
    as_json: options.JsonObject = False,
) -> None:
    """Show what this machine can do, and the resulting settings.

    Examples:
      glassformer doctor
      glassformer doctor --refresh --json
    """
    from glassformer.machine.facts import busy_cores
    from glassformer.machine.host import machine

    host = machine(refresh=refresh, notify=notify)
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
    from glassformer.machine.facts import NOTICEABLE

    if cores is None or cores < NOTICEABLE:
        return {}
    used = f"{min(cores, usable):.1f} of {counted(usable, 'core')}"
    return {"busy": f"other programs use {used}; training will be slower"}


def _precisions(host: "Machine") -> dict[str, str]:
    """The speed of each precision by the width of a model, and which one is used from where on."""
    from glassformer.machine.precision import choose_precision

    widths = [speed.width for speed in host.probe["float32"].speeds]
    lines = {
        name: f"{' / '.join(f'{speed.tflops:.3g}' for speed in measured.speeds)} TFLOP/s"
        if measured.speeds
        else str(measured.problem)
        for name, measured in host.probe.items()
    }
    if len(widths) > 1:
        lines |= {"": f"in models of width {' / '.join(map(str, widths))}"}
    choices = [(width, *choose_precision(host.probe, width)) for width in widths or [0]]
    for index, (width, name, reason) in enumerate(choices):
        if not index or name != choices[index - 1][1]:
            lines[f"from {width}" if index else "chosen"] = f"{name}: {reason}"
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


# --- plan ---


class Training(options.Group, heading="Training"):
    """What is to be trained."""

    preset: String = option("NAME", "Preset of the model (default: all presets).")
    tokens: Integer = count("Number of training tokens, such as 9e9 (default: 20 per parameter).")
    batch_tokens: Integer = count(
        "Number of tokens in a batch, on all devices (default: 512 sequences)."
    )
    settings: Strings = option(
        "KEY=VALUE",
        "Set a key of the model, such as model.context_length=2048 (may be repeated).",
        "--set",
    )


class Devices(options.Group, heading="Devices"):
    """What it is to be trained on."""

    devices: Integer = count("Number of devices (default: 1).")
    device_kind: String = option(
        "KIND", "Kind of device, such as a100 or rtx4090 (default: this machine)."
    )
    strategy: String = option("NAME", "Strategy, ddp or fsdp (default: the faster one that fits).")
    checkpoint_activations: Flag = switch(
        "--checkpoint-activations/--keep-activations",
        "Recompute activations, or keep them (default: the faster one that fits).",
    )
    price: Float = option("DOLLARS", "Price of a device per hour (default: a typical price).")


@options.takes(Training, Devices)
def plan(
    model: Annotated[str, options.argument("MODEL", "Model to plan.")] = "gpt",
    *,
    out: Annotated[
        Path | None, options.output("FILE", "Picture of the scaling curve, .png or .svg.")
    ] = None,
    as_json: options.JsonObject = False,
    **values: Any,
) -> None:
    """Plan a training: memory, operations, time, price, scaling.

    Without options, shows what this machine could train in eight hours.

    Examples:
      glassformer plan
      glassformer plan --preset gpt2 --tokens 1e9
      glassformer plan --preset gpt2-xl --tokens 9e9 --devices 32 --device-kind a100 --out plan.png
    """
    check_preset(model, values.get("preset"))
    from glassformer.planning.plan import plan, tonight
    from glassformer.training.preparation import assign

    if not values and out is None:
        print_result(tonight(model), as_json)
        return
    if "preset" not in values:
        sizes = ", ".join(row(model).presets) if model in MODELS else "NAME"
        raise UsageError(f"a plan needs the size of the model: pass --preset with one of {sizes}.")
    settings: dict[str, Any] = {}
    for assignment in values.pop("settings", ()):
        assign(settings, assignment)
    result = plan(model, settings=settings.get("model", settings), out=out, **values)
    if out is not None:
        notify(f"wrote {out}")
    print_result(result, as_json)
