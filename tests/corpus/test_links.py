"""Links from dumps of posts: what is kept, what is dropped by which rule, and what is an error."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from glassformer.corpus import posts as dumps
from glassformer.corpus.links import RULES, LinkRules, Links, collect_links, read_domains
from glassformer.errors import GlassformerError, UsageError

Post = dict[str, Any]


def post(url: Any = "http://a.org/x", score: Any = 5, **more: Any) -> Post:
    return {"url": url, "score": score, "title": "A title"} | more


def as_lines(*posts: Post) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in posts).encode()


def as_csv(*posts: Post) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(posts[0]))
    writer.writeheader()
    writer.writerows(posts)
    return text.getvalue().encode()


def collected(folder: Path, *posts: Post, **options: Any) -> Links:
    (folder / "posts.jsonl").write_bytes(as_lines(*posts))
    rules = LinkRules(**options)
    return collect_links([str(folder / "posts.jsonl")], folder / "links", rules, force=True)


def kept(folder: Path) -> list[Post]:
    return [
        json.loads(line) for line in (folder / "links" / "links.jsonl").read_text().splitlines()
    ]


def drops(links: Links) -> dict[str, int]:
    assert links.read == links.kept + sum(links.dropped.values())
    return {rule: count for rule, count in links.dropped.items() if count}


# --- rules ---


def test_of_four_posts_one_link_is_kept(tmp_path: Path) -> None:
    found = collected(
        tmp_path,
        post("http://a.org/1", 2),
        post("http://a.org/2", 3),
        post("https://www.a.org/2/?utm_source=reddit#top", 3),
        post("https://www.reddit.com/r/a/comments/1/x/", 30, is_self=True),
    )
    assert (found.read, found.kept) == (4, 1)
    assert drops(found) == {"low_score": 1, "self_post": 1, "duplicate": 1}
    assert list(found.as_json()) == ["read", "kept", "dropped"]
    assert list(found.dropped) == list(RULES)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (post(score=2), "low_score"),
        (post(score="2.0"), "low_score"),
        (post(score=None), "no_score"),
        (post(score="many"), "no_score"),
        (post(score=float("nan")), "no_score"),
        (post(is_self=True), "self_post"),
        (post(is_self="True"), "self_post"),
        (post(domain="self.askscience"), "self_post"),
        (post(""), "no_url"),
        (post(None), "no_url"),
        (post("ftp://a.org/x"), "not_http"),
        (post("http://127.0.0.1/x"), "bad_url"),
        (post("http://localhost/x"), "bad_url"),
        (post(over_18=True), "adult"),
        (post("http://www.xvideos.com/x"), "adult"),
        (post("http://someporn.net/x"), "adult"),
        (post("http://redd.it/x"), "excluded_domain"),
        (post("/r/science/comments/1"), "excluded_domain"),
        (post("http://bit.ly/x"), "excluded_domain"),
        (post("http://m.facebook.com/x"), "excluded_domain"),
        (post("http://i.imgur.com/x"), "media"),
        (post("http://i.redd.it/x"), "media"),
        (post("http://a.org/x.JPG?w=400"), "media"),
        (post("http://en.wikipedia.org/wiki/File:Troops.jpg"), "media"),
        (post("http://a.org/paper.pdf"), "not_a_page"),
        (post("http://a.org/paper.tar.gz"), "not_a_page"),
    ],
)
def test_a_post_is_dropped_by_its_rule(given: Post, rule: str, tmp_path: Path) -> None:
    assert drops(collected(tmp_path, given, post("http://kept.org/"))) == {rule: 1}


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://a.org/x.html",
            "http://a.org/x.php?file=y.pdf",
            "http://en.wikipedia.org/wiki/A.zip",
        ),
        *("http://en.wikipedia.org/wiki/Node.js", "http://fgnass.github.com/spin.js/"),
        *("http://essex.ac.uk/x", "http://a.org/v1.0", "http://t.company.org/", "http://x.com.au/"),
    ],
)
def test_pages_that_look_like_something_else_are_kept(url: str, tmp_path: Path) -> None:
    assert collected(tmp_path, post(url)).kept == 1


def test_quirks_of_dumps_are_understood(tmp_path: Path) -> None:
    origin = {"url": "http://origin.org/x", "is_self": False}
    collected(
        tmp_path,
        post("http://a.org/?b=1&amp;copy=2&amp;amp;d", "12.0", title="Q &amp; A\n"),
        {"url": "http://ups.org/", "ups": 7, "subreddit": "science"},
        post(
            "/r/a/comments/2/y/", 9, crosspost_parent_list=[origin], permalink="/r/a/comments/2/y/"
        ),
        {"title": "no url", "score": 3},
    )
    found = {each["domain"]: each for each in kept(tmp_path)}
    assert found["a.org"]["url"] == "http://a.org/?b=1&copy=2&d"
    assert (found["a.org"]["score"], found["a.org"]["title"]) == (12, "Q & A")
    assert (found["ups.org"]["score"], found["ups.org"]["subreddit"]) == (7, "science")
    assert (found["origin.org"]["score"], found["origin.org"]["subreddit"]) == (9, "a")
    assert len(found) == 3


def test_the_best_score_is_kept_whatever_the_order(tmp_path: Path) -> None:
    posts = [post(f"http://a{n % 7}.org/", n % 5 + 3, title=f"{n}") for n in range(40)]
    collected(tmp_path, *posts)
    first = (tmp_path / "links" / "links.jsonl").read_bytes()
    collected(tmp_path, *reversed(posts))
    assert (tmp_path / "links" / "links.jsonl").read_bytes() == first
    assert {each["score"] for each in kept(tmp_path)} == {7}


def test_domains_can_be_excluded_and_included(tmp_path: Path) -> None:
    file = tmp_path / "domains.txt"
    file.write_text("# mine\nA.org   # all of it\n\nwww.twitter.com\n")
    domains = read_domains(file)
    posts = [post(f"http://{host}/") for host in ("x.a.org", "b.org", "twitter.com")]
    assert drops(collected(tmp_path, *posts, exclude=domains)) == {"excluded_domain": 2}
    assert drops(collected(tmp_path, *posts, include=domains)) == {"not_included_domain": 1}


@pytest.mark.parametrize("line", ["localhost", "http://a.org", "a.org/path", "not a domain"])
def test_a_line_that_is_no_domain_is_an_error_that_names_it(line: str, tmp_path: Path) -> None:
    file = tmp_path / "domains.txt"
    file.write_text(f"a.org\n{line}\n")
    with pytest.raises(GlassformerError, match=r"domains.txt:2: .* is not a domain"):
        read_domains(file)


# --- files ---


POSTS = [post(f"http://a{n}.org/", n, title=f'"{n}", é\nnext') for n in range(10)]
LISTING = {"kind": "Listing", "data": {"children": [{"kind": "t3", "data": p} for p in POSTS]}}
FILES = {
    "posts.jsonl": as_lines(*POSTS),
    "posts.ndjson": b"\xef\xbb\xbf" + as_lines(*POSTS).replace(b"\n", b"\r\n\n"),
    "posts.json": json.dumps(POSTS, indent=2).encode(),
    "lines.json": as_lines(*POSTS),
    "top.json": json.dumps(LISTING).encode(),
    "posts.csv": as_csv(*POSTS),
    "posts of a spreadsheet.csv": b"sep=,\r\n" + as_csv(*POSTS),
    "posts.jsonl.gz": gzip.compress(as_lines(*POSTS)),
    "posts.csv.gz": gzip.compress(as_csv(*POSTS)),
    "RS_2013-08.zst": zstandard.compress(as_lines(*POSTS)),
    "frames.jsonl.zst": b"".join(map(zstandard.compress, as_lines(*POSTS).splitlines(True))),
}


@pytest.mark.parametrize("name", FILES)
def test_every_form_of_file_gives_the_same_links(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    found = collect_links([str(tmp_path / name)], tmp_path / "links", LinkRules())
    assert (found.read, found.kept) == (10, 7)
    assert {each["score"] for each in kept(tmp_path)} == set(range(3, 10))


@pytest.mark.parametrize("separator", ";\t|")
def test_the_separator_of_a_table_is_recognised(separator: str, tmp_path: Path) -> None:
    lines = [separator.join(("Score", "URL")), separator.join(("3", "http://a.org/"))]
    (tmp_path / "p.csv").write_text("\n".join(lines))
    assert collect_links([str(tmp_path / "p.csv")], tmp_path / "links", LinkRules()).kept == 1


def test_folders_are_read_and_other_files_in_them_reported(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    (folder / "deeper").mkdir(parents=True)
    for name in ("posts.jsonl", "posts.csv", "deeper/RS_2013-08.zst"):
        (folder / name).write_bytes(FILES[Path(name).name])
    (folder / "README.md").write_text("about")
    said: list[str] = []
    found = collect_links([str(folder)], tmp_path / "links", LinkRules(), notify=said.append)
    assert (found.read, found.kept, found.dropped["duplicate"]) == (30, 7, 14)
    assert said == ["skipped 1 file without posts: README.md."]


def test_a_window_of_two_gigabytes_is_read(tmp_path: Path) -> None:
    settings = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    (tmp_path / "RS_x.zst").write_bytes(packer.compress(as_lines(*POSTS)) + packer.flush())
    assert collect_links([str(tmp_path / "RS_x.zst")], tmp_path / "links", LinkRules()).kept == 7


@pytest.mark.parametrize("name", ["posts.jsonl.gz", "RS_2013-08.zst", "frames.jsonl.zst"])
@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_truncated_file_is_one_sentence(name: str, cut: int, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name][:-cut])
    with pytest.raises(GlassformerError, match=rf"{name} is truncated. Download it again."):
        collect_links([str(tmp_path / name)], tmp_path / "links", LinkRules())
    assert sorted(each.name for each in tmp_path.iterdir()) == [name]


@pytest.mark.parametrize("name", ["posts.jsonl.gz", "RS_2013-08.zst"])
def test_a_file_of_another_kind_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"<html>404 not found</html>")
    with pytest.raises(GlassformerError, match=r"or is damaged\. Download it again\."):
        collect_links([str(tmp_path / name)], tmp_path / "links", LinkRules())


def test_a_line_without_end_is_skipped_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dumps, "LONGEST_LINE", 10**5)
    content = as_lines(POSTS[5]) + b"[" * 10**7 + b"\n" + as_lines(POSTS[6])
    (tmp_path / "RS_x.zst").write_bytes(zstandard.compress(content))
    found = collect_links([str(tmp_path / "RS_x.zst")], tmp_path / "links", LinkRules())
    assert (found.read, found.kept, found.dropped["malformed"]) == (3, 2, 1)


def test_bad_lines_are_reported_counted_and_limited(tmp_path: Path) -> None:
    bad = b'{"url": \n[1]\n\xff\xfe\n'
    (tmp_path / "p.jsonl").write_bytes(as_lines(POSTS[5]) + bad + as_lines(POSTS[6]))
    said: list[str] = []
    links = ([str(tmp_path / "p.jsonl")], tmp_path / "links", LinkRules())
    found = collect_links(*links, max_bad_lines=3, notify=said.append)
    assert (found.kept, drops(found)) == (2, {"malformed": 3})
    assert [text.split(": ")[0].rpartition("/")[2] for text in said] == [
        *("p.jsonl:2", "p.jsonl:3", "p.jsonl:4"),
    ]
    with pytest.raises(GlassformerError, match=r"p.jsonl:4: .*larger --max-bad-lines"):
        collect_links(*links, max_bad_lines=2, force=True)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("score,title\n3,x\n", r"has no column url \(columns: score, title\)"),
        ("url,title\nhttp://a.org,x\n", r"has no column score \(or ups\) \(columns: title, url\)"),
        ("", r"has no column url \(columns: none\)"),
        ('score,url\n3,"http://a.org\n4,http://b.org\n', r"p.csv:2: invalid CSV"),
    ],
)
def test_a_table_without_its_columns_names_those_there_are(
    content: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "p.csv").write_text(content)
    with pytest.raises(GlassformerError, match=problem):
        collect_links([str(tmp_path / "p.csv")], tmp_path / "links", LinkRules())


def test_comments_instead_of_posts_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match=r"no column url \(columns: body, score\).*comments"):
        collected(tmp_path, {"body": "I agree.", "score": 4})


def test_a_row_with_other_columns_is_a_bad_line(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("score,url\n3,http://a.org\n3,http://b.org,x\n4\n")
    found = collect_links([str(tmp_path / "p.csv")], tmp_path / "links", LinkRules())
    assert (found.kept, drops(found)) == (1, {"malformed": 2})


def test_lines_of_other_encodings_are_read_or_refused(tmp_path: Path) -> None:
    text = "score,url,title\n5,http://caf\u00e9.org/,\u201ccaf\u00e9\u201d\n"
    (tmp_path / "p.csv").write_text(text, encoding="windows-1252")
    collect_links([str(tmp_path / "p.csv")], tmp_path / "links", LinkRules())
    (link,) = kept(tmp_path)
    assert (link["domain"], link["title"]) == ("xn--caf-dma.org", "\u201ccaf\u00e9\u201d")


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("name", ["p.csv", "p.jsonl", "p.json"])
def test_utf_16_is_refused(name: str, codec: str, tmp_path: Path) -> None:
    content = as_csv(*POSTS) if name == "p.csv" else as_lines(*POSTS)
    (tmp_path / name).write_text(content.decode(), encoding=codec)
    with pytest.raises(
        GlassformerError, match=r"is not UTF-8\. If it is text in UTF-16, save it as"
    ):
        collect_links([str(tmp_path / name)], tmp_path / "links", LinkRules())


def test_half_a_character_makes_a_url_invalid(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"url": "http://a.com/x\\ud800y", "score": 5}\n')
    found = collect_links([str(tmp_path / "p.jsonl")], tmp_path / "links", LinkRules())
    assert (found.kept, drops(found)) == (0, {"bad_url": 1})


def test_files_without_a_post_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match=r"contains no posts"):
        collected(tmp_path)
    assert not (tmp_path / "links").exists()


# --- the folder ---


def test_the_manifest_has_counts_settings_and_hashes(tmp_path: Path) -> None:
    found = collected(tmp_path, *POSTS, min_score=5)
    manifest = json.loads((tmp_path / "links" / "manifest.json").read_text())
    assert {name: manifest[name] for name in ("read", "kept", "dropped")} == found.as_json()
    assert manifest["settings"]["min_score"] == 5
    assert manifest["files"]["links.jsonl"]["bytes"] > 0
    assert str(tmp_path) not in (tmp_path / "links" / "manifest.json").read_text()


def test_a_folder_is_replaced_only_on_request_and_only_if_it_has_links(tmp_path: Path) -> None:
    (tmp_path / "posts.jsonl").write_bytes(as_lines(*POSTS))
    names, out = [str(tmp_path / "posts.jsonl")], tmp_path / "links"
    collect_links(names, out, LinkRules())
    with pytest.raises(UsageError, match="--force"):
        collect_links(names, out, LinkRules())
    collect_links(names, out, LinkRules(), force=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="contains something else"):
        collect_links(names, tmp_path / "home", LinkRules(), force=True)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "precious"


def test_a_missing_or_unknown_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "posts.parquet").write_bytes(b"PAR1")
    for name, problem in (("nowhere.jsonl", "does not exist"), ("posts.parquet", "not a file of")):
        with pytest.raises(GlassformerError, match=problem):
            collect_links([str(tmp_path / name)], tmp_path / "links", LinkRules())
