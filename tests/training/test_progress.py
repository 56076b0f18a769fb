"""What a person sees while a model trains."""

import io
import re
import time

import pytest

from glassformer.progress import LOG_LINES, ProgressLine
from glassformer.training.progress import LOG_WIDTH, SAMPLE_LINES, Progress, StatusLine

LINE = "step 1,200/2,000 loss 1.62 val 1.71 (best 1.70 @ 1,150) 24.8k tokens/s ETA 0:31"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def steps(progress: Progress, number: int) -> None:
    standing = StatusLine(step=0, max_steps=number, loss=2.0)
    for standing.step in range(1, number + 1):
        progress.show(standing)


def test_the_line_says_where_how_well_how_fast_and_how_long() -> None:
    standing = StatusLine(1200, 2000, loss=1.619, val=1.708, best=1.699, best_step=1150)
    assert standing.line("24.8k tokens/s", 31, width=None) == LINE


def test_what_is_not_known_yet_is_not_said() -> None:
    line = StatusLine(step=1, max_steps=10, loss=3.4).line("", 0, width=None)
    assert line == "step 1/10 loss 3.40"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (120, LINE.replace("loss", "▰▰▰▰▰▰▰▰▰▰▰▰▱▱▱▱▱▱▱▱ loss")),
        (92, LINE.replace("loss", "▰▰▰▰▰▰▱▱▱▱ loss")),
        (80, f"step 1,200/2,000 {'▰' * 12}{'▱' * 8} loss 1.62 val 1.71 24.8k tokens/s ETA 0:31"),
        (70, "step 1,200/2,000 ▰▰▰▰▰▰▱▱▱▱ loss 1.62 val 1.71 24.8k tokens/s ETA 0:31"),
        (60, "step 1,200/2,000 ▰▰▰▰▰▰▱▱▱▱ loss 1.62 val 1.71 ETA 0:31"),
        (50, "step 1,200/2,000 loss 1.62 val 1.71 ETA 0:31"),
        (40, "step 1,200/2,000 loss 1.62 ETA 0:31"),
    ],
)
def test_on_a_narrow_terminal_the_time_left_stays(width: int, line: str) -> None:
    standing = StatusLine(1200, 2000, loss=1.619, val=1.708, best=1.699, best_step=1150)
    assert standing.line("24.8k tokens/s", 31, width) == line


def test_a_log_has_no_colours_and_no_bars() -> None:
    stream = io.StringIO()
    with Progress(stream, items_per_step=64) as progress:
        progress.write("step 5 val 3.1 │ text")
        steps(progress, 100)
    assert not re.search("[\x1b\r▰▱]", stream.getvalue())


def test_a_log_has_a_line_for_each_twentieth_of_the_training() -> None:
    stream = io.StringIO()
    with Progress(stream, items_per_step=64) as progress:
        steps(progress, 1000)
    lines = stream.getvalue().splitlines()
    assert len(lines) == LOG_LINES
    assert lines[0].startswith("step 50/1,000 loss 2.00")


def test_a_terminal_has_a_bar_and_keeps_the_last_line() -> None:
    stream = Terminal()
    with Progress(stream, items_per_step=64) as progress:
        steps(progress, 10)
    assert "▰" in stream.getvalue()
    assert "step 10/10 ▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰▰ loss 2.00" in stream.getvalue().splitlines()[-1]


def test_a_terminal_shows_what_is_awaited_and_a_log_does_not() -> None:
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        with ProgressLine(stream, "reading the data …") as line:
            line.write("note: a line that stays")
            line.show("trying a step …")
        with Progress(stream, items_per_step=64):
            pass
    assert "reading the data …" in terminal.getvalue()
    assert "trying a step …" in terminal.getvalue()
    assert "preparing the first step …" in terminal.getvalue()
    assert log.getvalue() == "note: a line that stays\n"


def test_what_a_model_writes_is_shown_as_it_is() -> None:
    stream = io.StringIO()
    text = "[bold]not markup[/bold] :smile: " + "long " * 60
    Progress(stream, items_per_step=1).write(text)
    assert stream.getvalue() == text + "\n"


def test_time_spent_on_validation_does_not_slow_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    progress = Progress(io.StringIO(), items_per_step=100)
    for step in range(1, 6):
        now += 1.0 + 60.0
        progress.not_training(60.0)
        progress.show(StatusLine(step, max_steps=10))
    assert progress.items_per_second == pytest.approx(100)


def test_a_sample_that_is_too_long_ends_with_a_word() -> None:
    log = io.StringIO()
    with Progress(log, 1) as progress:
        progress.write("  step 5 │ " + "considerable " * 20, whole=False)
        progress.write("  step 5 │ " + "x" * 200, whole=False)
    words, letters = log.getvalue().splitlines()[:2]
    assert {*words.split()[3:]} == {"considerable", "…"}
    assert letters.endswith("x…")
    assert len(words) <= LOG_WIDTH == len(letters)


CODE = "def f(x):\n\tif x:\n        return [x]\n\nf(1)"


def sampled(stream: io.StringIO, text: str) -> list[str]:
    with Progress(stream, 1) as progress:
        progress.sample("  step 5 val 1.2", text)
    plain = re.sub(r"[^\n]*\r", "", stream.getvalue())  # what a terminal shows in the end
    return [line for line in plain.splitlines() if "│" in line]


def test_code_keeps_its_lines_on_a_terminal() -> None:
    assert sampled(Terminal(), CODE) == [
        "  step 5 val 1.2 │ def f(x):",
        "                 │     if x:",
        "                 │         return [x]",
        "                 │ ",
        "                 │ f(1)",
    ]
    long = sampled(Terminal(), "x\n" * 100)
    assert (len(long), long[-1].strip()) == (SAMPLE_LINES, "│ …")


def test_lines_that_do_not_fit_and_those_of_a_log_are_joined() -> None:
    assert sampled(io.StringIO(), CODE) == ["  step 5 val 1.2 │ def f(x): if x: return [x] f(1)"]
    (line,) = sampled(Terminal(), "word " * 30 + "\nand more")
    assert line.endswith("word …")
