"""The tokenizer that a page carries reads and writes as Python's does, in every script."""

import json
import random
import sys
import unicodedata
from functools import cache
from typing import Any

import pytest
from live_models import (
    TEXT,
    in_chromium,
    in_page,
    made,
    needs_chromium,
    needs_node,
    preprocessing_of,
    tokenizer,
)
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.live import live_or_error
from glassformer.inspect.page import embedded
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.portable import merge_steps, portable
from glassformer.text.tokenizer_training import TokenizerConfig, train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS, START, Tokenizer

SCRIPTS = (
    "The quick brown fox jumps over 13 lazy dogs; it's what we've said, isn't it? They'll, I'd",
    "Größe, Ærø, İstanbul ıI, ǅ, ﬁne, naïve café e\u0301 a\u030a\u0327, ß ẞ, №5 ½ ² ³ ①",
    "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "ΟΔΥΣΣΕΥΣ Σίσυφος ΣΑΣ τους ἀνθρώπους",
    "مرحبا بالعالم ١٢٣ لا إله",
    "שָׁלוֹם עוֹלָם „מירכאות״",
    "हिन्दी में कुछ शब्द १२३ क्षत्रिय",
    "ภาษาไทยไม่มีช่องว่าง ๑๒๓",
    "我能吞下玻璃而不伤身体。“你好，世界！” 𠮷野家",
    "日本語のテキスト、カタカナ・ひらがな「括弧」〜ｶﾅ",
    "한국어 텍스트 각각",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽 ☕️ 🙂",
    "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β → ∑ √2 ≈ 1.41",
    " \t\n\r\x0b\x0c\u00a0\u2003\u2028\u2029\u3000\x85\x1c\x1f"
    "\ufeff\u200b\u200d\u00ad\x00\x7f\ufffd",
    "'\"“”‘’‹›«»—–-…_·•¿¡§¶†‡%‰$€£¥¢#@&*()[]{}<>/\\|~^`+=.,;:!?",
)
HOSTILE = [
    *("<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "<!--", "]]>", "&lt;"),
    *(
        "<|endoftext|>",
        "[CLS] [MASK]",
        "<|unk|>",
        "${1}`",
        "/* data */",
        "__proto__",
        "constructor",
    ),
    *("toString", "javascript:alert(1)", "\u202eabc\u202c", "a" * 300, " " * 70, "\n\n \n\t x"),
]


@cache
def texts(count: int = 400) -> list[str]:
    """Letters of one script or of several, words, spaces, and anything that Unicode knows."""
    rng = random.Random(5)
    known = [chr(c) for c in range(sys.maxunicode) if unicodedata.category(chr(c))[0] not in "C"]
    found = [*SCRIPTS, *HOSTILE, "", TEXT]
    while len(found) < count:
        script = rng.choice(SCRIPTS)
        alphabet = script if rng.random() < 0.6 else script + rng.choice(SCRIPTS) + "  \n'"
        if rng.random() < 0.15:
            alphabet = [*rng.choices(known, k=30), " "]
        words = [*script.split(), *TEXT.split()]
        letters = (
            rng.choice(alphabet) if rng.random() < 0.8 else rng.choice(words)
            for _ in range(rng.randrange(1, 40))
        )
        found.append("".join(letters))
    return found


def bert(**options: Any) -> Tokenizer:
    """Like BERT's own: its normalizer, its split, its decoder."""
    letters = sorted({c for text in SCRIPTS for c in text.lower() if not c.isspace()})
    entries = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{each}" for each in letters)]
    entries += ["the", "qu", "##ick", "don", "##t", "cafe", "our", "not", "do", "s", "ve"]
    vocab = {entry: id for id, entry in enumerate(dict.fromkeys(entries))}
    backend = Backend(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(**options)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=options.get("lowercase", True))
    backend.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return Tokenizer(backend)


def gpt2_like() -> Tokenizer:
    """BPE that takes whole words first, as Llama 3's does."""
    values = tokenizer("bpe").as_json()
    values["model"]["ignore_merges"] = True
    backend = Backend(models.BPE(**_bpe(values)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|endoftext|>"])
    return Tokenizer(backend)


def _bpe(values: dict[str, Any]) -> dict[str, Any]:
    model = values["model"]
    vocab = model["vocab"] | {"Ġzebra": len(model["vocab"])}  # no merge leads to it
    return {
        "vocab": vocab,
        "merges": [tuple(each) for each in model["merges"]],
        "ignore_merges": True,
    }


def lower(kind: Any) -> Tokenizer:
    return train_tokenizer(TokenizerConfig(kind=kind, lowercase=True, vocab_size=2000), SCRIPTS)


@cache
def every_script(kind: Any) -> Tokenizer:
    return train_tokenizer(kind, [*SCRIPTS, TEXT], None if kind == "char" else 1500, [START])


PAYLOADS = [
    form.format(n=n)
    for n in range(40)
    for form in (
        "<img/src=x/onerror=alert({n})>",
        "</script><script>alert({n})</script>",
        "</pre><b>{n}",
        "<!--{n}-->",
        "__proto__{n}\"'`${{alert(1)}}",
    )
]


def hostile() -> Tokenizer:
    """Every payload is a token."""
    vocab = {payload: id for id, payload in enumerate([*PAYLOADS, "__proto__"])}
    backend = Backend(models.WordLevel(vocab, unk_token="__proto__"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.Fuse()
    return Tokenizer(backend)


TOKENIZERS = {
    **{kind: lambda kind=kind: tokenizer(kind) for kind in ("char", "word", "wordpiece")},
    **{kind: lambda kind=kind: tokenizer(kind) for kind in ("bpe", "unigram")},
    **{
        f"{kind}, many scripts": lambda kind=kind: every_script(kind)
        for kind in ("char", "word", "wordpiece", "bpe", "unigram")
    },
    **{f"{kind}, lower case": lambda kind=kind: lower(kind) for kind in ("word", "bpe", "unigram")},
    "bert": bert,
    "bert, cased": lambda: bert(lowercase=False),
    "bert, accents": lambda: bert(strip_accents=False, handle_chinese_chars=False),
    "bert, unclean": lambda: bert(clean_text=False),
    "whole words first": gpt2_like,
    "hostile": hostile,
}


def expected_ids(tokenizer: Tokenizer, text: str) -> Any:
    """The ids, or the characters that there is no token for."""
    try:
        return tokenizer.encode(text)
    except GlassformerError:
        return tokenizer.unknown_characters(text)


@needs_node
@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_page_reads_and_writes_text_as_python_does(name: str) -> None:
    own = TOKENIZERS[name]()
    rng = random.Random(name)
    encoded = [expected_ids(own, text) for text in texts()]
    rows = [ids for ids in encoded if ids and isinstance(ids[0], int)]
    rows += [rng.choices(range(own.vocab_size + 1), k=rng.randrange(9)) for _ in range(200)]
    (found,) = in_page(("tokens", {"tokenizer": portable(own), "texts": texts(), "rows": rows}))
    for text, ids, expected in zip(texts(), found["encoded"], encoded, strict=True):
        assert ids == expected, repr(text)
    assert found["decoded"] == [own.decode(ids) for ids in rows]
    assert found["tokens"] == [own.token(id) for id in range(own.vocab_size + 1)]


@pytest.mark.parametrize("name", ["bpe", "bpe, many scripts", "whole words first"])
def test_the_last_step_of_the_merges_is_what_the_tokenizer_reads(name: str) -> None:
    own = TOKENIZERS[name]()
    for text in texts():
        steps = merge_steps(own, text)
        assert steps[-1] == [own.token(id) for id in own.encode(text)]
        if name != "whole words first":  # every step joins two neighbours
            assert [len(each) for each in steps] == [*range(len(steps[0]), len(steps[-1]) - 1, -1)]
            assert len(steps[0]) == len(text.encode())


def test_merges_are_applied_in_the_order_in_which_they_were_learned() -> None:
    vocab = {c: n for n, c in enumerate(["l", "o", "w", "ow", "lo", "low"])}
    backend = Backend(models.BPE(vocab, [("o", "w"), ("l", "o"), ("l", "ow")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    assert merge_steps(Tokenizer(backend), "low") == [["l", "o", "w"], ["l", "ow"], ["low"]]


def test_other_tokenizers_have_no_merges() -> None:
    for kind in ("char", "word", "wordpiece", "unigram"):
        with pytest.raises(UsageError, match=f"a {kind} tokenizer does not merge bytes"):
            merge_steps(tokenizer(kind), "a")


@needs_node
@pytest.mark.parametrize("name", ["bpe", "whole words first"])
def test_the_page_shows_the_merges_that_python_shows(name: str) -> None:
    own, some = TOKENIZERS[name](), texts()[:120]
    (found,) = in_page(("merges", {"tokenizer": portable(own), "texts": [*some, " zebra"]}))
    assert found == [merge_steps(own, text) for text in [*some, " zebra"]]


def test_a_tokenizer_that_the_page_cannot_run_is_named() -> None:
    backend = Backend(models.BPE({"a": 0}, []))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    with pytest.raises(
        GlassformerError, match="outside Python: it has the pre-tokenizer Metaspace"
    ):
        portable(Tokenizer(backend))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    with pytest.raises(GlassformerError, match="it has the decoder Metaspace"):
        portable(Tokenizer(backend))
    backend.normalizer = normalizers.NFKC()
    with pytest.raises(GlassformerError, match="it has the normalizer NFKC"):
        portable(Tokenizer(backend))
    backend.add_tokens(["as text"])
    with pytest.raises(GlassformerError, match="it has tokens that were added as text"):
        portable(Tokenizer(backend))


def test_the_data_of_hostile_tokens_cannot_leave_its_element() -> None:
    data = embedded(portable(hostile()))
    assert data.isascii()
    assert "<" not in data
    assert json.loads(data)["pieces"][:200] == PAYLOADS


@pytest.mark.parametrize(
    "run",
    [pytest.param(in_page, marks=needs_node), pytest.param(in_chromium, marks=needs_chromium)],
)
def test_hostile_tokens_stay_text(run: Any) -> None:
    given = {
        "tokenizer": portable(hostile()),
        "texts": PAYLOADS,
        "rows": [[id] for id in range(200)],
    }
    (found,) = run(("tokens", given))
    assert found["encoded"] == [[id] for id in range(200)]
    assert found["decoded"] == PAYLOADS
    assert found["tokens"][:200] == PAYLOADS


# --- what a model reads for a text ---


@needs_node
def test_the_page_reads_a_prompt_as_generate_does() -> None:
    preprocessing = TextPreprocessing(tokenizer=every_script("bpe"), is_causal=True)
    live = live_or_error(made("gpt2"), preprocessing, 10**9)
    (found,) = in_page(("read", {"live": live, "stream": 0, "texts": texts()}))
    own = preprocessing.tokenizer
    assert found == [own.encode(text) or [own.end_of_text] for text in texts()]


@needs_node
def test_the_page_reads_a_text_with_gaps_as_fill_does() -> None:
    own = tokenizer("wordpiece", *BERT_TOKENS)
    live = live_or_error(made("bert"), preprocessing_of(made("bert")), 10**9)
    (found,) = in_page(("read", {"live": live, "stream": 0, "texts": ["the [MASK] of times", ""]}))
    special = own.special_tokens
    middle = [*own.encode("the "), special["[MASK]"], *own.encode(" of times")]
    assert found == [
        [special["[CLS]"], *middle, special["[SEP]"]],
        [special["[CLS]"], special["[SEP]"]],
    ]
    assert isinstance(preprocessing_of(made("bert")), MaskedTextPreprocessing)


@needs_node
@pytest.mark.parametrize("kind", ["bpe", "char", "word"])
def test_the_page_reads_sentences_as_translate_does(kind: str) -> None:
    preprocessing = PairPreprocessing(
        tokenizer=tokenizer(kind, START), target_tokenizer=every_script(kind)
    )
    live = live_or_error(made("two vocabularies"), preprocessing, 10**9)
    sides = [("read", {"live": live, "stream": side, "texts": texts()}) for side in (0, 1)]
    source, target = in_page(*sides)
    assert source == preprocessing.encode_source(texts())
    assert target == preprocessing.encode_target(texts())
