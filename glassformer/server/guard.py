"""What a server on this computer must refuse: other names, other sites, and requests too large.

Any page in the user's browser can send requests to 127.0.0.1. Checking `Host` stops pages whose own
name was made to lead here (DNS rebinding); checking `Origin` and `Sec-Fetch-Site` stops those of
other sites. Without CORS, no other site can read an answer.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.wording import readable_size

MOST_BYTES = 16_000_000  # of a request: an image of 10 MB in base64, and room
SECONDS = 30.0  # in which all of a request must arrive

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
        if any(origin.lower() not in self._origins for origin in origins):
            raise Refusal(403, "Requests from other sites are refused.")
        if not _is_from_here(method, headers):
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
        async with asyncio.timeout(SECONDS):
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
