"""Which addresses are public: where a cited page may be looked up, unless the configuration allows private ones.

Python's `is_global` is not enough by itself. It is true of multicast, and of IPv6 addresses that carry an IPv4 address
inside, which a gateway on the way unwraps: ``64:ff9b::a9fe:a9fe`` is the metadata service of a cloud.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from typing import Final

_UNICAST: Final = IPv6Network("2000::/3")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_SERVICES: Final = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
"""For protocols between hosts and their networks, and for 6to4: nothing there is a web server."""


def is_public(text: str) -> bool:
    """Whether an address is a host's on the internet; what it carries inside has to be one, too."""
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not any(address in network for network in _SERVICES)
    if address in _NAT64:  # in a cluster without IPv4 all that is public is reached by these
        return is_public(str(IPv4Address(int(address) & 0xFFFF_FFFF)))
    return address.is_global and address in _UNICAST and address not in _SIX_TO_FOUR
