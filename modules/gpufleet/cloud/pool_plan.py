"""What is known about a pool before any cloud is called: names, tags, keys, fabric. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpufleet import catalog
from gpufleet.cloud.fabric_plan import FabricPlan, plan_fabric
from gpufleet.errors import InputError
from gpufleet.fleet import (
    Fleet,
    Pool,
    PoolVolumes,
    Rung,
    find_pool_fabric,
    find_pool_facts,
    pool_node_name_prefix,
    pool_volumes,
    slugify,
)

SSH_USER = "ubuntu"  # the first user of every image that we choose


def build_fleet_tags(fleet: Fleet) -> dict[str, str]:
    """Return the tags (on GCP: labels) of everything in a stack, also of what its pools share."""
    values = {
        "stack": slugify(fleet.stack),
        "owner": fleet.owner,
        "expires": "never" if fleet.expires is None else fleet.expires.isoformat(),
    }
    return {f"gpufleet-{key}": value for key, value in values.items()}


@dataclass(frozen=True)
class PoolPlan:
    """One pool of a fleet, with everything that is the same on every cloud."""

    fleet: Fleet
    pool: Pool
    origin: str | None = None  # where the pool is declared, if not in the file of its stack

    @property
    def node_name_prefix(self) -> str:
        """Return the prefix of this pool's resource names; it has the stack, as two stacks may share an account."""
        return pool_node_name_prefix(self.fleet.stack, self.pool.name)

    @property
    def node_names(self) -> list[str]:
        """Return the names of a fixed count's nodes."""
        return [f"{self.node_name_prefix}-{number + 1}" for number in range(self.pool.count.desired)]

    @cached_property
    def machine(self) -> catalog.Machine:
        return catalog.get_machine(self.pool.machine, self.pool.cloud)

    @property
    def has_several_nodes(self) -> bool:
        return self.pool.count.max > 1

    @cached_property
    def facts(self) -> catalog.MachineFacts:
        """Return the facts of the machine; everything is unknown if the table has no row for it."""
        return find_pool_facts(self.pool) or catalog.MachineFacts(self.pool.cloud, self.pool.machine)

    @property
    def fabric(self) -> str | None:
        """Return the fabric to build; ``auto`` means the machine's own if there are several nodes."""
        return find_pool_fabric(self.pool)

    @cached_property
    def fabric_plan(self) -> FabricPlan | None:
        """Return the fabric of each node: what to build, and what burn-in should find."""
        return plan_fabric(self.fabric, self.facts) if self.fabric else None

    @cached_property
    def volumes(self) -> PoolVolumes:
        """Return the disks that each node needs beyond its boot disk and its own local drives."""
        return pool_volumes(self.fleet, self.pool)

    @cached_property
    def rungs(self) -> tuple[Rung, ...]:
        """Return the purchases of the pool in the order in which they are tried; most pools have one."""
        return self.pool.purchase.rungs

    @property
    def has_accelerators(self) -> bool:
        return bool(self.machine.accelerators or self.pool.accelerators)

    @property
    def needs_reservation(self) -> bool:
        """True if this stack creates a reservation; clouds reserve at least one node."""
        return self.pool.purchase.reservation == "create" and self.pool.count.max > 0

    @property
    def existing_reservation(self) -> str | None:
        """Return the id of a reservation that exists outside this stack."""
        reservation = self.pool.purchase.reservation
        return None if reservation == "create" else reservation

    @property
    def needs_instance_group(self) -> bool:
        """True if the nodes belong to a cloud's group instead of being resources one by one."""
        return self.pool.group or self.pool.count.is_elastic or len(self.rungs) > 1

    def zone_of_node(self, node_index: int) -> str | None:
        """Return the zone of a node: the spec's zones in turn, None if it names none."""
        zones = self.pool.zones
        return zones[node_index % len(zones)] if zones else None

    def build_tags(self, node_name: str | None = None, **extra: str) -> dict[str, str]:
        """Return the tags (on GCP: labels) that cost, inventory and sweeps read."""
        pool = self.pool
        values = {
            "pool": pool.name,
            "node": node_name,
            "purchase": pool.purchase.tag_value,
            "hours-per-month": None if pool.hours_per_month is None else str(pool.hours_per_month),
            "template": pool.template,
            "fallback": pool.purchase.fallback,
            "account": pool.account,
            **extra,
        }
        tags = {f"gpufleet-{key}": value for key, value in values.items() if value is not None}
        return {**build_fleet_tags(self.fleet), **tags}

    def build_component_inputs(self) -> dict[str, Any]:
        """Return the facts that the pool's component has in the state."""
        pool = self.pool
        count = {"min": pool.count.min, "desired": pool.count.desired, "max": pool.count.max}
        return {
            "cloud": pool.cloud,
            "region": pool.region,
            "machine": pool.machine,
            "count": count,
            "purchase": pool.purchase.tag_value,
            "fabric": self.fabric or "none",
        }

    def build_node_facts(
        self, name: str, *, private: Any, public: Any = None, **observed: Any
    ) -> dict[str, Any]:
        """Return one entry of the stack output ``nodes``; values may be outputs. ``address`` is the one for SSH."""
        pool = self.pool
        declared = {
            "name": name,
            "cloud": pool.cloud,
            "region": pool.region,
            "pool": pool.name,
            "machine": pool.machine,
            "template": pool.template,
            "purchase": pool.purchase.tag_value,
            "ssh_user": SSH_USER,
            "address": public if self.fleet.ssh.has_public_source and public is not None else private,
            "private_address": private,
            "public_address": public,
        }
        return {**declared, **self._account_facts, **observed}

    def build_group_facts(self, kind: str, *, id: Any, name: Any, purchase: str) -> dict[str, Any]:  # noqa: A002 - the output's key
        """Return one entry of the stack output ``groups``: where ``nodes sync`` asks the cloud for members."""
        pool = self.pool
        return {
            "pool": pool.name,
            "cloud": pool.cloud,
            "region": pool.region,
            "kind": kind,
            "id": id,
            "name": name,
            "purchase": purchase,
            "template": pool.template,
            "ssh_user": SSH_USER,
            **self._account_facts,
        }

    @property
    def _account_facts(self) -> dict[str, str]:
        return {"account": self.pool.account} if self.pool.account else {}

    def build_input_error(self, key: str, problem: str, remedy: str) -> InputError:
        """Return an error with the place in the stack's file."""
        where = self.origin or f"stacks/Pulumi.{self.fleet.stack}.yaml"
        return InputError(problem, where=where, key=f"pools[{self.pool.name}].{key}", remedy=remedy)
