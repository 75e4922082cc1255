"""Usage of resources, from a YAML file by resource and by type.

The file gives hours a month, group sizes, gigabytes and load balancer units. Unknown usage is None: the resource is
then priced for the full month, or listed without a price.
"""

from __future__ import annotations

from gpufleet.cost.inputs.usage.cron import (
    Cron,
    parse_cron,
    weekly_average_size,
    weekly_average_size_with_minimums,
)
from gpufleet.cost.inputs.usage.file import load_usage
from gpufleet.cost.inputs.usage.model import NO_USAGE, Usage, UsageFile
from gpufleet.cost.inputs.usage.schedule import parse_monthly_hours

__all__ = [
    "NO_USAGE",
    "Cron",
    "Usage",
    "UsageFile",
    "load_usage",
    "parse_cron",
    "parse_monthly_hours",
    "weekly_average_size",
    "weekly_average_size_with_minimums",
]
