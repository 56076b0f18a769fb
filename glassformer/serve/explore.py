"""`glassformer explore`: models at an address of this computer, until Ctrl-C.

    folders → StoryModel → server (`app.py`) → pages, which ask for stories

A `StoryModel` answers what the page asks. What takes long, such as beams and the effect of each
head, is asked for separately: the page shows the rest at once. The live page is the page of
`inspect`, which gets its data from the server instead of carrying it.
"""

import base64
import errno
import hashlib
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec

from torch import Tensor

from glassformer.data.images import decode_image, report_conversions
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.inspection import Inspection
from glassformer.inspect.page import assembled, part
from glassformer.inspect.story import SCRIPTS, SLOW, STYLES, story_data
from glassformer.machine.threads import check_wanted
from glassformer.models import name_of
from glassformer.nn.observe import without_heads
from glassformer.progress import Notify, silently
from glassformer.tasks import load, predictor_of
from glassformer.tasks.task import Predictor, View
from glassformer.training.preparation import load_objective
from glassformer.training.run_folder import RunFolder
from glassformer.wording import cause, install

HOST = "127.0.0.1"
FIRST_TEXT = "The train slowly left the station"  # for models without a run
BACKLOG = 64  # connections that wait to be accepted


def explore(folders: Sequence[Path], port: int, ready: Notify, notify: Notify = silently) -> None:
    """Serve the models until a signal comes. `ready` gets the address, when it can be opened, and
    `notify` what the user should know."""
    try:
        import uvicorn

        from glassformer.serve.app import create_app
    except ImportError:
        raise GlassformerError(
            f"explore needs FastAPI and uvicorn. Run {install('glassformer[serve]')}."
        ) from None

    with _bound(port) as listener:  # before the models are read, which takes long
        port = listener.getsockname()[1]
        folders, repetitions = distinct(folders)
        for repetition in repetitions:
            notify(repetition)
        app = create_app(load_models(folders), port, first_text(folders) or FIRST_TEXT)

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                if self.started:
                    ready(f"http://{HOST}:{port}")

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
        listener.listen(BACKLOG)
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
    for candidate in range(port + 1, min(port + 50, 65_536)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, candidate))
            except OSError:
                continue
            return candidate
    return 0  # which means any


# --- the stories of a model ---

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
        """The model, such as gpt or bert."""
        self.reads_image = view.reads_file
        self._inspect = getattr(predictor, view.method)
        self._channels: int | None = getattr(predictor.preprocessing, "num_channels", None)
        size = sum(weights.numel() for weights in predictor.model.parameters())
        self._slow = [part for part, most in sizes.items() if size > most]
        self._last: tuple[Question, Inspection, list[str]] | None = None
        self._history: tuple[Question, dict[str, Any]] | None = None

    def story(self, question: Question) -> dict[str, Any]:
        """What the page shows, without the parts that take long; `later` names these."""
        seen, notes = self._seen(question)
        with switched_off(seen, question.off):
            story = story_data(_watched(seen), without={"live", *self._slow})
        subject = seen.subject
        is_there = {
            "beams": subject.search is not None,
            "effects": seen.has_layers or bool(seen.windows()),
            "attribution": subject.answers_other_inputs,
            "history": subject.history is not None,
        }
        later = [part for part in self._slow if is_there[part]]
        if self.reads_image:
            story["text"] = question.image_name
        return story | {"notes": [*notes, *story["notes"]], "later": later}

    def part(self, question: Question, name: str) -> dict[str, Any]:
        """What one of the parts that take long adds to the story."""
        seen, _ = self._seen(question)
        if name not in SLOW:
            return {}
        if name == "history":
            data = self._past(seen, question)
        else:
            with switched_off(seen, question.off):
                data = SLOW[name](_watched(seen))
        return {key: value for key, value in data.items() if value is not None}

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


ArgumentsP = ParamSpec("ArgumentsP")


def _watched(seen: Inspection) -> Inspection:
    """The same, but before each run of the model it looks whether somebody still waits."""
    subject = seen.subject

    def watched(run: Callable[ArgumentsP, Tensor]) -> Callable[ArgumentsP, Tensor]:
        def run_if_wanted(*args: ArgumentsP.args, **kwargs: ArgumentsP.kwargs) -> Tensor:
            check_wanted()
            return run(*args, **kwargs)

        return run_if_wanted

    rows, pixels = subject.run_rows, subject.pixels
    copied = copy(seen)
    copied.subject = replace(
        subject,
        run=watched(subject.run),
        run_rows=None if rows is None else watched(rows),
        pixels=None if pixels is None else replace(pixels, run=watched(pixels.run)),
    )
    return copied


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


# --- the models, from their folders ---


def distinct(folders: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Each model once, and a note on those that were given again, perhaps by another name."""
    first: dict[Path, Path] = {}
    notes = []
    for folder in folders:
        path = folder.resolve()
        if path in first:
            again = "given twice" if first[path] == folder else f"the same model as {first[path]}"
            notes.append(f"{folder} is {again}: it is shown once")
        first.setdefault(path, folder)
    return list(first.values()), notes


def load_models(folders: Sequence[Path]) -> list[StoryModel]:
    """The models in these folders, all of which have a story."""
    for folder in folders:  # before the weights are read, which takes long
        kind = predictor_of(folder)
        if VIEW not in kind.views:
            others = "".join(f", {name}" for name in kind.views)
            hint = f" Use glassformer inspect with --view{others[1:]}." if others else ""
            raise GlassformerError(f"{folder} cannot be explored: it has no story.{hint}")
    names = [folder.resolve().name for folder in folders]
    counts = Counter(names)
    models = []
    for folder, name in zip(folders, names, strict=True):
        predictor = load(folder)
        view = predictor.view(VIEW, folder)
        unique = name if counts[name] == 1 else str(folder)
        models.append(StoryModel(unique, name_of(predictor.model), predictor, view))
    return models


def first_text(folders: Sequence[Path]) -> str | None:
    """A text from the held-out data of the first run that has one."""
    for folder in folders:
        if predictor_of(folder).views[VIEW].reads_file:
            continue
        run = RunFolder(folder)
        try:
            if run.exists:
                (_, _, *words), *_ = load_objective(run.recipe(), run.path).trials(folder)
                if words and not str(words[0]).startswith("--"):
                    return str(words[0])
        except (GlassformerError, OSError):
            continue  # the model can be used without its data
    return None


# --- the pages: the story, and stories side by side ---
# Side by side, each story is a page of its own in a frame, since a page has one state.

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
    about = "This page shows what models of its server compute for an input."
    html = assembled(title, body, styles, scripts, {"server": server}, about, allowed)
    (script,) = _SCRIPT.findall(html)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return ServedPage(
        html,
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; {allowed}; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'",
    )
