"""Driver plans: the driver software that a host's cards need, with reasons.

Input: facts of a host (PCI ids, system, kernel, secure boot, installed packages) and the software that its template
requests (branch, CUDA or ROCm, MIG, origin). Output: a plan with branch, kernel module, exact packages, fabric
manager, headers, signing and reboot. Every choice has its rule and source; a refusal has a remedy.
Pure: it reads only the data files of ``drivers/data/``.
"""

from __future__ import annotations

from gpufleet.drivers.data_file import GpuCard
from gpufleet.drivers.detection import find_card_of_device
from gpufleet.drivers.driver_plan import HostFacts, PciDevice, RequestedSoftware
from gpufleet.drivers.planner import plan_drivers

__all__ = ["GpuCard", "HostFacts", "PciDevice", "RequestedSoftware", "find_card_of_device", "plan_drivers"]
