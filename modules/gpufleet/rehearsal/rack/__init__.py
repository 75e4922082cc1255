"""A rehearsed rack: a booted Debian host for every node of a stack's racks.

Input: a rehearsal (its ``home`` folder), the racks that the stack declares and the faults to inject. Output: hosts
with an SSH server, each in its own network namespace, an address book (``addresses.json``: "rack/slot" -> address)
and a known-hosts file for strict host key checks.
"""

from __future__ import annotations

from gpufleet.rehearsal.rack.faults import KINDS as FAULT_KINDS
from gpufleet.rehearsal.rack.faults import FaultPlan, load_faults
from gpufleet.rehearsal.rack.hosts import HostStatus
from gpufleet.rehearsal.rack.lifecycle import (
    DeletedRehearsal,
    collect_host_statuses,
    find_deleted_rehearsals,
    start_racks,
    stop_racks,
)
from gpufleet.rehearsal.rack.requirements import find_missing_requirement, list_missing_debian_packages

__all__ = [
    "FAULT_KINDS",
    "DeletedRehearsal",
    "FaultPlan",
    "HostStatus",
    "collect_host_statuses",
    "find_deleted_rehearsals",
    "find_missing_requirement",
    "list_missing_debian_packages",
    "load_faults",
    "start_racks",
    "stop_racks",
]
