"""Test that a forged module result adds no host, variable or command on the controller."""

from __future__ import annotations

import json
import re

import pytest

from gpufleet.nodes import Registry

MODULES = {
    "probe": {"node": "blade01"},
    "resources": {"files": []},
    "blade": {},
    "eeprom": {"settings": {}},
    "burn_in": {"node": "blade01", "agent": "/nowhere", "attempt": "a1"},
    "firewall": {},
    "ping": {},
}
TEMPLATE = "#jinja2:variable_start_string:'[[',variable_end_string:']]'\n"


def forge_result(marker):
    """Return a result with every key that could mean something to the controller."""
    command = f"ProxyCommand='touch {marker}'"
    pipe = f"lookup('ansible.builtin.pipe', 'touch {marker}')"
    variables = {
        "ansible_ssh_common_args": f"-o {command}",
        "ansible_ssh_args": f"-o {command}",
        "ansible_ssh_executable": f"/usr/bin/touch {marker}",
        "ansible_connection": "local",
        "ansible_host": "127.0.0.1",
        "ansible_python_interpreter": f"touch {marker};",
        "ansible_become_exe": f"touch {marker}",
        "ansible_shell_executable": f"touch {marker}",
        "text": "{{ " + pipe + " }}",
        "header": TEMPLATE + "[[ " + pipe + " ]]",
    }
    return {
        "changed": True,
        "msg": "{{ " + pipe + " }}",
        "add_host": {"host_name": "blade01", "groups": ["planted"], "host_vars": variables},
        "add_group": "planted_group",
        "ansible_facts": variables,
        "_ansible_delegated_vars": variables,
        "_ansible_no_log": False,
        "facts": variables,
        **variables,
    }


@pytest.fixture
def hostile_task(tmp_path):
    """Give ``hostile(module, result)``: a task on an interpreter that prints the result, whatever it is to run."""
    play = []

    def task(module, result):
        text = result if isinstance(result, str) else json.dumps(result)
        play.append(tmp_path / f"python3-{len(play)}")
        # The first line is how a transport of ours once recognised its answer.
        play[-1].with_suffix(".printed").write_text(f"gpufleet-result:{text}\n{text}\n")
        play[-1].write_text(f'#!/bin/sh\ncat > /dev/null\nexec cat "{play[-1]}.printed"\n')
        play[-1].chmod(0o755)
        name = module if module == "ping" else f"gpufleet.fleet.{module}"
        python = {"ansible_python_interpreter": str(play[-1])}
        return {name: MODULES[module], "register": "answer", "ignore_errors": True, "vars": python}

    return task


@pytest.fixture
def registry(rack_project):
    """Open the project's registry once the run is over."""

    def look():
        return Registry(f"sqlite:///{rack_project / '.gpufleet' / 'registry.db'}")

    return look


SHOW = {
    "ansible.builtin.debug": {
        "msg": "KNOWN {{ groups | sort | join(',') }} "
        "ARGS {{ hostvars[inventory_hostname].ansible_ssh_common_args | default('none') }} "
        "TEXT {{ answer.facts | default('') }} {{ answer.msg | default('') }} {{ ansible_facts }}"
    }
}
REACH = {
    "ansible.builtin.ping": {},
    "vars": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
    "ignore_unreachable": True,
}


@pytest.mark.parametrize("inject", ["True", "False"])
def test_forged_result_sets_no_variable_and_runs_nothing_on_the_controller(
    run_play, hostile_task, tmp_path, inject
):
    marker = tmp_path / "marker"
    answers = [
        task for module in MODULES for task in (hostile_task(module, forge_result(marker)), SHOW, REACH)
    ]
    result = run_play(*answers, ANSIBLE_PIPELINING="1", ANSIBLE_INJECT_FACT_VARS=inject)
    assert not marker.exists()
    # "unexpected internal" in ansible-core 2.19, "reserved" since 2.20.
    assert re.search("Removed (unexpected internal|reserved) key", result.stderr), (
        "the forged results were not read"
    )
    assert result.stdout.count("ARGS none") == len(MODULES), result.stdout + result.stderr
    assert "planted" not in "".join(re.findall("KNOWN(.*?)ARGS", result.stdout))


def impersonating_result(event, **more):
    return {"changed": False, "gpufleet": {"node": "blade02", "event": event, "attempt": "a9", **more}}


def test_host_cannot_report_for_another(run_play, hostile_task, registry):
    started = {"type": "start", "profile": "quick", "host": {}}
    events = {"probe": "commissioned", "burn_in": "burn_in", "blade": "blade", "resources": "configured"}
    more = {"facts": {"serial": "10000000000000ff"}, "records": [started]}
    result = run_play(
        *(hostile_task(module, impersonating_result(event, **more)) for module, event in events.items())
    )
    assert result.returncode == 0, result.stdout + result.stderr
    with registry() as open_registry:
        other = open_registry.get_node("blade02")
        assert (other.state, other.serial, other.attempt) == ("expected", None, None)
        assert open_registry.list_burn_in_results("blade02") == []


def test_module_reports_only_its_own_event(run_play, hostile_task, registry):
    events = ["configured", "configure_failed", "drivers_failed", "wiped", "burn_in", "drivers"]
    result = run_play(
        *(hostile_task("probe", impersonating_result(event, facts={"part": "x"})) for event in events)
    )
    assert result.returncode == 0, result.stdout + result.stderr
    with registry() as open_registry:
        assert {change.event for change in open_registry.list_node_history("blade01")} & set(events) == set()
        assert open_registry.list_burn_in_results("blade01") == []
        assert "observed.configured" not in {value.key for value in open_registry.list_node_values("blade01")}


def test_delegated_module_does_not_report_for_the_host_of_the_play(run_play, hostile_task, registry):
    task = hostile_task("probe", impersonating_result("commissioned", facts={"serial": "10000000000000ff"}))
    local = {"delegate_to": "blade02", "vars": task["vars"] | {"ansible_connection": "local"}}
    result = run_play(task | local)
    assert "blade01 -> blade02" in result.stdout, result.stdout + result.stderr
    with registry() as open_registry:
        assert {open_registry.get_node(name).serial for name in ("blade01", "blade02")} == {None}


NONSENSE = [
    "[" * 200_000,
    '{"a":' * 200_000,
    '{"changed": NaN}',
    '{"ansible_facts": 5, "warnings": 7, "changed": [1]}',
    '{"results": 5, "gpufleet": 5}',
    '{"gpufleet": {"event": ["x"], "node": {}}}',
    '{"failed": "no", "exception": 5}',
    "\x1b]0;title\x07",
    "",
]


def test_host_with_malformed_output_stops_no_other(run_play, hostile_task):
    only = {"when": "inventory_hostname == 'blade01'"}
    tasks = [hostile_task("probe", printed) | only for printed in NONSENSE]
    result = run_play(*tasks, {"ansible.builtin.ping": {}}, limit="blade01,blade02")
    assert f"blade01                    : ok={len(NONSENSE) + 1}" in result.stdout, (
        result.stdout + result.stderr
    )
    assert "blade02                    : ok=1" in result.stdout
    assert "Traceback (most recent call last)" not in result.stderr
