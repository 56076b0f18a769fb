"""WARC files: every whole record is given, and what is broken is named."""

import gzip
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from small_warcs import html, prose, record, response, write_warc

from glassformer.corpus import http as http_message
from glassformer.corpus.http import BodyError, parse_message
from glassformer.corpus.pages import listed, tasks_for
from glassformer.corpus.warc import BrokenWarcError, read_records, warc_files
from glassformer.errors import GlassformerError

RECORDS = [response(f"http://a.org/{number}", html(prose(number))) for number in range(5)]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a.warc.zst"])
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


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a.warc.zst"])
def test_a_file_cut_at_any_byte_gives_what_is_whole(tmp_path: Path, name: str) -> None:
    content = write_warc(tmp_path / name, *RECORDS[:2]).read_bytes()
    path = tmp_path / f"cut-{name}"
    first = len(content) - len(write_warc(tmp_path / f"x{name}", RECORDS[1]).read_bytes())
    for end in range(first + 40, len(content) - 10, 97):
        path.write_bytes(content[:end])
        damage: list[BrokenWarcError] = []
        records = read_records(path, damage=damage.append)
        assert next(records).url == "http://a.org/0"
        list(records)
        (error,) = damage
        assert f"byte {end:,}: the file ends" in str(error)
        assert "What comes before it was read." in str(error)


@pytest.mark.parametrize("name", ["a.warc.gz", "a.warc.zst"])
def test_one_damaged_byte_loses_only_its_member(tmp_path: Path, name: str) -> None:
    path = write_warc(tmp_path / name, *RECORDS)
    content, offsets = path.read_bytes(), [each.offset for each in read_records(path)]
    num_lost = 0
    for number, begin in enumerate(offsets[:-1]):
        end = offsets[number + 1]
        for byte in {*range(begin, begin + 20), *range(begin, end, 17), *range(end - 9, end)}:
            path.write_bytes(content[:byte] + bytes((content[byte] ^ 8,)) + content[byte + 1 :])
            found = listed(path)
            assert found["num_records"] + sum(found["hidden"].values()) == 5, byte
            if not found["notes"]:  # bits that mean nothing, such as the time in a gzip header
                assert _whole(path) == [0, 1, 2, 3, 4], byte
                continue
            assert _whole(path) == [each for each in range(5) if each != number], byte
            assert f"byte {begin:,}: " in found["notes"][0]
            assert found["notes"][0].endswith(f"Reading went on at byte {end:,}.")
            num_lost += 1
    assert num_lost > 150


def _whole(path: Path, offset: int = 0) -> list[int]:
    """The numbers of the records that can be read to their ends."""
    found = []
    for each in read_records(path, offset):
        with suppress(BrokenWarcError):
            assert each.beginning(each.length) in RECORDS[int(each.url[-1])]
            found.append(int(each.url[-1]))
    return found


@pytest.mark.parametrize("name", ["a.warc.gz", "a.warc.zst"])
def test_damage_is_the_same_wherever_reading_begins(tmp_path: Path, name: str) -> None:
    many = [response(f"http://a.org/{n % 10}", bytes(n % 250 for _ in range(n))) for n in range(99)]
    content = bytearray(write_warc(tmp_path / name, *many).read_bytes())
    for byte in range(700, len(content) - 200, 1900):
        content[byte : byte + 60] = b"\xa5" * 60
    (tmp_path / name).write_bytes(content)
    every = [(each.offset, each.url) for each in read_records(tmp_path / name)]
    assert len(every) < 99
    for offset, _ in every:
        found = [(each.offset, each.url) for each in read_records(tmp_path / name, offset)]
        assert found == [each for each in every if each[0] >= offset]


def test_a_member_is_whole_only_if_its_checksum_is_right(tmp_path: Path) -> None:
    path = write_warc(tmp_path / "a.warc.gz", *RECORDS)
    (_, second, *_) = read_records(path)
    content = bytearray(path.read_bytes())
    content[second.offset - 6] ^= 1
    path.write_bytes(content)
    assert _whole(path) == [1, 2, 3, 4]


def test_many_damaged_places_are_counted_and_some_are_shown(tmp_path: Path) -> None:
    path = write_warc(tmp_path / "a.warc.gz", *RECORDS)
    content = bytearray(path.read_bytes())
    for each in list(read_records(path))[:-1]:
        content[each.offset + 1] = 0
    path.write_bytes(content)
    found = listed(path)
    assert (found["num_records"], found["num_damaged"], found["hidden"]) == (1, 1, {"damaged": 1})
    many = write_warc(tmp_path / "b.warc.gz", *RECORDS * 3)
    content = bytearray(many.read_bytes())
    for each in list(read_records(many))[1::2]:
        content[each.offset + 1] = 0
    many.write_bytes(content)
    found = listed(many)
    assert (found["num_records"], found["num_damaged"], found["hidden"]) == (8, 7, {"damaged": 7})
    assert (len(found["notes"]), found["notes"][-1]) == (4, f"{many}: 4 more damaged places.")


@pytest.mark.parametrize("length", [-1, 10**6])
def test_a_member_that_swallows_the_rest_of_the_file_is_damaged(
    tmp_path: Path, length: int
) -> None:
    stored = zlib.compressobj(0, zlib.DEFLATED, 31)  # a block of bytes, with its length
    first = record("response", b"x" * 100, "http://a.org/0", length=length)
    first = stored.compress(first) + stored.flush()
    longer = first[:11] + b"\xff\xff\x00\x00" + first[15:]
    path = tmp_path / "a.warc.gz"
    path.write_bytes(longer + b"".join(gzip.compress(each) for each in RECORDS[1:]))
    assert _whole(path) == [1, 2, 3, 4]
    assert f"{path}, byte 0: " in listed(path)["notes"][0]
    assert f"Reading went on at byte {len(first):,}." in listed(path)["notes"][0]


def test_zeros_at_the_end_are_padding_and_elsewhere_damage(tmp_path: Path) -> None:
    packed = gzip.compress(RECORDS[0])
    path = tmp_path / "a.warc.gz"
    path.write_bytes(packed + bytes(10**6))
    assert (listed(path)["num_records"], listed(path)["notes"]) == (1, [])
    path.write_bytes(packed + bytes(10**6) + packed)
    found = listed(path)
    assert (found["num_records"], found["num_damaged"]) == (2, 1)


@pytest.mark.parametrize("name", ["a.warc.gz", "a.warc.zst"])
def test_a_member_that_unpacks_to_zeros_does_not_hide_what_follows(
    tmp_path: Path, name: str
) -> None:
    path = write_warc(tmp_path / name, RECORDS[0] + bytes(10**8), RECORDS[1])
    assert _whole(path) == [0, 1]
    assert len(listed(path)["notes"]) == 1


# --- Zstandard ---


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_dictionary_at_the_beginning_of_a_file_is_used(tmp_path: Path, is_packed: bool) -> None:
    import zstandard

    texts = [response(f"http://a.org/{n}", html(prose(n))) for n in range(200)]
    trained = zstandard.train_dictionary(4096, texts)
    packed = zstandard.compress(trained.as_bytes()) if is_packed else trained.as_bytes()
    compress = zstandard.ZstdCompressor(dict_data=trained, write_checksum=True).compress
    extension = b"\x50\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"comment"
    path = tmp_path / "a.warc.zst"
    path.write_bytes(
        b"\x5d\x2a\x4d\x18" + len(packed).to_bytes(4, "little") + packed
        + compress(RECORDS[0]) + extension + compress(RECORDS[1][:99]) + compress(RECORDS[1][99:])
        + extension + compress(b"") + compress(RECORDS[2])
    )  # fmt: skip
    assert _whole(path) == [0, 1, 2]
    offsets = [each.offset for each in read_records(path)]
    assert [_whole(path, offset) for offset in offsets[1:]] == [[1, 2], [2]]
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(GlassformerError, match="the dictionary at its beginning is damaged"):
        listed(path)


@pytest.mark.parametrize("length", [2**32 - 1, 900])
def test_a_wrong_length_of_an_extension_hides_nothing(tmp_path: Path, length: int) -> None:
    path = write_warc(tmp_path / "a.warc.zst", *RECORDS)
    content, offset = path.read_bytes(), list(read_records(path))[1].offset
    extension = b"\x50\x2a\x4d\x18" + length.to_bytes(4, "little")
    path.write_bytes(content[:offset] + extension + content[offset:])
    assert _whole(path) == [0, 1, 2, 3, 4]
    assert "expected a Zstandard frame here" in listed(path)["notes"][0]


def test_a_file_that_was_compressed_as_a_whole_is_read(tmp_path: Path) -> None:
    import zstandard

    path = tmp_path / "a.warc.zst"
    path.write_bytes(zstandard.compress(b"".join(RECORDS)))
    assert _whole(path) == [0, 1, 2, 3, 4]
    assert [each.is_seekable for each in read_records(path)] == [True, *[False] * 4]


def test_damage_in_a_plain_file_names_the_byte_of_the_record(tmp_path: Path) -> None:
    bad = RECORDS[1].replace(b"Content-Length: ", b"Content-Length: x")
    path = write_warc(tmp_path / "a.warc", RECORDS[0], bad, RECORDS[1])
    assert f"byte {len(RECORDS[0]):,}: a record without" in listed(path)["notes"][0]


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
    path = write_warc(tmp_path / "a.warc.gz", RECORDS[0], bomb, RECORDS[1])
    found = listed(path)
    assert "decompression bomb" in found["notes"][0]
    assert (found["num_records"], found["hidden"]) == (3, {})


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


@pytest.mark.parametrize("split", range(4))
def test_a_body_of_several_gzip_members_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch, split: int
) -> None:
    first = gzip.compress(b"one ")
    # A block of the body may end within the first bytes of the next member.
    monkeypatch.setattr(http_message, "_AT_ONCE", len(first) + split)
    assert body("Content-Encoding: gzip", first + gzip.compress(b"two")) == b"one two"


def test_brotli_is_undone() -> None:
    brotli = pytest.importorskip("brotli")
    page = html(prose(1)).encode() * 3
    packed = brotli.compress(page)
    assert body("Content-Encoding: br", packed, 10**5) == page
    assert body("Content-Encoding: gzip, br", brotli.compress(gzip.compress(page)), 10**5) == page
    for content, rule in (
        (brotli.compress(bytes(10**8)), "too_large"),
        (packed[:-9], "compression"),
        (packed[:40] + b"\xff" * 40 + packed[80:], "compression"),
    ):
        with pytest.raises(BodyError) as error:
            body("Content-Encoding: br", content, 10**4)
        assert error.value.rule == rule


def test_pages_that_need_brotli_are_counted_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_message, "has_brotli", lambda: False)
    with pytest.raises(BodyError, match=r"glassformer\[corpus\]") as error:
        body("Content-Encoding: br", b"\x8b\x0f\x80abc")
    assert error.value.rule == "brotli"


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
        body("Content-Encoding: lz77", b"\x8b\x0f\x80abc")
    assert error.value.rule == "compression"
