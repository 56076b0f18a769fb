"""Replacing e-mail addresses and public IP addresses in a text by addresses that belong to nobody.

The replacements are those reserved for documentation (RFC 2606, 5737 and 3849).
"""

import ipaddress
import re
from typing import Any

EMAIL, IP4, IP6 = "email@example.com", "192.0.2.1", "2001:db8::1"

# Bounded repetitions: a text of a million dots and dashes takes no longer than any other.
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])", re.ASCII
)
_IP4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IP6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")


def scrubbed(text: str) -> str:
    text = _EMAIL.sub(EMAIL, text)
    text = _IP4.sub(lambda found: IP4 if _is_public(found[0]) else found[0], text)
    return _IP6.sub(lambda found: IP6 if _is_public(found[0]) else found[0], text)


def scrubbed_in(values: Any) -> Any:
    """Plain data in which all texts and titles are scrubbed."""
    if isinstance(values, list):
        return [scrubbed_in(each) for each in values]
    if not isinstance(values, dict):
        return values
    return {
        name: scrubbed(each) if name in ("text", "title") else scrubbed_in(each)
        for name, each in values.items()
    }


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:  # such as 999.1.1.1, or a time
        return False
