"""How much longer does building a corpus take than extracting the text of its pages alone?

python -m benchmarks.corpus_build DATA     (DATA contains warc_samples/ and wikitext2/)

The HTML pages of the samples are copied until the work takes long enough, each copy with a sentence
of its own. trafilatura alone extracts the same pages, decompressed and in memory, in one process;
`corpus build` reads them from a WARC file and does everything else as well. Processor time is
compared, since it depends less on what else the machine does. A second set is the worst case:
articles with hardly any markup, which are extracted quickly and nearly all pass every step.
"""

import gzip
import resource
import sys
import time
from collections.abc import Callable, Iterator
from html import escape
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import describe
from glassformer.corpus.build import build
from glassformer.corpus.executors import Executor
from glassformer.corpus.extractor import OPTIONS, shared_extractor
from glassformer.corpus.http import parse_message
from glassformer.corpus.pages import media_type
from glassformer.corpus.quality import BuildSettings
from glassformer.corpus.warc import read_records, warc_files

SECONDS = 40  # of extraction alone, about


def sample_pages(data: Path) -> Iterator[bytes]:
    for path in warc_files([str(data / "warc_samples")]):
        for record in read_records(path):
            if record.kind == "response":
                message = parse_message(record.beginning(record.length))
                if message is None or message.status != 200:
                    continue
                if media_type(message.headers.get("content-type", "")) == "text/html":
                    yield message.body(10**7)


def copied(pages: list[bytes], copy: int) -> Iterator[bytes]:
    for number, page in enumerate(pages):
        own = f"<p>Sentence {number} of copy {copy} is here to be different.</p></body>".encode()
        yield page.replace(b"</body>", own, 1)


def write_warc(path: Path, pages: list[bytes]) -> None:
    with path.open("wb") as file:
        for number, page in enumerate(pages):
            block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page
            head = (
                f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://site.org/{number}\r\n"
                f"Content-Type: application/http\r\nContent-Length: {len(block)}\r\n\r\n"
            )
            file.write(gzip.compress(head.encode() + block + b"\r\n\r\n", 6, mtime=0))


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time with that of child processes."""

    def used() -> float:
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        found = [resource.getrusage(kind) for kind in kinds]
        return sum(each.ru_utime + each.ru_stime for each in found)

    start, before = time.perf_counter(), used()
    work()
    return time.perf_counter() - start, used() - before


def extract_all(pages: list[bytes]) -> None:
    import trafilatura

    for page in pages:
        trafilatura.extract(page, **OPTIONS)


def article_pages(data: Path) -> Iterator[bytes]:
    """Six paragraphs of Wikipedia each, with hardly any markup: most of them are kept."""
    lines = gzip.decompress((data / "wikitext2/valid.raw.gz").read_bytes()).decode().splitlines()
    paragraphs = [line for line in lines if len(line) > 200]
    for at in range(0, len(paragraphs), 6):
        text = "".join(f"<p>{escape(part)}</p>" for part in paragraphs[at : at + 6])
        yield f"<html><body><article><h1>Page {at}</h1>{text}</article></body></html>".encode()


def compare(name: str, pages: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        warc = Path(folder) / "pages.warc.gz"
        write_warc(warc, pages)
        print(f"\n{name}: {len(pages):,}, {sum(map(len, pages)) // len(pages):,} bytes each")
        # Before and after, because the speed of a shared machine changes.
        first = measured(lambda: extract_all(pages))
        built = measured(lambda: _build(warc, Path(folder) / "one", workers=1))
        last = measured(lambda: extract_all(pages))
        parallel, _ = measured(lambda: _build(warc, Path(folder) / "two", workers=2))
    alone = (first[0] + last[0]) / 2, (first[1] + last[1]) / 2
    _report("trafilatura alone", len(pages), alone, alone)
    _report("corpus build, 1 worker", len(pages), built, alone)
    print(f"corpus build, 2 workers {len(pages) / parallel:6.1f} pages/s by the clock")


def main() -> None:
    data = Path(sys.argv[1])
    samples, articles = list(sample_pages(data)), list(article_pages(data))
    extract_all(samples[:5])  # imports
    seconds, _ = measured(lambda: extract_all(samples))
    num_copies = max(1, round(SECONDS / seconds))
    print(f"{describe()}, trafilatura {version('trafilatura')}")
    compare("pages of the samples", [p for n in range(num_copies) for p in copied(samples, n)])
    compare("articles without a site around them", articles)


def _build(warc: Path, out: Path, workers: int) -> None:
    found = build([str(warc)], out, executor=Executor(workers=workers))
    shared_extractor(BuildSettings().page_seconds).close()  # its processor time counts when it ends
    print(f"kept {found.manifest['kept']:,}, dropped {found.manifest['dropped']}")


def _report(
    name: str, num_pages: int, time: tuple[float, float], alone: tuple[float, float]
) -> None:
    clock, used = time
    print(
        f"{name:<24}{num_pages / clock:6.1f} pages/s by the clock ({alone[0] / clock:.0%}), "
        f"{num_pages / used:6.1f} per second of processor time ({alone[1] / used:.0%})"
    )


if __name__ == "__main__":
    main()
