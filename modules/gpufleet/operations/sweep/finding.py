"""Resources of a cloud, and which of them neither state nor registry knows. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Literal

from gpufleet.boundary import make_printable
from gpufleet.nodes.cloud_api.account import STACK_TAG

EXPIRY_TAG = "gpufleet-expires"
HOURS_PER_MONTH = 730
ORDER = (
    "spot_request", "group", "instance", "reservation", "volume", "network_interface", "address",
)  # fmt: skip
"""Kinds in the order of deletion: what starts machines first, then what machines use."""

Reason = Literal["unknown", "expired"]


@dataclass(frozen=True)
class CloudResource:
    """One resource as its cloud lists it.

    ``owner`` is the group that made it, ``other_ids`` are further ids by which a state may know it. ``delete`` deletes
    it; None if that cannot be done safely, with the reason in ``keep_reason``.
    """

    cloud: str
    kind: str
    id: str
    name: str
    region: str
    tags: Mapping[str, str]
    state: str = ""
    machine: str = ""
    purchase: str | None = None
    created_at: datetime | None = None
    owner: str = ""
    is_in_use: bool = False
    other_ids: tuple[str, ...] = ()
    usd_per_hour: float | None = None
    delete: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    keep_reason: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return every id by which a state or a registry may know it."""
        return (self.id, *self.other_ids)

    def expired_on(self, today: date) -> date | None:
        """Return the last day of its time to live if that is over."""
        try:
            last = date.fromisoformat(self.tags.get(EXPIRY_TAG, ""))
        except ValueError:
            return None  # never, or not a date
        return last if last < today else None


@dataclass(frozen=True)
class SweepFinding:
    """One resource that neither state nor registry knows, or that has expired.

    ``is_known``: the stack itself has to remove it.
    """

    resource: CloudResource
    reason: Reason
    is_known: bool
    detail: str

    @property
    def is_deletable(self) -> bool:
        """True if ``--apply`` deletes it."""
        return not self.is_known and self.resource.delete is not None and STACK_TAG in self.resource.tags

    def as_json(self) -> dict[str, Any]:
        """Return the finding for programs."""
        resource = self.resource
        names = ("cloud", "kind", "id", "name", "region", "state", "machine", "purchase", "usd_per_hour")
        row = {name: getattr(resource, name) for name in names}
        created = resource.created_at.isoformat() if resource.created_at else None
        row |= {"created_at": created, "reason": self.reason, "known": self.is_known, "detail": self.detail}
        return {**row, "deletable": self.is_deletable}

    def format_line(self) -> str:
        """Return the finding as one line."""
        resource = self.resource
        usd = resource.usd_per_hour
        price = "no price known" if usd is None else f"{usd * HOURS_PER_MONTH:,.2f} USD/month"
        what = " ".join(filter(None, (resource.machine, resource.state)))
        action = "delete" if self.is_deletable else "keep"
        id_ = make_printable(resource.id, 160)
        return f"{action:<6} {resource.cloud} {resource.region} {resource.kind} {id_} {what}: {price}; {self.detail}"


@dataclass(frozen=True)
class SweepReport:
    """The findings of a stack, and the sources that were read."""

    stack: str
    findings: tuple[SweepFinding, ...]
    listed: Mapping[str, int]
    failures: Mapping[str, str]
    is_state_empty: bool = False

    @property
    def deletable(self) -> list[SweepFinding]:
        """Return what ``--apply`` deletes, in that order."""
        rows = [finding for finding in self.findings if finding.is_deletable]
        return sorted(rows, key=lambda row: (ORDER.index(row.resource.kind), row.resource.id))

    @property
    def fingerprint(self) -> str:
        """Return a short text that changes with the list of what would be deleted."""
        ids = "\n".join(f"{row.resource.cloud} {row.resource.id}" for row in self.deletable)
        return hashlib.sha256(f"{self.stack}\n{ids}".encode()).hexdigest()[:8]

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "stack": self.stack,
            "fingerprint": self.fingerprint,
            "listed": dict(self.listed),
            "failures": dict(self.failures),
            "findings": [finding.as_json() for finding in self.findings],
        }

    def format_lines(self) -> Iterator[str]:
        """Yield a line for each account and finding, then the sum."""
        for source, count in self.listed.items():
            yield f"{source}: {count} resources with the tag of {self.stack}"
        yield from (finding.format_line() for finding in self.findings)
        rows = self.deletable
        usd = sum(row.resource.usd_per_hour or 0 for row in rows) * HOURS_PER_MONTH
        if rows:
            if self.is_state_empty:
                yield f"the state of {self.stack} is empty: check that this is the backend of the running stack"
            yield f"{len(rows)} to delete, {usd:,.2f} USD/month"
            yield f"delete exactly these: gpufleet nodes sweep -s {self.stack} --apply --confirm {self.fingerprint}"
        elif not self.failures:
            yield "nothing to delete"


def find_orphans(
    resources: Iterable[CloudResource],
    known_ids: Collection[str],
    known_groups: Collection[str],
    stack_tag: str,
    today: date | None = None,
    *,
    registered_states: Mapping[str, str] | None = None,
) -> list[SweepFinding]:
    """Return the findings among a stack's resources. Nothing without that stack's tag is ever one.

    ``known_groups`` has ids and names of groups in the state: their members are known. ``registered_states`` has the
    instances that the registry uses. Ids are compared without case, because Azure changes it.
    """
    in_registry = {id_.lower(): state for id_, state in (registered_states or {}).items()}
    known = {text.lower() for text in known_ids if text}
    groups = {text.lower() for text in known_groups if text}
    day = today or datetime.now(UTC).date()
    findings = []
    for resource in resources:
        if resource.tags.get(STACK_TAG) != stack_tag:
            continue
        is_known = any(text.lower() in known for text in resource.ids) or _is_of_group(resource.owner, groups)
        expired = resource.expired_on(day)
        if is_known and expired:
            detail = f"expired on {expired}; the state knows it: pulumi destroy, or change expires"
            findings.append(SweepFinding(resource, "expired", True, detail))
        elif is_known:
            continue
        elif state := next(
            (in_registry[id_.lower()] for id_ in resource.ids if id_.lower() in in_registry), ""
        ):
            detail = f"not in the state, but {state} in the registry: retire the node first"
            findings.append(SweepFinding(resource, "unknown", True, detail))
        elif not resource.is_in_use:
            detail = f"expired on {expired}" if expired else "neither state nor registry knows it"
            detail += f"; {resource.keep_reason}" if resource.keep_reason else ""
            findings.append(SweepFinding(resource, "expired" if expired else "unknown", False, detail))
    return sorted(
        findings, key=lambda row: (row.resource.cloud, ORDER.index(row.resource.kind), row.resource.id)
    )


def _is_of_group(owner: str, groups: Collection[str]) -> bool:
    text = owner.lower()
    return bool(text) and (text in groups or text.rpartition("/")[2] in groups)
