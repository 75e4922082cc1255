"""From a workload to hardware: memory, speed, power, money, ranked plans.

In come a workload (model, task, precision, lengths, batch) and the catalogue. Out go what it takes in
memory, how fast it will be with an interval learned from published measurements, and plans that are legal
to place, each with its reasons.
"""

from __future__ import annotations

from gpufleet.sizing.hardware import Hardware, Layout, Offer
from gpufleet.sizing.workload import Training, Workload

__all__ = ["Hardware", "Layout", "Offer", "Training", "Workload"]
