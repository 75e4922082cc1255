"""One instance as a cloud's API lists it, the groups of a stack, and both as a report to the registry. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from gpufleet.engine import StateResource
from gpufleet.nodes.cloud_api.account import ACCOUNT_TAG, STACK_TAG
from gpufleet.nodes.declaration import list_machine_accelerators
from gpufleet.nodes.identity import NodeIdentity
from gpufleet.nodes.model import NodeObservation
from gpufleet.nodes.pulumi_state import find_machine_usd_per_hour, get_nested_text, list_pool_outputs
from gpufleet.nodes.source_report import SourceReport

MAX_GROUPS = 2000
GONE_STATES = frozenset(("terminated", "shutting-down", "deleting", "stopping_and_deleting"))


@dataclass(frozen=True)
class CloudInstance:
    """An instance; ``resource_id`` is what its cloud deletes it by, ``lifecycle`` how the cloud says it is bought."""

    cloud: str
    instance_id: str
    resource_id: str
    name: str
    region: str
    machine: str
    state: str
    lifecycle: str = ""
    zone: str = ""
    private_address: str = ""
    public_address: str = ""
    group: str = ""
    created_at: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    accelerators: Mapping[str, int] = field(
        default_factory=dict
    )  # by the cloud's own type, where it lists them

    def is_of(self, stack_tag: str, account: str) -> bool:
        """Return whether it is of a stack and a named account of it: two names may lead to one account."""
        return self.tags.get(STACK_TAG) == stack_tag and self.tags.get(ACCOUNT_TAG, "") == account

    @property
    def purchase(self) -> str | None:
        """Return the purchase as tags spell it; a spot instance is one whatever its group's tag says."""
        tagged = self.tags.get("gpufleet-purchase")
        if self.lifecycle == "spot":
            return "spot"
        return "on_demand" if tagged == "spot" and self.lifecycle else tagged


@dataclass(frozen=True)
class CloudGroup:
    """A group that owns its nodes, as the stack output ``groups`` describes it."""

    pool: str
    cloud: str
    region: str
    kind: str
    id: str
    name: str
    purchase: str = ""
    template: str = ""
    ssh_user: str = ""
    account: str = ""

    @property
    def key(self) -> str:
        """Return what tells this group from every other one of its stack."""
        return self.id or self.name

    def owns(self, group: str) -> bool:
        """Return whether a group's id or name, as a cloud writes it, means this group."""
        reference = group.lower()
        return (
            reference in {self.id.lower(), self.name.lower()}
            or reference.rpartition("/")[2] == self.name.lower()
        )


def read_stack_groups(resources: Sequence[StateResource]) -> list[CloudGroup]:
    """Return the groups in the outputs ``groups``, each once; entries without cloud, pool and name are left out."""
    entries = list_pool_outputs(resources, "groups")[:MAX_GROUPS]
    groups = [
        CloudGroup(**{name: get_nested_text(entry, name) for name in CloudGroup.__dataclass_fields__})
        for entry in entries
        if isinstance(entry, dict)
    ]
    return list(dict.fromkeys(group for group in groups if group.cloud and group.pool and group.name))


def read_simulated_members(
    members: Iterable[Mapping[str, Any]],
    groups: Sequence[CloudGroup],
    stack: str,
    machines: Mapping[str, str],
) -> list[CloudInstance]:
    """Return the members that a rehearsal's simulated clouds report; ``machines`` has the machine of each pool."""
    instances = []
    for member in members:
        texts = {key: value for key, value in member.items() if isinstance(value, str)}
        group = next((group for group in groups if group.owns(texts.get("group", ""))), None)
        if group is None or not texts.get("id") or not texts.get("name"):
            continue
        names = ("pool", "template", "purchase", "account")
        tags = {"stack": stack} | {name: getattr(group, name) for name in names}
        instances.append(
            CloudInstance(
                cloud=group.cloud,
                instance_id=texts["id"].lstrip("/"),  # the registry takes no id that starts with a slash
                resource_id=texts["id"],
                name=texts["name"],
                region=group.region,
                machine=texts.get("machine") or machines.get(group.pool, ""),
                state=texts.get("state") or "running",
                zone=texts.get("zone", ""),
                private_address=texts.get("private_address", ""),
                public_address=texts.get("public_address", ""),
                group=group.name,
                lifecycle=texts.get("purchase", ""),
                tags={f"gpufleet-{key}": value for key, value in tags.items() if value},
            )
        )
    return instances


def build_instance_report(
    instances: Iterable[CloudInstance],
    source: str,
    observed_at: datetime,
    groups: Sequence[CloudGroup] = (),
    *,
    prefer_public: bool = False,
) -> SourceReport:
    """Return the instances as a report; those that the cloud is about to delete are left out.

    A member of a group in ``groups`` gets that group's pool, template and purchase where its own tags do not say. SSH
    goes to the public address with ``prefer_public``, if there is one.
    """
    observations = []
    sizes = {group.key: 0 for group in groups}
    for instance in instances:
        if instance.state.lower() in GONE_STATES:
            continue
        owner = next((group for group in groups if instance.group and group.owns(instance.group)), None)
        if owner:
            sizes[owner.key] += 1
        described = _describe_by_group(instance, owner) if owner else instance
        observations.append(_observe(described, source, observed_at, owner, prefer_public=prefer_public))
    return SourceReport(source, observed_at, observations, group_sizes=sizes)


def build_stack_report(
    cloud: str,
    instances: Iterable[CloudInstance],
    stack_tag: str,
    observed_at: datetime,
    groups: Iterable[CloudGroup],
    *,
    account: str,
    prefer_public: bool,
) -> SourceReport:
    """Return the report of an account that lists more than one stack: the instances with the stack's tag."""
    return build_instance_report(
        [each for each in instances if each.is_of(stack_tag, account)],
        ":".join(filter(None, (cloud, stack_tag, account))),
        observed_at,
        [group for group in groups if group.cloud == cloud],
        prefer_public=prefer_public,
    )


def _describe_by_group(instance: CloudInstance, group: CloudGroup) -> CloudInstance:
    names = ("pool", "template", "purchase", "account")
    known = {name: getattr(group, name) for name in names}
    tags = {f"gpufleet-{key}": value for key, value in known.items() if value} | dict(instance.tags)
    return replace(instance, tags=tags)


def _observe(
    instance: CloudInstance, source: str, at: datetime, group: CloudGroup | None, *, prefer_public: bool
) -> NodeObservation:
    tags = instance.tags
    addresses = [instance.private_address, instance.public_address]
    if prefer_public:
        addresses.reverse()
    observed = {
        "kind": "cloud_vm",
        "cloud": instance.cloud,
        "region": instance.region,
        "pool": tags.get("gpufleet-pool"),
        "stack": tags.get("gpufleet-stack"),
        "template": tags.get("gpufleet-template"),
        "account": tags.get(ACCOUNT_TAG),
        "purchase": instance.purchase,
        "machine": instance.machine,
        "zone": instance.zone,
        "address": next(filter(None, addresses), None),
        "private_address": instance.private_address,
        "public_address": instance.public_address,
        "lifecycle": instance.lifecycle,
        "power": instance.state,
        "group": instance.group or None,
        "ssh_user": group.ssh_user if group else None,
        "accelerators": list_machine_accelerators(instance.machine),
        "usd_per_hour": find_machine_usd_per_hour(
            instance.cloud, instance.region, instance.machine, instance.purchase
        ),
    }
    values = {key: value for key, value in observed.items() if value not in (None, "")}
    identity = NodeIdentity(instance_id=instance.instance_id, account=tags.get(ACCOUNT_TAG, ""))
    return NodeObservation(source, instance.name, identity, observed=values, observed_at=at)
