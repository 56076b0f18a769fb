"""The page of an encoder without an output layer: what is there works, what is not is explained."""

from pathlib import Path

from live_models import needs_chromium
from starlette.testclient import TestClient
from test_inspecting_vectors import encoder
from test_story_page import shown

from glassformer.inspect.story import page
from glassformer.serve.app import create_app
from glassformer.serve.explore import StoryModel


@needs_chromium
def test_chapters_on_predictions_are_absent_and_the_others_work(tmp_path: Path) -> None:
    seen = encoder().inspect("one two three")
    script = """(() => {
      const cell = document.querySelector(".effects tbody td");
      cell.dispatchEvent(new Event("pointerenter"));
      return {
        chapters: [...document.querySelectorAll("section.chapter")].map(({ id }) => id),
        about: document.getElementById("about").textContent,
        said: [...document.querySelectorAll("#layers .said")].at(-1).textContent,
        cells: document.querySelectorAll(".effects tbody td").length,
        chosen: document.querySelector(".chip[aria-selected=true]").textContent,
        sum: operations.get("effect").lines(0, 0, 0).flat().map((part) => part.text ?? part),
      };
    })()"""
    found = shown(page(seen), script, tmp_path)
    chapters = ["tokens", "embeddings", "attention", "computation", "feedforward", "residual"]
    assert found["chapters"] == [*chapters, "layers"]
    assert "no output layer" in found["about"]
    assert found["said"].startswith("Without head 0 of layer 0: the vector turns by ")
    assert found["cells"] == 8
    assert "three" in found["chosen"]
    assert "cos" in "".join(found["sum"])


def test_it_can_be_explored() -> None:
    predictor = encoder()
    model = StoryModel("encoder", "bert", predictor, predictor.view("story", "encoder"))
    with TestClient(create_app([model], 8000), base_url="http://127.0.0.1:8000") as client:
        question = {"model": "encoder", "text": "one two three", "off": [[1, 2]]}
        story = client.post("/api/story", json=question).json()
        assert story["predictions"] == []
        assert story["later"] == []
        assert story["effects"]["0"]["divergence"][1][2] == 0  # it is off already
        for part in ("attribution", "beams", "history"):
            assert client.post(f"/api/story/{part}", json=question).json() == {}
