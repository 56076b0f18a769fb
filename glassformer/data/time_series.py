"""Labelled time series, split into training, validation and test data."""

from dataclasses import replace

from glassformer.data.labelled_texts import LabelledConfig
from glassformer.data.labels import check_classes, check_kinds
from glassformer.data.splits import Items, LabelledSplit, split_labelled
from glassformer.data.tables import columns_in_words, open_table
from glassformer.data.text_files import ending, local_path
from glassformer.data.time_series_files import Series, read_each, series_columns

SeriesSplit = LabelledSplit[Series]


def read_series_split(config: LabelledConfig, seed: int) -> SeriesSplit:
    """All time series, split as the config says."""
    # Read in one go, so that all parts have the same features in the same order.
    kinds = config.paths, config.validation_paths, config.test_paths
    names = [name for paths in kinds for name in paths]
    found = iter(read_each(names, config.label_column, config.encoding))
    training, validation, test = (
        Items([series for _ in paths for series in next(found)], paths, "sequence", "sequence")
        for paths in kinds
    )
    check_kinds(training.found, training.where)
    check_classes(training.found)
    split = split_labelled(training, validation, test, config.validation_fraction, seed)
    features, columns = _columns_of(config)
    return replace(split, text_column=features, label_column=config.label_column, columns=columns)


def _columns_of(config: LabelledConfig) -> tuple[tuple[str, ...], list[str]]:
    """The features of the first table and how its columns are used; an .npz has none."""
    for name in config.paths:
        if ending(local_path(name)) != ".npz":
            table = open_table(name, config.encoding)
            found = series_columns(table, config.label_column)
            roles = {"sequence": [found.key], "step": [found.step], "values": found.values}
            roles["label"] = [str(found.label)]
            return found.values, [f"columns: {columns_in_words(table, roles)}"]
    return (), []
