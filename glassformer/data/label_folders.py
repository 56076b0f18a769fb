"""Where the labels are names of folders: reviews/pos/7.txt has the label "pos"."""

from collections.abc import Sequence

from glassformer.data.folders import files_for, is_pattern, visible_entries
from glassformer.data.headerless_files import headerless_table
from glassformer.data.tables import TABLE_ENDINGS, is_table
from glassformer.data.text_files import DataPath, ending, local_path


def labelled_by_folder(name: str, texts: Sequence[DataPath]) -> list[DataPath]:
    """Those of the text files of a folder, archive or pattern whose folder is a label."""
    if is_pattern(name):
        return list(texts)
    root = _folder_of_labels(local_path(name))
    return [file for file in texts if file.parent != root and file.parent.parent == root]


def labels_of_files(name: str, files: Sequence[DataPath]) -> dict[DataPath, str]:
    """The label of each file at any depth inside the folder of a label; others have none. The files
    of a pattern have the names of their own folders."""
    if is_pattern(name):
        return {file: file.parent.name for file in files}
    folders = [
        each for each in visible_entries(_folder_of_labels(local_path(name))) if each.is_dir()
    ]
    labels = {each: each.name for each in folders}

    def label(file: DataPath) -> str | None:
        folder = file.parent
        while folder not in labels and folder != folder.parent:
            folder = folder.parent
        return labels.get(folder)

    found = ((file, label(file)) for file in files)
    return {file: name for file, name in found if name is not None}


def named_one_by_one(names: Sequence[str], encoding: str) -> list[DataPath]:
    """The text files of several names, as a shell expands `reviews/*/*.txt` or `reviews/*`, if they
    are in different folders; else none."""
    paths = [local_path(name) for name in names]
    if len({path.parent if path.is_file() else path for path in paths}) < 2:
        return []
    if all(path.is_file() for path in paths):
        is_text = all(not is_table(path, encoding) for path in paths)
        return paths if is_text and headerless_table(paths[0], encoding) is None else []
    if not all(path.is_dir() for path in paths) or any(map(has_folders, paths)):
        return []
    files = [file for name in names for file in files_for(name) or ()]
    return [] if any(is_table(file, encoding) for file in files) else files


def _folder_of_labels(path: DataPath) -> DataPath:
    """The folder whose subfolders are the labels: an archive often contains only that folder."""
    while True:
        entries = visible_entries(path)
        inner = [entry for entry in entries if entry.is_dir()]
        has_tables = any(ending(entry) in TABLE_ENDINGS for entry in entries)
        if len(inner) != 1 or has_tables or not has_folders(inner[0]):
            return path
        (path,) = inner


def has_folders(path: DataPath) -> bool:
    """Whether there are folders in a folder."""
    return any(entry.is_dir() for entry in visible_entries(path))
