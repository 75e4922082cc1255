"""Which task result may report what, and about which host.

A host can print anything as its module's result. So an event counts only from the actions that report it, and it is
about the inventory host that the task ran for, whatever name the result has inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

COLLECTION = "gpufleet.fleet."
REPORTING_ACTIONS: Final[Mapping[str, frozenset[str]]] = {
    "blade": frozenset({"blade"}),
    "burn_in": frozenset({"burn_in"}),
    "commissioned": frozenset({"probe", "report"}),
    "configured": frozenset({"report"}),
    "configure_failed": frozenset({"report"}),
    "driver_plan": frozenset({"driver_plan"}),
    "drivers": frozenset({"driver_state"}),
    "drivers_failed": frozenset({"report"}),
    "network_mesh": frozenset({"report"}),
    "planned": frozenset({"report"}),
    "power": frozenset({"power"}),
    "kernel_upgraded": frozenset({"report"}),
    "kernel_upgrade_failed": frozenset({"report"}),
    "wiped": frozenset({"wipe"}),
    "wipe_planned": frozenset({"wipe_plan"}),
}
"""Event to the actions of our collection that report it; those of ``_CONTROLLER`` run on the controller only."""

_CONTROLLER = frozenset({"report", "driver_plan", "power", "wipe_plan"})


def extract_reported_event(host: str, action: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a task's result reports about ``host``, empty where it reports nothing that it may.

    A module that was delegated ran on another host than the one it would report about: it reports nothing.
    """
    event = result.get("gpufleet")
    if not isinstance(event, Mapping) or not action.startswith(COLLECTION):
        return {}
    name = action.removeprefix(COLLECTION)
    if name not in REPORTING_ACTIONS.get(str(event.get("event")), ()):
        return {}
    if "_ansible_delegated_vars" in result and name not in _CONTROLLER:
        return {}
    return {**event, "node": host}
