from __future__ import annotations

import json

import pytest

from gpufleet.nodes import Registry

COMMISSIONED = {
    "gpufleet.fleet.report": {"node": "{{ inventory_hostname }}", "event": "commissioned", "attempt": "a1"}
}
TOUCH = {"ansible.builtin.ping": {}}


@pytest.fixture
def registry(rack_project):
    """Open the project's registry once the run is over."""

    def look():
        return Registry(f"sqlite:///{rack_project / '.gpufleet' / 'registry.db'}")

    return look


def test_run_is_recorded_in_the_registry_without_an_earlier_sync(run_play, registry):
    result = run_play(COMMISSIONED, TOUCH, limit="blade01,blade02")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("changed=0") == 2, "a report changes nothing on a host"
    with registry() as open_registry:
        states = {
            node.name: node.state for node in open_registry.list_nodes() if node.name.startswith("blade0")
        }
        assert (states["blade01"], states["blade02"], states["blade03"]) == ("commissioning",) * 2 + (
            "expected",
        )
        assert open_registry.get_node("blade01").reachable is True


def test_unreachable_host_is_recorded_with_its_reason(run_play, registry):
    away = {
        "ansible.builtin.ping": {},
        "vars": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
    }
    run_play(away)
    with registry() as open_registry:
        node = open_registry.get_node("blade01")
        assert (node.reachable, node.state) == (False, "expected")
        assert "127.0.0.1" in node.reachable_detail


def test_database_error_is_printed_and_stops_no_task(run_play, rack_project):
    for source in (rack_project / "inventory").glob("*.yaml"):
        source.unlink()
    (rack_project / "inventory" / "plain.yaml").write_text("all: {hosts: {blade01: {}}}\n")
    (rack_project / "bad.db").write_text("this is not a database, and long enough to be read as one" * 9)
    result = run_play(TOUCH, GPUFLEET_DATABASE_URL=f"sqlite:///{rack_project / 'bad.db'}")
    assert result.returncode == 0
    stderr = " ".join(result.stderr.split())
    assert "the registry was not written" in stderr
    assert "1 results did not reach the registry; ingest them later: gpufleet nodes ingest" in stderr


def test_artifacts_of_a_run_give_another_registry_the_same_content(
    ansible, rack_project, registry, gpufleet, tmp_path
):
    play = [{"hosts": "all", "gather_facts": False, "connection": "local", "tasks": [COMMISSIONED]}]
    (rack_project / "book").mkdir()
    (rack_project / "book" / "play.yml").write_text(json.dumps(play))
    arguments = ("run", ".", "--project-dir", "book", "-p", "play.yml", "--ident", "r1", "--limit", "blade01")
    live = ansible("ansible-runner", *arguments, ANSIBLE_CALLBACKS_ENABLED="gpufleet.fleet.registry")
    assert live.returncode == 0, live.stdout
    other = {"GPUFLEET_DATABASE_URL": f"sqlite:///{tmp_path}/other.db"}
    for _ in range(2):
        assert gpufleet("nodes", "ingest", "artifacts/r1", cwd=rack_project, env=other).returncode == 0
    ingestion = gpufleet("nodes", "ingest", "artifacts/r1", "--json", cwd=rack_project)
    assert json.loads(ingestion.stdout)["repeated"] == 1, "the callback and the artifacts have the same keys"
    with registry() as open_registry, Registry(other["GPUFLEET_DATABASE_URL"]) as other_registry:
        assert (
            other_registry.get_node("blade01").state
            == open_registry.get_node("blade01").state
            == "commissioning"
        )


def test_invalid_event_is_refused(run_play):
    result = run_play({"gpufleet.fleet.report": {"node": "x", "event": "promoted"}})
    assert result.returncode != 0
    assert "value of event must be one of" in result.stdout


def test_event_of_an_unauthorised_module_is_ignored(run_play, registry, tmp_path):
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "hostile.py").write_text(
        "#!/usr/bin/python\n"
        "import json\n"
        "print(json.dumps({'changed': False, 'results': 5, 'msg': ['x'], 'gpufleet':"
        " {'event': 'burn_in', 'attempt': 'a1', 'records': 7}}))\n"
    )
    result = run_play({"hostile": {}}, COMMISSIONED, ANSIBLE_LIBRARY=str(folder))
    assert result.returncode == 0, result.stdout + result.stderr
    with registry() as open_registry:
        assert open_registry.get_node("blade01").state == "commissioning"
        assert not {"bad_report", "verdict"} & {
            line.event for line in open_registry.list_node_history("blade01")
        }
