"""A rack in a box: a booted Debian host for every node of a stack's racks.

In come a rehearsal (its ``home`` folder), the racks that the stack declares and the faults to put on hosts on
purpose. Out come hosts with an SSH server each, in network namespaces of their own, an address book
(``addresses.json``: "rack/slot" -> address) and a known-hosts file that lets SSH check host keys strictly.
"""

from __future__ import annotations

from gpufleet.rehearsal.rack.faults import KINDS as FAULT_KINDS
from gpufleet.rehearsal.rack.faults import Faults, load_faults
from gpufleet.rehearsal.rack.hosts import HostStatus
from gpufleet.rehearsal.rack.images import ensure_base
from gpufleet.rehearsal.rack.lifecycle import Forsaken, down, forsaken, status, up
from gpufleet.rehearsal.rack.requirements import missing_packages, unavailable_reason

__all__ = [
    "FAULT_KINDS",
    "Faults",
    "Forsaken",
    "HostStatus",
    "down",
    "ensure_base",
    "forsaken",
    "load_faults",
    "missing_packages",
    "status",
    "unavailable_reason",
    "up",
]
