"""What the facts table says of a pool's machine."""

from __future__ import annotations

from gpufleet import catalog
from gpufleet.fleet.spec import Pool


def find_pool_facts(pool: Pool, machine: str | None = None) -> catalog.MachineFacts | None:
    """Return what is known about the pool's machine (or another one), with the accelerator that is attached to it."""
    model = pool.accelerators.model if pool.accelerators else None
    return catalog.get_machine_facts(machine or pool.machine, pool.cloud, model)


def find_pool_fabric(pool: Pool) -> str | None:
    """Return the fabric that the pool gets; ``auto`` means the machine's own if there are several nodes."""
    if pool.fabric == "auto":
        return find_machine_fabric(pool) if pool.count.max > 1 else None
    return None if pool.fabric == "none" else pool.fabric


def find_machine_fabric(pool: Pool) -> str | None:
    """Return the fabric of the pool's machine, None if it has none or none is known."""
    facts = find_pool_facts(pool)
    return facts.fabric if facts else None
