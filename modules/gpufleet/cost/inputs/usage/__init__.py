"""How much a program that is not ours uses: a file beside it, by resource and by type.

In comes a YAML file, or nothing. Out come hours a month, group sizes, gigabytes and load balancer units for
a resource; what nobody says is None, and is then priced as if it ran all month, or listed without price.
"""

from __future__ import annotations

from gpufleet.cost.inputs.usage.cron import Cron, average, load_cron, raised
from gpufleet.cost.inputs.usage.file import load_usage
from gpufleet.cost.inputs.usage.model import NO_USAGE, Usage, UsageFile
from gpufleet.cost.inputs.usage.schedule import monthly_hours

__all__ = [
    "NO_USAGE",
    "Cron",
    "Usage",
    "UsageFile",
    "average",
    "load_cron",
    "load_usage",
    "monthly_hours",
    "raised",
]
