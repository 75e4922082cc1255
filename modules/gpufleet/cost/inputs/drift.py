"""Groups whose recorded size may differ from the real one, because the program ignores size changes."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.engine import StateResource, parse_property_path

# The providers' names of inputs with a group's size, as parsed paths. A name that the provider does not have ignores
# nothing: Python translates the first name of a typed resource only, and sends nested ones as they are.
SIZE_INPUTS = frozenset(
    {
        ("desiredCapacity",), ("targetSize",), ("scalingConfig",), ("scalingConfig", "desiredSize"), ("sku",),
        ("sku", "capacity"), ("nodeCount",), ("initialNodeCount",), ("count",), ("targetCapacity",), ("*",),
    }
)  # fmt: skip


def ignored_size_change_warnings(resources: Iterable[StateResource]) -> list[str]:
    """Return a warning for each group with ignored size changes: its recorded size may be stale."""
    warnings = []
    for resource in resources:
        ignored = [path for path in resource.ignore_changes if parse_property_path(path) in SIZE_INPUTS]
        if ignored and resource.custom:
            warnings.append(
                f"{resource.name} ignores changes to {', '.join(ignored)}: the size here may be stale; "
                "run `pulumi refresh` to read the real one"
            )
    return warnings
