"""How far a model that was written and read again may differ."""

from torch import Tensor

from glassformer.errors import GlassformerError

# Of the largest logit. Another order of summing in float32 costs 3e-7 of it in two layers, and 2e-5
# in the 30 of SmolLM2 (by onnxruntime, in a padded batch).
TOLERANCE = 5e-5


def size(values: Tensor) -> float:
    """The largest absolute value."""
    return float(values.abs().max())


def refuse_if_wrong(differences: dict[str, float], largest: float = 1.0) -> dict[str, float]:
    """The largest differences in logits, by the tool that computed them, if float32 explains them.
    `largest`: the size of the logits that are compared; small ones are sums of larger terms."""
    allowed = TOLERANCE * max(1.0, largest)
    for tool, difference in differences.items():
        if not difference <= allowed:
            raise GlassformerError(
                f"the exported model differs from the original: its logits, computed by "
                f"{tool}, differ by up to {difference:.3g}, where {allowed:.2g} is allowed. "
                "Nothing was written."
            )
    return differences
