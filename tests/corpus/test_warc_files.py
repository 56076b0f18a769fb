"""WARC files: every whole record is given, and what is broken is named."""

import gzip
from pathlib import Path

import pytest
from small_warcs import html, prose, record, response, write_warc

from glassformer.corpus.http_message import BodyError, parse_message
from glassformer.corpus.record_listing import listed, tasks_for
from glassformer.corpus.warc_files import BrokenWarcError, read_records, warc_files
from glassformer.errors import GlassformerError

RECORDS = [response(f"http://a.org/{number}", html(prose(number))) for number in range(5)]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_reading_can_begin_with_any_record(tmp_path: Path, name: str) -> None:
    path = write_warc(tmp_path / name, *RECORDS)
    found = [(each.url, each.offset) for each in read_records(path)]
    assert [url for url, _ in found] == [f"http://a.org/{number}" for number in range(5)]
    for number, (_, offset) in enumerate(found):
        assert next(read_records(path, offset)).url == found[number][0]


def test_a_file_that_is_one_gzip_member_is_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "one.warc.gz"
    path.write_bytes(gzip.compress(b"".join(RECORDS)))
    assert [each.is_seekable for each in read_records(path)] == [True, *[False] * 4]
    assert len(listed(path)["slices"]) == 1


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_a_file_cut_at_any_byte_gives_what_is_whole(tmp_path: Path, name: str) -> None:
    content = write_warc(tmp_path / name, *RECORDS[:2]).read_bytes()
    path = tmp_path / f"cut-{name}"
    first = len(content) - len(write_warc(tmp_path / f"x{name}", RECORDS[1]).read_bytes())
    for end in range(first + 40, len(content) - 10, 97):
        path.write_bytes(content[:end])
        records = read_records(path)
        assert next(records).url == "http://a.org/0"
        with pytest.raises(BrokenWarcError, match=rf"byte {end:,}: the file ends"):
            list(records)


def test_damage_inside_a_file_names_the_byte_of_the_record(tmp_path: Path) -> None:
    path = write_warc(tmp_path / "a.warc.gz", *RECORDS)
    offset = list(read_records(path))[2].offset
    content = bytearray(path.read_bytes())
    content[offset + 30 : offset + 60] = b"\xff" * 30
    path.write_bytes(content)
    found = listed(path)
    assert found["num_records"] in (2, 3)
    assert f"byte {offset:,}: " in found["broken"]["note"]


def test_damage_in_a_plain_file_names_the_byte_of_the_record(tmp_path: Path) -> None:
    bad = RECORDS[1].replace(b"Content-Length: ", b"Content-Length: x")
    path = write_warc(tmp_path / "a.warc", RECORDS[0], bad, RECORDS[1])
    assert f"byte {len(RECORDS[0]):,}: a record without" in listed(path)["broken"]["note"]


@pytest.mark.parametrize(
    "content",
    [b"<html>no</html>", gzip.compress(b"text"), b"\x1f\x8bxx"],
    ids=["html", "gzip", "broken gzip"],  # the bytes of gzip hold the time
)
def test_a_file_that_is_not_warc_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(content)
    with pytest.raises(GlassformerError, match=r"a\.warc\.gz is not a WARC file"):
        listed(path)


def test_a_record_that_unpacks_without_end_stops_at_the_limit(tmp_path: Path) -> None:
    bomb = record(
        "response", b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 10**6, "http://b.org", "x/y", 2**40
    )
    path = write_warc(tmp_path / "a.warc.gz", RECORDS[0], bomb)
    assert "decompression bomb" in listed(path)["broken"]["note"]


def test_a_folder_stands_for_its_warc_files(tmp_path: Path) -> None:
    for name in ("b.warc.gz", "in/a.warc", "links.jsonl"):
        write_warc(tmp_path / name, RECORDS[0])
    found = [path.name for path in warc_files([str(tmp_path)])]
    assert found == ["b.warc.gz", "a.warc"]
    with pytest.raises(GlassformerError, match="contains no WARC files"):
        warc_files([_empty(tmp_path)])
    with pytest.raises(GlassformerError, match=r"none\.warc does not exist"):
        warc_files(["none.warc"])


def _empty(folder: Path) -> str:
    (folder / "empty").mkdir()
    (folder / "empty/notes.txt").write_text("x")
    return str(folder / "empty")


def test_tasks_contain_every_record_once_whatever_their_number(tmp_path: Path) -> None:
    many = [response(f"http://a.org/{number}", "x") for number in range(300)]
    paths = [write_warc(tmp_path / "a.warc.gz", *many), write_warc(tmp_path / "b.warc", *many[:50])]
    tasks = tasks_for([listed(path) for path in paths])
    assert len(tasks) > 1
    assert sum(each.num_pages for task in tasks for each in task) == 350


# --- HTTP ---


def body(headers: str, content: bytes, most: int = 1000) -> bytes:
    message = parse_message(f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n".encode() + content)
    assert message is not None
    return message.body(most)


def test_chunks_and_compression_are_undone() -> None:
    packed = gzip.compress(b"hello")
    chunked = b"%x\r\n%b\r\n%x;a=b\r\n%b\r\n0\r\n\r\n" % (
        5,
        packed[:5],
        len(packed) - 5,
        packed[5:],
    )
    both = "Transfer-Encoding: chunked\r\nContent-Encoding: gzip"
    assert body(both, chunked) == b"hello"
    assert body("Content-Encoding: gzip", packed) == b"hello"


def test_a_body_that_was_stored_decoded_is_taken_as_it_is() -> None:
    assert body("Content-Encoding: gzip", b"<p>x") == b"<p>x"
    assert body("Transfer-Encoding: chunked", b"<p>x") == b"<p>x"
    assert body("Content-Encoding: br", b"<p>x") == b"<p>x"


def test_a_compressed_bomb_is_too_large() -> None:
    bomb = gzip.compress(b"a" * 10**7)
    for headers, content in (
        ("Content-Encoding: gzip", bomb),
        ("Content-Encoding: gzip, gzip", gzip.compress(bomb)),
    ):
        with pytest.raises(BodyError) as error:
            body(headers, content)
        assert error.value.rule == "too_large"
    with pytest.raises(BodyError) as error:
        body("Content-Encoding: br", b"\x8b\x0f\x80abc")
    assert error.value.rule == "compression"
