"""Text in; text, labels, probabilities and scores out. The command line and Python both stand on
this, so that they cannot differ."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import TypeAlias

    from glassformer.predict.classifier import ClassifyPredictor
    from glassformer.predict.language import LanguagePredictor
    from glassformer.predict.masked import MaskedPredictor
    from glassformer.predict.series import SeriesPredictor
    from glassformer.predict.tagger import TagPredictor
    from glassformer.predict.translator import TranslatePredictor

    Predictor: TypeAlias = (
        LanguagePredictor
        | ClassifyPredictor
        | TagPredictor
        | MaskedPredictor
        | SeriesPredictor
        | TranslatePredictor
    )

PredictorT = TypeVar("PredictorT")

VERBS = {
    "LanguagePredictor": "generate, score and evaluate",
    "ClassifyPredictor": "classify and evaluate",
    "SeriesPredictor": "classify --data and evaluate",
    "TagPredictor": "tag and evaluate",
    "MaskedPredictor": "fill and evaluate",
    "TranslatePredictor": "translate, inspect and evaluate",
}


def load(path: str | os.PathLike[str]) -> "Predictor":
    """The model in a folder, ready to use: an object with the verbs of its task. Loading never runs
    code from the folder."""
    import torch

    from glassformer import runtime
    from glassformer.checkpoint.folder import GENERATION, load_model
    from glassformer.config import parse
    from glassformer.errors import GlassformerError
    from glassformer.models.bert import Bert
    from glassformer.models.classifier import TextClassifier, TokenTagger
    from glassformer.models.language_model import LanguageModel
    from glassformer.models.translator import Translator
    from glassformer.nn.attention import merge_projections
    from glassformer.predict.classifier import ClassifyPredictor
    from glassformer.predict.language import LanguagePredictor, Settings
    from glassformer.predict.masked import MaskedPredictor
    from glassformer.predict.series import SeriesPredictor
    from glassformer.predict.tagger import TagPredictor
    from glassformer.predict.translator import TranslatePredictor, TranslationSettings
    from glassformer.text.tokenizers import Tokenizer

    saved = load_model(Path(path))
    setup = runtime.prepare(threads=torch.get_num_threads(), precision="float32")
    model = saved.model.to(setup.device)
    merge_projections(model)
    match model, saved.tokenizer:
        case TextClassifier(), None:
            return SeriesPredictor(model)
        case LanguageModel(), Tokenizer() as tokenizer:
            parse(Settings, saved.generation, where=str(Path(path) / GENERATION))
            return LanguagePredictor(model, tokenizer, saved.generation)
        case TextClassifier(), Tokenizer() as tokenizer:
            return ClassifyPredictor(model, tokenizer)
        case TokenTagger(), Tokenizer() as tokenizer:
            return TagPredictor(model, tokenizer)
        case Translator(), Tokenizer() as tokenizer:
            parse(TranslationSettings, saved.generation, where=str(Path(path) / GENERATION))
            return TranslatePredictor(model, tokenizer, saved.target_tokenizer, saved.generation)
        case Bert(), Tokenizer() as tokenizer:
            return MaskedPredictor(model, tokenizer)
    raise GlassformerError(f"{path} holds a {saved.name}, for which there is no verb yet.")


def load_for(path: str | os.PathLike[str], kind: type[PredictorT], verb: str) -> PredictorT:
    """The model in a folder, if it has that verb."""
    return checked(load(path), path, kind, verb)


def checked(
    found: object, path: str | os.PathLike[str], kind: type[PredictorT], verb: str
) -> PredictorT:
    """The predictor, if it is of the kind that has that verb."""
    from glassformer.errors import UsageError

    if not isinstance(found, kind):
        verbs = VERBS[type(found).__name__]
        raise UsageError(f"{path} cannot {verb}: the verbs of this model are {verbs}.")
    return found
