"""The colours of an imported palette are kept as they are, not rounded to 8 bits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import transformers as hf
from published import publish

import glassformer
from glassformer.checkpoint.open import open_model
from glassformer.formats.export_hub import write_hub


def test_pixels_have_the_same_colours_as_in_transformers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    clusters = random.uniform(-0.1, 0.1, (20, 3)).astype(np.float32)
    clusters[1] = clusters[0] + np.float32(1e-3)  # the same in 8 bits
    publish("imagegpt", tmp_path / "theirs")
    values = {"image_processor_type": "ImageGPTImageProcessor", "clusters": clusters.tolist()}
    values["size"] = {"height": 6, "width": 6}
    (tmp_path / "theirs/preprocessor_config.json").write_text(json.dumps(values))
    images = random.integers(100, 156, (50, 6, 6, 3), dtype=np.uint8)
    reader: Any = hf.AutoImageProcessor.from_pretrained(tmp_path / "theirs")
    expected = np.stack([reader(image, do_resize=False)["input_ids"][0] for image in images])
    ours: Any = glassformer.load(glassformer.import_model(tmp_path / "theirs", tmp_path / "ours"))
    assert np.array_equal(ours.preprocessing.ids(images), expected)
    assert ours.preprocessing.pixels(expected).dtype == np.uint8
    (tmp_path / "out").mkdir()
    write_hub(open_model(tmp_path / "ours"), tmp_path / "out", "")
    written = json.loads((tmp_path / "out/preprocessor_config.json").read_text())["clusters"]
    assert np.array_equal(np.float32(written), clusters)


def test_a_palette_of_whole_numbers_stays_whole(tmp_path: Path) -> None:
    colors = [(number, 255 - number, 128) for number in range(20)]
    publish("imagegpt", tmp_path)
    clusters = [[value / 127.5 - 1 for value in color] for color in colors]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"clusters": clusters}))
    found: Any = glassformer.load(tmp_path)
    assert list(found.preprocessing.palette) == colors
    assert all(isinstance(value, int) for color in found.preprocessing.palette for value in color)
