"""The web server: pages by GET, stories by POST of JSON. All errors are JSON, too.

    GET  /                      the story page
    GET  /compare               stories side by side
    GET  /api/models            the models of this server
    POST /api/story             {"model", "text" or "image", "off"} → what the page shows
    POST /api/story/{part}      the same question → one of the parts that take long

    request → Guard → StoryRequest → Turns → StoryModel → JSON

The guard refuses other sites and requests that are too large, a request is checked before a model
sees it, and each model computes for one request at a time.
"""

import asyncio
import base64
import binascii
import json
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

import torch
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.config import Config, parse
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.page import embedded
from glassformer.inspect.story import MOST_SWITCHED
from glassformer.machine.threads import NotWantedError, check_wanted, wanted_until
from glassformer.serve.explore import Question, ServedPage, StoryModel, compare_page, story_page
from glassformer.wording import first_line, readable_size

# --- the guard ---
# Any page in the user's browser can send requests to 127.0.0.1. Checking `Host` stops pages whose
# own name was made to lead here (DNS rebinding); checking `Origin` and `Sec-Fetch-Site` stops those
# of other sites. Without CORS, no other site can read an answer.

MOST_BYTES = 16_000_000  # of a request: an image of 10 MB in base64, and room
SECONDS_TO_ARRIVE = 30.0  # for all of a request

HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
}
NO_CONTENT = "default-src 'none'; frame-ancestors 'none'"  # policy of all that is not a page


class Refusal(Exception):  # noqa: N818  (it is no fault of ours)
    """A request that is not answered."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message


def error_json(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """The body of every answer that is an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class Guard:
    """Passes on only the requests that the server's own pages, or programs, send."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        names = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        self._address = f"http://127.0.0.1:{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("the server speaks only HTTP")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("content-security-policy", NO_CONTENT)
                headers.update(HEADERS)
            await send(message)

        try:
            self._check_sender(scope["method"], Headers(scope=scope))
            if scope["method"] == "POST":
                receive = _replayed(await _body(Headers(scope=scope), receive), receive)
        except Refusal as refusal:
            await _answer(refusal, guarded)
            return
        await self._app(scope, receive, guarded)

    def _check_sender(self, method: str, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise Refusal(421, f"This server answers only at {self._address}.")
        origins = headers.getlist("origin")
        is_foreign = any(origin.lower() not in self._origins for origin in origins)
        if is_foreign or not _is_from_here(method, headers):
            raise Refusal(403, "Requests from other sites are refused.")


def _is_from_here(method: str, headers: Mapping[str, str]) -> bool:
    """What browsers say about the sender. A link in another site may lead here; nothing else."""
    site = headers.get("sec-fetch-site", "none")
    is_link = headers.get("sec-fetch-mode") == "navigate"
    is_page = headers.get("sec-fetch-dest") == "document"
    return site in ("same-origin", "none") or (method == "GET" and is_link and is_page)


async def _body(headers: Headers, receive: Receive) -> bytes:
    """The content of a request, refused before it is read if it is declared to be too large."""
    too_large = Refusal(413, f"The request is larger than {readable_size(MOST_BYTES)}.")
    declared = headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > MOST_BYTES:
        raise too_large
    content = bytearray()
    try:
        async with asyncio.timeout(SECONDS_TO_ARRIVE):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "The request ended early.")
                content += message.get("body", b"")
                if len(content) > MOST_BYTES:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(content)
    except TimeoutError:
        raise Refusal(408, "The request took too long to arrive.") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


async def _answer(refusal: Refusal, send: Send) -> None:
    body = json.dumps(error_json(refusal.message)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if refusal.status in (408, 413):
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# --- requests ---

LONGEST_TEXT = 20_000  # characters: far more than fits into a picture

Place = Annotated[int, Field(ge=0, le=100_000, strict=True)]


class StoryRequest(Config):
    """A question to a model: a text, or the content of an image file in base64."""

    model: str
    text: str | None = None
    image: str | None = None
    image_name: Annotated[str, Field(max_length=300)] | None = None
    off: Annotated[tuple[tuple[Place, Place], ...], Field(max_length=MOST_SWITCHED)] = ()
    """Layers and heads that are switched off."""

    def question(self) -> Question:
        return Question(
            text=None if self.text is None else _checked(self.text),
            image=None if self.image is None else _decoded(self.image),
            image_name=_checked(self.image_name or "image"),
            off=tuple(sorted(set(self.off))),
        )


def read_request(body: bytes) -> StoryRequest:
    """A request from its JSON; an error says what is wrong with it."""
    try:
        values: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the request is not JSON.") from None
    if not isinstance(values, dict):
        raise UsageError('the request is not a JSON object such as {"model": "a", "text": "b"}.')
    return parse(StoryRequest, values, where="the request", error=UsageError)


def _checked(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"the text has {len(text):,} characters. Use at most {LONGEST_TEXT:,}.")
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character: JSON can contain it, UTF-8 cannot
        raise UsageError("the text is not valid Unicode.") from None
    return text


def _decoded(image: str) -> bytes:
    try:
        return base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("the image is not base64.") from None


# --- turns ---
# A `StoryModel` keeps what it computed last, so it serves one request at a time, on a thread of its
# own. Others wait in a short queue. A computation that nobody waits for any more ends at the next
# run of the model.

ResultT = TypeVar("ResultT")

MOST_WAITING = 4  # computations of a model, beside the one that runs
SECONDS_TO_COMPUTE = 120.0  # waiting included
PATIENCE = 0.2  # seconds between two looks at whether somebody still waits


class BusyError(GlassformerError):
    """Too many computations wait already."""


class TooSlowError(GlassformerError):
    """A computation took too long."""


class Turns:
    """The queue of one model."""

    def __init__(
        self,
        num_threads: int,
        most_waiting: int = MOST_WAITING,
        seconds: float = SECONDS_TO_COMPUTE,
    ) -> None:
        """`num_threads` is how many of torch's threads a computation may use."""
        self._pool = ThreadPoolExecutor(
            1, "glassformer-model", initializer=torch.set_num_threads, initargs=(num_threads,)
        )
        self._most, self._seconds = 1 + most_waiting, seconds
        self._ends: set[threading.Event] = set()
        """One event for each computation that runs or waits; to set it ends the computation."""
        self._is_over = False

    async def take(
        self, work: Callable[[], ResultT], is_unwanted: Callable[[], Awaitable[bool]]
    ) -> ResultT:
        """What `work` returns. It ends early, by NotWantedError, if it calls `check_wanted` after
        `is_unwanted` or the time limit came true."""
        if self._is_over:
            raise NotWantedError
        if len(self._ends) >= self._most:
            raise BusyError("the model is busy with other requests. Try again in a second.")
        is_over = threading.Event()

        def on_its_turn() -> ResultT:
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
        self, future: "Future[ResultT]", is_unwanted: Callable[[], Awaitable[bool]]
    ) -> ResultT:
        waiting = asyncio.wrap_future(future)
        # Of work that nobody waits for any more, asyncio would print the error.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        for _ in range(max(1, round(self._seconds / PATIENCE))):
            done, _ = await asyncio.wait({waiting}, timeout=PATIENCE)
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


# --- the app ---

Compute = Callable[[StoryModel, Question], Any]


def create_app(models: Sequence[StoryModel], port: int, text: str = "") -> FastAPI:
    """The server of these models at a port of this computer. `text` is what the pages show first.
    Its state has `end`, which ends all computations."""
    # Models side by side compute at the same time, and threads that wait for each other are slower
    # than fewer threads: so the models share the threads of torch.
    share = max(1, torch.get_num_threads() // max(1, len(models)))
    turns = {model.name: Turns(share) for model in models}

    def end() -> None:
        for queue in turns.values():
            queue.end()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        end()

    # The usual pages about an API load scripts from the network.
    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.end = end
    app.add_middleware(Guard, port=port)
    app.add_exception_handler(HTTPException, _http_error)
    listed = [
        {"name": model.name, "kind": model.kind, "reads_image": model.reads_image}
        for model in models
    ]
    server = {"models": listed, "text": text}
    for path, page in (("/", story_page(server)), ("/compare", compare_page(server))):
        app.add_api_route(path, _sender(page), methods=["GET"], include_in_schema=False)
    by_name = {model.name: model for model in models}

    @app.get("/api/models")
    async def get_models() -> dict[str, Any]:
        return {"models": listed}

    async def answered(request: Request, compute: Compute) -> Response:
        try:
            if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
                return _error(415, "the content type of a request must be application/json.")
            asked = read_request(await request.body())
            if asked.model not in by_name:
                return _error(404, f'there is no model "{asked.model[:80]}" here.')
            model, question = by_name[asked.model], asked.question()
            # Written as JSON on the model's thread: large stories take a moment.
            work = turns[asked.model].take(
                lambda: embedded(compute(model, question)), request.is_disconnected
            )
            return Response(await work, media_type="application/json")
        except Exception as error:
            return _explained(error)

    @app.post("/api/story")
    async def post_story(request: Request) -> Response:
        return await answered(request, StoryModel.story)

    @app.post("/api/story/{part}")
    async def post_part(request: Request, part: str) -> Response:
        return await answered(request, lambda model, question: model.part(question, part))

    return app


def _sender(page: ServedPage) -> Callable[[], HTMLResponse]:
    headers = {"content-security-policy": page.policy}
    return lambda: HTMLResponse(page.html, headers=headers)


def _explained(error: Exception) -> Response:
    match error:
        case BusyError():
            return _error(429, str(error), "busy", {"retry-after": "1"})
        case TooSlowError():
            return _error(503, str(error), "too_slow")
        case NotWantedError():
            return _error(503, "the computation was ended.", "ended")
        case GlassformerError():
            return _error(400, str(error))
    # Not the fault of the client, and none of its business: the person at the terminal sees it.
    if os.environ.get("GLASSFORMER_DEBUG"):
        traceback.print_exception(error)
    else:
        print(f"error: {type(error).__name__}: {first_line(error)}", file=sys.stderr)  # noqa: T201
    return _error(500, "the model failed on this input. The terminal shows why.", "server_error")


def _error(
    status: int,
    message: str,
    kind: str = "invalid_request_error",
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    return JSONResponse(error_json(message, kind), status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    messages = {404: "there is nothing at this address.", 405: "this method is not allowed here."}
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return _error(status, messages.get(status, "the request failed."), headers=headers)
