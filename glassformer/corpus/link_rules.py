"""The rules by which links are kept: what people recommended, and what can be a page of text.

A post is dropped by the first rule that it breaks, in the order of `RULES`, and counted there.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from glassformer.corpus.posts import Post
from glassformer.corpus.urls import BadUrlError, NotHttpError, Url, is_within, parse_url
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause

RULES = {
    "malformed": "lines that cannot be read",
    "no_score": "posts without a score",
    "low_score": "score below --min-score",
    "self_post": "posts of text, without a link",
    "no_url": "posts without a URL",
    "not_http": "URLs of another kind than http and https",
    "bad_url": "URLs that cannot lead to a page on the public web",
    "adult": "marked as adult, or on an adult site",
    "not_included_domain": "not on a domain of --include-domains",
    "excluded_domain": "social networks, link shorteners, domains of --exclude-domains",
    "media": "images, video and audio",
    "not_a_page": "files that are not pages, such as .pdf and .zip",
    "duplicate": "URLs that occur more than once",
}

_EXCLUDED = frozenset(
    (
        # Reddit itself, and other social networks
        *("reddit.com", "redd.it", "redditmedia.com", "reddit.app.link", "removeddit.com"),
        *("facebook.com", "fb.com", "twitter.com", "x.com", "linkedin.com", "plus.google.com"),
        *("discord.com", "discord.gg", "t.me", "telegram.me", "whatsapp.com", "snapchat.com"),
        *("tinder.com", "omegle.com", "chatroulette.com", "weibo.com", "vk.com", "threads.net"),
        # Link shorteners, behind which duplicates cannot be seen
        *("bit.ly", "bitly.com", "t.co", "goo.gl", "tinyurl.com", "ow.ly", "is.gd", "j.mp"),
        *("fb.me", "dlvr.it", "buff.ly", "lnkd.in", "su.pr", "tiny.cc", "adf.ly", "cl.ly"),
        *("trib.al", "ift.tt", "db.tt", "amzn.to", "amzn.com", "nyti.ms", "wapo.st", "huff.to"),
        *("rebrand.ly", "cutt.ly", "shorturl.at", "rb.gy", "snip.ly", "u.to", "v.gd", "x.co"),
        *("on.cnn.com", "on.wsj.com", "n.pr", "bbc.in", "gu.com", "reut.rs", "tcrn.ch", "wrd.cm"),
        *("feedproxy.google.com", "feeds.feedburner.com", "lmgtfy.com", "archive.is"),
    )
)
_MEDIA_HOSTS = frozenset(
    (
        *("imgur.com", "i.redd.it", "v.redd.it", "gfycat.com", "giphy.com", "tenor.com"),
        *("flickr.com", "flic.kr", "staticflickr.com", "photobucket.com", "tinypic.com", "min.us"),
        *("imageshack.us", "imageshack.com", "500px.com", "instagram.com", "instagr.am"),
        *("pinterest.com", "postimg.org", "postimg.cc", "imgflip.com", "qkme.me", "ibb.co"),
        *("quickmeme.com", "memegenerator.net", "livememe.com", "deviantart.com", "twitpic.com"),
        *("yfrog.com", "picasaweb.google.com", "minus.com", "prntscr.com", "gyazo.com"),
        *("youtube.com", "youtu.be", "youtube-nocookie.com", "vimeo.com", "dailymotion.com"),
        *("dai.ly", "liveleak.com", "vine.co", "twitch.tv", "ustream.tv", "livestream.com"),
        *("streamable.com", "tiktok.com", "rumble.com", "bitchute.com", "hulu.com", "netflix.com"),
        *("veoh.com", "metacafe.com", "break.com", "video.google.com", "video.yahoo.com"),
        *("soundcloud.com", "spotify.com", "bandcamp.com", "mixcloud.com", "grooveshark.com"),
        *("upload.wikimedia.org", "videosift.com", "clyp.it", "vocaroo.com"),
    )
)
_ADULT_HOSTS = frozenset(
    (
        *("xvideos.com", "xnxx.com", "xhamster.com", "redtube.com", "tube8.com", "onlyfans.com"),
        *("chaturbate.com", "livejasmin.com", "brazzers.com", "beeg.com", "spankwire.com"),
        *("motherless.com", "redgifs.com", "erome.com", "fetlife.com", "literotica.com", "xxx"),
    )
)
_ADULT_WORDS = re.compile(r"porn|hentai|xxx|camgirl|milf|bdsm")
_MEDIA_ENDINGS = frozenset(
    (
        *("jpg", "jpeg", "jpe", "png", "gif", "gifv", "webp", "bmp", "svg", "tif", "tiff", "ico"),
        *("mp4", "webm", "avi", "mov", "wmv", "flv", "swf", "mkv", "m4v", "mpg", "mpeg", "ogv"),
        *("3gp", "mp3", "ogg", "oga", "wav", "flac", "m4a", "aac", "wma", "mid", "m3u", "psd"),
    )
)
_FILE_ENDINGS = frozenset(
    (
        *("pdf", "ps", "eps", "djvu", "epub", "mobi", "doc", "docx", "rtf", "odt", "ppt", "pptx"),
        *("pps", "odp", "xls", "xlsx", "ods", "csv", "zip", "gz", "tgz", "bz2", "xz", "7z"),
        *("rar", "tar", "jar", "iso", "dmg", "exe", "msi", "apk", "deb", "rpm", "bin", "torrent"),
        *("ttf", "woff", "rss", "atom", "ics", "kml", "kmz"),
    )
)
_ENDING = re.compile(r"\.([a-z0-9]{1,7})$")
_ARTICLE = re.compile(r"/wiki/(?!(file|image|media|datei|fichier|archivo):)", re.IGNORECASE)


@dataclass(frozen=True)
class LinkRules:
    """What the user may choose."""

    min_score: float = 3
    exclude: frozenset[str] = frozenset()
    include: frozenset[str] = frozenset()
    """Empty: all. Links to these domains are kept even if the built-in lists have them."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.min_score):
            raise UsageError(f"--min-score {self.min_score} is not a number.")

    def judge(self, post: Post) -> Url | str:
        """The link of a post, or the name of the rule that drops it."""
        if post.score is None:
            return "no_score"
        if post.score < self.min_score:
            return "low_score"
        if post.is_self:
            return "self_post"
        if not post.url:
            return "no_url"
        try:
            url = parse_url(post.url)
        except NotHttpError:
            return "not_http"
        except BadUrlError:
            return "bad_url"
        if post.over_18 or _is_adult(url.host):
            return "adult"
        return self._problem(url) or url

    def _problem(self, url: Url) -> str | None:
        is_wanted = is_within(url.host, self.include)
        if self.include and not is_wanted:
            return "not_included_domain"
        if is_within(url.host, self.exclude):
            return "excluded_domain"
        if not is_wanted:
            # Images and videos on Reddit's own hosts are media, too.
            if is_within(url.host, _MEDIA_HOSTS):
                return "media"
            if is_within(url.host, _EXCLUDED):
                return "excluded_domain"
        return _file_kind(url)


def _is_adult(host: str) -> bool:
    return is_within(host, _ADULT_HOSTS) or bool(_ADULT_WORDS.search(host))


def _file_kind(url: Url) -> str | None:
    """The rule for what the ending of a path shows. The article about Node.js is a page."""
    found = _ENDING.search(url.path.lower())
    if found is None or _ARTICLE.search(url.path):
        return None
    if found[1] in _MEDIA_ENDINGS:
        return "media"
    return "not_a_page" if found[1] in _FILE_ENDINGS else None


def read_domains(path: Path) -> frozenset[str]:
    """The domains in a file, one on each line; what follows # is a comment."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeError:
        raise GlassformerError(f"{path} is not UTF-8. Save it as UTF-8.") from None
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
    found = frozenset(_domains(path, lines))
    if not found:
        raise GlassformerError(f"{path} contains no domains. Write one on each line.")
    return found


def _domains(path: Path, lines: Iterable[str]) -> Iterable[str]:
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            url = parse_url(f"http://{text}")
        except BadUrlError as error:
            raise GlassformerError(
                f"{path}:{number}: {text} is not a domain ({error}). Write, for example, "
                "example.org."
            ) from None
        if url.target != "/":
            raise GlassformerError(
                f"{path}:{number}: {text} is not a domain. Write only the host, {url.host}."
            )
        yield url.domain
