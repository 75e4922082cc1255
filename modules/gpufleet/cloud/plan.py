"""What a pool comes to before any cloud is asked: names, tags, keys, fabric. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet import Fleet, Pool, pool_prefix, slug

SSH_USER = "ubuntu"  # the first user of every image that we choose


@dataclass(frozen=True)
class PoolPlan:
    """One pool of a fleet, with everything that the three clouds need to agree on."""

    fleet: Fleet
    pool: Pool

    @property
    def prefix(self) -> str:
        """Return what the names of this pool's resources start with: two stacks may share an account."""
        return pool_prefix(self.fleet.stack, self.pool.name)

    @property
    def node_names(self) -> list[str]:
        """Return the names of a fixed count's nodes."""
        return [f"{self.prefix}-{number + 1}" for number in range(self.pool.count.desired)]

    @cached_property
    def machine(self) -> catalog.Machine:
        return catalog.machine(self.pool.machine, self.pool.cloud)

    @property
    def several(self) -> bool:
        return self.pool.count.max > 1

    @property
    def fabric(self) -> Literal["efa", "infiniband"] | None:
        """Return the fabric to build: with ``auto``, what the machine has, where there are several nodes."""
        wanted = self.pool.fabric
        if wanted == "auto":
            return self.machine.fabric if self.several else None
        return None if wanted == "none" else wanted

    @property
    def accelerated(self) -> bool:
        return bool(self.machine.accelerators or self.pool.accelerators)

    @property
    def created_reservation(self) -> bool:
        """Tell whether we reserve; clouds reserve nothing less than one node."""
        return self.pool.purchase.reservation == "create" and self.pool.count.max > 0

    @property
    def foreign_reservation(self) -> str | None:
        """Return the id of a reservation that exists outside this stack."""
        wanted = self.pool.purchase.reservation
        return None if wanted == "create" else wanted

    @property
    def grouped(self) -> bool:
        """Tell whether the nodes belong to a cloud's group rather than to us one by one."""
        return self.pool.count.elastic or self.pool.purchase.fallback is not None

    def zone_of(self, number: int) -> str | None:
        """Return the zone of a node: the zones in turn, None where the spec names none."""
        zones = self.pool.zones
        return zones[number % len(zones)] if zones else None

    def tags(self, node: str | None = None, **more: str) -> dict[str, str]:
        """Return the tags (on GCP: labels) that cost, inventory and sweeps read."""
        pool = self.pool
        values = {
            "stack": slug(self.fleet.stack),
            "pool": pool.name,
            "owner": self.fleet.owner,
            "node": node,
            "purchase": pool.purchase.label,
            "hours-per-month": None if pool.hours_per_month is None else str(pool.hours_per_month),
            "template": pool.template,
            "fallback": pool.purchase.fallback,
            **more,
        }
        return {f"gpufleet-{key}": value for key, value in values.items() if value is not None}

    def props(self) -> dict[str, Any]:
        """Return the facts that the pool's component carries in the state."""
        pool = self.pool
        count = {"min": pool.count.min, "desired": pool.count.desired, "max": pool.count.max}
        return {
            "cloud": pool.cloud,
            "region": pool.region,
            "machine": pool.machine,
            "count": count,
            "purchase": pool.purchase.label,
            "fabric": self.fabric or "none",
        }

    @property
    def ssh_by_public_address(self) -> bool:
        """Tell whether somebody comes in from outside: with private networks only, it is by VPN or peering."""
        return any(block.is_global for block in self.fleet.ssh.allowed_cidrs)

    def fact(self, name: str, *, private: Any, public: Any = None, **observed: Any) -> dict[str, Any]:
        """Return one entry of the stack output ``nodes``; values may be outputs. ``address`` is the one for SSH."""
        pool = self.pool
        declared = {
            "name": name,
            "cloud": pool.cloud,
            "region": pool.region,
            "pool": pool.name,
            "machine": pool.machine,
            "template": pool.template,
            "purchase": pool.purchase.label,
            "ssh_user": SSH_USER,
            "address": public if self.ssh_by_public_address and public is not None else private,
            "private_address": private,
            "public_address": public,
        }
        return {**declared, **observed}

    def wrong(self, key: str, problem: str, remedy: str) -> InputError:
        """Return an error that names the place in the stack's file."""
        where = f"stacks/Pulumi.{self.fleet.stack}.yaml"
        return InputError(problem, where=where, key=f"pools[{self.pool.name}].{key}", remedy=remedy)
