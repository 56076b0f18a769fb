"""Text that cannot be read is refused with the place and the reason."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.tables import read_rows as rows_of
from glassformer.data.text_files import check_encoding
from glassformer.errors import GlassformerError, UsageError


def written(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def values(path: Path, encoding: str = "utf-8") -> list[dict[str, object]]:
    return [row.values for row in rows_of(path, encoding)]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@given(good=st.integers(0, 30_000))
def test_the_offset_of_a_bad_byte_is_right_however_far_in(
    tmp_path_factory: pytest.TempPathFactory, name: str, good: int
) -> None:
    before = b"text\n" + b"x" * good
    path = written(tmp_path_factory.mktemp("bad") / name, before + b"\xff\n" + b"more\n" * 5_000)
    with pytest.raises(GlassformerError) as error:
        values(path, "shift_jis")
    assert f", byte {len(before):,}: invalid shift_jis (0xFF)." in str(error.value)


@pytest.mark.parametrize("cut", [10, 40])
def test_a_gzip_that_breaks_off_or_is_none_is_refused(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "a.csv.gz", "text\n" + "".join(map(str, range(5000))))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(GlassformerError, match=r"a\.csv\.gz is truncated"):
        values(path)
    path.write_bytes(b"text\nplain\n")
    with pytest.raises(GlassformerError, match=r"a\.csv\.gz is not gzip"):
        values(path)


@pytest.mark.parametrize("name", ["utf8x", "rot13", "utf-8\0", ""])
def test_an_unknown_encoding_is_wrong_usage(name: str) -> None:
    with pytest.raises(UsageError, match="unknown encoding"):
        check_encoding(name)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "UTF-16LE", "utf-16-be", "utf-32-le", "utf-16"])
def test_a_byte_order_mark_is_not_text(tmp_path: Path, name: str, encoding: str) -> None:
    text = "text\nHällo\n" if encoding == "utf-16" else "\ufefftext\nHällo\n"  # it adds its own
    path = written(tmp_path / name, text.encode(encoding))
    assert values(path, encoding) == [{"text": "Hällo"}]


@pytest.mark.parametrize("encoding", ["utf-16-le", "latin-1"])
def test_only_the_first_byte_order_mark_is_removed(tmp_path: Path, encoding: str) -> None:
    text = "ÿþ" if encoding == "latin-1" else "\ufeff\ufeff"
    path = written(tmp_path / "a.tsv", f"{text}\n1\n".encode(encoding))
    (name,) = values(path, encoding)[0]
    assert name == (text if encoding == "latin-1" else "\ufeff")
