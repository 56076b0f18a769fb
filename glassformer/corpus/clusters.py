"""The largest groups of texts of which only one was kept, for the report."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.corpus.near_duplicates import KEPT, VERDICT_ROW, read_index
from glassformer.corpus.shards import document_at
from glassformer.wording import shortened

_CLUSTERS, _MEMBERS = 12, 5  # that are shown
_SHOWN = 300  # characters of a text


def largest_clusters(pages: Path, verdicts: Path, num_tasks: int) -> list[dict[str, Any]]:
    """The documents that were kept in place of most others, with some of these."""
    found = np.fromfile(verdicts, dtype=VERDICT_ROW)
    lengths = [len(read_index(pages, task)) for task in range(num_tasks)]
    starts = np.cumsum([0, *lengths])
    dropped = np.flatnonzero(found["verdict"] != KEPT)
    sizes = Counter(found["of"][dropped].tolist())
    largest = sorted(sizes, key=lambda number: (-sizes[number], number))[:_CLUSTERS]
    clusters = []
    for number in largest:
        members = dropped[found["of"][dropped] == number]
        shown = [
            _shown(document_at(pages, starts, int(each)))
            | {"similarity": round(float(found["similarity"][each]), 4)}
            for each in members[:_MEMBERS]
        ]
        kept = _shown(document_at(pages, starts, int(number)))
        clusters.append({"size": sizes[number] + 1, "kept": kept, "dropped": shown})
    return clusters


def _shown(document: dict[str, Any]) -> dict[str, Any]:
    about, text = document["metadata"], document["text"]
    return {"url": about["url"], "title": about["title"], "text": shortened(text, _SHOWN)}
