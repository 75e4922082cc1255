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
_LEASES_TABLE = (
    "create table if not exists leases (holder text primary key, kind text, id text, address text unique)"
)


@dataclass(frozen=True)
class ResourceRow:
    """One resource that exists; ``acknowledged`` once the engine has named it in a later call."""

    id: str
    type: str
    urn: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    acknowledged: bool = False


def open_resource_store(cloud: str) -> ResourceStore:
    """Open or create the store of ``cloud`` in the state home."""
    folder = state_home() / "providers"
    folder.mkdir(parents=True, exist_ok=True)
    return ResourceStore(folder / f"{cloud}.sqlite")


class ResourceStore:
    def __init__(self, path: Path) -> None:
        """Open the file; a writer waits up to 30 s for another one."""
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._db.execute("pragma synchronous=off")  # safe against SIGKILL; only a power cut could hurt
        self._db.execute(_RESOURCES_TABLE)
        self._db.execute(_LEASES_TABLE)
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

    def delete_resource(self, resource_type: str, resource_id: str) -> None:
        """Delete a resource and release its addresses."""
        self._db.execute("delete from leases where kind = ? and id = ?", (resource_type, resource_id))
        self._db.execute("delete from resources where type = ? and id = ?", (resource_type, resource_id))

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
