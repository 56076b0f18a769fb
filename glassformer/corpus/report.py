"""The report of a corpus: what was kept and dropped by each step, with examples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.atomic_files import read_json, write_file
from glassformer.corpus.page_outcomes import RULES, STEPS
from glassformer.corpus.quality import RULES as QUALITY
from glassformer.corpus.shards import LENGTHS
from glassformer.data.corpus_manifest import corpus_manifest
from glassformer.errors import GlassformerError, UsageError
from glassformer.story.corpus_page import page

DETAILS = "details.json"
PAGE = "report.html"


@dataclass(frozen=True)
class CorpusReport:
    """The numbers of a report, and where the page is, if one was written."""

    values: dict[str, Any]
    path: Path | None

    def as_json(self) -> dict[str, Any]:
        return self.values


def report(corpus: Path, out: Path | None = None, write: bool = True) -> CorpusReport:
    """Read the report of a corpus and write it as one HTML page."""
    manifest = corpus_manifest(corpus)
    if manifest is None:
        raise GlassformerError(
            f"{corpus} is not a corpus. Pass a folder that glassformer corpus build wrote."
        )
    if not (corpus / DETAILS).is_file():
        raise GlassformerError(f"{corpus / DETAILS} is missing. Copy the whole folder.")
    path = out or corpus / PAGE
    if path.suffix.lower() != ".html":
        raise UsageError(f"{path}: the name must end in .html.")
    try:
        values = report_values(manifest, read_json(corpus / DETAILS))
    except (KeyError, TypeError, AttributeError):
        raise GlassformerError(
            f"{corpus / DETAILS} does not belong to this corpus, or is damaged. Build it again."
        ) from None
    if write:
        write_file(path, page(values))
    return CorpusReport(values, path if write else None)


def write_report(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the page into the folder of a corpus that is being finished."""
    write_file(folder / PAGE, page(report_values(manifest, read_json(folder / DETAILS))))


def report_values(manifest: dict[str, Any], details: dict[str, Any]) -> dict[str, Any]:
    """All that the page shows, as plain data."""
    dropped = manifest["dropped"]
    left, steps = manifest["read"], []
    for step, about in STEPS.items():
        rules = [
            {"rule": rule, "about": _meaning(rule), "count": count}
            for rule, count in sorted(dropped.items(), key=lambda pair: (-pair[1], pair[0]))
            if rule.startswith(f"{step}/")
        ]
        num_dropped = sum(rule["count"] for rule in rules)
        left -= num_dropped
        steps.append({"step": step, "about": about, "dropped": num_dropped, "left": left})
        steps[-1]["rules"] = rules
    names = ("read", "kept", "num_bytes", "num_characters", "recipe", "inputs")
    shown = ("examples", "languages", "kept_languages", "domains", "num_domains", "clusters")
    return {
        **{name: manifest[name] for name in names},
        "num_shards": len(manifest["shards"]),
        "steps": steps,
        **{name: details[name] for name in shown},
        "lengths": {"up_to": list(LENGTHS), "counts": details["lengths"]},
    }


def _meaning(rule: str) -> str:
    quality = {f"quality/{name}": about for name, about in QUALITY.values()}
    return RULES.get(rule) or quality.get(rule, "")
