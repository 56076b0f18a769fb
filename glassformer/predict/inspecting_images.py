"""Looking inside models that read images: the page that all of them share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from glassformer.inspection.inspection import Inspection
from glassformer.inspection.subject import Subject
from glassformer.predict.predictor import Predictor, View
from glassformer.preprocessing.image import ImageInput

IMAGE_VIEWS: dict[str, View] = {
    "story": View("inspect", "all of it on one page", reads_file=True),
}


class InspectsImages(Predictor):
    """A predictor whose model reads images and can be looked into."""

    views: ClassVar[Mapping[str, View]] = IMAGE_VIEWS
    usual_view: ClassVar[str | None] = "story"

    @abstractmethod
    def _subject(self, image: ImageInput) -> Subject:
        """The model with an image, as the page looks at it."""

    def inspect(
        self,
        image: ImageInput,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> Inspection:
        """What the model computes on an image, a file or pixels: patches, attention, states of
        every layer, predictions. `layers` and `heads` limit the attention that is kept.

        >>> seen = model.inspect("photo.png")
        >>> seen.predictions[0].options[0].probability > 0
        True
        """
        return Inspection(self._subject(image), layers, heads)
