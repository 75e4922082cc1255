"""Test an unusable registry: one line with a remedy, never a traceback, a password or an empty fleet."""

from __future__ import annotations

import os
import sqlite3
import stat

import pytest
from sqlalchemy import text

from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.nodes import Registry
from gpufleet.nodes.database import TIMEOUT


@pytest.fixture
def path(tmp_path, sqlite_url):
    """Give the file of a registry that is fine so far."""
    return tmp_path / "registry.db"


def fault(path):
    with pytest.raises(EnvironmentFault) as excinfo:
        Registry(f"sqlite:///{path}").list_nodes()
    assert "\n" not in str(excinfo.value)
    return excinfo.value


@pytest.mark.parametrize(
    "content", [b"", b"x", b"this is not a database" * 99, b"SQLite format 3\x00" + b"\xff" * 4096]
)
def test_damaged_registry_file_is_not_read_as_an_empty_fleet(tmp_path, content):
    file = tmp_path / "damaged.db"
    file.write_bytes(content)
    assert Registry.has_registry(f"sqlite:///{file}")
    assert "restore it from a backup" in fault(file).hint
    assert file.read_bytes() == content


def test_truncated_registry_is_refused(path):
    os.truncate(path, 8192)
    assert "restore it from a backup" in fault(path).hint


def test_database_of_another_program_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE songs (name text)")
    assert "it is not a registry" in str(fault(tmp_path / "other.db"))


def test_folder_instead_of_the_registry_file_is_refused(tmp_path):
    (tmp_path / "registry.db").mkdir()
    assert Registry.has_registry(f"sqlite:///{tmp_path / 'registry.db'}")
    assert "must be a file" in fault(tmp_path / "registry.db").hint


def test_file_instead_of_the_registry_folder_is_refused(tmp_path):
    (tmp_path / "folder").write_text("")
    with pytest.raises(EnvironmentFault, match="cannot be"):
        Registry(f"sqlite:///{tmp_path}/folder/registry.db")


def test_registry_of_a_newer_version_asks_for_an_upgrade(url):
    with Registry(url) as registry, registry._writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))
    with pytest.raises(EnvironmentFault, match="newer gpufleet") as excinfo:
        Registry(url)
    assert "upgrade" in excinfo.value.hint


def test_locked_registry_reports_the_other_writer(url, registry, lab, monkeypatch):
    monkeypatch.setenv(TIMEOUT, "0.2")
    registry.apply_source_report(lab.rack(lab.blade(1)))
    with registry.transaction(), Registry(url) as other:
        with pytest.raises(EnvironmentFault) as excinfo:
            other.set_node_hold("blade01", "cost", "test")
        assert "another gpufleet is writing" in excinfo.value.hint
        assert len(other.list_nodes()) == 1


def test_full_disk_loses_no_recorded_data(path, lab):
    with Registry(f"sqlite:///{path}") as registry:
        registry.apply_source_report(lab.rack(lab.blade(1)))
        with registry._reading() as connection:
            pages = connection.execute(text("PRAGMA page_count")).scalar()
            connection.execute(text(f"PRAGMA max_page_count = {pages + 2}"))
        with pytest.raises(EnvironmentFault, match="full") as excinfo:
            registry.apply_source_report(lab.rack(*(lab.blade(n) for n in range(1, 2000)), at=1))
        assert "free some space" in excinfo.value.hint
    with Registry(f"sqlite:///{path}") as registry:
        assert [node.name for node in registry.list_nodes()] == ["blade01"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr3t@127.0.0.1:1/fleet",
        "postgresql://me:s3cr3t@127.0.0.1:port/fleet",
        "postgresql://me:s3cr3t@127.0.0.1:1/fleet?no_such_option=1",
        "mysql://me:s3cr3t@127.0.0.1/fleet",
        "postgresql+nodriver://me:s3cr3t@127.0.0.1/fleet",
        "me:s3cr3t@127.0.0.1",
    ],
)
def test_password_is_never_printed(url):
    with pytest.raises((InputError, EnvironmentFault)) as excinfo:
        Registry(url)
    assert "s3cr3t" not in f"{excinfo.value} {excinfo.value!r} {excinfo.value.hint}"


@pytest.mark.parametrize("value", ["soon", "-1", "0", "nan", "1e9"])
def test_timeout_must_be_a_number_of_seconds(tmp_path, monkeypatch, value):
    monkeypatch.setenv(TIMEOUT, value)
    with pytest.raises(InputError, match=TIMEOUT):
        Registry(f"sqlite:///{tmp_path}/registry.db")


def _mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_registry_files_are_private_for_any_umask(tmp_path, lab):
    before = os.umask(0)
    try:
        with Registry(f"sqlite:///{tmp_path}/.gpufleet/registry.db") as registry:
            registry.apply_source_report(lab.rack(lab.blade(1)))
            folder = tmp_path / ".gpufleet"
            files = {path.name: _mode(path) for path in folder.iterdir()}
    finally:
        os.umask(before)
    assert _mode(folder) == 0o700
    assert files == {"registry.db": 0o600, "registry.db-wal": 0o600, "registry.db-shm": 0o600}


def test_registry_readable_by_others_is_made_private(tmp_path, lab):
    folder = tmp_path / ".gpufleet"
    Registry(f"sqlite:///{folder}/registry.db").close()
    folder.chmod(0o755)
    (folder / "registry.db").chmod(0o644)
    Registry(f"sqlite:///{folder}/registry.db").close()
    assert (_mode(folder), _mode(folder / "registry.db")) == (0o700, 0o600)


def test_registry_file_appears_only_when_complete(tmp_path, monkeypatch):
    from gpufleet.nodes import database

    def fail(*_):
        raise EnvironmentFault("killed here")

    monkeypatch.setattr(database, "_migrate", fail)
    with pytest.raises(EnvironmentFault, match="killed here"):
        Registry(f"sqlite:///{tmp_path}/registry.db")
    assert list(tmp_path.iterdir()) == []
