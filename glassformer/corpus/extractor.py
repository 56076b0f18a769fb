"""Extracting the text of pages in a child process, so that no page can stop the work.

A page that needs too much processor time, or crashes a library, costs the child process and one
count. The limit is on processor time, not on the clock: a busy machine gives the same corpus.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import glassformer

PATIENCE = 20  # times the limit on processor time, by the clock: for a child that hangs


@dataclass(frozen=True)
class Extracted:
    """What was found in a page, or the rule by which there is nothing."""

    text: str = ""
    title: str = ""
    rule: str = ""
    detail: str = ""


class Extractor:
    """A child process, started when it is first needed and again when it was lost."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None

    def extract(self, body: bytes, content_type: str, is_html: bool) -> Extracted:
        answer = self._ask(body, content_type, is_html)
        if answer is None:
            limit = f"more than {self._seconds} seconds, or a crash"
            return Extracted(rule="time_limit", detail=limit)
        if "failed" in answer:
            return Extracted(rule="failed", detail=answer["failed"])
        if not answer["text"]:
            return Extracted(title=answer["title"], rule="no_text")
        return Extracted(answer["text"], answer["title"])

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()

    def _ask(self, body: bytes, content_type: str, is_html: bool) -> dict[str, Any] | None:
        if self._child is None:
            self._child = _started()
        child = self._child
        request = {
            "num_bytes": len(body),
            "content_type": content_type,
            "is_html": is_html,
            "seconds": self._seconds,
        }
        timer = threading.Timer(PATIENCE * self._seconds, child.kill)
        timer.start()
        line = b""
        try:
            if child.stdin is not None and child.stdout is not None:
                child.stdin.write(json.dumps(request).encode() + b"\n" + body)
                child.stdin.flush()
                line = child.stdout.readline()
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return dict(json.loads(line))
        self.close()
        return None


@cache
def shared_extractor(seconds: int) -> Extractor:
    """The extractor of this process: starting one takes as long as several pages."""
    extractor = Extractor(seconds)
    atexit.register(extractor.close)
    return extractor


def _started() -> "subprocess.Popen[bytes]":
    """Start the program, with this package and without the current folder on its path."""
    package = str(Path(glassformer.__file__).parent.parent)
    paths = [package, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "glassformer.corpus.extractor_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
