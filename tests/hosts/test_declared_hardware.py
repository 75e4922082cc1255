"""Test a booted GPU server with fewer GPUs than its rack file declares: no setting is needed to find it faulty."""

from __future__ import annotations

import json

import pytest

RACK = """\
plugin: gpufleet.fleet.rack
name: blades-poc
kind: servers
site: lab
machine: GPU server
accelerators:
  - {model: H100 SXM5 80GB, count: 8}
network:
  cidr: 10.20.3.0/24
nodes: poc-gpu01
"""
LOST = "/etc/gpufleet-rehearsal/sys/bus/pci/devices/0000:18:00.0"


@pytest.fixture
def server(make_box, tmp_path, project, gpufleet, clean_env):
    """Boot a server with 8 declared GPUs of which one is not on the bus; give its rack and `gpufleet`."""
    box = make_box(tmp_path / "home")
    box.declaration = lambda: RACK
    (project / "inventory/blades-poc.yaml").write_text(RACK)
    env = box.rehearsal_environment(clean_env)

    def run(*arguments):
        return gpufleet(*arguments, cwd=project, env=env)

    try:
        box.up()
        box.read("blades-poc/1", f"rm -r {LOST}")
        synced = run("nodes", "sync", "-s", "poc")
        assert synced.returncode == 0, synced.stderr
        yield run
    finally:
        box.down()


def test_server_with_seven_of_eight_declared_gpus_is_quarantined(server):
    run = server("configure", "--limit", "poc-gpu01", "--play", "burn_in")
    assert run.returncode == 1, run.stdout + run.stderr
    report = json.loads(server("burnin", "report", "poc-gpu01", "--json").stdout)
    hardware = next(check for check in report["checks"] if check["name"] == "hardware")
    assert report["verdict"] == "faulty", report
    assert hardware["reason"] == "an NVIDIA GPU is missing on the PCI bus (1 GPUs): 7 of 8"
    states = {node["name"]: node["state"] for node in json.loads(server("nodes", "list", "--json").stdout)}
    assert states["poc-gpu01"] == "quarantined"
