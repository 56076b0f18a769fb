"""The demo ends with a text and with a page that looks inside the model."""

import io
from pathlib import Path

from small_tasks import ENCODER, MACHINE

from glassformer.demo import PROMPT, show_demo
from glassformer.training import run as story
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder


def test_the_demo_ends_with_a_text_and_a_story(tmp_path: Path) -> None:
    (tmp_path / "manual.txt").write_text(f"{PROMPT} defines a class.\n" * 40)
    values = {
        "model": {"name": "gpt", **ENCODER},
        "data": {"paths": [str(tmp_path / "manual.txt")]},
        "tokenizer": {"kind": "char"},
        "training": {"max_steps": 2, "eval_steps": 2} | MACHINE,
    }
    run, stream = RunFolder(tmp_path / "run"), io.StringIO()
    story.train(make_recipe(values), run, io.StringIO())
    found = show_demo(run.path, stream)
    page = run.path / "story.html"
    assert found["story"] == str(page)
    assert PROMPT in page.read_text(encoding="utf-8")
    assert f"Open {page} in a browser" in stream.getvalue()
    outcome = story.train(make_recipe(values), run, io.StringIO())
    assert outcome.exit_code == 0  # the page is part of the run, which may be replaced
    assert not page.exists()
