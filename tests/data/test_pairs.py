"""Every format gives the same pairs, and what is left out of training is always said."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.config import parse
from glassformer.data.pairs import Pair, PairsConfig, PairSplit, pairs_of, read_pairs
from glassformer.data.tables import EmptyError
from glassformer.errors import GlassformerError, UsageError

EXPECTED = [("Go.", "Va !"), ("Good day, Tom.", "Bonjour, Tom.")]

PO = """# a header
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: main.c:3
msgctxt "menu"
msgid "Go."
msgstr "Va !"

msgid ""
"Good day,\\n"
"Tom."
msgstr "Bonjour,\\tTom."
"""


def tmx(*units: str, header: str = '<header srclang="en"/>', before: str = "") -> str:
    body = "\n".join(units)
    top = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">'
    return f'{before or top}\n<tmx version="1.4">{header}<body>\n{body}\n</body></tmx>\n'


def unit(**texts: str) -> str:
    variants = (
        f'<tuv xml:lang="{language.replace("_", "-")}"><seg>{text}</seg></tuv>'
        for language, text in texts.items()
    )
    return f"<tu>{''.join(variants)}</tu>"


TMX = tmx(unit(en_US="Go.", fr="Va !"), unit(FR="Bonjour,\n  Tom.", EN="Good day, Tom."))


def written(path: Path, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def sides(path: str, **options: Any) -> list[tuple[str, str]]:
    found = pairs_of([path], **options)
    return [(pair.source, pair.target) for pair in found]


def complaint(path: str, **options: str) -> str:
    with pytest.raises(GlassformerError) as error:
        sides(path, **options)
    return str(error.value)


def split(path: str = "", seed: int = 0, **settings: object) -> PairSplit:
    values = {"paths": path, **settings} if path else settings
    return read_pairs(PairsConfig.model_validate(values), seed)


def tabbed(*pairs: tuple[str, str]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def many(number: int, start: int = 0) -> list[tuple[str, str]]:
    return [(f"sentence {n}", f"phrase {n}") for n in range(start, start + number)]


# --- formats ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "Go.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.tsv", "\ufeffGo.\tVa !\tCC-BY 2.0\r\n\r\nGood  day, Tom. \tBonjour,\u00a0Tom.\tCC\tx"),
        ("a.txt", "Go.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.txt.gz", "Go.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.tsv", "Source\tTarget\nGo.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.tsv", "id\ttrg\tsrc\n1\tVa !\tGo.\n2\tBonjour, Tom.\tGood day, Tom.\n"),
        ("a.tsv", "EN\tfr\nGo.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.tsv", "eng_Latn\tfra_Latn\nGo.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.csv", 'target,source\nVa !,Go.\n"Bonjour, Tom.","Good day, Tom."\n'),
        ("a.csv.gz", 'id,en,fr\nx1,Go.,Va !\nx2,"Good day, Tom.","Bonjour, Tom."\n'),
        ("a.csv", 'one,n,other\nGo.,1,Va !\n"Good day,\nTom.",2,"Bonjour, Tom."\n'),
        (
            "a.jsonl",
            '{"src": "Go.", "tgt": "Va !", "score": 1}\n'
            '{"src": "Good day, Tom.", "tgt": "Bonjour, Tom."}\n',
        ),
        (
            "a.jsonl",
            '{"id": 1, "translation": {"en": "Go.", "fr": "Va !"}}\n'
            '{"id": 2, "translation": {"fr": "Bonjour, Tom.", "en": "Good day, Tom."}}\n',
        ),
        ("a.po", PO),
        ("a.po.gz", PO),
        ("a.tmx", TMX),
        ("a.tmx.gz", TMX),
        ("a.TMX", TMX.encode("utf-8").replace(b"UTF-8", b"UTF-16").decode().encode("utf-16")),
    ],
)
def test_every_format_gives_the_same_pairs(tmp_path: Path, name: str, content: str | bytes) -> None:
    path = written(tmp_path / name, content)
    assert sides(path) == EXPECTED
    assert sides(path, reverse=True) == [(target, source) for source, target in EXPECTED]


@pytest.mark.parametrize("is_packed", [False, True])
def test_parquet(tmp_path: Path, is_packed: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"de": source, "fr": target} for source, target in EXPECTED]
    columns = {"translation": rows} if is_packed else {k: [r[k] for r in rows] for k in rows[0]}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    path = written(tmp_path / "a.parquet", buffer.getvalue())
    assert sides(path) == EXPECTED
    assert sides(path, source_column="fr") == [(target, source) for source, target in EXPECTED]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_two_files_run_in_parallel(tmp_path: Path, ending: str) -> None:
    source = written(tmp_path / f"a.en{ending}", "Go.\n\nGood day,  Tom.")
    target = written(tmp_path / f"a.fr{ending}", "Va !\r\n\r\nBonjour, Tom.\r\n")
    assert pairs_of(source_paths=[source], target_paths=[target]) == [
        Pair("Go.", "Va !", f"{source}:1"),
        Pair("", "", f"{source}:2"),
        Pair("Good day, Tom.", "Bonjour, Tom.", f"{source}:3"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.tsv", "en\tfr\n\nGo.\tVa !\nGood day, Tom.\tBonjour, Tom.\n", (3, 4)),
        ("a.csv", 'en,fr\nGo.,"Va\n!"\n"Good day, Tom.","Bonjour, Tom."\n', (2, 4)),
        ("a.po", PO, (5, 10)),
        ("a.tmx", TMX, (4, 5)),
    ],
)
def test_a_pair_knows_its_line(
    tmp_path: Path, name: str, content: str, lines: tuple[int, int]
) -> None:
    path = written(tmp_path / name, content)
    assert [pair.place for pair in pairs_of([path])] == [f"{path}:{line}" for line in lines]


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    names = [written(tmp_path / f"{n}.tsv", tabbed(*many(2, n))) for n in (5, 0)]
    assert [pair.source for pair in pairs_of(names)] == [f"sentence {n}" for n in (5, 6, 0, 1)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a\tb\n\nc\n", ":3 has 1 field instead of at least 2. Write each line as source, tab,"),
        ("only text\n", ":1 has 1 field instead of at least 2."),
        ("", "is empty"),
        (" \n\n", "has no sentence pairs in it"),
        ("source\ttarget\n", "has no sentence pairs in it"),
        ("a\tb\nc\0\td\n", ":2: a NUL byte"),
        (b"a\tb\n\xe9\tb\n", "byte 4: not UTF-8 (0xE9). Save it as UTF-8, or say --encoding"),
        (b"\x89PNG\x00\x00\n", "is not text but a binary file"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, content: str | bytes, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.tsv", content))


def test_another_encoding_may_be_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "\xe9t\xe9\tsummer\n".encode("latin-1"))
    assert sides(path, encoding="latin-1") == [("été", "summer")]
    with pytest.raises(UsageError, match="unknown encoding"):
        sides(path, encoding="latin-99")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "train.tsv", "a\tb\n")
    assert f"Did you mean {path}?" in complaint(str(tmp_path / "trian.tsv"))
    assert "is a folder. Give the files in it." in complaint(str(tmp_path))
    with pytest.raises(GlassformerError, match=r"no\.en does not exist\. Give a file with a sent"):
        pairs_of(source_paths=[str(tmp_path / "no.en")], target_paths=[path])
    with pytest.raises(GlassformerError, match="is a folder"):
        pairs_of(source_paths=[path], target_paths=[str(tmp_path)])


@pytest.mark.parametrize(("more", "words"), [(1, "1 line more"), (3, "3 lines more")])
def test_files_of_unequal_length_are_refused(tmp_path: Path, more: int, words: str) -> None:
    short = written(tmp_path / "a.en", "x\n" * 1000)
    long = written(tmp_path / "a.fr", "x\n" * (1000 + more))
    for source, target in ((short, long), (long, short)):
        with pytest.raises(GlassformerError) as error:
            pairs_of(source_paths=[source], target_paths=[target])
        assert f"{long} has {words} than {short} ({1000 + more:,} and 1,000)." in str(error.value)


# --- headers and columns ---


@pytest.mark.parametrize("first", ["Hi\tNo", "No\tNo", "source\tsource", "no\tno", "me\tmoi"])
def test_a_pair_in_the_first_line_is_no_header(tmp_path: Path, first: str) -> None:
    assert len(sides(written(tmp_path / "a.tsv", f"{first}\nGo.\tVa !\n"))) == 2


def test_what_may_be_a_pair_but_is_taken_as_a_header_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "it\tes\n" + tabbed(*many(3)))
    assert split(path).notes == [f"{path}:1 is taken as a header: it, es"]


def test_columns_may_be_named(tmp_path: Path) -> None:
    content = "id\tfr\ten\tde\n1\tVa !\tGo.\tGeh!\n"
    for name, text in (("a.tsv", content), ("a.csv", content.replace("\t", ","))):
        path = written(tmp_path / name, text)
        assert sides(path, source_column="de", target_column="fr") == [("Geh!", "Va !")]
        assert 'has no column "ge". It has: id, fr, en, de.' in complaint(path, source_column="ge")
        assert "both the source and the target" in complaint(
            path, source_column="de", target_column="de"
        )
    short = written(tmp_path / "b.tsv", "id\tfr\ten\tde\n1\t2\t3\n")
    problem = complaint(short, source_column="de", target_column="fr")
    assert f"{short}:2 has 3 fields instead of at least 4" in problem


def test_columns_that_are_not_plain_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b,c\nx,y,z\n")
    assert complaint(path) == (
        f"{path} has no two columns that are plainly source and target. It has: a, b, c. "
        "Say --source-column and --target-column."
    )
    assert "It has: de, en, fr." in complaint(written(tmp_path / "b.csv", "en,de,fr\nx,y,z\n"))


def test_columns_that_are_only_the_two_with_words_are_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Hello,Hallo\na,b\nc,d\n")
    note = f'{path}: column "Hello" is taken as the source, "Hallo" as the target'
    assert split(path).notes == [note]


def test_a_column_of_translations_with_more_languages(tmp_path: Path) -> None:
    rows = [{"de": f"satz {n}", "en": f"line {n}", "fr": f"ligne {n}"} for n in range(2)]
    lines = [json.dumps({"translation": row}) for row in rows]
    path = written(tmp_path / "a.jsonl", "\n".join([*lines, '{"translation": null}']))
    found = sides(path, source_column="fr", target_column="de")
    assert found == [("ligne 0", "satz 0"), ("ligne 1", "satz 1"), ("", "")]
    assert "It has: de, en, fr. Say --source-column and --target-column" in complaint(path)
    assert 'has no column "it". It has: de, en, fr.' in complaint(path, source_column="it")
    bad = written(tmp_path / "b.jsonl", lines[0] + '\n{"translation": "x"}\n')
    assert f"{bad}:2: column" in complaint(bad, source_column="fr", target_column="de")


def test_a_cell_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"en": "x", "de": "y"}\n' * 9 + '{"en": "x", "de": 7}\n')
    for columns in ({}, {"source_column": "en", "target_column": "de"}):
        problem = complaint(path, **columns)
        assert "a.jsonl:10" in problem
        assert "of type int, not text. Mend it, or say another --target-column." in problem


def test_a_file_without_a_header_has_no_columns_to_choose(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "one man\tun homme\tein Mann\n" * 3)
    problem = complaint(path, source_column="en", target_column="de")
    assert 'a.tsv:1 is no header with a column "en".' in problem


# --- gettext ---


def test_gettext_leaves_out_what_is_not_translated_and_says_so(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.po",
        'msgid "one"\nmsgstr "un"\n\n#, fuzzy\nmsgid "two"\nmsgstr "doux"\n\n'
        'msgid "three"\nmsgstr ""\n\nmsgid "four"\nmsgstr "quatre"\n\n'
        'msgid "five"\nmsgstr " "\n\n#~ msgid "six"\n#~ msgstr "six!"\n',
    )
    assert sides(path) == [("one", "un"), ("four", "quatre")]
    assert split(path).notes == [
        f"left out: 1 obsolete message (first: {path}:17)",
        f"left out: 1 fuzzy message (first: {path}:4)",
        f"left out: 2 untranslated messages (first: {path}:8)",
    ]


def test_gettext_gives_a_pair_for_singular_and_plural(tmp_path: Path) -> None:
    plural = 'msgid "%d day"\nmsgid_plural "%d days"\nmsgstr[0] "{}"\n{}\n'
    path = written(tmp_path / "a.po", plural.format("%d Tag", 'msgstr[1] "%d Tage"'))
    assert sides(path) == [("%d day", "%d Tag"), ("%d days", "%d Tage")]
    assert sides(written(tmp_path / "b.po", plural.format("%d日", ""))) == [("%d day", "%d日")]


def test_gettext_with_an_odd_line_break_in_a_string(tmp_path: Path) -> None:
    path = written(tmp_path / "a.po", 'msgid "a\u2028b\x0cc"\nmsgstr "d"\n')
    assert sides(path) == [("a b c", "d")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('msgid "a"\nmsgstr "b\n', ":2: not gettext."),
        ('msgid "a"\n"b"\nmsgstr ""\n"bonjour\n', ":4: not gettext."),
        ("no gettext\n", ":1: not gettext."),
        ('msgid "a"\nmsgstr[x] "b"\n', "not gettext."),
        ('msgid "a"\nmsgstr ""\n', "has no sentence pairs in it"),
        ("", "is empty"),
        ('msgid "a\0"\nmsgstr "b"\n', ":1: a NUL byte"),
    ],
)
def test_bad_gettext_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.po", content))


# --- translation memories ---


def test_tmx_takes_its_source_language_from_the_header(tmp_path: Path) -> None:
    header = '<header srclang="FR_ca"/>'
    path = written(tmp_path / "a.tmx", tmx(unit(en="Go.", fr="Va !"), header=header))
    assert sides(path) == [("Va !", "Go.")]
    assert sides(path, source_column="en") == [("Go.", "Va !")]
    assert sides(path, target_column="FR-fr") == [("Go.", "Va !")]


def test_tmx_without_a_source_language_says_what_is_taken(tmp_path: Path) -> None:
    units = [unit(en=f"line {n}", fr=f"ligne {n}") for n in range(3)]
    path = written(tmp_path / "a.tmx", tmx(*units, header='<header srclang="*all*"/>'))
    (note,) = split(path).notes
    assert note == f"{path} does not say which language is the source; taken are en, then fr"


def test_tmx_of_many_languages_asks_for_two(tmp_path: Path) -> None:
    units = [unit(en=f"en {n}", fr=f"fr {n}", de=f"de {n}") for n in range(3)]
    path = written(tmp_path / "a.tmx", tmx(*units, unit(en="only", fr="deux")))
    problem = "has more than two languages: de, en, fr. Say --source-column and --target-column."
    assert problem in complaint(path)
    assert problem in complaint(path, source_column="de")
    named = {"source_column": "DE-at", "target_column": "en"}
    assert sides(path, **named) == [(f"de {n}", f"en {n}") for n in range(3)]
    assert split(path, **named).notes == [
        f"left out: 1 unit without one of de and en (first: {path}:7)"
    ]
    assert 'no language "it". It has: de, en, fr.' in complaint(path, source_column="it")
    assert "the same language" in complaint(path, source_column="de", target_column="DE")


def test_tmx_between_two_kinds_of_one_language(tmp_path: Path) -> None:
    header = '<header srclang="en-GB"/>'
    path = written(tmp_path / "a.tmx", tmx(unit(en_US="color", en_GB="colour"), header=header))
    assert sides(path) == [("colour", "color")]
    assert sides(path, source_column="en-us", target_column="en-gb") == [("color", "colour")]


def test_tmx_keeps_the_words_and_drops_the_codes(tmp_path: Path) -> None:
    segment = (
        'Press <bpt i="1">&lt;b&gt;</bpt>Save<ept i="1">&lt;/b&gt;</ept>'
        '<ph><sub>x</sub>{1}</ph> &amp; <hi type="term">wait</hi>.<it pos="end">y</it>'
    )
    content = tmx(unit(en=segment, fr="F"), header='<header srclang="en"><note>n</note></header>')
    assert sides(written(tmp_path / "a.tmx", content)) == [("Press Save & wait.", "F")]


def test_tmx_of_an_older_kind_and_with_a_namespace(tmp_path: Path) -> None:
    content = TMX.replace("xml:lang", "lang").replace("<tmx ", '<tmx xmlns="http://x.org" ')
    assert sides(written(tmp_path / "a.tmx", content)) == EXPECTED


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (TMX.replace("</tu>", "", 1), ":7: damaged XML (mismatched tag)."),
        (TMX[:-20], "damaged XML (no element found)."),
        (TMX.replace("Go.", "Go & stop"), ":4: damaged XML (not well-formed (invalid token))."),
        (TMX.replace("Go.", "&nbsp;"), ":4: damaged XML (undefined entity"),
        ("plain text\n", ":1: damaged XML (syntax error)."),
        ("a\0b", ":1: damaged XML"),
        ("", "is empty"),
        (TMX.replace("UTF-8", "utf-7"), "Save it as UTF-8."),
        ("<map><layer/></map>", "no translation memory: it begins with <map>, not <tmx>"),
        (tmx(), "has no units in it"),
        (tmx(unit(en="x")), "has only one language: en. Give two."),
        (tmx(unit(en="x"), unit(fr="y")), "has no unit in both en and fr."),
        (tmx("<tu><tuv><seg>x</seg></tuv></tu>"), ":4: a <tuv> does not say its language."),
    ],
)
def test_bad_tmx_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.tmx", content))


@pytest.mark.parametrize(
    "entity",
    ['<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">', '<!ENTITY b SYSTEM "file:///etc/passwd">'],
)
def test_tmx_that_declares_entities_is_refused(tmp_path: Path, entity: str) -> None:
    content = tmx(unit(en="&b;", fr="x"), before=f"<!DOCTYPE tmx [{entity}]>")
    assert ":1 declares an entity of its own" in complaint(written(tmp_path / "a.tmx", content))


# --- which files ---


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "say --data for files with both sides, or --source and --target"),
        ({"paths": "a", "source_paths": "b", "target_paths": "c"}, "give one or the other"),
        ({"source_paths": "a"}, "--source is given without --target"),
        ({"target_paths": "a"}, "--target is given without --source"),
        (
            {"source_paths": ["a", "b"], "target_paths": "c"},
            "--source names 2 files and --target 1: give as many",
        ),
        (
            {"paths": "a", "validation_paths": "b", "validation_target_paths": "c"},
            "--validation-data is for files with both sides, --valid-source and --valid-target",
        ),
        (
            {"paths": "a", "validation_source_paths": "b"},
            "--valid-source is given without --valid-target",
        ),
        ({"paths": "a", "max_length_ratio": 0.5}, "max_length_ratio is 0.5"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(
    settings: dict[str, object], problem: str
) -> None:
    with pytest.raises(GlassformerError) as error:
        parse(PairsConfig, settings)
    assert problem in str(error.value)


def test_the_same_is_said_of_files_to_evaluate_on() -> None:
    with pytest.raises(UsageError, match=r"--source is given without --target: .* side\.$"):
        pairs_of(source_paths=["a"])


def test_a_config_names_its_files() -> None:
    assert PairsConfig(paths=("a", "b"), validation_paths=("c",)).names == ("a", "b")
    assert PairsConfig(source_paths=("a",), target_paths=("b",)).names == ("a", "b")


# --- cleaning ---


LONG = "one two three four five six seven eight nine"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ([("", "rien"), ("nothing", " ")], "2 pairs with an empty side"),
        ([("Tom", "Tom")], "1 pair with both sides equal"),
        ([(LONG, "un deux"), ("un deux", LONG)], "2 pairs with one side more than 4 times as long"),
        ([("sentence 3", "phrase 3"), ("sentence 4", "phrase 4")], "2 pairs already there"),
    ],
)
def test_what_cannot_be_learnt_from_is_left_out_and_said(
    tmp_path: Path, bad: list[tuple[str, str]], why: str
) -> None:
    path = written(tmp_path / "a.tsv", tabbed(*many(20), *bad))
    found = split(path)
    everything = [(p.source, p.target) for p in found.training + found.validation]
    assert sorted(everything) == sorted(many(20))
    (note,) = found.notes
    assert note.startswith(f"left out: {why}")
    assert note.endswith(f"(first: {path}:21)")
    assert len(pairs_of([path])) == 20 + len(bad)


@pytest.mark.parametrize(
    ("pair", "settings"),
    [
        ((LONG, "un deux trois"), {}),
        ((LONG, "un"), {"max_length_ratio": 9}),
        (("one two three four five six seven eight", "un"), {}),
        (("We shall meet again at noon under the big tree", "我们中午在大树下再见面"), {}),
        (("We shall meet again at noon under the big tree", "เราจะพบกันอีกครั้งตอนเที่ยงใต้ต้นไม้ใหญ่"), {}),
        (("sentence 3", "another phrase"), {}),
    ],
)
def test_what_is_merely_unlike_is_kept(
    tmp_path: Path, pair: tuple[str, str], settings: dict[str, object]
) -> None:
    found = split(written(tmp_path / "a.tsv", tabbed(*many(20), pair)), **settings)
    assert len(found.training + found.validation) == 21
    assert found.notes == []


def test_copies_are_kept_where_copying_is_the_task(tmp_path: Path) -> None:
    copies = [(f"{n}", f"{n}") for n in range(6)]
    path = written(tmp_path / "a.tsv", tabbed(*copies, *many(5)))
    found = split(path)
    assert len(found.training + found.validation) == 11
    assert found.notes == ["both sides are equal in 6 of 11 pairs: kept"]


def test_too_few_pairs_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(("a", "b"), ("c", ""), ("a", "b")))
    with pytest.raises(GlassformerError) as error:
        split(path)
    assert str(error.value) == (
        f"{path} has 1 pair to learn from. Give at least 2. "
        f"Left out: 1 pair with an empty side (first: {path}:2). "
        f"Left out: 1 pair already there (first: {path}:3)."
    )


# --- splitting ---


def test_the_split_depends_on_content_and_seed_alone(tmp_path: Path) -> None:
    forth = written(tmp_path / "a.tsv", tabbed(*many(200)))
    back = written(tmp_path / "b.tsv", tabbed(*reversed(many(200))))
    chosen = [
        {pair.source for pair in split(path, seed).validation}
        for path, seed in ((forth, 1), (back, 1), (forth, 2))
    ]
    assert chosen[0] == chosen[1] != chosen[2]
    assert split(forth, 1) == split(forth, 1)
    assert split(forth).held_out == "10 of 200 pairs, by lot"


def test_no_source_is_on_both_sides(tmp_path: Path) -> None:
    pairs = [(f"source {n // 3}", f"target {n}") for n in range(300)]
    found = split(written(tmp_path / "a.tsv", tabbed(*pairs)), validation_fraction=0.2)
    training, validation = ({p.source for p in part} for part in (found.training, found.validation))
    assert not training & validation
    assert len(found.training) + len(found.validation) == 300
    assert 50 <= len(found.validation) <= 60


def test_at_least_one_and_at_most_a_thousand_are_held_out(tmp_path: Path) -> None:
    few = split(written(tmp_path / "a.tsv", tabbed(*many(2))))
    assert (len(few.training), len(few.validation)) == (1, 1)
    pairs = [(f"source {n // 7}", f"target {n}") for n in range(9_000)]
    lots = split(written(tmp_path / "b.tsv", tabbed(*pairs)), validation_fraction=0.4)
    assert 990 <= len(lots.validation) <= 1_000


def test_pairs_of_one_source_cannot_be_split(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(("Go.", "Va !"), ("Go.", "Allez !")))
    with pytest.raises(GlassformerError, match="all pairs have the same source"):
        split(path)


def test_files_for_validation_are_left_as_given_but_for_empty_sides(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(*many(20)))
    given = [("Tom", "Tom"), ("sentence 3", "phrase 3"), ("sentence 3", "phrase 3"), ("x", LONG)]
    lines = [*given, ("", "")]
    source = written(tmp_path / "v.en", "".join(f"{line}\n" for line, _ in lines))
    target = written(tmp_path / "v.fr", "".join(f"{line}\n" for _, line in lines))
    found = split(path, validation_source_paths=source, validation_target_paths=target)
    assert [(p.source, p.target) for p in found.validation] == given
    assert len(found.training) == 20
    assert found.held_out == f"all of {source}, {target}"
    assert found.notes == [
        f"left out: 1 pair of validation with an empty side (first: {source}:5)",
        f"in training: 1 pair with a source of validation (first: {path}:4)",
    ]


def test_validation_may_be_one_file_and_must_have_a_pair(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", tabbed(*many(20)))
    other = written(tmp_path / "v.tsv", tabbed(("new", "neuf")))
    found = split(path, validation_paths=other, reverse=True)
    assert found.validation == [Pair("neuf", "new", f"{other}:1")]
    assert found.training[0] == Pair("phrase 0", "sentence 0", f"{path}:1")
    with pytest.raises(GlassformerError, match="has no pair with two sides"):
        split(path, validation_paths=written(tmp_path / "w.tsv", "a\t\n"))
    with pytest.raises(EmptyError):
        split(path, validation_paths=written(tmp_path / "e.tsv", ""))
