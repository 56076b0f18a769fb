"""Host names and addresses: pages are fetched from the public internet only.

A name is resolved once for a request, every address is checked, and the connection goes to a
checked address. So neither a redirect nor a name server can lead a fetch to this machine or into a
private network, not even a name server that answers differently the second time.
"""

import ipaddress
import socket
import threading
from typing import Any

from glassformer.corpus.outcomes import FetchError

Endpoint = tuple[str, int]  # an address and a port

_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")  # all that has been allocated
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_RELAYS = ipaddress.IPv4Network("192.88.99.0/24")  # of 6to4


def is_public(text: str) -> bool:
    """Whether an address belongs to the public internet, by whichever form it is written in."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # fe80::1%eth0, for example
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and address not in _RELAYS
    inner = _inner(address)
    if inner:
        return all(is_public(str(each)) for each in inner)
    return address.is_global and address in _PUBLIC_IPV6


def _inner(address: ipaddress.IPv6Address) -> tuple[ipaddress.IPv4Address, ...]:
    """The IPv4 addresses inside an IPv6 address: mapped, 6to4, Teredo, NAT64."""
    if address in _NAT64:
        return (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
    found = address.ipv4_mapped or address.sixtofour
    return (found,) if found else address.teredo or ()


class Network:
    """The public internet. Tests replace it by a server on their own machine."""

    ports = (80, 443)

    def endpoints(self, host: str, port: int, timeout: float) -> list[Endpoint]:
        """Where to connect for a host; a FetchError unless all of its addresses are public."""
        if port not in self.ports:
            raise FetchError("port", f"port {port}")
        addresses = resolve(host, port, timeout)
        if private := [each for each in addresses if not is_public(each)]:
            raise FetchError("not_public", f"{host} is {private[0]}")
        return [(each, port) for each in addresses]


def resolve(host: str, port: int, timeout: float) -> list[str]:
    """The addresses of a host name. The system's resolver knows no time limit, so it gets a thread
    that may be left behind."""
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout)
    if not found:
        raise FetchError("timed_out", f"{host} was not resolved")
    if isinstance(found[0], Exception):
        raise FetchError("dns", f"{host} cannot be resolved")
    return list(dict.fromkeys(str(each[4][0]) for each in found[0]))
