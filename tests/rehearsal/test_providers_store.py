"""The store of a simulated cloud stays consistent under several writers and SIGKILL."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from gpufleet.rehearsal.providers.store import ResourceRow, ResourceStore

WRITER = """
import sys
from pathlib import Path
from gpufleet.rehearsal.providers.store import ResourceStore, ResourceRow
store = ResourceStore(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    with store.transaction():
        name = f"{sys.argv[2]}-{number}"
        address = store.lease_ip_address("10.0.0.0/16", "t", name, "private")
        store.put_resource(ResourceRow(name, "t", f"urn-{name}", {}, {"address": address}))
    print(name, flush=True)
"""


def writer(path, name, count):
    command_line = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def store(tmp_path):
    resource_store = ResourceStore(tmp_path / "cloud.sqlite")
    yield resource_store
    resource_store.close()


def test_concurrent_writers_lose_nothing_and_share_no_address(store, tmp_path):
    children = [writer(tmp_path / "cloud.sqlite", name, 40) for name in ("a", "b", "c")]
    for child in children:
        child.communicate(timeout=120)
        assert child.returncode == 0
    rows = store.find_resources_by_type("t")
    assert len(rows) == 120
    assert len({row.outputs["address"] for row in rows}) == 120


def test_killed_writer_leaves_complete_rows_and_no_lock(store, tmp_path):
    child = writer(tmp_path / "cloud.sqlite", "a", 100_000)
    for _ in range(30):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait(timeout=30)
    with store.transaction():  # fails after sqlite's own limit if a lock is left
        store.put_resource(ResourceRow("after", "t", "urn-after", {}, {"address": "none"}))
    rows = store.find_resources_by_type("t")
    assert len(rows) > 30
    assert all(row.outputs["address"] for row in rows)


def test_failed_transaction_stores_nothing(store):
    def fail():
        with store.transaction():
            store.put_resource(ResourceRow("one", "t", "urn", {}, {}))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.get_resource("t", "one") is None


def test_network_without_free_address_is_reported(store):
    for number in range(3):
        store.lease_ip_address("10.0.0.0/29", "t", str(number), "private")
    with pytest.raises(LookupError, match=r"10\.0\.0\.0/29 has no free address left"):
        store.lease_ip_address("10.0.0.0/29", "t", "one more", "private")


def test_store_file_is_readable_by_its_owner_only(store, tmp_path):
    assert (tmp_path / "cloud.sqlite").stat().st_mode & 0o777 == 0o600
