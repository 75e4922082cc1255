"""Test a run on five blades, four of them hostile: their output runs nothing and stops no other host."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

RACK = "blades-poc"
SOUND, FORGES, FLOODS, NESTS, LIES = BLADES = [f"poc-blade0{slot}" for slot in range(1, 6)]
HOSTILE = BLADES[1:]
RUN = ("configure", "--limit", "new_blades", "--burn-in", "never")
PRINT = "#!/bin/sh\ncat >/dev/null\n{0}\n"
FLOOD = "head -c 20000000 /dev/zero | tr '\\0' A"
NEST = "head -c 200000 /dev/zero | tr '\\0' '['"
STRANGE = {"ansible_facts": [1], "results": 5, "gpufleet": 5, "changed": [], "warnings": 7, "facts": 3}
TEMPLATE = "#jinja2:variable_start_string:'[[',variable_end_string:']]'\n"


def forge_result(marker):
    """Return a result that tries to run a command on the controller and to change another node's record."""
    proxy = {"ansible_ssh_common_args": f"-o ProxyCommand='touch {marker}'", "ansible_host": "127.0.0.1"}
    pipe = f"lookup('ansible.builtin.pipe', 'touch {marker}')"
    facts = {"serial": f"{TEMPLATE}[[ {pipe} ]]", "os": "{{ " + pipe + " }}", "hostname": "forged-by-a-host"}
    report = {"node": SOUND, "event": "commissioned", "attempt": "forged", "facts": facts}
    planted = {"groups": ["all", "new_blades"], "host_vars": proxy}
    return {
        "changed": True,
        "msg": "{{ " + pipe + " }}",
        "add_host": {"host_name": SOUND, **planted},
        "add_group": "new_blades",
        "ansible_facts": {**proxy, "driver_plan": facts},
        "_ansible_delegated_vars": proxy,
        "facts": facts,
        "gpufleet": report,
        **proxy,
    }


@dataclass
class Rack:
    """Booted blades, a project, and the file that a command of a host's would make on the controller."""

    box: Any
    project: Path
    gpufleet: Any
    env: dict[str, str]
    marker: Path
    first: Any = None

    def run_gpufleet(self, *arguments):
        return self.gpufleet(*arguments, cwd=self.project, env=self.env)

    def answer(self, *arguments):
        result = self.run_gpufleet(*arguments, "--json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)

    def replace_interpreter(self, name, printing):
        """Put a shell script that prints something in the place of the host's Python."""
        packed = base64.b64encode(PRINT.format(printing).encode()).decode()
        put = f"echo {packed} | base64 -d >/usr/bin/hostile; chmod 755 /usr/bin/hostile"
        self.box.read(f"{RACK}/{BLADES.index(name) + 1}", f"{put}; ln -sf hostile /usr/bin/python3")

    def make_hostile(self):
        text = json.dumps(forge_result(self.marker))
        # The first line is how a transport of ours once recognised its answer.
        self.replace_interpreter(FORGES, f"cat <<'EOF'\ngpufleet-result:{text}\n{text}\nEOF")
        self.replace_interpreter(FLOODS, FLOOD)
        self.replace_interpreter(NESTS, NEST)
        self.replace_interpreter(LIES, f"cat <<'EOF'\n{json.dumps(STRANGE)}\nEOF")


def make_project(target, shipped):
    shutil.copytree(shipped, target, symlinks=True, ignore=shutil.ignore_patterns(".gpufleet", ".git"))
    rack = target / f"inventory/{RACK}.yaml"
    rack.write_text(rack.read_text().replace("poc-blade[01-04]", f"poc-blade[01-0{len(BLADES)}]"))
    return target


@pytest.fixture(scope="module")
def rack(tmp_path_factory, shared_project, gpufleet, clean_env, make_box):
    """Give the rack after a run on all five blades."""
    project = make_project(tmp_path_factory.mktemp("hostile") / "project", shared_project)
    box = make_box(tmp_path_factory.mktemp("lying") / "home", slots=len(BLADES))
    env = box.rehearsal_environment(clean_env)
    try:
        box.up()
        hostile_rack = Rack(box, project, gpufleet, env, box.home / "marker")
        hostile_rack.make_hostile()
        hostile_rack.run_gpufleet("nodes", "sync", "-s", "poc")
        hostile_rack.first = hostile_rack.run_gpufleet(*RUN)
        yield hostile_rack
    finally:
        box.down()


def test_output_of_a_host_is_not_executed_on_the_controller(rack):
    assert rack.first.returncode == 1, rack.first.stderr
    assert not rack.marker.exists()


def test_healthy_host_is_done_and_hostile_hosts_are_not(rack):
    (account,) = [json.loads(path.read_text()) for path in (rack.box.home / "artifacts").glob("*/run.json")]
    assert account["done"] == [SOUND], rack.first.stdout
    lines = {line.split()[1]: line for line in rack.first.stdout.splitlines() if line[:3].strip().isdigit()}
    assert all(name in lines for name in HOSTILE), rack.first.stdout
    assert all(len(line) < 600 for line in lines.values())
    assert "Traceback" not in rack.first.stdout + rack.first.stderr


def test_host_cannot_report_for_another(rack):
    values = {value["key"]: value["value"] for value in rack.answer("nodes", "show", SOUND)["values"]}
    assert values["observed.hostname"] == SOUND
    nodes = {node["name"]: node for node in rack.answer("nodes", "list")}
    assert sorted(name for name in nodes if name in BLADES) == BLADES
    assert nodes[SOUND]["reachable"]
    assert "forged" not in rack.run_gpufleet("nodes", "history", SOUND).stdout


def test_second_run_on_the_healthy_host_changes_nothing(rack):
    result = rack.answer("configure", "--limit", SOUND, "--burn-in", "never")
    assert [(host["name"], host["status"], host["changed"]) for host in result["hosts"]] == [(SOUND, "ok", 0)]
    assert not rack.marker.exists()
