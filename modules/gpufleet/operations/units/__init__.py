"""Unit files of an application for the container engine of its node. Pure.

Input: the declared application and the abilities of the node's engine. Output: unit files, as quadlets if podman
supports them, otherwise as plain services, and notes for the operator. The collection's filter
``gpufleet.fleet.units`` calls it for a role.
"""

from __future__ import annotations

from gpufleet.operations.units.cards import assign_gpu_cards
from gpufleet.operations.units.engine import QUADLET_SINCE, ContainerEngine
from gpufleet.operations.units.render import RenderedApplication, UnitFile, render_application_units

__all__ = [
    "QUADLET_SINCE",
    "ContainerEngine",
    "RenderedApplication",
    "UnitFile",
    "assign_gpu_cards",
    "render_application_units",
]
