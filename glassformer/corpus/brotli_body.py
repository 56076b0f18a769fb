"""Bodies that are compressed by brotli, unpacked within a limit.

Browsers ask for brotli, and crawlers that act like them store what they got. `brotli` is optional:
without it, such pages are counted under a rule of their own.
"""

import importlib.util


class DamagedBrotliError(ValueError):
    """Bytes that are not brotli, or are damaged."""


def has_brotli() -> bool:
    return importlib.util.find_spec("brotli") is not None


class BrotliBody:
    """The bytes of a body, in the order in which they arrive."""

    def __init__(self) -> None:
        import brotli

        self._unpacker, self._error = brotli.Decompressor(), brotli.error

    @property
    def is_whole(self) -> bool:
        return bool(self._unpacker.is_finished())

    def decode(self, block: bytes, most: int) -> bytes:
        """At most so many bytes, even if there are more."""
        found = b""
        try:
            while len(found) < most and not self.is_whole:
                if not block and self._unpacker.can_accept_more_data():
                    break
                # It may give twice as many bytes, and waits with the rest until it is called again.
                found += self._unpacker.process(block, output_buffer_limit=most - len(found))
                block = b""
        except self._error:
            raise DamagedBrotliError from None
        return found[:most]
