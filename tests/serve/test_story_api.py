"""Stories over HTTP: the numbers of `inspect`, and one sentence for every request that is wrong."""

import base64
import io
import json
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from served_models import PORT, small_gpt, story_model
from starlette.testclient import TestClient

from glassformer.inspect.page import embedded
from glassformer.inspect.story import story_data
from glassformer.nn.observe import without_heads
from glassformer.serve.app import LONGEST_TEXT, create_app
from glassformer.tasks.language.predictor import LanguagePredictor

sys.path.insert(0, str(Path(__file__).parents[1] / "story"))
from picture_models import captioner, picture, vit

TEXT = "said the cat"


def unpacked(packed: dict[str, Any]) -> Any:
    values = np.frombuffer(base64.b64decode(packed["data"]), packed["dtype"])
    return values.reshape(packed["shape"]).astype(np.float64)


def attention(story: dict[str, Any]) -> Any:
    """(L, H, T, T) from the queries and keys of a story, as the page computes it."""
    found = []
    for layer in story["streams"][-1]["layers"]:
        query, key = unpacked(layer["query"]), unpacked(layer["key"])
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        scores[:, *np.triu_indices(scores.shape[-1], 1)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        found.append(shares / shares.sum(-1, keepdims=True))
    return np.stack(found)


def asked(
    client: TestClient, model: str, text: str | None = TEXT, path: str = "", **more: Any
) -> Any:
    answer = client.post(f"/api/story{path}", json={"model": model, "text": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: TestClient, status: int, path: str = "/api/story", **request: Any) -> str:
    """The message of an answer that is an error."""
    answer = client.post(path, **request)
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"error"}
    message = answer.json()["error"]["message"]
    assert "Traceback" not in message
    assert isinstance(message, str)
    return message


@pytest.mark.parametrize("name", ["before", "after"])
def test_a_story_has_the_numbers_of_inspect(
    client: TestClient, predictors: dict[str, LanguagePredictor], name: str
) -> None:
    story = asked(client, name)
    expected = json.loads(json.dumps(predictors[name].inspect(TEXT).as_json()))
    assert story["streams"][-1]["tokens"] == expected["tokens"]
    assert story["streams"][-1]["ids"] == expected["ids"]
    assert np.abs(attention(story) - np.array(expected["attention"])).max() < 2e-3
    for ours, theirs in zip(story["predictions"], expected["predictions"], strict=True):
        assert ours["actual"] == theirs["actual"]
        if theirs["logprob"] is not None:
            assert ours["logprob"] == pytest.approx(theirs["logprob"], rel=1e-5)
        assert [each["token"] for each in ours["options"]] == [
            each["token"] for each in theirs["options"]
        ]


def test_a_story_comes_without_its_slow_parts_which_can_be_asked_for(
    client: TestClient, predictors: dict[str, LanguagePredictor]
) -> None:
    story = asked(client, "before")
    whole = story_data(predictors["before"].inspect(TEXT))
    assert story["live"] is None
    assert {*story["later"]} == {"beams", "effects", "attribution"}
    for name in story["later"]:
        assert story[name] is None
    part = asked(client, "before", path="/effects")
    assert part.keys() == {"effects", "more_effects"}  # the rest of the page stays as it is
    assert part["effects"].keys() == {str(number) for number in range(len(TEXT))}
    for number, effects in part["effects"].items():
        expected = whole["effects"][number]["divergence"]
        assert np.allclose(effects["divergence"], expected, rtol=1e-4, atol=1e-9)
    assert asked(client, "before", path="/beams")["beams"]["best"] == whole["beams"]["best"]
    assert asked(client, "before", path="/nonsense") == {}


def test_a_small_model_tells_all_at_once(
    client: TestClient, predictors: dict[str, LanguagePredictor]
) -> None:
    story = asked(client, "after")
    whole = json.loads(embedded(story_data(predictors["after"].inspect(TEXT), without={"live"})))
    apart = {"attribution": None, "later": ["attribution"]}
    assert story == whole | apart


@pytest.mark.parametrize("make", [vit, captioner])
def test_what_the_prediction_for_an_image_rests_on_can_be_asked_for(make: Any) -> None:
    predictor, file = make(), io.BytesIO()
    Image.fromarray(picture()).save(file, "png")
    image = {"image": base64.b64encode(file.getvalue()).decode(), "image_name": "cat.png"}
    app = create_app([story_model("eye", predictor)], PORT)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        story = asked(client, "eye", None, **image)
        part = asked(client, "eye", None, "/attribution", **image)
    assert story["attribution"] is None
    assert "attribution" in story["later"]
    whole = story_data(predictor.inspect(picture()))["attribution"]
    assert part["attribution"]["explained"]
    assert part["attribution"]["baseline"] == whole["baseline"]
    assert part["attribution"]["explained"].keys() == whole["explained"].keys()


def test_a_head_that_is_switched_off_contributes_nothing(
    client: TestClient, predictors: dict[str, LanguagePredictor]
) -> None:
    model = predictors["before"]
    story = asked(client, "before", off=[[1, 2], [1, 0]])
    with without_heads({model.model.blocks.attentions[1].tap: [0, 2]}):
        seen = model.inspect(TEXT)
        effects = seen.effects().divergence
    assert story["predictions"][-1]["options"][0]["probability"] == pytest.approx(
        seen.predictions[-1].options[0].probability, rel=1e-5
    )
    part = asked(client, "before", path="/effects", off=[[1, 2], [1, 0]])["effects"]
    without = part[str(len(TEXT) - 1)]["divergence"]
    assert np.allclose(without, effects, rtol=1e-4, atol=1e-9)
    assert without[1][2] == 0  # it is off already
    plain = asked(client, "before")["predictions"][-1]["options"][0]["probability"]
    assert plain != story["predictions"][-1]["options"][0]["probability"]


def test_models_are_listed(client: TestClient) -> None:
    assert client.get("/api/models").json() == {
        "models": [
            {"name": "before", "kind": "gpt", "reads_image": False},
            {"name": "after", "kind": "gpt", "reads_image": False},
        ]
    }


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"model": "before"}, "before reads a text."),
        ({"model": "before", "text": " "}, "the text is empty."),
        ({"text": "a"}, "model"),
        ({"model": 3, "text": "a"}, "model"),
        ({"model": "before", "txt": "a"}, "txt"),
        ({"model": "before", "text": "a", "off": [[9, 0]]}, "there is no head 0 in layer 9"),
        ({"model": "before", "text": "a", "off": [[0, 4]]}, "2 layers of 4 heads"),
        ({"model": "before", "text": "a", "off": [[-1, 0]]}, "off"),
        ({"model": "before", "text": "a", "off": [[0]]}, "off"),
        ({"model": "before", "text": "a", "image": "!"}, "the image is not base64."),
        (["before"], "not a JSON object"),
    ],
)
def test_a_wrong_request_is_explained(client: TestClient, request_: Any, message: str) -> None:
    assert message in refused(client, 400, json=request_)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"model": NaN}'])
def test_what_is_not_json_is_refused(client: TestClient, body: bytes) -> None:
    refused(client, 400, content=body, headers={"content-type": "application/json"})


def test_half_a_character_is_refused(client: TestClient) -> None:
    body = b'{"model": "before", "text": "\\ud83d"}'
    found = refused(client, 400, content=body, headers={"content-type": "application/json"})
    assert found == "the text is not valid Unicode."


def test_a_form_is_refused(client: TestClient) -> None:
    """Other sites can send forms without asking first."""
    body = json.dumps({"model": "before", "text": "a"}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        found = refused(client, 415, content=body, headers={"content-type": kind})
        assert "application/json" in found


def test_a_text_may_be_long_but_not_endless(client: TestClient) -> None:
    story = asked(client, "before", "a bad day " * 100)
    assert story["notes"] == [
        "the text is too long: the model reads 64 tokens; 936 from the beginning of the text are "
        "left out"
    ]
    longest = refused(client, 400, json={"model": "before", "text": "a" * (LONGEST_TEXT + 1)})
    assert longest == "the text has 20,001 characters. Use at most 20,000."
    pasted = refused(client, 400, json={"model": "before", "text": "a bad day\n" * 20_000})
    assert pasted == "the text has 200,000 characters. Use at most 20,000."
    assert asked(client, "before", "a bad day")["notes"] == []


def test_five_models_answer_at_the_same_time() -> None:
    models = {f"model {n}": small_gpt(2, seed=n) for n in range(5)}
    expected = {name: each.inspect(TEXT).logits[-1].max() for name, each in models.items()}
    app = create_app([story_model(name, each) for name, each in models.items()], PORT)

    def answer(name: str) -> tuple[str, float]:
        logits = unpacked(asked(client, name)["distributions"][str(len(TEXT) - 1)]["logits"])
        asked(client, name, path="/attribution")
        return name, float(logits.max())

    with (
        TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client,
        ThreadPoolExecutor(5) as pool,
    ):
        found = list(pool.map(answer, [*models] * 3))
    assert len(found) == 15
    for name, value in found:
        assert value == pytest.approx(float(expected[name]), rel=1e-5)
    assert len(set(expected.values())) == 5


def test_an_unknown_model_is_not_found(client: TestClient) -> None:
    names = ("nobody", "../before", "/etc/passwd", "before/")
    for name in names:
        found = refused(client, 404, json={"model": name, "text": "a"})
        assert found == f'there is no model "{name}" here.'


def test_an_address_that_is_not_there_is_an_error_in_json(client: TestClient) -> None:
    for path in ("/nothing", "/docs", "/openapi.json", "/static/../app.py", "/api/story"):
        answer = client.get(path)
        assert answer.status_code in (404, 405)
        assert answer.json()["error"]["message"]


def test_a_failure_of_the_model_shows_nothing_of_its_inside(
    client: TestClient,
    predictors: dict[str, LanguagePredictor],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("secret place")

    monkeypatch.setattr(predictors["before"].model, "forward", fail)
    found = refused(client, 500, json={"model": "before", "text": "a"})
    assert "secret" not in found
    assert capsys.readouterr().err == "error: RuntimeError: secret place.\n"
    assert asked(client, "after")["text"] == TEXT  # the others are not affected


def test_a_model_that_reads_images_gets_the_pixels_and_the_name() -> None:
    """A model of images as the server sees one: its view takes pixels."""
    seen: list[Any] = []

    class Looks(LanguagePredictor):
        def inspect(self, image: Any, **_: Any) -> Any:  # type: ignore[override]
            seen.append(image)
            return super().inspect("a bad day")

    plain = small_gpt(1)
    model = Looks(plain.model, plain.preprocessing)
    story = story_model("eye", model)
    story.reads_image = True
    file = io.BytesIO()
    Image.new("RGBA", (3, 2), (255, 0, 0, 128)).save(file, "PNG")
    image = base64.b64encode(file.getvalue()).decode()
    with TestClient(create_app([story], PORT), base_url=f"http://127.0.0.1:{PORT}") as client:
        request = {"model": "eye", "image": image, "image_name": "../../etc/passwd"}
        answer = client.post("/api/story", json=request).json()
        assert (seen[0].shape, seen[0].dtype) == ((2, 3, 3), np.uint8)
        assert answer["notes"] == [
            "1 image with transparent pixels, composited on white (first: ../../etc/passwd)"
        ]
        assert answer["text"] == "../../etc/passwd"  # a name, and nothing else
        assert "Choose an image file" in refused(client, 400, json={"model": "eye", "text": "a"})
        broken = {"model": "eye", "image": base64.b64encode(b"no image").decode()}
        assert "image" in refused(client, 400, json=broken)
