"""Which address a resource gets: the same one each time, as long as nobody else holds it."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator

_RESERVED_AT_START = 4  # clouds keep a subnet's first four addresses and its last for themselves
_MAX_TRIES = 4096


def host_addresses(network: str, seed: str) -> Iterator[str]:
    """Yield a network's host addresses in the order in which a resource of that seed tries them."""
    block = ipaddress.ip_network(network)
    count = block.num_addresses - _RESERVED_AT_START - 1
    start = int(hashlib.sha256(seed.encode()).hexdigest(), 16)
    for step in range(min(max(count, 0), _MAX_TRIES)):
        yield str(block[_RESERVED_AT_START + (start + step) % count])
