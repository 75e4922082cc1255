"""Whether the base configuration went through, as the registry or the playbook says."""

from __future__ import annotations

from gpufleet.burnin.evidence import CheckReadings, Raw


def read_record(raw: Raw) -> CheckReadings:
    """Return 1 failure, or none; nothing where the record does not say."""
    state = raw.get("configured")
    return CheckReadings({"failures": 0.0 if state else 1.0}) if isinstance(state, bool) else CheckReadings()
