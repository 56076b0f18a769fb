"""Families of published models by the model_type in their config.json: a file and a row each."""

from glassformer.errors import GlassformerError
from glassformer.formats.families import bert, distilbert, gpt2, imagegpt, llama, marian, swin, vit
from glassformer.formats.family import Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        gpt2.FAMILY,
        llama.LLAMA,
        llama.QWEN3,
        bert.BERT,
        bert.ROBERTA,
        distilbert.FAMILY,
        marian.FAMILY,
        vit.FAMILY,
        swin.FAMILY,
        imagegpt.FAMILY,
    )
}


def family_of(name: object, where: str) -> Family:
    """The family of that name; an unknown one is an error that lists those that are known."""
    if name is None:
        raise GlassformerError(
            f"{where} has no model_type, so it is not the config of a model. Copy it again."
        )
    if not isinstance(name, str) or name not in FAMILIES:
        raise GlassformerError(
            f'{where}: models of the family "{name}" cannot be imported. These can: '
            f"{', '.join(FAMILIES)}."
        )
    return FAMILIES[name]
