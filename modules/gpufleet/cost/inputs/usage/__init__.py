"""Usage of resources, from a YAML file by resource and by type.

The file gives hours a month, group sizes, gigabytes and load balancer units. Unknown usage is None: the resource is
then priced for the full month, or listed without a price.
"""

from __future__ import annotations

from gpufleet.cost.inputs.usage.cron import (
    WeeklyCronSchedule,
    parse_weekly_cron,
    weekly_average_group_size,
    weekly_average_group_size_with_minimums,
)
from gpufleet.cost.inputs.usage.file import load_usage_file
from gpufleet.cost.inputs.usage.model import EMPTY_USAGE, NO_USAGE, ResourceUsage, UsageFile
from gpufleet.cost.inputs.usage.record import UsageRecord
from gpufleet.cost.inputs.usage.schedule import parse_schedule_hours_per_month

__all__ = [
    "EMPTY_USAGE",
    "NO_USAGE",
    "ResourceUsage",
    "UsageFile",
    "UsageRecord",
    "WeeklyCronSchedule",
    "load_usage_file",
    "parse_schedule_hours_per_month",
    "parse_weekly_cron",
    "weekly_average_group_size",
    "weekly_average_group_size_with_minimums",
]
