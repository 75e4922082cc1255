"""Packages for rehearsed hosts, which have no internet access: Debian's through a cache, vendors' as fakes.

Input: the rehearsal's home, the gateways of its racks, the hosts' suite. Output: one server per rehearsal on those
addresses (in a control group of the rehearsal, so that it can be found and stopped without a record), and the apt
configuration that a host needs to use it.
"""

from __future__ import annotations

from gpufleet.rehearsal.packages.apt_config import build_apt_config_files
from gpufleet.rehearsal.packages.server_process import (
    find_package_server_processes,
    start_package_server,
    stop_package_server,
)

__all__ = [
    "build_apt_config_files",
    "find_package_server_processes",
    "start_package_server",
    "stop_package_server",
]
