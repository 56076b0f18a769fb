"""Two small language models behind a server."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from served_models import PORT, small_gpt, story_model
from starlette.testclient import TestClient

from glassformer.serve.app import create_app
from glassformer.serve.explore import SIZES, StoryModel
from glassformer.tasks.language.predictor import LanguagePredictor


@pytest.fixture(scope="session")
def predictors() -> dict[str, LanguagePredictor]:
    return {"before": small_gpt(2), "after": small_gpt(3, seed=1)}


@pytest.fixture
def models(predictors: dict[str, LanguagePredictor]) -> list[StoryModel]:
    """The first as if it were large: parts of its stories come later."""
    sizes = {"before": dict.fromkeys(SIZES, 0), "after": SIZES}
    return [story_model(name, each, sizes=sizes[name]) for name, each in predictors.items()]


@pytest.fixture
def client(models: list[StoryModel]) -> Iterator[TestClient]:
    app = create_app(models, PORT, "a bad day")
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        yield client


@pytest.fixture
def address(models: list[StoryModel]) -> Iterator[str]:
    """The address of a server that really listens."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = create_app(models, port, "a bad day")
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()
