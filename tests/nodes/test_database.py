from __future__ import annotations

import subprocess
import sys

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from gpufleet.nodes import Registry
from gpufleet.nodes.database import HEAD, database_exists
from gpufleet.nodes.schema import metadata

WRITER = """
import sys
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
url, me = sys.argv[1:]
with Registry(url) as registry:
    for n in range(5):
        who = NodeIdentity(serial=f"SERIAL{n:04}")
        registry.apply_observation(NodeObservation(f"writer:{me}", f"blade{n:02}", who, observed={"by": me}))
        registry.set_node_hold(f"blade{n:02}", "cost", f"{me} {n}")
"""


def test_migrations_build_the_declared_schema(registry):
    with registry._reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_head_is_the_newest_migration():
    import gpufleet.nodes.migrations as package

    assert ScriptDirectory(package.__path__[0]).get_current_head() == HEAD


def test_older_registry_is_migrated(empty_url):
    Registry(empty_url).close()
    with Registry(empty_url) as registry, registry._reading() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD


def test_concurrent_writers_of_a_new_registry_lose_nothing(empty_url):
    started = [subprocess.Popen([sys.executable, "-c", WRITER, empty_url, me]) for me in ("a", "b")]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    with Registry(empty_url) as registry:
        nodes = registry.list_nodes()
        assert [node.name for node in nodes] == [f"blade{n:02}" for n in range(5)]
        assert all(len(node.sources) == 2 for node in nodes)
        holds = [change.reason for change in registry.list_node_history("blade00") if change.event == "hold"]
        assert sorted(holds) == ["cost: a 0", "cost: b 0"]


def test_concurrent_moves_of_one_node_cannot_both_succeed(registry, lab, url):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    code = (
        "import sys; from gpufleet.nodes import Registry\n"
        "from gpufleet.errors import InputError\n"
        "try: Registry(sys.argv[1]).move_node('blade01', 'discovered', 'me')\n"
        "except InputError: sys.exit(2)"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(2)]
    assert sorted(process.wait(timeout=120) for process in started) == [0, 2]
    assert lab.events(registry, "blade01", "state") == ["expected>discovered"]


def test_opening_a_missing_registry_for_reading_creates_none(tmp_path):
    path = tmp_path / "no" / "registry.db"
    assert not database_exists(f"sqlite:///{path}")
    assert not path.parent.exists()
