"""Only this computer's own pages and programs are answered."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from glassformer.serve import app as guard

STORY = {"model": "before", "text": "a"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "[::1]:8000"]
)
def test_the_names_of_this_computer_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200
    origin = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert client.post("/api/story", json=STORY, headers=origin).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "localhost:80"),
        *("127.0.0.1:8000.evil.example", "0.0.0.0:8000", "", "localhost.:8000"),
    ],
)
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    """A page whose name was made to lead to 127.0.0.1 sends that name."""
    for answer in (
        client.get("/", headers={"host": host}),
        client.post("/api/story", json=STORY, headers={"host": host}),
    ):
        assert answer.status_code == 421
        assert "http://127.0.0.1:8000" in answer.json()["error"]["message"]


def test_two_names_are_refused(client: TestClient) -> None:
    headers = [("host", "127.0.0.1:8000"), ("host", "evil.example")]
    assert client.get("/", headers=headers).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8000"},
        {"origin": "http://127.0.0.1:8888"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {
            "sec-fetch-site": "cross-site",
            "sec-fetch-mode": "navigate",
            "sec-fetch-dest": "document",
        },
    ],
)
def test_other_sites_cannot_ask_for_stories(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/api/story", json=STORY, headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_other_sites_may_link_here_but_not_embed(client: TestClient) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=link | {"sec-fetch-dest": "document"}).status_code == 200
    assert client.get("/", headers=link | {"sec-fetch-dest": "iframe"}).status_code == 403
    image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert client.get("/", headers=image).status_code == 403


def test_a_preflight_is_not_answered(client: TestClient) -> None:
    asks = {"origin": "http://127.0.0.1:8000", "access-control-request-method": "POST"}
    answer = client.options("/api/story", headers=asks)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/compare"])
def test_a_page_may_run_only_its_own_script(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"].startswith("'sha256-")
    assert policy["frame-ancestors"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_every_answer_has_a_policy(client: TestClient) -> None:
    found = [
        client.get("/nothing"),
        client.get("/", headers={"host": "x"}),
        client.get("/api/models"),
    ]
    assert all("default-src 'none'" in each.headers["content-security-policy"] for each in found)


def test_a_request_that_is_too_large_is_refused_unread(client: TestClient) -> None:
    headers = {"content-type": "application/json", "content-length": "99999999999"}
    answer = client.post("/api/story", content=b"{}", headers=headers)
    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == "The request is larger than 16 MB."


def test_a_request_that_grows_too_large_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_BYTES", 1000)

    def parts() -> Any:
        yield from [b"x" * 400] * 4

    headers = {"content-type": "application/json"}
    assert client.post("/api/story", content=parts(), headers=headers).status_code == 413
