"""What a name stands for: a file, or the files of a folder, an archive or a pattern.

Folders and archives are searched to any depth, in the order of names. Hidden files and what
.gitignore files name are skipped. Of a corpus, only its shards are read. Files are recognised by
their bytes, whatever their ending: binary files are skipped, and so are archives in a folder.
Skipped files are counted in the report.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from glob import glob, has_magic
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from glassformer.data import archives, text_files
from glassformer.data.archives import DataPath, Member, ending, local_path
from glassformer.data.encodings import NotTextError
from glassformer.data.tables import TABLE_ENDINGS
from glassformer.data.text_files import EmptyError, at_least_one, report
from glassformer.errors import GlassformerError

# --- .gitignore: files that are not meant to be read ---
#
#     *.log        at any depth            /build     only next to the .gitignore
#     cache/       only folders            docs/*.md  a path from the .gitignore
#     a/**/b       any number of folders   !keep.log  read it after all
#
# The last rule that matches decides. The files of an excluded folder stay excluded.


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    excludes: bool
    is_for_folders: bool


class Rules(NamedTuple):
    """The rules of one .gitignore file, and how many folders deep it is."""

    depth: int
    rules: tuple[Rule, ...]


def parse_rules(text: str, depth: int) -> Rules:
    return Rules(depth, tuple(filter(None, map(_rule, text.splitlines()))))


def is_ignored(path: Sequence[str], is_folder: bool, files: Iterable[Rules]) -> bool:
    """Whether a path, given as its parts, is excluded by .gitignore files, outermost first."""
    excluded = False
    for depth, rules in files:
        below = "/".join(path[depth:])
        for rule in rules:
            if (is_folder or not rule.is_for_folders) and rule.pattern.fullmatch(below):
                excluded = rule.excludes
    return excluded


def _rule(line: str) -> Rule | None:
    line = re.sub(r"(?<!\\)[ \t]+$", "", line)  # a blank at the end counts only if escaped
    if not line or line.startswith("#"):
        return None
    excludes = not line.startswith("!")
    line = line.removeprefix("!")
    is_for_folders = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    is_anchored = "/" in line
    try:
        pieces = map(_piece, _TOKENS.finditer(line.removeprefix("/")))
        pattern = re.compile("".join(["" if is_anchored else "(?:.*/)?", *pieces]))
    except re.error:  # such as [z-a], which matches nothing
        return None
    return Rule(pattern, excludes, is_for_folders)


_TOKENS = re.compile(
    r"(?P<leading>^\*\*/)|(?P<middle>/\*\*(?=/))|(?P<trailing>/\*\*$)|(?P<star>\*+)|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<set>\]?(?:\\.|[^\]\\])*)\]|\\(?P<escaped>.)|(?P<plain>.)"
)


def _piece(token: re.Match[str]) -> str:
    match token.lastgroup:
        case "leading":
            return "(?:.*/)?"
        case "middle":
            return "(?:/.*)?"
        case "trailing":
            return "/.+"
        case "star":
            return "[^/]*"
        case "one":
            return "[^/]"
        case "set":
            inside = re.sub(r"([\[&~|])", r"\\\1", token["set"])
            inside = f"\\{inside}" if inside.startswith("]") else inside
            return f"(?!/)[{'^' if token['negated'] else ''}{inside}]"
        case _:
            return re.escape(token["escaped"] or token["plain"])


# --- the manifest of a corpus ---
# A folder that `glassformer corpus build` wrote lists its shards. Only they are read: the manifest
# and the report are never taken for text.

MANIFEST = "manifest.json"
FORMAT = "glassformer corpus"
_LARGEST = 2**24  # bytes of a manifest


def corpus_manifest(folder: Path | Member) -> dict[str, Any] | None:
    """The manifest of a corpus; None if the folder is not one."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(_LARGEST))
        is_corpus = values["format"] == FORMAT and isinstance(values["shards"], dict)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return dict(values) if is_corpus else None


def shards_in(folder: Path | Member) -> list[Path | Member] | None:
    """The files of a corpus that contain its documents; None if the folder is not a corpus."""
    manifest = corpus_manifest(folder)
    if manifest is None:
        return None
    shards: list[Path | Member] = [folder / Path(name).name for name in manifest["shards"]]
    for shard in shards:
        if not shard.is_file():
            raise GlassformerError(f"{shard} is missing. Copy the whole folder of the corpus.")
    return shards


# --- files for a name ---

T = TypeVar("T")
ARRAYS = (".parquet", ".npz")  # binary files that are data
_GITIGNORE = ".gitignore"
_LONGEST_RULES = 2**20  # bytes of a .gitignore file


def read_all(
    paths: Iterable[str],
    read: Callable[[str], Iterable[T]],
    why_skipped: Callable[[DataPath], str | None] = lambda path: None,
    cure: str = "",
) -> Iterator[T]:
    """What `read` finds in files, hub datasets, folders, archives and patterns, one item at a time
    and in order. `why_skipped` is asked for the files of folders: None for those to read. The cure
    is for a folder in which there is nothing to read."""
    for name in paths:
        with text_files.reading(name):
            files = files_for(name)
            if files is None:
                yield from read(name)
                continue
            problem = f"{name} contains no files to read. {cure}".strip()
            wanted = list(at_least_one(_chosen(files, why_skipped), problem))
            yield from at_least_one(read_files(wanted, read), f"{name} contains only empty files.")


def files_for(name: str) -> list[DataPath] | None:
    """The files with data that a folder, an archive or a pattern stands for; None for a file or a
    dataset."""
    return list(_data_files(every_file(name))) if is_group(name) else None


def every_file(name: str) -> Iterator[DataPath]:
    """All files of a folder, an archive or a pattern, whatever they contain."""
    return map(local_path, _matches(name)) if is_pattern(name) else files_below(local_path(name))


def is_group(name: str) -> bool:
    """Whether a name stands for several files."""
    return is_pattern(name) or local_path(name).is_dir()


def is_pattern(name: str) -> bool:
    """Whether a name contains * or ?, and is not itself the name of a file."""
    if not has_magic(name):
        return False
    try:
        return not local_path(name).exists()
    except OSError:  # a name that is too long
        return False


def read_files(files: Iterable[DataPath], read: Callable[[str], Iterable[T]]) -> Iterator[T]:
    """What `read` finds in files; those that cannot be used are skipped, if there are others."""
    num_read = 0
    why_not: text_files.SkippedError | None = None
    for file in files:
        num_items = 0
        try:
            for item in read(str(file)):
                num_items += 1
                num_read += 1
                yield item
            report().read(file)
        except EmptyError:
            report().skip(file, "empty")
        except NotTextError:
            if num_items:
                raise
            report().skip(file, text_files.UNRECOGNISED)
        except text_files.SkippedError as error:
            if num_items:
                raise
            why_not = why_not or error
            report().skip(file, error.reason)
    if not num_read and why_not:
        raise why_not


def _chosen(
    files: Iterable[DataPath], why_skipped: Callable[[DataPath], str | None]
) -> Iterator[DataPath]:
    for file in files:
        if reason := why_skipped(file):
            report().skip(file, reason)
        else:
            yield file


def _data_files(files: Iterable[DataPath]) -> Iterator[DataPath]:
    """The files that are neither binary nor archives."""
    for file in files:
        try:
            if file.suffix.lower() not in ARRAYS and text_files.looks_binary(file):
                report().skip(file, "binary")
            else:
                yield file
        except EmptyError:
            yield file
        except GlassformerError:
            report().skip(file, "cannot be read")


def _matches(pattern: str) -> list[str]:
    """The files that match a pattern, by name; folders only if there are no files."""
    expanded = str(Path(pattern).expanduser()) if pattern.startswith("~/") else pattern
    matches = sorted(glob(expanded, recursive=True))  # noqa: PTH207 (absolute patterns)
    if not matches:
        raise GlassformerError(f"no file matches {pattern}. Check the folder and the extension.")
    # ** follows links, which may form a loop: each file counts once.
    names = [name for name in matches if Path(name).is_file()]
    real = {Path(name).resolve(): name for name in reversed(names)}
    files = sorted(real.values())
    for name in {*names} - {*files}:
        if Path(name).is_symlink():
            report().skip(name, text_files.LINKED)
    walk = _Walk()
    return files or [str(file) for name in matches for file in walk.files(Path(name))]


# --- the walk through a folder ---


def visible_entries(folder: DataPath) -> list[DataPath]:
    """Files and folders directly inside `folder`, without hidden ones: by name, or in the order in
    which an archive is best read."""
    entries: list[DataPath] = [
        entry for entry in folder.iterdir() if not entry.name.startswith(".")
    ]
    return entries if isinstance(folder, Member) else sorted(entries, key=lambda entry: entry.name)


def files_below(folder: DataPath) -> Iterator[DataPath]:
    """All files of a folder and its subfolders."""
    return _Walk().files(folder)


class _Walk:
    """A walk that yields each file once, even if links lead to it again or form a loop."""

    def __init__(self) -> None:
        self._seen: set[DataPath] = set()

    def files(
        self, folder: DataPath, inside: tuple[str, ...] = (), rules: tuple[Rules, ...] = ()
    ) -> Iterator[DataPath]:
        real = folder.resolve()
        if real in self._seen:
            report().remark(f"{folder} is a link to a folder that is read already")
            return
        self._seen.add(real)
        if (shards := shards_in(folder)) is not None:  # a corpus lists its files
            yield from shards
            return
        try:
            entries, inner_rules = visible_entries(folder), _rules_in(folder, len(inside))
        except PermissionError:
            report().skip(folder, "cannot be read")
            return
        rules = (*rules, *inner_rules)
        for entry in entries:
            path, is_folder = (*inside, entry.name), entry.is_dir()
            if rules and is_ignored(path, is_folder, rules):
                report().skip(entry, text_files.IGNORED)
            elif is_folder:
                yield from self.files(entry, path, rules)
            elif archives.is_archive(Path(entry.name)):
                report().skip(entry, "archive")
            elif entry.is_file():
                # Without a link, the real name costs nothing: there may be a million files.
                is_link = isinstance(entry, Path) and entry.is_symlink()
                file = entry.resolve() if is_link else real / entry.name
                if file in self._seen:
                    report().skip(entry, text_files.LINKED)
                else:
                    self._seen.add(file)
                    yield entry


def _rules_in(folder: DataPath, depth: int) -> Iterator[Rules]:
    path = folder / _GITIGNORE
    if path.is_file():
        with suppress(OSError), path.open("rb") as file:
            yield parse_rules(file.read(_LONGEST_RULES).decode("utf-8", "replace"), depth)


# --- folders as labels: reviews/pos/7.txt has the label "pos" ---


def labelled_by_folder(name: str, texts: Sequence[DataPath]) -> list[DataPath]:
    """The text files of a folder, archive or pattern whose folder is a label."""
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
        folder for folder in visible_entries(_folder_of_labels(local_path(name))) if folder.is_dir()
    ]
    labels = {folder: folder.name for folder in folders}

    def label(file: DataPath) -> str | None:
        folder = file.parent
        while folder not in labels and folder != folder.parent:
            folder = folder.parent
        return labels.get(folder)

    labelled = ((file, label(file)) for file in files)
    return {file: name for file, name in labelled if name is not None}


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
