"""Power control of servers through their BMC, by Redfish (sushy) or IPMI (pyghmi).

The protocol runs in a child process with limits on time and memory: a BMC is an outside device that may never answer,
or never stop answering. What the child prints is decoded within limits.
"""

from __future__ import annotations

from gpufleet.remote.bmc.control import run_power_action
from gpufleet.remote.bmc.machine import (
    MachineIdentity,
    NodeIdentifiers,
    compare_machine,
    describe_identifiers,
)
from gpufleet.remote.bmc.model import PowerAction, PowerReport, PowerRequest

__all__ = [
    "MachineIdentity",
    "NodeIdentifiers",
    "PowerAction",
    "PowerReport",
    "PowerRequest",
    "compare_machine",
    "describe_identifiers",
    "run_power_action",
]
