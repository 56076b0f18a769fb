"""glassformer plan, as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

XL = ("--preset", "gpt2-xl", "--tokens", "9e9", "--devices", "32", "--device-kind", "a100")


def test_a_plan_names_memory_time_and_price(glassformer: Any, tmp_path: Path) -> None:
    picture = tmp_path / "plan.png"
    done = glassformer("plan", *XL, "--out", picture)
    rows = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert rows.keys() >= {"model", "data", "compute", "memory", "time", "price", "breaks"}
    assert "1,557,611,200 parameters" in rows["model"]
    assert "32 × a100 in 4 machines" in rows["devices"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_same_as_json(glassformer: Any) -> None:
    words = ("--preset", "gpt2", "--device-kind", "h100", "--price", "1", "--json")
    found = json.loads(glassformer("plan", *words).out)
    assert found["parameters"] == 124_439_808
    assert found["price"] == pytest.approx(found["seconds"] / 3600)
    assert found["memory_bytes_per_device"] == pytest.approx(sum(found["memory_parts"].values()))
    tokens = found["steps"] * found["batch_tokens"]
    assert found["flops"] == pytest.approx(tokens * found["flops_per_token"])
    assert [each["devices"] for each in found["scaling"]][:3] == [1, 2, 4]


def test_this_machine_tonight(glassformer: Any) -> None:
    found = json.loads(glassformer("plan", "--json").out)
    sizes = [each["parameters"] for each in found["models"]]
    assert sizes == sorted(sizes)
    assert found["best"] in [each["preset"] for each in found["models"]]
    here = json.loads(glassformer("plan", "--preset", "nano", "--tokens", "1e6", "--json").out)
    assert here["device"] == "this machine"
    assert here["price"] is None


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--preset", "gpt5"], 'there is no preset "gpt5"'),
        (["--preset", "nano", "--devices", "9999"], "for 9,999 devices"),
        (["--preset", "gpt2", "--device-kind", "toaster"], "Known kinds: t4"),
        (["--preset", "gpt2", "--device-kind", "a100", "--batch-tokens", "5"], "less than one"),
        (["--preset", "gpt2", "--device-kind", "a100", "--out", "p.gif"], "end in .png or .svg"),
        (["--preset", "gpt2", "--device-kind", "a100", "--set", "model.heads=3"], "heads"),
    ],
)
def test_mistakes_get_one_sentence(glassformer: Any, words: list[str], problem: str) -> None:
    done = glassformer("plan", *words)
    assert done.code in (1, 2)
    assert problem in done.error
