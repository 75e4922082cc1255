"""Fixtures: a registry on each supported database, and short forms of reports."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, text

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
DEBIAN_BINARIES = "/usr/lib/postgresql/15/bin"


def minutes(count):
    """Return a moment, so many minutes into the test's day."""
    return START + timedelta(minutes=count)


def blade(number, *, at=0, serial=None, source="rack:r1", slot=None, name=None):
    """Return a rack's word on one blade."""
    identity = NodeIdentity(serial=serial, rack="r1", slot=str(slot or number))
    declared = {"kind": "compute_blade", "machine": "Compute Blade CM4 8GB", "address": f"10.0.0.{number}"}
    return NodeObservation(
        source, name or f"blade{number:02}", identity, declared=declared, observed_at=minutes(at)
    )


def rack(*blades, at=0):
    """Return a rack's whole report."""
    return SourceReport("rack:r1", minutes(at), blades)


@pytest.fixture(scope="session")
def lab():
    """Give the short ways above, and a list of what a node's history says."""
    return SimpleNamespace(blade=blade, rack=rack, minutes=minutes, events=events)


def events(registry, node, *kinds):
    """Return the events of a node's history, of some kinds or all: a move reads ``old>new``."""
    entries = [
        (c.event, f"{c.old_state}>{c.new_state}" if c.event == "state" else c.event)
        for c in registry.list_node_history(node)
    ]
    return [report for event, report in entries if not kinds or event in kinds]


@pytest.fixture(scope="session")
def postgres_server():
    """Run a PostgreSQL of the tests' own on a socket in a folder of theirs; give its socket folder."""
    search = os.pathsep.join([os.environ["PATH"], DEBIAN_BINARIES])
    programs = {name: shutil.which(name, path=search) for name in ("initdb", "pg_ctl", "setpriv")}
    if not (programs["initdb"] and programs["pg_ctl"]):
        pytest.skip("PostgreSQL's server programs (initdb, pg_ctl) are not installed")
    folder = Path(tempfile.mkdtemp(prefix="gpufleet-pg-"))  # pytest's own folders are closed to other users
    as_user = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        as_user = [programs["setpriv"], "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        shutil.chown(folder, "nobody", "nogroup")

    def run(*arguments, **more):
        subprocess.run(
            [*as_user, *arguments], check=True, cwd=folder, timeout=120, stdout=subprocess.DEVNULL, **more
        )

    data = folder / "data"
    run(programs["initdb"], "-D", data, "-U", "test", "-A", "trust", "--no-sync")
    options = f"-c listen_addresses='' -c fsync=off -c unix_socket_directories={folder}"
    run(programs["pg_ctl"], "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    yield folder
    run(programs["pg_ctl"], "-D", data, "-m", "immediate", "stop")
    shutil.rmtree(folder)


def _create(server, statement):
    engine = create_engine(_postgres(server, "postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def _postgres(server, name):
    return f"postgresql+psycopg://test@/{name}?host={server}"


@pytest.fixture(scope="session")
def postgres_template(postgres_server):
    """Migrate one database; tests get copies."""
    _create(postgres_server, "CREATE DATABASE migrated")
    Registry(_postgres(postgres_server, "migrated")).close()
    return "migrated"


@pytest.fixture
def empty_postgres_url(postgres_server):
    """Give a PostgreSQL database without any table."""
    name = f"t{os.urandom(6).hex()}"
    _create(postgres_server, f"CREATE DATABASE {name}")
    return _postgres(postgres_server, name)


@pytest.fixture
def postgres_url(postgres_server, postgres_template):
    """Give a migrated PostgreSQL database of the test's own."""
    name = f"t{os.urandom(6).hex()}"
    _create(postgres_server, f"CREATE DATABASE {name} TEMPLATE {postgres_template}")
    return _postgres(postgres_server, name)


@pytest.fixture
def empty_sqlite_url(tmp_path):
    """Give the URL of a SQLite registry that is not there yet."""
    return f"sqlite:///{tmp_path / 'registry.db'}"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory):
    """Migrate one file; tests get copies."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    Registry(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def sqlite_url(tmp_path, sqlite_template):
    """Give a migrated SQLite registry of the test's own."""
    shutil.copy(sqlite_template, tmp_path / "registry.db")
    return f"sqlite:///{tmp_path / 'registry.db'}"


def _each(prefix):
    @pytest.fixture(params=["sqlite", "postgres"])
    def url(request):
        return request.getfixturevalue(f"{prefix}{request.param}_url")

    return url


url = _each("")
empty_url = _each("empty_")


@pytest.fixture
def registry(url):
    """Give an empty registry, on each database in turn."""
    with Registry(url) as opened:
        yield opened
