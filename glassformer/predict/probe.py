"""A linear probe in use: the label of an image, from one layer of an ImageGPT."""

from glassformer.models.image_gpt_probe import ImageGPTProbe
from glassformer.predict.image_labels import ImageLabelPredictor
from glassformer.preprocessing.palette import PalettePreprocessing


class ProbePredictor(ImageLabelPredictor):
    """The verbs of a probe: classify and evaluate."""

    preprocessing_class = PalettePreprocessing
    model: ImageGPTProbe
    preprocessing: PalettePreprocessing
    can_weigh_labels = False
