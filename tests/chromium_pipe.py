"""A real browser, driven through a pipe by Chromium's own protocol: no package is needed.

Its pointer and keys go through the browser's own input: an element is entered, hovered and left as
it is by a reader.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    *("--remote-debugging-pipe", "about:blank"),
)
SECONDS = 40.0
KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    " ": (32, " "),
    "Delete": (46, ""),
    "End": (35, ""),
    "Home": (36, ""),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Backspace": (8, ""),
}  # number and text of keys that are no letters


class Browser:
    """One tab. `problems` collects errors of scripts and of the console."""

    def __init__(self, profile: Path) -> None:
        (ours_in, self._out), (self._in, ours_out) = os.pipe(), os.pipe()
        moved = 'exec "$@" 3<&"$IN" 4>&"$OUT"'  # Chromium reads from 3 and writes to 4
        self._process = subprocess.Popen(
            ["bash", "-c", moved, "bash", str(CHROMIUM), f"--user-data-dir={profile}", *FLAGS],
            env={**os.environ, "IN": str(ours_in), "OUT": str(ours_out)},
            pass_fds=(ours_in, ours_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours_in)
        os.close(ours_out)
        self._last, self._read, self._session = 0, b"", ""
        self.problems: list[str] = []
        (tab,) = (
            each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"
        )
        attach = {"targetId": tab["targetId"], "flatten": True}
        self._session = self.call("Target.attachToTarget", **attach)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._out)
        os.close(self._in)

    def call(self, method: str, **params: Any) -> Any:
        """The result of a command of the protocol."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], SECONDS)
            assert ready, "Chromium does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "Chromium has ended"
            self._read += part
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            thrown = params["exceptionDetails"].get("exception", params)
            self.problems.append(str(thrown.get("description", thrown)))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(str(params["entry"]))

    def open(self, address: str) -> None:
        self.call("Page.navigate", url="about:blank")  # a change of the hash alone loads nothing
        self.call("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """The value of an expression on the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression as soon as it is true."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if found := self.value(
                f"(() => {{ try {{ return {script}; }} catch {{ return null; }} }})()"
            ):
                return found
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}; problems: {self.problems}")

    # --- what a reader does ---

    def window(self, width: int, height: int = 900, scheme: str = "light") -> None:
        """The size of the page and the colours that the reader prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=preferred)

    def spot(self, selector: str, which: int = 0) -> tuple[float, float]:
        """The middle of an element, which is brought into view."""
        x, y = self.wait(f"""(() => {{
          const found = [...document.querySelectorAll({json.dumps(selector)})].at({which});
          found.scrollIntoView({{ block: "center", inline: "center", behavior: "instant" }});
          const box = found.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        return x, y

    def move(self, x: float, y: float, button: str = "none") -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button=button)

    def press(self, x: float, y: float) -> None:
        what = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **what)

    def release(self, x: float, y: float) -> None:
        what = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **what)

    def hover(self, selector: str, which: int = 0) -> None:
        self.move(*self.spot(selector, which))

    def click(self, selector: str, which: int = 0) -> None:
        """Moves to an element and clicks it."""
        place = self.spot(selector, which)
        self.move(*place)
        self.press(*place)
        self.release(*place)

    def leave(self) -> None:
        """Moves the pointer out of the window."""
        self.move(-1, -1)

    def key(self, name: str) -> None:
        """Presses a key, such as "ArrowLeft", "Enter" or "a"."""
        code, text = KEYS.get(name, (ord(name[0].upper()), name))
        what = {"key": name, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **what)
        self.call("Input.dispatchKeyEvent", type="keyUp", **what | {"text": ""})

    def pick_file(self, selector: str, path: Path) -> None:
        """Chooses a file in an input."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        box = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=box, files=[str(path)])

    def picture(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
