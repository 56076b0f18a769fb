"""`glassformer explore`: models at an address of this computer, until Ctrl-C."""

import asyncio
import base64
import errno
import hashlib
import re
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from glassformer.data.images import decode_image, report_conversions
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.inspection import Inspection
from glassformer.inspect.page import assembled, part
from glassformer.inspect.story import SCRIPTS, SLOW, STYLES, story_data
from glassformer.machine.facts import NotWantedError, check_wanted, wanted_until
from glassformer.models import name_of
from glassformer.nn.observe import without_heads
from glassformer.tasks import load, predictor_of
from glassformer.tasks.task import Predictor, View
from glassformer.training.preparation import prepared
from glassformer.training.run_folder import RunFolder
from glassformer.wording import cause, install

# --- explore ---

HOST = "127.0.0.1"
FIRST_TEXT = "The train slowly left the station"  # for models without a run
_WAITING = 64  # connections that wait to be accepted


def explore(
    folders: Sequence[Path],
    port: int,
    ready: Callable[[str], None],
    note: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve the models until a signal comes. `ready` gets the address, when it can be opened, and
    `note` what the user should know."""
    try:
        import uvicorn

        from glassformer.serve.app import create_app
    except ImportError:
        raise GlassformerError(
            f"explore needs FastAPI and uvicorn. Run {install('glassformer[serve]')}."
        ) from None

    with _bound(port) as listener:  # before the models are read, which takes long
        number = listener.getsockname()[1]
        folders, repeated = distinct(folders)
        for each in repeated:
            note(each)
        models = load_models(folders)
        app = create_app(models, number, first_text(folders) or FIRST_TEXT)

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                if self.started:
                    ready(f"http://{HOST}:{number}")

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                app.state.end()  # what is being computed would delay the end
                await super().shutdown(sockets)

        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=100,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=32_768,
        )
        Server(config).run([listener])


def _bound(port: int) -> socket.socket:
    """A socket that listens. Until the server accepts them, connections wait."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # left over from before
        listener.bind((HOST, port))
        listener.listen(_WAITING)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise GlassformerError(
                f"port {port} on {HOST} is in use. Stop the program that uses it, or choose "
                f"another one, such as --port {_free_port(port)}."
            ) from None
        raise UsageError(
            f"port {port} on {HOST} cannot be used: {cause(error)}. Choose another --port."
        ) from None
    return listener


def _free_port(port: int) -> int:
    """A port near this one that is free at the moment."""
    for number in range(port + 1, min(port + 50, 65_536)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
            try:
                tried.bind((HOST, number))
            except OSError:
                continue
            return number
    return 0  # which means any


# --- stories ---
# The stories of one model: what a reader asks, and what the page shows of it.

VIEW = "story"
SIZES = {"beams": 3_000_000, "effects": 3_000_000, "attribution": 0, "history": 0}
"""Parts of a story that run the model many times, and the number of parameters up to which they are
computed at once. Larger models are asked for them separately."""


@dataclass(frozen=True)
class Question:
    """An input of a model, and the heads that contribute nothing to its answer."""

    text: str | None = None
    image: bytes | None = None
    """The content of an image file."""
    image_name: str = "image"
    """What the reader calls it."""
    off: tuple[tuple[int, int], ...] = ()
    """Layers and heads that are switched off."""


class StoryModel:
    """A model that can be asked for stories. Not for two threads at the same time."""

    def __init__(
        self,
        name: str,
        kind: str,
        predictor: Predictor,
        view: View,
        sizes: Mapping[str, int] = SIZES,
    ) -> None:
        self.name = name
        """Unique among the models of a server."""
        self.kind = kind
        """Such as gpt or bert."""
        self.reads_image = view.reads_file
        self._inspect = getattr(predictor, view.method)
        self._channels: int | None = getattr(predictor.preprocessing, "num_channels", None)
        size = sum(each.numel() for each in predictor.model.parameters())
        self._slow = [part for part, most in sizes.items() if size > most]
        self._last: tuple[Question, Inspection, list[str]] | None = None
        self._history: tuple[Question, dict[str, Any]] | None = None

    def story(self, question: Question) -> dict[str, Any]:
        """What the page shows, without the parts that take long; `later` names these."""
        seen, notes = self._seen(question)
        with switched_off(seen, question.off):
            found = story_data(_watched(seen), without={"live", *self._slow})
        missing = {
            "beams": seen.subject.search is None,
            "effects": not (seen.has_layers or seen.windows()),
            "attribution": seen.subject.run_rows is None,
            "history": seen.subject.history is None,
        }
        later = [part for part in self._slow if not missing.get(part)]
        if self.reads_image:
            found["text"] = question.image_name
        return found | {"notes": [*notes, *found["notes"]], "later": later}

    def part(self, question: Question, name: str) -> dict[str, Any]:
        """What one of the parts that take long adds to the story."""
        seen, _ = self._seen(question)
        if name not in SLOW:
            return {}
        if name == "history":
            found = self._past(seen, question)
        else:
            with switched_off(seen, question.off):
                found = SLOW[name](_watched(seen))
        return {key: value for key, value in found.items() if value is not None}

    def _past(self, seen: Inspection, question: Question) -> dict[str, Any]:
        """The snapshots of the training are loaded once for an input: all of their heads are on,
        whichever heads of the model the reader switches off."""
        asked = replace(question, off=())
        if self._history is None or self._history[0] != asked:
            self._history = None
            self._history = asked, SLOW["history"](seen)
        return self._history[1]

    def _seen(self, question: Question) -> tuple[Inspection, list[str]]:
        """What the model computes, kept until another question is asked, and notes on the input."""
        if self._last is not None and self._last[0] == question:
            return self._last[1:]
        self._last = None  # two at a time would need twice the memory
        with collecting() as happened:
            seen: Inspection = self._inspect(self._input(question))
        if question.off:
            with switched_off(seen, question.off):
                seen = Inspection(seen.subject)
        self._last = question, seen, happened.notes()
        return self._last[1:]

    def _input(self, question: Question) -> Any:
        if not self.reads_image:
            if question.text is None:
                raise UsageError(f"{self.name} reads a text.")
            return question.text
        if question.image is None:
            raise UsageError(f"{self.name} reads an image. Choose an image file.")
        image = decode_image(question.image, question.image_name, self._channels)
        report_conversions(question.image_name, image)
        return image.pixels


def _watched(seen: Inspection) -> Inspection:
    """The same, but before each run of the model it looks whether somebody still waits."""
    subject, found = seen.subject, copy(seen)

    def watched(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def run_if_wanted() -> Tensor:
            check_wanted()
            return run()

        return run_if_wanted

    found.subject = replace(
        subject,
        run=watched(subject.run),
        run_rows=None if subject.run_rows is None else watched(subject.run_rows),
    )
    return found


@contextmanager
def switched_off(seen: Inspection, heads: tuple[tuple[int, int], ...]) -> Iterator[None]:
    """Switch off heads of the sequence that predictions are made from."""
    if not heads:
        yield
        return
    seen.capture()  # an error if there are no layers
    attentions = [] if seen.stream.stack is None else seen.stream.stack.attentions
    silent: dict[Any, list[int]] = {}
    for layer, head in heads:
        if layer >= len(attentions) or head >= attentions[layer].num_heads:
            shape = f"{len(attentions)} layers of {attentions[0].num_heads} heads"
            raise UsageError(f"there is no head {head} in layer {layer}: the model has {shape}.")
        silent.setdefault(attentions[layer].tap, []).append(head)
    with without_heads(silent):
        yield


# --- explored models ---
# The models that `explore` serves, from their folders.


def distinct(folders: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Each model once, and a note on those that were given again, perhaps by another name."""
    first: dict[Path, Path] = {}
    notes = []
    for folder in folders:
        place = folder.resolve()
        if place in first:
            again = "given twice" if first[place] == folder else f"the same model as {first[place]}"
            notes.append(f"{folder} is {again}: it is shown once")
        first.setdefault(place, folder)
    return list(first.values()), notes


def load_models(folders: Sequence[Path]) -> list[StoryModel]:
    """The models in these folders, all of which have a story."""
    for folder in folders:  # before the weights are read, which takes long
        kind = predictor_of(folder)
        if VIEW not in kind.views:
            others = "".join(f", {name}" for name in kind.views)
            hint = f" Use glassformer inspect with --view{others[1:]}." if others else ""
            raise GlassformerError(f"{folder} cannot be explored: it has no story.{hint}")
    found = []
    for folder, name in zip(folders, _names(folders), strict=True):
        predictor = load(folder)
        view = predictor.view(VIEW, folder)
        found.append(StoryModel(name, name_of(predictor.model), predictor, view))
    return found


def _names(folders: Sequence[Path]) -> list[str]:
    """The names of the folders, or all of their paths where names are equal."""
    names = [folder.resolve().name for folder in folders]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else str(folder)
        for name, folder in zip(names, folders, strict=True)
    ]


def first_text(folders: Sequence[Path]) -> str | None:
    """A text from the held-out data of the first run that has one."""
    for folder in folders:
        if predictor_of(folder).views[VIEW].reads_file:
            continue
        run = RunFolder(folder)
        try:
            if run.exists:
                (_, _, *words), *_ = prepared(run.recipe(), run.path).trials(folder)
                if words and not str(words[0]).startswith("--"):
                    return str(words[0])
        except (GlassformerError, OSError):
            continue  # the model can be used without its data
    return None


# --- turns ---
# One computation of a model at a time, on a thread of its own; others wait in a short queue.

FoundT = TypeVar("FoundT")

MOST_WAITING = 4  # computations of a model, beside the one that runs
SECONDS = 120.0  # that a computation may take, waiting included
_PATIENCE = 0.2  # seconds between two looks at whether somebody still waits


class BusyError(GlassformerError):
    """Too many computations wait already."""


class TooSlowError(GlassformerError):
    """A computation took too long."""


class Turns:
    """The queue of one model."""

    def __init__(
        self, num_threads: int, most_waiting: int = MOST_WAITING, seconds: float = SECONDS
    ) -> None:
        """`num_threads` is how many of torch's threads a computation may use."""

        def prepare() -> None:
            import torch

            torch.set_num_threads(num_threads)

        self._pool = ThreadPoolExecutor(1, "glassformer-model", initializer=prepare)
        self._most, self._seconds = 1 + most_waiting, seconds
        self._ends: set[threading.Event] = set()
        """One event for each computation that runs or waits; to set it ends the computation."""
        self._is_over = False

    async def take(
        self, work: Callable[[], FoundT], is_unwanted: Callable[[], Awaitable[bool]]
    ) -> FoundT:
        """What `work` returns. It ends early, by NotWantedError, if it calls `check_wanted` after
        `is_unwanted` or the time limit came true."""
        if self._is_over:
            raise NotWantedError
        if len(self._ends) >= self._most:
            raise BusyError("the model is busy with other requests. Try again in a second.")
        is_over = threading.Event()

        def on_its_turn() -> FoundT:
            with wanted_until(is_over):
                check_wanted()  # it may have waited for long
                return work()

        self._ends.add(is_over)
        future = self._pool.submit(on_its_turn)
        future.add_done_callback(lambda _: self._ends.discard(is_over))
        try:
            return await self._finished(future, is_unwanted)
        finally:
            is_over.set()
            future.cancel()

    async def _finished(
        self, future: "Future[FoundT]", is_unwanted: Callable[[], Awaitable[bool]]
    ) -> FoundT:
        waiting = asyncio.wrap_future(future)
        # Of work that nobody waits for any more, asyncio would print the error.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        for _ in range(max(1, round(self._seconds / _PATIENCE))):
            done, _ = await asyncio.wait({waiting}, timeout=_PATIENCE)
            if done:
                return waiting.result()
            if await is_unwanted():
                raise NotWantedError
        raise TooSlowError(
            f"the model needs more than {self._seconds:.0f} seconds for this. Use a shorter text."
        )

    def end(self) -> None:
        """End everything that runs or waits, as soon as it looks; nothing can be started again.

        Like `take`, for the thread of the event loop only: a signal may come while that holds a
        lock of the pool."""
        self._is_over = True
        for is_over in list(self._ends):
            is_over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


# --- explore ---
# The pages of `glassformer explore`: the story, computed by a server, and stories side by side.

_SCRIPT = re.compile(r'<script type="module">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class ServedPage:
    """A page, and the content security policy that belongs into its header."""

    html: str
    policy: str


def story_page(server: dict[str, Any]) -> ServedPage:
    """The story page. `server` has the models that it may ask for, and a first text."""
    *scripts, last = SCRIPTS
    return _served(
        "Explore",
        part("story/story.html"),
        (*STYLES, "explore/explore.css"),
        (*scripts, "explore/inputs.js", "explore/served.js", "explore/column.js", last),
        server,
        "connect-src 'self'",
    )


def compare_page(server: dict[str, Any]) -> ServedPage:
    """Several story pages beside each other, with one box for the text."""
    return _served(
        "Side by side",
        part("explore/compare.html"),
        (*STYLES, "explore/explore.css", "explore/compare.css"),
        ("elements.js", "explore/inputs.js", "explore/compare.js"),
        server,
        "frame-src 'self'",
    )


def _served(
    title: str,
    body: str,
    styles: tuple[str, ...],
    scripts: tuple[str, ...],
    server: dict[str, Any],
    allowed: str,
) -> ServedPage:
    """The policy of the header is stricter than that of a file: only this very script may run, and
    only a page of this server may frame it."""
    html = assembled(title, body, styles, scripts, {"server": server}, allowed)
    (script,) = _SCRIPT.findall(html)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return ServedPage(
        html,
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; {allowed}; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'",
    )
