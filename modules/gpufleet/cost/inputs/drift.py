"""Groups whose recorded size may differ from the real one, because the program ignores size changes."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.engine import StateResource

# The providers' names of inputs with a group's size.
SIZE_INPUTS = frozenset(
    {
        "desiredcapacity", "targetsize", "scalingconfig", "scalingconfig.desiredsize", "sku", "sku.capacity",
        "nodecount", "initialnodecount", "count", "targetcapacity", "*",
    }
)  # fmt: skip


def ignored_size_change_warnings(resources: Iterable[StateResource]) -> list[str]:
    """Return a warning for each group with ignored size changes: its recorded size may be stale."""
    warnings = []
    for resource in resources:
        ignored = [path for path in resource.ignore_changes if _normalize(path) in SIZE_INPUTS]
        if ignored and resource.custom:
            warnings.append(
                f"{resource.name} ignores changes to {', '.join(ignored)}: the size here may be stale; "
                "run `pulumi refresh` to read the real one"
            )
    return warnings


def _normalize(path: str) -> str:
    return path.replace("_", "").lower()
