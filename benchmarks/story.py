"""The page of `inspect`: how long it takes to write, to open and to answer a keystroke.

    build      512 tokens through a GPT of 6 layers × 384, with everything the page shows
    open       512 tokens × 12 layers × 12 heads: until drawn, and until all small maps are painted
    keystroke  the live page of a nano GPT, at 20, 60 and 115 tokens: the task that answers the
               event, with the layout, and the longest task of drawing the chapters out of view

The browser is Chromium, on a page on disk; weights are random, as they do not change the work.
"""

import json
import re
import statistics
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.machine import describe
from glassformer.inspect.story import page
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import GPT_PRESETS
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.text.tokenizer_training import train_tokenizer

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1280,1500"),
    *("--remote-debugging-port=0", "--enable-logging=stderr"),
)
OPENED = """
const drawn = performance.now();
document.body.getBoundingClientRect();
const laidOut = performance.now();
while (waiting.length) await new Promise((done) => setTimeout(done, 5));
console.log("RESULT " + JSON.stringify({ drawn, laidOut, painted: performance.now() }) + " END");
"""
TYPED = """
while (!document.querySelector(".ask")) await new Promise((done) => setTimeout(done, 20));
const box = document.querySelector(".ask textarea"), rows = [], tasks = [];
new PerformanceObserver((seen) => tasks.push(...seen.getEntries())).observe({ type: "longtask" });
const type = (letters) => {
  box.value += letters;
  box.dispatchEvent(new Event("input"));
  document.body.getBoundingClientRect();
};
const idle = async () => {
  do await new Promise((done) => setTimeout(done, 30)); while (waiting.length);
};
for (const length of [20, 60, 115]) {
  while (scene.main.tokens.length < length) type(" it");
  const own = [], others = [];
  for (const letter of " of value") {
    await idle();
    const begin = performance.now();
    type(letter);
    const end = performance.now();
    await idle();
    own.push(end - begin);
    const after = tasks.filter(({ startTime }) => startTime >= end);
    others.push(Math.max(0, ...after.map(({ duration }) => duration)));
  }
  rows.push([length, own, others]);
}
console.log("RESULT " + JSON.stringify(rows) + " END");
"""


def predictor(text: str, vocab_size: int, **shape: Any) -> LanguagePredictor:
    tokenizer = train_tokenizer("bpe", [text], vocab_size)
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **shape)).eval()
    return LanguagePredictor(model, TextPreprocessing(tokenizer=tokenizer, is_causal=True))


def in_chromium(html: str, script: str, limit: float = 120) -> Any:
    """What a script at the end of the page reports."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "page.html"
        file.write_text(f"\n{script}\n</script>".join(html.rsplit("\n</script>", 1)))
        command = ["chromium", *FLAGS, f"--user-data-dir={folder}/user", file.as_uri()]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + limit
        try:
            for line in running.stderr or ():
                if found := re.search(r"RESULT (.*) END", line):
                    return json.loads(found[1])
                if time.monotonic() > until:
                    break
        finally:
            running.terminate()
            running.wait()
    raise SystemExit("the page reported nothing")


def reference_text() -> str:
    from pydoc_data.topics import topics

    return "\n\n".join(topics.values())


def main() -> None:
    text = reference_text()
    print(describe())
    wide = predictor(text, 8000, num_layers=6, d_model=384, num_heads=6, context_length=512)
    begin = time.perf_counter()
    seen = wide.inspect(text[:8000])
    html = page(seen)
    taken = time.perf_counter() - begin
    print(f"build, {len(seen.tokens)} tokens, 6 × 384: {taken:.2f} s, {len(html) / 1e6:.1f} MB")
    shape = {"num_layers": 12, "num_heads": 12, "head_dim": 64, "context_length": 512}
    deep = predictor(text, 1000, d_model=96, **shape)
    html = page(deep.inspect(text[:8000]))
    runs = [in_chromium(html, OPENED) for _ in range(3)]
    middle = {name: statistics.median(each[name] for each in runs) for name in runs[0]}
    print(
        f"open, 512 tokens × 12 layers × 12 heads, {len(html) / 1e6:.1f} MB: drawn after "
        f"{middle['laidOut']:.0f} ms, all small maps after {middle['painted']:.0f} ms"
    )
    nano = predictor(text, 1000, **GPT_PRESETS["nano"])
    for length, own, others in in_chromium(page(nano.inspect("The exception is raised")), TYPED):
        print(
            f"keystroke, nano GPT, {length} tokens: median {statistics.median(own):.0f} ms, "
            f"slowest {max(own):.0f} ms; longest task afterwards {max(others):.0f} ms (0: below 50)"
        )


if __name__ == "__main__":
    main()
