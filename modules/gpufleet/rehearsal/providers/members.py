"""The machines that a rehearsal's clouds have: members of groups, and what no program owns any more."""

from __future__ import annotations

from pathlib import Path

from gpufleet.paths import state_home
from gpufleet.rehearsal.providers.install import CLOUDS
from gpufleet.rehearsal.providers.schema import load_cloud_schema
from gpufleet.rehearsal.providers.side_effects import settle
from gpufleet.rehearsal.providers.store import ResourceRow, open_resource_store


def list_group_members(stack: str, home: Path | None = None) -> list[dict[str, str]]:
    """Return the members of every group of a rehearsed stack, as the clouds' APIs list them.

    ``home`` is the rehearsal's folder, by default the one of the environment, which belongs to one stack.
    """
    del stack  # a rehearsal's clouds have the resources of one stack only
    members: list[dict[str, str]] = []
    for cloud in CLOUDS:
        if not ((home or state_home()) / "providers" / f"{cloud}.sqlite").exists():
            continue
        store = open_resource_store(cloud, home)
        members += [
            {
                "cloud": "azure" if cloud == "azure-native" else cloud,
                "id": member.id,
                "name": member.name,
                "group": member.group_id,
                "zone": member.zone,
                "machine": member.machine,
                "purchase": member.purchase,
                "private_address": member.private_address,
                "public_address": member.public_address,
                "state": "running",
            }
            for member in store.find_members()
        ]
        store.close()
    return members


def release_group_member(stack: str, instance_id: str, home: Path | None = None) -> str:
    """Terminate a member as its cloud's API does; its group starts another. Return what happened."""
    del stack  # as above
    for cloud in CLOUDS:
        if not ((home or state_home()) / "providers" / f"{cloud}.sqlite").exists():
            continue
        store = open_resource_store(cloud, home)
        try:
            with store.transaction():
                for member in store.find_members():
                    if member.id.lstrip("/") == instance_id.lstrip("/"):
                        store.delete_member(member)
                        settle(load_cloud_schema(cloud), store, member.kind)
                        count = len(store.find_members(member.group_id))
                        return f"{member.name} is terminated; its group has {count} machines"
        finally:
            store.close()
    return f"{instance_id} is in no group any more"


def list_remaining_resources(home: Path | None = None) -> list[ResourceRow]:
    """Return every resource that the rehearsal's clouds still have."""
    rows: list[ResourceRow] = []
    for cloud in CLOUDS:
        if ((home or state_home()) / "providers" / f"{cloud}.sqlite").exists():
            store = open_resource_store(cloud, home)
            rows += store.find_all_resources()
            store.close()
    return rows
