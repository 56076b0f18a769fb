"""Tagged sentences, split into training, validation and test data."""

from dataclasses import replace

from glassformer.data.labelled_texts import LabelledConfig
from glassformer.data.labels import in_order
from glassformer.data.splits import Items, LabelledSplit, split_labelled
from glassformer.data.tables import columns_in_words, open_table
from glassformer.data.tagged_files import Sentence, is_table, read_sentences, table_columns
from glassformer.data.text_files import ending, local_path
from glassformer.errors import GlassformerError

TaggedSplit = LabelledSplit[Sentence]


class TaggedConfig(LabelledConfig):
    """The tagged sentences to train on, and those to validate on."""

    label_column: str | None = None
    """The column of the tags. CoNLL-U: upos (null), xpos, or a column number counted from 1;
    other columns: a number (null: the last); tables: a name."""


def read_tagged(config: TaggedConfig, seed: int) -> TaggedSplit:
    """All sentences, split as the config says."""
    options = config.label_column, config.encoding, config.text_column
    training, validation, test = (
        Items(list(read_sentences(paths, *options)), paths, "sentence", "sentence", True)
        for paths in (config.paths, config.validation_paths, config.test_paths)
    )
    tags = {tag for sentence in training.found for tag in sentence.tags}
    if len(tags) < 2:
        raise GlassformerError(
            f'{training.where}: every word has the same tag ("{min(tags)}"). Provide sentences '
            "with at least two tags, or pass another --label-column."
        )
    split = split_labelled(training, validation, test, config.validation_fraction, seed)
    label_column, columns = _columns_of(config)
    outside = {"O"} & {*split.labels}  # the tag of words outside entities comes first
    return replace(
        split,
        labels=(*outside, *in_order({*split.labels} - outside)),
        text_column=config.text_column,
        label_column=label_column,
        columns=columns,
    )


def _columns_of(config: TaggedConfig) -> tuple[str | None, list[str]]:
    """The name of the tag column, and how the columns of a table are used, in words."""
    first, label = local_path(config.paths[0]), config.label_column
    if first.is_dir() or not is_table(first):
        return label or ("upos" if ending(first) == ".conllu" else None), []
    table = open_table(first, config.encoding)
    words, tags = table_columns(table, next(iter(config.text_column), None), label)
    return tags, [f"columns: {columns_in_words(table, {'words': [words], 'tags': [tags]})}"]
