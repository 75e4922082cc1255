"""Driver plans: what a host's cards need, explained before anything changes.

In come facts of a host (PCI ids, system, kernel, secure boot, what is installed) and what its template wants
(branch, CUDA or ROCm, MIG, origin). Out goes a plan: branch, kind of kernel module, exact packages, fabric
manager, headers, signing, restart; every choice with its rule and source, or one refusal with its remedy.
Pure: the data files of ``drivers/data/`` are all that is read.
"""

from __future__ import annotations

from gpufleet.drivers.model import Facts, PciDevice, Plan, Refusal, Wanted
from gpufleet.drivers.planner import plan

__all__ = ["Facts", "PciDevice", "Plan", "Refusal", "Wanted", "plan"]
