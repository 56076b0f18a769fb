"""What became of a link: each one ends in exactly one outcome."""

EXTRA = "glassformer[corpus]"  # what installs all packages of a corpus

OUTCOMES = {
    "fetched": "pages in the WARC files",
    "robots": "forbidden by the site's robots.txt",
    "robots_unreachable": "the site's robots.txt could not be read, which forbids everything",
    "crawl_delay": "robots.txt asks for a longer delay than a minute",
    "bad_url": "URLs that cannot lead to a page on the public web",
    "bad_redirect": "redirected to a URL that cannot lead to a page on the public web",
    "redirects": "redirected more than five times",
    "port": "other ports than 80 and 443",
    "not_public": "hosts whose address is not public",
    "dns": "hosts whose name cannot be resolved",
    "connection": "connections that were refused or broke",
    "tls": "invalid certificates and other errors of encryption",
    "timed_out": "took longer than --timeout",
    "too_large": "larger than --max-page-size",
    "bad_type": "neither HTML nor plain text",
    "broken": "responses that do not follow the rules of HTTP",
}
HTTP = "http_"  # followed by the status, such as http_404
UNREACHABLE = ("dns", "connection", "timed_out")
_PASSING = (*UNREACHABLE, "robots_unreachable", "broken", f"{HTTP}408", f"{HTTP}429")


def in_columns(*rows: tuple[str, int, str]) -> str:
    """Names, numbers and what they count, below each other."""
    width = max(20, *(len(name) + 2 for name, _, _ in rows))
    lines = (f"{name.replace('_', ' '):<{width}}{n:>12,}  {about}" for name, n, about in rows)
    return "\n".join(map(str.rstrip, lines))


def described(outcome: str) -> str:
    return OUTCOMES.get(outcome) or f"the site answered with status {outcome.removeprefix(HTTP)}"


def may_pass(outcome: str) -> bool:
    """Whether another try may end differently."""
    return outcome in _PASSING or outcome.startswith(f"{HTTP}5")


class FetchError(Exception):
    """A page was not fetched."""

    def __init__(self, outcome: str, detail: str = "") -> None:
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail
