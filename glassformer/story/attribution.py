"""What predictions rest on, for the page of a story: as many of them as can be computed quickly."""

from typing import Any

from glassformer.errors import UsageError
from glassformer.inspection.attribution import METHODS, Attribution, attributions
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.subject import Subject
from glassformer.inspection.text_views import BASELINE

MEAN_COLOUR = "the mean colour of the image"
MOST_WORK = 3e10  # weights × tokens × gradients: a few seconds
USUAL_STEPS = 32  # of an integral


def attribution_data(seen: Inspection) -> dict[str, Any] | None:
    """All predictions of a short text, else the one in focus; nothing is `explained` if that, too,
    takes long. None if the model reads neither vectors nor pixels,
    or predicts nothing."""
    if seen.subject.run_rows is None and seen.subject.pixels is None:
        return None
    chosen = _affordable(seen)
    if chosen is None:
        return {"explained": None, "is_too_long": True}
    try:
        found = attributions(seen, chosen)
    except UsageError:
        return None
    return {
        "baseline": BASELINE if seen.subject.pixels is None else MEAN_COLOUR,
        "methods": [[name, METHODS[name]] for name in found[0].methods],
        "explained": {str(each.prediction): _explained(each) for each in found},
    }


def _affordable(seen: Inspection) -> list[int] | None:
    subject, count = seen.subject, len(seen.predictions)
    num_weights = _num_weights(subject)
    num_tokens = sum(len(stream.tokens) for stream in subject.streams)
    one_pass = num_weights * num_tokens
    if one_pass * (USUAL_STEPS * count + num_tokens) <= MOST_WORK:
        return list(range(count))
    is_affordable = one_pass * (USUAL_STEPS + num_tokens) <= MOST_WORK
    return [subject.focus % count] if is_affordable else None


def _num_weights(subject: Subject) -> int:
    if subject.pixels is not None:
        return subject.pixels.num_weights
    stacks = [stream.stack for stream in subject.streams]
    modules = stacks if subject.module is None else [subject.module]
    return sum(each.numel() for module in modules if module for each in module.parameters())


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
