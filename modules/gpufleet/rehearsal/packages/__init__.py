"""Packages for rehearsed hosts, which have no way out: Debian's through a cache, vendors' as stand-ins.

In: the rehearsal's home, the gateways of its racks, the hosts' suite. Out: one server per rehearsal on those
addresses (it belongs to a control group of the rehearsal's, so that it is found and ended without any record),
and the apt files that a host needs to use it.
"""

from __future__ import annotations

from gpufleet.rehearsal.packages.hostfiles import host_files
from gpufleet.rehearsal.packages.service import end, ensure, running
from gpufleet.rehearsal.packages.standins import ensure_repository

__all__ = ["end", "ensure", "ensure_repository", "host_files", "running"]
