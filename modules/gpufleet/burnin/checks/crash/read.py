"""How often the node went down under load since the last attempt that ended."""

from __future__ import annotations

from gpufleet.burnin.evidence import CheckReadings, Raw, list_or_empty


def read_record(raw: Raw) -> CheckReadings:
    """Count the crashes."""
    count = float(len(list_or_empty(raw.get("crashes"))))
    return CheckReadings({"crashes_under_load": count}, count, "crashes")
