"""The web server: pages by GET, stories by POST of JSON. All errors are JSON, too.

GET  /                      the story page
GET  /compare               stories side by side
GET  /api/models            the models of this server
POST /api/story             {"model", "text" or "image", "off"} → what the page shows
POST /api/story/{part}      the same question → one of the parts that take long
"""

import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from glassformer.errors import GlassformerError
from glassformer.runtime.threads import NotWantedError
from glassformer.server.guard import Guard, error_json
from glassformer.server.requests import read_request
from glassformer.server.stories import Question, StoryModel
from glassformer.server.turns import BusyError, TooSlowError, Turns
from glassformer.story.explore import ServedPage, compare_page, story_page
from glassformer.story.page import embedded
from glassformer.wording import first_line

Compute = Callable[[StoryModel, Question], Any]


def create_app(models: Sequence[StoryModel], port: int, text: str = "") -> FastAPI:
    """The server of these models at a port of this computer. `text` is what the pages show first.
    Its state has `end`, which ends all computations."""
    turns = _turns_of(models)

    def end() -> None:
        for each in turns.values():
            each.end()

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
        {"name": each.name, "kind": each.kind, "reads_image": each.reads_image} for each in models
    ]
    server = {"models": listed, "text": text}
    for path, page in (("/", story_page(server)), ("/compare", compare_page(server))):
        app.add_api_route(path, _sender(page), methods=["GET"], include_in_schema=False)
    by_name = {each.name: each for each in models}

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


def _turns_of(models: Sequence[StoryModel]) -> dict[str, Turns]:
    """A queue for each model. They share the threads of torch, because models side by side compute
    at the same time, and threads that wait for each other are slower than fewer threads."""
    import torch

    share = max(1, torch.get_num_threads() // max(1, len(models)))
    return {each.name: Turns(share) for each in models}


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
