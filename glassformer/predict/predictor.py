"""What every predictor has: a model, its preprocessing, and a way to be evaluated."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from glassformer.config import Config, parse
from glassformer.errors import GlassformerError, UsageError
from glassformer.evaluation.result import Result
from glassformer.nn.quantized import is_quantized
from glassformer.preprocessing import SETTINGS, Preprocessing
from glassformer.wording import counted

Texts = list[str] | tuple[str, ...]
"""Several inputs of a verb, which then returns a list."""


@dataclass(frozen=True)
class LikelyToken:
    """A token that may come next, or be missing."""

    token: str
    probability: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class View:
    """A picture of what a model does with an input, for `inspect`."""

    method: str
    """The name of a method of the predictor. It takes the input; the options of the view are its
    keyword arguments, and the command line accepts exactly those. What it returns has `as_json`,
    `text` and `notes`, and `story/views.py` draws it."""
    about: str
    """What is shown, in a few words."""
    reads_file: bool = False
    """The input is the name of a file, such as an image, and not a text."""
    suits: Callable[[Any], bool] = lambda model: True
    """Whether a model has what is shown."""


class Predictor(ABC):
    """A model with the verbs of its task, each of them a method."""

    verbs: ClassVar[tuple[str, ...]] = ("evaluate",)
    """The commands that work with it."""
    draws: ClassVar[bool] = False
    """What it generates are images, which are drawn into a file."""
    views: ClassVar[Mapping[str, View]] = {}
    """What `inspect` can show, by name."""
    usual_view: ClassVar[str | None] = None
    """What it shows unless another view is chosen."""
    preprocessing_class: ClassVar[type[Preprocessing]] = Preprocessing
    settings_class: ClassVar[type[Config] | None] = None
    """The settings of generation, if it generates: the keys of generation_config.json."""
    folder: Path | None = None
    """Where it was loaded from."""
    model: Any
    preprocessing: Preprocessing

    def __init__(
        self, model: Any, preprocessing: Preprocessing, defaults: dict[str, Any] | None = None
    ) -> None:
        if not isinstance(preprocessing, self.preprocessing_class):
            raise GlassformerError(
                f'{SETTINGS} has kind "{preprocessing.kind}", which does not belong to this model. '
                "Copy the whole model folder."
            )
        self.model = model.eval()
        self.preprocessing = preprocessing
        self.defaults = defaults or {}

    @abstractmethod
    def evaluate(self, paths: str | Sequence[str]) -> Result:
        """How good it is on files. The options of a task are further keyword arguments; the command
        line offers exactly those."""

    @property
    def is_quantized(self) -> bool:
        """Whether its model has 8-bit weights."""
        return is_quantized(self.model)

    @property
    def usable_views(self) -> dict[str, View]:
        """Those of its views that its model can show."""
        return {name: view for name, view in self.views.items() if view.suits(self.model)}

    def view(self, name: str | None, model: Any) -> View:
        """The view of that name; `model` is what the user calls this model."""
        wanted, views = name or self.usual_view, self.usable_views
        if wanted is not None and wanted in views:
            return views[wanted]
        if not views:
            *most, last = (verb for verb in self.verbs if verb != "inspect")
            raise UsageError(
                f"{model} has nothing to inspect. This model supports "
                f"{', '.join(most)}{' and ' if most else ''}{last}."
            )
        shown = "; ".join(f"{each} ({view.about})" for each, view in views.items())
        problem = "no view was chosen" if name is None else f'{model} has no view "{name}"'
        raise UsageError(f"{problem}. Pass --view with one of: {shown}.")

    def exceeding(self, number: int, total: int, what: str, consequence: str) -> str:
        """A note on inputs that are longer than the model's context."""
        return (
            f"{number:,} of {counted(total, what)} exceed the model's context of "
            f"{self.model.context_length:,}{consequence}"
        )

    def check_defaults(self, where: str) -> None:
        """Raise unless the defaults of generation are valid."""
        if self.settings_class is not None:
            parse(self.settings_class, self.defaults, where=where)

    def chosen_settings(self, settings: dict[str, Any]) -> Any:
        """The settings of one call: its own, else the model's defaults."""
        if self.settings_class is None:
            raise TypeError(f"{type(self).__name__} does not generate")
        where = "the settings"
        return parse(self.settings_class, self.defaults | settings, where, error=UsageError)


def given(settings: Config | None, changes: dict[str, Any]) -> dict[str, Any]:
    """The settings that a call was given: as an object, one by one, or both."""
    return ({} if settings is None else settings.model_dump(exclude_unset=True)) | changes


def names_of(paths: str | Sequence[str]) -> list[str]:
    return [paths] if isinstance(paths, str) else list(paths)
