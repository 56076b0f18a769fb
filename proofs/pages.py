"""Random gestures on the pages of `inspect` and `playground`, by a real pointer and real keys.

    python -m proofs.pages 2000                    every family of models, and the playground
    python -m proofs.pages 2000 --seed 17 gpt vit  these gestures once more, on two of the pages

Half of the gestures are made on a wide page and half on a narrow one, half in light and half in
dark colours. A page must neither throw, nor warn on its console, nor say that it cannot show a
text, nor show a number that is none, nor become wider than its window.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "inspect")]
from chromium_pipe import CHROMIUM, KEYS, Browser  # noqa: E402 (of the tests)
from page_families import FAMILIES, write_page  # noqa: E402

from glassformer.inspect.playground import playground  # noqa: E402

PLAYGROUND = "playground"
PAGES = [*FAMILIES, PLAYGROUND]

VIEWS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 400)]
HEIGHT = 800
KEPT = 6  # gestures that are named when a page fails

# A random control, or number that can be pointed at: first its kind, as there are many cells.
PICK = """(([kind, member, x, y]) => {
  const all = [...document.querySelectorAll("button, select, input, textarea, canvas, svg, a, "
    + "summary, label, figure, [data-of], [role=button], [tabindex='0'], .hint")]
    .filter((each) => each.checkVisibility() && each.getClientRects().length);
  const kinds = Map.groupBy(all, (each) => [each.tagName, each.getAttribute("class"),
    each.getAttribute("data-of")?.split("/")[0], each.closest("section")?.id].join());
  const members = [...kinds.values()][Math.floor(kind * kinds.size)];
  const found = members[Math.floor(member * members.length)];
  found.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  const box = found.getBoundingClientRect();
  const within = (part, from, size, most) => (
    Math.max(0, Math.min(most - 1, from + part * size)));
  return { name: found.outerHTML.slice(0, 90), kind: found.tagName,
    x: within(x, box.left, box.width, innerWidth), y: within(y, box.top, box.height, innerHeight) };
})"""
FOCUS_PICK = """((member) => {
  const all = [...document.querySelectorAll("select")].filter((each) => each.checkVisibility());
  const found = all[Math.floor(member * all.length)];
  found?.focus();
  return found?.outerHTML.slice(0, 90) ?? "no select";
})"""
FAULT = """(() => {
  const said = document.querySelector(".ask ~ .warning")?.textContent ?? "";
  const isRefused = /: (type a word|.* has no token for|\\d+ tokens do not fit)/.test(said);
  if (said.startsWith("This text cannot be shown") && !isRefused) return said;
  const stamp = document.querySelector(".stamp")?.textContent ?? "";
  if (stamp.includes("does not run")) return stamp;
  if (!location.pathname.endsWith(PAGE)) return `left for ${location}`;
  return "";
})()"""
LOOKS = """(() => {
  const odd = document.body.innerText.match(/.{0,30}(\\b(NaN|undefined)\\b|\\[object).{0,30}/);
  if (odd) return `shows ${odd[0]}`;
  const { scrollWidth, clientWidth } = document.documentElement;
  return scrollWidth > clientWidth ? `is ${scrollWidth} pixels wide in ${clientWidth}` : "";
})()"""
TYPED = ("a", "cat", " the", "one two", " ", "\n", "é", "😀", "[MASK]", "three one two " * 9)
HASHES = (
    "token=1&layer=1&head=1", "token=99&key=3", "off=0.1,1.0", "text=a day", "text=one&token=0",
    "chapter=prediction", "temperature=0.3&topK=2&topP=0.5", "patch=2&patchLayer=1", "moment=1", "",
)  # fmt: skip


def prove(count: int, seed: int, names: list[str]) -> str:
    faults = []
    with TemporaryDirectory(prefix="pages-", ignore_cleanup_errors=True) as folder:
        for name in names:
            path = _write(name, Path(folder))
            for number, (scheme, width) in enumerate(VIEWS):
                share = count // len(VIEWS) + (number < count % len(VIEWS))
                with Browser(Path(folder) / f"{name}-{number}") as browser:
                    browser.window(width, HEIGHT, scheme)
                    try:
                        _open(browser, path)
                        _play(browser, share, random.Random(f"{seed} {name} {number}"))
                    except AssertionError as fault:
                        faults.append(f"{name}, {scheme}, {width} pixels, seed {seed}: {fault}")
            print(f"{name}: {len(faults)} faults so far", file=sys.stderr, flush=True)
    if faults:
        raise SystemExit("\n\n".join(faults))
    return f"{count:,} gestures on each of {len(names)} pages, seed {seed}: no fault"


def _write(name: str, folder: Path) -> Path:
    if name != PLAYGROUND:
        return write_page(name, folder)
    path = folder / f"{name}.html"
    path.write_text(playground(), encoding="utf-8")
    return path


def _open(browser: Browser, path: Path) -> None:
    browser.call("Page.setDownloadBehavior", behavior="deny")
    browser.call("Page.setInterceptFileChooserDialog", enabled=True)  # it would be a window
    browser.open(path.as_uri())
    browser.wait("document.querySelectorAll('section.chapter, section.folder').length > 0")
    if '"live": {' in path.read_text() or '"live":{' in path.read_text():
        browser.wait("document.querySelectorAll('.ask').length === 1")
    browser.value(f"globalThis.PAGE = {json.dumps(path.name)}")


def _play(browser: Browser, count: int, draw: random.Random) -> None:
    kinds, weights = zip(*GESTURES.items(), strict=True)
    last: list[str] = []
    for number in range(count):
        (gesture,) = draw.choices(kinds, weights)
        last = [*last[1 - KEPT :], f"{gesture.__name__[1:]} {gesture(browser, draw)}"]
        fault = browser.value(FAULT)
        if number % 20 == 19 or number == count - 1:
            fault = fault or browser.value(LOOKS)
        if browser.problems or fault:
            done = "\n  ".join(last)
            raise AssertionError(f"{fault} {browser.problems}\n  gesture {number}:\n  {done}")


# --- gestures ---


def _spot(browser: Browser, draw: random.Random) -> dict[str, float | str]:
    found: dict[str, float | str] = browser.value(f"{PICK}({[draw.random() for _ in range(4)]})")
    return found


def _click(browser: Browser, draw: random.Random) -> str:
    found = _spot(browser, draw)
    place = float(found["x"]), float(found["y"])
    browser.move(*place)
    if found["kind"] != "SELECT":  # its list would be a window of its own
        browser.press(*place)
        browser.release(*place)
    return str(found["name"])


def _hover(browser: Browser, draw: random.Random) -> str:
    found = _spot(browser, draw)
    browser.move(float(found["x"]), float(found["y"]))
    return str(found["name"])


def _drag(browser: Browser, draw: random.Random) -> str:
    found = _spot(browser, draw)
    x, y = float(found["x"]), float(found["y"])
    if found["kind"] == "SELECT":
        return "nothing"
    browser.move(x, y)
    browser.press(x, y)
    for _ in range(3):
        x, y = x + draw.randint(-60, 60), y + draw.randint(-20, 20)
        browser.move(x, y, "left")
    browser.release(x, y)
    return str(found["name"])


def _wander(browser: Browser, draw: random.Random) -> str:
    places = [(draw.uniform(0, 1280), draw.uniform(0, HEIGHT)) for _ in range(3)]
    for place in places:
        browser.move(*place)
    return f"{places}"


def _leave(browser: Browser, draw: random.Random) -> str:
    browser.leave()
    return ""


def _scroll(browser: Browser, draw: random.Random) -> str:
    by = draw.randint(-900, 900)
    wheel = {"x": 200, "y": 300, "deltaX": 0, "deltaY": by}
    browser.call("Input.dispatchMouseEvent", type="mouseWheel", **wheel)
    return str(by)


def _press_keys(browser: Browser, draw: random.Random) -> str:
    names = [draw.choice([*KEYS, "a"]) for _ in range(draw.randint(1, 3))]
    for name in names:
        browser.key(name)
    return f"{names}"


def _choose(browser: Browser, draw: random.Random) -> str:
    found = str(browser.value(f"{FOCUS_PICK}({draw.random()})"))
    browser.key(draw.choice(["ArrowDown", "ArrowUp", "End", "Home"]))
    return found


def _type(browser: Browser, draw: random.Random) -> str:
    text = draw.choice(TYPED)
    replaces = draw.random() < 0.3
    box = "document.querySelector('textarea')"
    if not browser.value(f"{box} && ({box}.focus(), {str(replaces).lower()} && {box}.select(), 1)"):
        return "nothing"
    browser.call("Input.insertText", text=text)
    return repr(text)


def _follow_link(browser: Browser, draw: random.Random) -> str:
    address = draw.choice(HASHES)
    browser.value(f"location.hash = {json.dumps(address)}; 0")
    return address


GESTURES: dict[Callable[[Browser, random.Random], str], int] = {
    _click: 45, _hover: 20, _drag: 7, _wander: 4, _leave: 3, _scroll: 4, _press_keys: 8,
    _choose: 5, _type: 3, _follow_link: 1,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m proofs.pages", description=__doc__)
    parser.add_argument("count", type=int, help="gestures on each page")
    parser.add_argument("names", nargs="*", help=f"pages (default: all): {', '.join(PAGES)}")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_intermixed_args()
    if CHROMIUM is None:
        raise SystemExit("there is no chromium. Install it (Debian: apt-get install chromium).")
    print(prove(given.count, given.seed, given.names or PAGES))


if __name__ == "__main__":
    main()
