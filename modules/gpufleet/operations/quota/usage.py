"""A quota bucket as its cloud reports it, and who reads buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpufleet import fleet
from gpufleet.operations.quota.increase import IncreaseRequest
from gpufleet.operations.quota.need import QuotaNeed


@dataclass(frozen=True)
class BucketUsage:
    """A bucket as its cloud reports it. ``used_by_stack`` is the part of ``used`` that this stack's own machines take.

    ``request`` builds the increase request for a new limit; ``amount`` replaces a need's where only the cloud knows it.
    """

    limit: float
    used: float
    used_by_stack: float
    source: str
    request: Callable[[int], IncreaseRequest]
    bucket: str | None = None
    amount: int | None = None


UsageReader = Callable[[Sequence[QuotaNeed], fleet.Fleet], Mapping[QuotaNeed, BucketUsage | str]]
"""Reads the buckets of one cloud; a text says why one was not read."""
