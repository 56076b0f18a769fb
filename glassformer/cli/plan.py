"""glassformer plan: what a training would need, before it begins."""

from pathlib import Path
from typing import Annotated, Any

from glassformer.cli import options
from glassformer.cli.known_names import check_preset
from glassformer.cli.options import Flag, Group, Number, Text, Texts, Whole, count, option, switch
from glassformer.cli.output import print_result, say


class Training(Group, heading="Training"):
    """What is to be trained."""

    preset: Text = option("NAME", "Size of the model; without one, all that fit tonight.")
    tokens: Whole = count("Tokens to learn from, such as 9e9 (default: 20 per parameter).")
    batch_tokens: Whole = count("Tokens in a batch, on all devices (default: 512 sequences).")
    settings: Texts = option(
        "KEY=VALUE",
        "Set a key of the model, such as model.context_length=2048 (may be repeated).",
        "--set",
    )


class Devices(Group, heading="Devices"):
    """What it is to be trained on."""

    devices: Whole = count("Number of devices (default: 1).")
    device_kind: Text = option("KIND", "Such as a100 or rtx4090 (default: this machine).")
    strategy: Text = option("NAME", "ddp or fsdp (default: the faster one that fits).")
    checkpoint_activations: Flag = switch(
        "--checkpoint-activations/--keep-activations",
        "Recompute activations, or keep them (default: the faster way that fits).",
    )
    price: Number = option("DOLLARS", "Per device and hour (default: a typical price).")


@options.takes(Training, Devices)
def plan(
    model: Annotated[str, options.argument("MODEL", "Model to plan.")] = "gpt",
    *,
    out: Annotated[
        Path | None, options.output("FILE", "Picture of how it scales, .png or .svg.")
    ] = None,
    as_json: options.JsonObject = False,
    **chosen: Any,
) -> None:
    """Plan a training: memory, operations, time, price, and where more devices stop helping.

    Without a preset: what this machine could train in eight hours.

    Examples:
      glassformer plan
      glassformer plan --preset gpt2 --tokens 1e9
      glassformer plan --preset gpt2-xl --tokens 9e9 --devices 32 --device-kind a100 --out plan.png
    """
    check_preset(model, chosen.get("preset"))
    from glassformer.errors import UsageError
    from glassformer.models import MODELS, row
    from glassformer.planning.plan import plan, tonight
    from glassformer.training.recipes import assign

    if not chosen and out is None:
        print_result(tonight(model), as_json)
        return
    if "preset" not in chosen:
        sizes = ", ".join(row(model).presets) if model in MODELS else "NAME"
        raise UsageError(f"a plan needs the size of the model: pass --preset with one of {sizes}.")
    settings: dict[str, Any] = {}
    for assignment in chosen.pop("settings", ()):
        assign(settings, assignment)
    result = plan(model, settings=settings.get("model", settings), out=out, **chosen)
    if out is not None:
        say(f"wrote {out}")
    print_result(result, as_json)
