"""Constraints that the clouds' APIs enforce, written from the vendors' documents; offerings are the catalogue's."""

from __future__ import annotations

from gpufleet.rehearsal.providers.constraints import (
    aws_groups,
    aws_launch,
    aws_storage,
    azure_groups,
    azure_machine,
    gcp_groups,
    gcp_instance,
    offerings,
)
from gpufleet.rehearsal.providers.constraints.registry import CHECKS, SOURCES, Problem, find_refusals
from gpufleet.rehearsal.providers.constraints.table import register_table

__all__ = ["CHECKS", "SOURCES", "Problem", "find_refusals"]

# Importing a module registers its constraints.
MODULES = (
    aws_groups,
    aws_launch,
    aws_storage,
    azure_groups,
    azure_machine,
    gcp_groups,
    gcp_instance,
    offerings,
)
register_table()
