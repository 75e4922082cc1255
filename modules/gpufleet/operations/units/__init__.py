"""From an application and the engine of its node to the files that run it. Pure.

In come the application as the spec declares it and what the node's engine can do. Out come unit files, as podman's
quadlets where podman knows them, else as plain services, and what an operator should know of them. It stands in this
room because a role's action needs it: Ansible asks through the collection's filter ``gpufleet.fleet.units``.
"""

from __future__ import annotations

from gpufleet.operations.units.cards import assign_cards
from gpufleet.operations.units.engine import QUADLET_SINCE, Engine
from gpufleet.operations.units.render import Rendered, Unit, render

__all__ = ["QUADLET_SINCE", "Engine", "Rendered", "Unit", "assign_cards", "render"]
