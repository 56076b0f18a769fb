"""Draws the pictures of the docs from the pages of trained models: `make pictures`.

ready.py trains the models. A picture is what a browser shows of a page: its first screen, or one
chapter with what the reader has chosen. Needs chromium.

    python docs/make_pictures.py [NAME …]
"""

import base64
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
from chromium_pipe import Browser  # noqa: E402

PAGES = HERE.parent / "build" / "pages"
WIDTH, HEIGHT = 1280, 900


@dataclass(frozen=True)
class Picture:
    """A `page` of ready.py: a `chapter` of it or the first screen, with what the reader chose (part
    of the address)."""

    page: str
    chapter: str = ""
    choose: str = ""
    height: int = 1100


PICTURES = {
    "story-whole": Picture("gpt", choose="layer=2", height=580),
    "story-attention": Picture("gpt", "attention", "layer=1&head=0"),
    "story-feedforward": Picture("gpt", "feedforward", "layer=2"),
    "story-residual": Picture("gpt", "residual"),
    "story-what-if": Picture("gpt", "what_if", "without=scale&layer=1", height=1000),
    "story-kv-cache": Picture("gpt", "kv_cache"),
    "story-alignment": Picture("translator", "attention", "look=2"),
    "story-image-attribution": Picture("captioner", "attribution", height=900),
    "story-image-palette": Picture("painter", "prediction"),
    "playground": Picture("playground", height=900),
}


def draw(browser: Browser, name: str, picture: Picture) -> None:
    browser.window(WIDTH, HEIGHT)
    chosen = "&".join(
        filter(None, (f"chapter={picture.chapter}" * bool(picture.chapter), picture.choose))
    )
    browser.open((PAGES / f"{picture.page}.html").as_uri() + f"#{chosen}")
    browser.wait("document.querySelectorAll('section.chapter, main section, canvas').length > 0")
    time.sleep(3)  # until what is computed later is there
    top, height = 0, picture.height
    if picture.chapter:
        box = f"document.getElementById('{picture.chapter}').getBoundingClientRect()"
        top = browser.value(f"{box}.top + scrollY")
        height = min(height, browser.value(f"{box}.height"))
    if picture.page == "playground":
        browser.click("button.main")  # train …
        time.sleep(60)
        browser.click("button.main")  # … and pause
        browser.click("button.main + button")  # one step
        browser.value("scrollTo(0, 0)")
        time.sleep(1)
    clip = {"x": 0, "y": top, "width": WIDTH, "height": height, "scale": 1}
    shot = browser.call(
        "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
    )
    (HERE / "pictures" / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        for name in names or PICTURES:
            draw(browser, name, PICTURES[name])
            print(f"docs/pictures/{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
