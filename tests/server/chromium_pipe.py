"""A real browser, driven through a pipe by Chromium's own protocol: no package is needed."""

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
            self.problems.append(str(params["exceptionDetails"].get("exception", params)))
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

    def picture(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
