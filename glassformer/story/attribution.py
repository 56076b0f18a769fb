"""What predictions rest on, for the page of a story: as many of them as can be computed quickly."""

from typing import Any

from glassformer.errors import UsageError
from glassformer.inspection.attribution import METHODS, Attribution, attributions
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.text_views import BASELINE

MOST_WORK = 3e10  # weights × tokens × gradients: a few seconds
USUAL_STEPS, MOST_STEPS = 32, 128  # of an integral


def attribution_data(seen: Inspection) -> dict[str, Any] | None:
    """All predictions of a short text, else the one in focus; nothing is `explained` if that, too,
    takes long. None if the model does not read vectors."""
    chosen = _affordable(seen)
    if chosen is None:
        return {"explained": None, "is_too_long": True}
    try:
        found = attributions(seen, chosen, MOST_STEPS)
    except UsageError:
        return None
    return {
        "baseline": BASELINE,
        "methods": [[name, METHODS[name]] for name in found[0].methods],
        "explained": {str(each.prediction): _explained(each) for each in found},
    }


def _affordable(seen: Inspection) -> list[int] | None:
    subject, count = seen.subject, len(seen.predictions)
    weights = () if subject.module is None else subject.module.parameters()
    num_weights = sum(each.numel() for each in weights)
    num_tokens = sum(len(stream.ids) for stream in subject.streams)
    one_pass = num_weights * num_tokens
    if one_pass * (USUAL_STEPS * count + num_tokens) <= MOST_WORK:
        return list(range(count))
    is_affordable = one_pass * (USUAL_STEPS + num_tokens) <= MOST_WORK
    return [subject.focus % count] if is_affordable else None


def _explained(found: Attribution) -> dict[str, Any]:
    return {
        "token": found.token,
        "logprob": found.logprob,
        "baseline_logprob": found.baseline_logprob,
        "error": found.error,
        "num_steps": found.num_steps,
        "values": {name: values.tolist() for name, values in found.methods.items()},
        "correlations": [[a, b, value] for (a, b), value in found.correlations.items()],
    }
