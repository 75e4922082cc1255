"""The resources of a simulated cloud: one SQLite file, written in transactions.

SQLite supports the engine's concurrent calls, concurrent commands, and stays consistent after SIGKILL.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import ENGINE_DOCUMENT, decode_json_object
from gpufleet.paths import state_home
from gpufleet.rehearsal.providers.addresses import iterate_host_addresses

_RESOURCES_TABLE = """
create table if not exists resources (
    id text not null, type text not null, urn text not null,
    inputs text not null, outputs text not null,
    acknowledged integer not null default 0,
    primary key (type, id)
)"""
_OVERFLOW_NETWORK = "198.18.0.0/15"  # for benchmarks of networks: never routed
_LEASES_TABLE = (
    "create table if not exists leases (holder text primary key, kind text, id text, address text unique)"
)


_MEMBERS_TABLE = """
create table if not exists members (
    id text primary key, kind text not null, group_id text not null, number integer not null, name text not null,
    zone text not null, machine text not null, purchase text not null,
    private_address text not null, public_address text not null
)"""
_FAULTS_TABLE = "create table if not exists faults (id integer primary key, fault text not null)"
# Of a group: the size that an alarm set, and how often each of its places was filled.
_COUNTERS_TABLE = (
    "create table if not exists counters"
    " (group_id text, name text, value integer, primary key (group_id, name))"
)


@dataclass(frozen=True)
class MemberRow:
    """One machine that a group started; ``kind`` and ``group_id`` are the group's type and id."""

    id: str
    kind: str
    group_id: str
    number: int
    name: str
    zone: str
    machine: str
    purchase: str
    private_address: str
    public_address: str


@dataclass(frozen=True)
class ResourceRow:
    """One resource that exists; ``acknowledged`` once the engine has named it in a later call."""

    id: str
    type: str
    urn: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    acknowledged: bool = False


def open_resource_store(cloud: str, home: Path | None = None) -> ResourceStore:
    """Open or create the store of ``cloud`` in a rehearsal's home, by default the state home."""
    folder = (home or state_home()) / "providers"
    folder.mkdir(parents=True, exist_ok=True)
    return ResourceStore(folder / f"{cloud}.sqlite")


class ResourceStore:
    def __init__(self, path: Path) -> None:
        """Open the file; a writer waits up to 30 s for another one."""
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._db.execute("pragma synchronous=off")  # safe against SIGKILL; only a power cut could hurt
        self._db.execute(_RESOURCES_TABLE)
        self._db.execute(_LEASES_TABLE)
        self._db.execute(_MEMBERS_TABLE)
        self._db.execute(_FAULTS_TABLE)
        self._db.execute(_COUNTERS_TABLE)
        path.chmod(0o600)  # secrets of the program may be in the inputs

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the write lock: data read inside is still current when it is written."""
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def get_resource(self, resource_type: str, resource_id: str) -> ResourceRow | None:
        return next(self._select("type = ? and id = ?", resource_type, resource_id), None)

    def find_resources_by_type(self, *kinds: str) -> list[ResourceRow]:
        return list(self._select(f"type in ({','.join('?' * len(kinds))})", *kinds))

    def find_resources_by_urn(self, urn: str) -> list[ResourceRow]:
        return list(self._select("urn = ?", urn))

    def find_all_resources(self) -> list[ResourceRow]:
        return list(self._select("1 = 1"))

    def put_resource(self, row: ResourceRow) -> None:
        self._db.execute(
            "insert or replace into resources (id, type, urn, inputs, outputs, acknowledged) values (?,?,?,?,?,?)",
            (row.id, row.type, row.urn, json.dumps(row.inputs), json.dumps(row.outputs), row.acknowledged),
        )

    def mark_known_to_engine(self, resource_type: str, resource_id: str) -> None:
        """Record that the engine knows this resource: it never names an unfinished creation."""
        self._db.execute(
            "update resources set acknowledged = 1 where type = ? and id = ? and acknowledged = 0",
            (resource_type, resource_id),
        )

    def lease_ip_address(self, network: str, resource_type: str, resource_id: str, purpose: str) -> str:
        """Return the resource's address for a purpose; a new holder gets a free one."""
        holder = f"{resource_type} {resource_id} {purpose}"
        existing = self._db.execute("select address from leases where holder = ?", (holder,)).fetchone()
        if existing is not None:
            return str(existing[0])
        for address in iterate_host_addresses(network, holder):
            is_used = self._db.execute("select 1 from leases where address = ?", (address,)).fetchone()
            if is_used is None:
                self._db.execute(
                    "insert into leases values (?, ?, ?, ?)", (holder, resource_type, resource_id, address)
                )
                return address
        raise LookupError(f"{network} has no free address left")

    def lease_public_address(
        self, network: str, resource_type: str, resource_id: str, purpose: str = "public"
    ) -> str:
        """Return the resource's public address; a fleet of hundreds overflows into the block of RFC 2544."""
        try:
            return self.lease_ip_address(network, resource_type, resource_id, purpose)
        except LookupError:
            return self.lease_ip_address(_OVERFLOW_NETWORK, resource_type, resource_id, purpose)

    def delete_resource(self, resource_type: str, resource_id: str) -> None:
        """Delete a resource and release its addresses."""
        self._db.execute("delete from leases where kind = ? and id = ?", (resource_type, resource_id))
        self._db.execute("delete from resources where type = ? and id = ?", (resource_type, resource_id))

    def find_members(self, group_id: str | None = None) -> list[MemberRow]:
        """Return the machines of a group, by default of all groups, in the order in which they were started."""
        query = "select * from members where ?1 is null or group_id = ?1 order by group_id, number"
        return [MemberRow(*row) for row in self._db.execute(query, (group_id,)).fetchall()]

    def put_member(self, member: MemberRow) -> None:
        values = tuple(getattr(member, name) for name in MemberRow.__dataclass_fields__)
        self._db.execute("insert or replace into members values (?,?,?,?,?,?,?,?,?,?)", values)

    def delete_member(self, member: MemberRow) -> None:
        """Delete a machine and release its addresses."""
        self._db.execute("delete from leases where kind = 'member' and id = ?", (member.id,))
        self._db.execute("delete from members where id = ?", (member.id,))

    def get_counter(self, group_id: str, name: str) -> int | None:
        query = "select value from counters where group_id = ? and name = ?"
        found = self._db.execute(query, (group_id, name)).fetchone()
        return None if found is None else int(found[0])

    def set_counter(self, group_id: str, name: str, value: int) -> None:
        self._db.execute("insert or replace into counters values (?, ?, ?)", (group_id, name, value))

    def delete_counters(self, group_id: str, name: str | None = None) -> None:
        self._db.execute(
            "delete from counters where group_id = ?1 and (?2 is null or name = ?2)", (group_id, name)
        )

    def list_faults(self) -> list[tuple[int, dict[str, Any]]]:
        rows = self._db.execute("select id, fault from faults order by id").fetchall()
        return [(int(number), _decode_object(text)) for number, text in rows]

    def put_fault(self, fault: dict[str, Any], number: int | None = None) -> None:
        """Add a fault, or change one by its number."""
        self._db.execute("insert or replace into faults values (?, ?)", (number, json.dumps(fault)))

    def delete_faults(self, number: int | None = None) -> None:
        self._db.execute("delete from faults where ?1 is null or id = ?1", (number,))

    def close(self) -> None:
        self._db.close()

    def _select(self, where: str, *values: str) -> Iterator[ResourceRow]:
        # "where" is one of the constants above, never data.
        query = (
            f"select id, type, urn, inputs, outputs, acknowledged from resources where {where} order by id"  # noqa: S608
        )
        for identity, kind, urn, inputs, outputs, acknowledged in self._db.execute(query, values).fetchall():
            yield ResourceRow(
                identity, kind, urn, _decode_object(inputs), _decode_object(outputs), bool(acknowledged)
            )


def _decode_object(text: str) -> dict[str, Any]:
    return decode_json_object(text, "the simulated cloud", ENGINE_DOCUMENT)
