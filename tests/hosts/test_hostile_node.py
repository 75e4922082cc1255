"""Test booted hosts that report serials with templates: nothing is executed on the controller."""

from __future__ import annotations

import json
import subprocess

import pytest

HEADER = "#jinja2:variable_start_string:'[[',variable_end_string:']]'\n"
OTHER = "poc-blade03"


@pytest.fixture
def hostile_rack(make_box, tmp_path):
    """Boot three blades; two report a serial that would create a file. Return them and that file."""
    box, mark = make_box(tmp_path / "home", slots=3), tmp_path / "mark"
    command = f"lookup('pipe', 'touch {mark}')"
    try:
        box.up()
        for slot, serial in ((1, f"{HEADER}[[ {command} ]]"), (2, f"{{{{ {command} }}}}")):
            (box.home / f"rack/blades-poc-{slot}/devicetree/base/serial-number").write_text(serial)
            assert box.read(f"blades-poc/{slot}", "cat /sys/firmware/devicetree/base/serial-number") == serial
        yield box, mark
    finally:
        box.down()


@pytest.fixture
def run_cli(hostile_rack, project, gpufleet, clean_env):
    """Give ``ask(folder, program, *words)`` in a rehearsal of these blades, with its registry synced."""
    box, _ = hostile_rack
    (project / "inventory/blades-poc.yaml").write_text(box.declaration())
    env = box.rehearsal_environment(clean_env)
    synced = gpufleet("nodes", "sync", "-s", "poc", cwd=project, env=env)
    assert synced.returncode == 0, synced.stderr

    def run(folder, *arguments):
        return subprocess.run(
            arguments, cwd=project / folder, env=env, capture_output=True, text=True, timeout=900, check=False
        )

    return run


def test_serial_with_a_template_runs_nothing_on_the_controller(hostile_rack, run_cli):
    _, mark = hostile_rack
    site = ("ansible-playbook", "-i", "../inventory", "site.yml", "-e", "gpufleet_burn_in=never")
    runs = [
        run_cli("playbooks", *site) for _ in range(2)
    ]  # the second has in its inventory what the first one reported
    debug = (
        "ansible",
        "-i",
        "inventory",
        "all",
        "-m",
        "debug",
        "-a",
        "msg={{ gpufleet_serial | default('') }}",
    )
    debug_result = run_cli(".", *debug)
    assert not mark.exists(), "\n".join(run.stdout[-3000:] for run in (*runs, debug_result))
    assert "lookup" not in debug_result.stdout
    assert f"{OTHER} | SUCCESS" in debug_result.stdout
    nodes = json.loads(run_cli(".", "gpufleet", "nodes", "list", "--json").stdout)
    assert {node["name"]: node["state"] for node in nodes}[OTHER] == "commissioning"
    for run in runs:
        recap = next(line for line in run.stdout.splitlines() if line.startswith(OTHER) and "failed=" in line)
        assert "unreachable=0    failed=0" in recap
