"""Faults of a simulated cloud: stock-outs, quotas, throttling, a failure half-way, a lost answer.

``gpufleet rehearse fault cloud`` writes them into the cloud's store; the provider asks here before it starts a machine.
The error codes and texts are the vendors' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from gpufleet.rehearsal.providers.store import ResourceStore

FaultKind = Literal["stock-out", "quota", "throttle", "fail-after", "lose-answer"]
KINDS: dict[FaultKind, str] = {
    "stock-out": "no capacity: by zone, machine and purchase, each optional",
    "quota": "the account may run this many machines at most",
    "throttle": "the next requests are refused as too many; the engine's next run succeeds",
    "fail-after": "after this many created resources every creation fails, until the fault is cleared",
    "lose-answer": "the next creation happens, but its answer is lost",
}

# Source of the codes, by cloud: AWS EC2 API "Error codes"; Google "Troubleshoot resource availability errors" and
# "Troubleshoot quota errors"; Azure "Resolve errors for SKU not available", "Allocation failures", "Quota errors".
_STOCK_OUT = {
    "aws": "InsufficientInstanceCapacity: We currently do not have sufficient {machine} capacity in the Availability"
    " Zone you requested ({zone}).",
    "gcp": "ZONE_RESOURCE_POOL_EXHAUSTED: The zone '{zone}' does not have enough resources available to fulfill the"
    " request for {machine}. Try a different zone, or try again later.",
    "azure-native": "OverconstrainedZonalAllocationRequest: Allocation failed. VM(s) with the following constraints"
    " cannot be allocated, because the condition is too restrictive: VM Size {machine}, zone {zone}.",
}
_STOCK_OUT_OF_REGION = {
    "azure-native": "AllocationFailed: Allocation failed. We do not have sufficient capacity for the requested VM size"
    " {machine} in this region."
}
_NO_SPOT = {
    "aws": "InsufficientInstanceCapacity: There is no Spot capacity available that matches your request.",
    "azure-native": "SkuNotAvailable: The requested VM size is currently not available as Spot: {machine}.",
}
_QUOTA = {
    "aws": "VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit allows for the"
    " instance bucket that {machine} belongs to.",
    "aws/spot": "MaxSpotInstanceCountExceeded: Max spot instance count exceeded.",
    "gcp": "QUOTA_EXCEEDED: Quota for the GPUs of {machine} exceeded. Limit: {limit} in this region.",
    "azure-native": "QuotaExceeded: Operation could not be completed as it results in exceeding approved Total Regional"
    " Cores quota. Current Limit: {limit} machines of {machine}.",
}
_THROTTLED = {
    "aws": "RequestLimitExceeded: Request limit exceeded.",
    "gcp": "RATE_LIMIT_EXCEEDED: Quota exceeded for quota metric 'Queries' per minute.",
    "azure-native": "TooManyRequests: The request is being throttled as the limit has been reached; retry after 30 s.",
}
_INTERNAL = {
    "aws": "InternalError: An internal error has occurred",
    "gcp": "INTERNAL_ERROR: Internal error. Please try again.",
    "azure-native": "InternalServerError: Encountered internal server error.",
}


class CloudError(Exception):
    """What a cloud's API answers: the vendor's code and text."""


@dataclass(frozen=True)
class Fault:
    """One fault; an empty zone, machine or purchase means any."""

    kind: FaultKind
    zone: str = ""
    machine: str = ""
    purchase: str = ""
    count: int = (
        0  # quota: the limit; throttle, lose-answer: how often still; fail-after: how many still succeed
    )

    def matches(self, machine: str, zone: str, purchase: str) -> bool:
        wanted = ((self.machine, machine), (self.zone, zone), (self.purchase, purchase))
        return all(not expected or expected == actual for expected, actual in wanted)


@dataclass(frozen=True)
class MachineRequest:
    """A machine that somebody asks a cloud for."""

    machine: str
    zone: str
    purchase: str


def list_active_faults(store: ResourceStore) -> Iterator[tuple[int, Fault]]:
    for number, fields in store.list_faults():
        yield number, Fault(**fields)


def add_fault(store: ResourceStore, fault: Fault) -> None:
    store.put_fault(asdict(fault))


def find_capacity_error(
    store: ResourceStore, cloud: str, request: MachineRequest, count_running: Callable[[], int]
) -> str | None:
    """Return why the cloud cannot start one more machine; ``count_running`` counts those of the same quota."""
    for _, fault in list_active_faults(store):
        if not fault.matches(request.machine, request.zone, request.purchase):
            continue
        values = {"machine": request.machine, "zone": request.zone, "limit": fault.count}
        if fault.kind == "stock-out":
            return _choose_stock_out_text(cloud, request, fault).format_map(values)
        if fault.kind == "quota" and count_running() >= fault.count:
            return _QUOTA.get(f"{cloud}/{request.purchase}", _QUOTA[cloud]).format_map(values)
    return None


def _choose_stock_out_text(cloud: str, request: MachineRequest, fault: Fault) -> str:
    if request.purchase == "spot" and fault.purchase == "spot" and cloud in _NO_SPOT:
        return _NO_SPOT[cloud]
    if not request.zone and cloud in _STOCK_OUT_OF_REGION:
        return _STOCK_OUT_OF_REGION[cloud]
    return _STOCK_OUT[cloud]


def check_request(store: ResourceStore, cloud: str) -> None:
    """Raise CloudError for a request that is throttled, or that comes after the point of a failure half-way."""
    for number, fault in list_active_faults(store):
        if fault.kind == "throttle":
            _count_down(store, number, fault)
            raise CloudError(_THROTTLED[cloud])
        if fault.kind == "fail-after":
            if fault.count <= 0:
                raise CloudError(_INTERNAL[cloud])
            store.put_fault(asdict(Fault(**{**asdict(fault), "count": fault.count - 1})), number)


def loses_answer(store: ResourceStore) -> bool:
    """Return whether the answer of the creation that just happened is lost; each fault counts down."""
    for number, fault in list_active_faults(store):
        if fault.kind == "lose-answer":
            _count_down(store, number, fault)
            return True
    return False


def build_lost_answer_error(cloud: str) -> CloudError:
    return CloudError(_INTERNAL[cloud])


def _count_down(store: ResourceStore, number: int, fault: Fault) -> None:
    if fault.count <= 1:
        store.delete_faults(number)
    else:
        store.put_fault(asdict(Fault(**{**asdict(fault), "count": fault.count - 1})), number)
