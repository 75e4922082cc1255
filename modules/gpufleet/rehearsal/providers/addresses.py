"""The addresses of resources: the same one each time, unless another resource has it."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator

_RESERVED_AT_START = 4  # clouds reserve a subnet's first four addresses and its last
_MAX_TRIES = 4096


def iterate_host_addresses(network: str, seed: str) -> Iterator[str]:
    """Yield a network's host addresses in the order in which a resource with this seed tries them."""
    block = ipaddress.ip_network(network)
    count = block.num_addresses - _RESERVED_AT_START - 1
    start = int(hashlib.sha256(seed.encode()).hexdigest(), 16)
    for step in range(min(max(count, 0), _MAX_TRIES)):
        yield str(block[_RESERVED_AT_START + (start + step) % count])
