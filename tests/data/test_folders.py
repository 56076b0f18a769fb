"""Folders, archives and patterns: which files they stand for, and what is said about the rest."""

import io
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from written_files import written

from glassformer.data import archives
from glassformer.data.documents import read_documents
from glassformer.data.labelled_texts import read_examples
from glassformer.data.sentence_pairs import pairs_of
from glassformer.data.tagged_sentences import read_sentences
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
TARS = ["a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tar.xz"]


def read(*paths: str) -> tuple[list[str], list[str]]:
    with collecting() as report:
        texts = [each.text for each in read_documents(paths)]
    return texts, report.notes()


def zipped(path: Path, files: dict[str, bytes | str]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return str(path)


def tarred(path: Path, files: dict[str, bytes | str]) -> str:
    kind = {".gz": "gz", ".tgz": "gz", ".bz2": "bz2", ".xz": "xz"}.get(path.suffix, "")
    with tarfile.open(path, f"w:{kind}") as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return str(path)


def test_source_code_is_text(tmp_path: Path) -> None:
    for name in ("b.py", "a b/ä.py", "Makefile", "doc.rst"):
        written(tmp_path / name, name)
    written(tmp_path / "logo.png", PNG)
    written(tmp_path / "empty.py", "")
    texts, notes = read(str(tmp_path))
    assert texts == ["Makefile", "a b/ä.py", "b.py", "doc.rst"]
    assert notes == [
        "read 2 .py, 1 .rst, 1 without extension; skipped 1 .png (binary), 1 .py (empty)"
    ]


def test_what_gitignore_files_name_is_skipped(tmp_path: Path) -> None:
    written(tmp_path / ".gitignore", "*.log\nbuild/\n")
    written(tmp_path / "inner/.gitignore", "/own.txt\n!kept.log\n")
    for name in ("a.txt", "a.log", "build/b.txt", "inner/own.txt", "inner/kept.log", "own.txt"):
        written(tmp_path / name, name)
    texts, notes = read(str(tmp_path))
    assert texts == ["a.txt", "inner/kept.log", "own.txt"]
    assert notes == ["read 2 .txt, 1 .log; skipped 3 named in .gitignore"]


def test_a_table_without_text_does_not_stop_a_folder(tmp_path: Path) -> None:
    written(tmp_path / "a.txt", "text")
    written(tmp_path / "n.csv", "x,y\n1,2\n")
    written(tmp_path / "package.json", '{\n  "name": "x"\n}\n')
    texts, notes = read(str(tmp_path))
    assert texts == ["text", '{\n  "name": "x"\n}\n']
    assert notes == ["read 1 .json, 1 .txt; skipped 1 .csv (no text column)"]


MALFORMED = {
    "ragged.csv": "a,b\n1,2,3\n",
    "quote.csv": 'a,b\n"x\n',
    "twice.csv": "a,a\n1,2\n",
    "short.tsv": "x\ty\n1\n",
    "bad.jsonl": '{"text": "a"}\nnot JSON\n',
    "mixed.json": '[{"text": "a"}, 7]',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_table_does_not_stop_a_folder(tmp_path: Path, name: str) -> None:
    """The test data of a program often contains one."""
    written(tmp_path / "a.py", "pass")
    path = written(tmp_path / name, MALFORMED[name])
    texts, notes = read(str(tmp_path))
    assert texts == ["pass"]
    assert notes == [
        f"read 1 .py; skipped 1 {Path(name).suffix} (malformed table)",
        f"skipped (malformed table): {path}",
    ]
    for one in (path, str(tmp_path / "*.[cjt]s*")):  # alone, or nothing but such files
        with pytest.raises(GlassformerError, match=re.escape(path)):
            read(one)


def test_a_table_that_is_malformed_far_down_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.py", "pass")
    rows = "".join(f"some words and number {n}\n" for n in range(300))
    written(tmp_path / "long.csv", f"text\n{rows}one, two\n")
    with pytest.raises(GlassformerError, match=r"long\.csv:302: expected 1 field"):
        read(str(tmp_path))


def test_files_in_an_unknown_encoding_are_named(tmp_path: Path) -> None:
    written(tmp_path / "a.txt", "plain")
    path = written(tmp_path / "b.txt", "café".encode("cp850"))
    assert read(str(tmp_path))[1] == [
        "read 1 .txt; skipped 1 .txt (encoding not recognised)",
        f"skipped (encoding not recognised): {path}",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_skipped(tmp_path: Path) -> None:
    written(tmp_path / "a.txt", "text")
    Path(written(tmp_path / "b.txt", "secret")).chmod(0)
    assert read(str(tmp_path)) == (["text"], ["read 1 .txt; skipped 1 .txt (cannot be read)"])


def test_a_pattern_is_expanded_in_order(tmp_path: Path) -> None:
    for name in ("src/b.py", "src/deep/a.py", "src/c.txt"):
        written(tmp_path / name, name)
    (tmp_path / "src/deep/loop").symlink_to(tmp_path / "src")
    assert read(f"{tmp_path}/src/**/*.py") == (["src/b.py", "src/deep/a.py"], ["read 2 .py"])
    with pytest.raises(GlassformerError, match=r"no file matches .*\.rs\. Check"):
        read(f"{tmp_path}/src/*.rs")


def test_a_file_that_links_lead_to_twice_is_read_once(tmp_path: Path) -> None:
    written(tmp_path / "all/a.txt", "one")
    written(tmp_path / "all/deep/b.txt", "two")
    (tmp_path / "all/c.txt").symlink_to(tmp_path / "all/a.txt")
    (tmp_path / "all/other.txt").symlink_to("deep/b.txt")
    (tmp_path / "all/same").symlink_to(tmp_path / "all/deep")
    found, notes = read(str(tmp_path / "all"))
    assert found == ["one", "two"]
    assert notes == [
        "read 2 .txt; skipped 2 .txt (linked, already read)",
        f"{tmp_path}/all/same is a link to a folder that is read already",
    ]
    found, notes = read(f"{tmp_path}/all/*.txt")
    assert found == ["one", "two"]
    assert notes == ["read 2 .txt; skipped 1 .txt (linked, already read)"]


def test_a_link_to_a_file_elsewhere_is_read(tmp_path: Path) -> None:
    written(tmp_path / "elsewhere.txt", "one")
    (tmp_path / "all").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "all" / name).symlink_to(tmp_path / "elsewhere.txt")
    found, notes = read(str(tmp_path / "all"))
    assert found == ["one"]
    assert notes == ["read 1 .txt; skipped 1 .txt (linked, already read)"]


def test_a_file_whose_name_is_a_pattern_is_that_file(tmp_path: Path) -> None:
    written(tmp_path / "a1.txt", "other")
    assert read(written(tmp_path / "a[1].txt", "this"))[0] == ["this"]


@pytest.mark.parametrize("name", ["a.zip", *TARS])
def test_an_archive_is_a_folder(tmp_path: Path, name: str) -> None:
    make = zipped if name.endswith("zip") else tarred
    files = {"d/a.py": "one", "d/b.txt": "caf\u00e9".encode("latin-1"), "d/c.png": PNG, "d/.h": "x"}
    path = make(tmp_path / name, files)
    texts, notes = read(path)
    assert texts == ["one", "café"]
    assert notes[0] == "read 1 .py, 1 .txt; skipped 1 .png (binary)"
    assert read(f"{path}/d/a.py")[0] == ["one"]
    assert [*tmp_path.iterdir()] == [tmp_path / name]  # nothing is unpacked


@pytest.mark.parametrize("make", [zipped, tarred])
def test_names_that_lead_out_of_an_archive_are_not_read(tmp_path: Path, make: object) -> None:
    files = {"../up.txt": "a", "/root.txt": "b", "in/../../up.txt": "c", "good.txt": "d"}
    path = (zipped if make is zipped else tarred)(
        tmp_path / f"a.{'zip' if make is zipped else 'tar'}", files
    )
    assert read(path)[0] == ["d"]


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("passwd.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(GlassformerError, match="contains no files to read"):
        read(str(tmp_path / "a.tar"))


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz", "bomb.txt.gz"])
def test_a_decompression_bomb_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 2**20)
    zeros = b"0" * 2**22
    path = written(tmp_path / name, zeros)
    if name != "bomb.txt.gz":
        (zipped if name.endswith("zip") else tarred)(tmp_path / name, {"a.txt": zeros})
    with pytest.raises(GlassformerError, match=r"unpacks to more than .*decompression bomb"):
        read(path)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    for name in ("a.zip", "a.tar", "a.tar.gz", "a.tar.xz"):
        path = written(tmp_path / "a" / name, b"")
        Path(path).write_bytes(b"nothing of the kind" * 99)
        with pytest.raises(GlassformerError, match=r"is not .*, or is damaged"):
            read(path)


def test_labels_are_folders_inside_an_archive(tmp_path: Path) -> None:
    files = {f"reviews/{label}/{n}.txt": f"{label} {n}" for label in ("neg", "pos") for n in (1, 2)}
    for path in (zipped(tmp_path / "r.zip", files), tarred(tmp_path / "r.tar.gz", files)):
        found = read_examples([path])
        assert [each.labels for each in found.examples] == [("neg",)] * 2 + [("pos",)] * 2
        assert found.examples[0].source == f"{path}/reviews/neg/1.txt"


def test_labels_are_the_folders_of_a_pattern(tmp_path: Path) -> None:
    for name in ("pos/a.txt", "neg/b.txt"):
        written(tmp_path / name, name)
    by_shell = [str(tmp_path / name) for name in ("neg/b.txt", "pos/a.txt")]
    folders = [str(tmp_path / name) for name in ("neg", "pos")]
    for paths in ([f"{tmp_path}/*/*.txt"], by_shell, folders):
        found = read_examples(paths).examples
        assert [(each.text, each.labels) for each in found] == [
            ("neg/b.txt", ("neg",)),
            ("pos/a.txt", ("pos",)),
        ]


def test_pairs_in_an_archive(tmp_path: Path) -> None:
    files = {"_about.txt": "About this file", "deu.txt": "Go.\tGeh.\tCC-BY\nHi.\tHallo.\tCC-BY\n"}
    path = zipped(tmp_path / "deu-eng.zip", files)
    notes: list[str] = []
    found = pairs_of([path], notes=notes)
    assert [(each.source, each.target) for each in found] == [("Go.", "Geh."), ("Hi.", "Hallo.")]
    assert notes == ["read 1 .txt; skipped 1 .txt (no sentence pairs)"]


def test_tagged_words_in_an_archive(tmp_path: Path) -> None:
    files = {
        "ner/README": "What this is\n\nAnd more of it here\n",
        "ner/train.txt": "EU B-ORG\nis O\n\nBonn B-LOC\n",
    }
    path = tarred(tmp_path / "ner.tar.gz", files)
    assert [each.words for each in read_sentences([path])] == [("EU", "is"), ("Bonn",)]
