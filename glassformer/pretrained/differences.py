"""How far a model that was written and read again may differ."""

from glassformer.errors import GlassformerError

TOLERANCE = 1e-3  # a larger difference in logits means that something is wrong


def refuse_if_wrong(differences: dict[str, float]) -> dict[str, float]:
    """The largest differences in logits, by the tool that computed them, if all are small."""
    for tool, difference in differences.items():
        if not difference <= TOLERANCE:
            raise GlassformerError(
                f"the exported model differs from the original: its logits, computed by "
                f"{tool}, differ by up to {difference:.3g}. Nothing was written."
            )
    return differences
