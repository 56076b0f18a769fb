"""Options of a verb as arguments of a Python function, and errors the other way round."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from glassformer.errors import UsageError
from glassformer.options import as_typed

if TYPE_CHECKING:
    from glassformer.predict.predictor import Predictor


def passed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a verb, by name, that were passed: all that are not None."""
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def naming_options(predictor: "Predictor", given: Iterable[str]) -> Iterator[None]:
    """Errors about settings name the options: num_beams becomes --num-beams. A setting of one word,
    such as `stop`, is an English word too: it is replaced only if it was given."""
    try:
        yield
    except UsageError as error:
        settings = predictor.settings_class
        fields = () if settings is None else settings.model_fields
        names = {name for name in fields if "_" in name}.union(given)
        pattern = rf"\b({'|'.join(sorted(names))})\b"
        message = str(error).replace(" in the settings", "")
        raise UsageError(re.sub(pattern, lambda found: as_typed(found[0]), message)) from None
