"""A booted host that reports a serial with a template in it: the play runs on, and nothing of it on the controller."""

from __future__ import annotations

import json
import subprocess

import pytest

HOSTILE, OTHER = "poc-blade01", "poc-blade02"
HEADER = "#jinja2:variable_start_string:'[[',variable_end_string:']]'\n"


@pytest.fixture
def env(box, project, gpufleet, clean_env):
    """Boot two blades; give the environment of a rehearsal with them, its registry synced."""
    (project / "inventory/blades-poc.yaml").write_text(box.declaration())
    box.up()
    env = clean_env | {
        "GPUFLEET_HOME": str(box.home),
        "GPUFLEET_REHEARSAL": "poc",
        "GPUFLEET_DATABASE_URL": f"sqlite:///{box.home}/registry.db",
        "GPUFLEET_ADDRESS_BOOK": str(box.home / "addresses.json"),
        "ANSIBLE_PRIVATE_KEY_FILE": str(box.home / "ssh/id_ed25519"),
        "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={box.home}/ssh/known_hosts",
    }
    synced = gpufleet("nodes", "sync", "-s", "poc", cwd=project, env=env)
    assert synced.returncode == 0, synced.stderr
    return env


@pytest.mark.parametrize("form", ["header", "braces"])
def test_a_hostile_serial_runs_nothing_on_the_controller(box, project, gpufleet, env, tmp_path, form):
    mark = tmp_path / "mark"
    command = f"lookup('pipe', 'touch {mark}')"
    serial = {"header": f"{HEADER}[[ {command} ]]", "braces": f"{{{{ {command} }}}}"}[form]
    (box.home / "rack/blades-poc-1/devicetree/base/serial-number").write_text(serial)
    assert box.read("blades-poc/1", "cat /sys/firmware/devicetree/base/serial-number") == serial
    runs = [
        site(project, env) for _ in range(2)
    ]  # the second has what the first one reported in its inventory
    shown = subprocess.run(
        ["ansible", "-i", "inventory", "all", "-m", "debug", "-a", "msg={{ gpufleet_serial | default('') }}"],
        cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert not mark.exists(), "\n".join(run.stdout[-3000:] for run in [*runs, shown])
    nodes = {
        node["name"]: node
        for node in json.loads(gpufleet("nodes", "list", "--json", cwd=project, env=env).stdout)
    }
    assert nodes[OTHER]["state"] == "burn_in"
    assert f"{OTHER} | SUCCESS" in shown.stdout
    assert f"{HOSTILE} | SUCCESS" not in shown.stdout or "lookup" not in shown.stdout


def site(project, env):
    """Run site.yml without burn-in, as a person types it."""
    words = ["ansible-playbook", "-i", "../inventory", "site.yml", "-e", "gpufleet_burn_in=never"]
    return subprocess.run(
        words, cwd=project / "playbooks", env=env, capture_output=True, text=True, timeout=600, check=False
    )
