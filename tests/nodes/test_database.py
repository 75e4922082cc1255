from __future__ import annotations

import subprocess
import sys

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from gpufleet.nodes import Registry
from gpufleet.nodes.database import HEAD, exists
from gpufleet.nodes.schema import metadata

WRITER = """
import sys
from gpufleet.nodes import Identity, Observation, Registry
url, me = sys.argv[1:]
with Registry(url) as registry:
    for n in range(5):
        who = Identity(serial=f"SERIAL{n:04}")
        registry.observe(Observation(f"writer:{me}", f"blade{n:02}", who, observed={"by": me}))
        registry.hold(f"blade{n:02}", "cost", f"{me} {n}")
"""


def test_migrations_build_the_schema_that_the_code_declares(registry):
    with registry._reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_head_is_the_newest_migration():
    import gpufleet.nodes.migrations as package

    assert ScriptDirectory(package.__path__[0]).get_current_head() == HEAD


def test_an_older_registry_is_brought_up_to_date(empty_url):
    Registry(empty_url).close()
    with Registry(empty_url) as registry, registry._reading() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD


def test_two_writers_of_a_new_registry_lose_nothing(empty_url):
    started = [subprocess.Popen([sys.executable, "-c", WRITER, empty_url, me]) for me in ("a", "b")]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    with Registry(empty_url) as registry:
        nodes = registry.list()
        assert [node.name for node in nodes] == [f"blade{n:02}" for n in range(5)]
        assert all(len(node.sources) == 2 for node in nodes)
        holds = [change.reason for change in registry.history("blade00") if change.event == "hold"]
        assert sorted(holds) == ["cost: a 0", "cost: b 0"]


def test_two_movers_of_one_node_cannot_both_win(registry, lab, url):
    registry.report(lab.rack(lab.blade(1)))
    code = (
        "import sys; from gpufleet.nodes import Registry\n"
        "from gpufleet.errors import InputError\n"
        "try: Registry(sys.argv[1]).move('blade01', 'discovered', 'me')\n"
        "except InputError: sys.exit(2)"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(2)]
    assert sorted(process.wait(timeout=120) for process in started) == [0, 2]
    assert lab.events(registry, "blade01", "state") == ["expected>discovered"]


def test_looking_for_a_registry_makes_none(tmp_path):
    path = tmp_path / "no" / "registry.db"
    assert not exists(f"sqlite:///{path}")
    assert not path.parent.exists()
