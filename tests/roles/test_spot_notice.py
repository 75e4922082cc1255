"""Test the service that watches for spot notices on a booted host, next to emulated metadata services."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

PLAYS = ("spot_notice",)
EVENT = {
    "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
    "EventType": "Preempt",
    "EventStatus": "Scheduled",
    "ResourceType": "VirtualMachine",
    "Resources": ["spot-1"],
    "NotBefore": "Fri, 01 Jan 2100 00:00:00 GMT",
}
EMULATOR = Path(__file__).parent / "files/metadata_emulator.py"
WAIT = "for i in $(seq 600); do {} && exit 0; sleep 0.1; done; exit 1"


@pytest.fixture(scope="module")
def spot_host(converge_play, lab):
    """Give the host with the running service, next to the emulated metadata services."""
    converge_play("spot_notice")
    host = lab.host("base01")
    program = base64.b64encode(EMULATOR.read_bytes()).decode()
    host.check_output(
        f"echo {program} | base64 -d >/run/metadata_emulator.py; echo '{{}}' >/run/metadata.json"
    )
    arguments = "/run/metadata_emulator.py 8169 /run/metadata.json"
    host.check_output(f"systemd-run --unit=metadata-emulator python3 {arguments}")
    host.check_output(WAIT.format("grep -q 'metadata_up 1' /run/gpufleet_spot.prom"))
    return host


def test_service_converges_and_the_second_run_changes_nothing(converge_play):
    converge_play("spot_notice").assert_idempotent()


def test_service_runs_and_listens_on_nothing(spot_host):
    assert spot_host.service("gpufleet-spot-notice").is_running
    assert spot_host.service("gpufleet-spot-notice").is_enabled
    main, other = (
        spot_host.check_output(f"systemctl show -P MainPID {unit}")
        for unit in ("gpufleet-spot-notice", "metadata-emulator")
    )
    listening = spot_host.check_output("ss -lntup")
    assert f"pid={main}," not in listening
    assert f"pid={other}," in listening


def test_notice_drains_the_node_and_is_approved_and_published(spot_host):
    host = spot_host
    hook = "/etc/gpufleet/drain.d/50-stop-work"
    host.check_output(
        f"printf '#!/bin/sh\\necho $GPUFLEET_NOTICE >/run/drained\\n' >{hook}; chmod 755 {hook}"
    )
    host.check_output(f"echo '{json.dumps({'events': [EVENT]})}' >/run/new; mv /run/new /run/metadata.json")
    host.check_output(WAIT.format("grep -q acknowledged..*602d9444 /run/metadata.json"))
    assert host.check_output("cat /run/drained") == "preempt"
    host.check_output(WAIT.format("grep -q 'gpufleet_spot_drained 1' /run/gpufleet_spot.prom"))
    state = json.loads(host.check_output("cat /var/lib/gpufleet/spot-notice.json"))
    assert state["status"] == "drained"
    assert state["hooks"][0]["name"] == "50-stop-work"
    host.check_output("systemctl restart gpufleet-spot-notice")
    host.check_output("rm /run/drained; systemctl stop gpufleet-spot-notice")
    assert not host.file("/run/drained").exists  # neither the restart nor the stop drains again
