"""Where a state may not say what runs: a group whose program leaves its size to somebody else."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.engine import Resource

# The inputs that hold a group's size, in the words of the three clouds' providers.
SIZES = frozenset(
    {
        "desiredcapacity", "targetsize", "scalingconfig", "scalingconfig.desiredsize", "sku", "sku.capacity",
        "nodecount", "initialnodecount", "count", "targetcapacity", "*",
    }
)  # fmt: skip


def ignored_sizes(resources: Iterable[Resource]) -> list[str]:
    """Say of which groups the size is ignored, so that what the state holds may be long past."""
    found = []
    for resource in resources:
        ignored = [path for path in resource.ignore_changes if _plain(path) in SIZES]
        if ignored and resource.custom:
            found.append(
                f"{resource.name} ignores changes to {', '.join(ignored)}: the size here may be stale; "
                "run `pulumi refresh` for the one that runs"
            )
    return found


def _plain(path: str) -> str:
    return path.replace("_", "").lower()
