"""Test retiring a rehearsed server: the real play plans, wipes its file-backed drive and verifies it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.errors import CheckFailed, InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import retire

PLAY = Path(__file__).parents[2] / "playbooks/retire.yml"
FOLDER = "/etc/gpufleet-rehearsal/disks"


class RetireScenario:
    """A registry that knows the host, and hands that run the real play on it."""

    def __init__(self, lab, registry):
        self.lab, self.registry, self.messages, self.runs = lab, registry, [], []
        lab.up({"old01": {"kind": "servers"}})
        self.host = lab.host("old01")
        self.serial = self.host.check_output("tr -d '\\0' </sys/firmware/devicetree/base/serial-number")
        identity = NodeIdentity(serial=self.serial, rack="servers-1", slot="1")
        registry.apply_observation(
            NodeObservation("rack:servers-1", "old01", identity, declared={"kind": "server"})
        )

    def run(self, node, variables):
        completed = self.lab.run(PLAY, limit=node.name, extra_vars=variables)
        self.runs.append(completed)
        reports = tuple(
            result.output["gpufleet"] for result in completed.results if result.output.get("gpufleet")
        )
        hosts = (SimpleNamespace(reason=completed.failure_text(node.name) or ""),)
        return SimpleNamespace(reports=reports, hosts=hosts, errors=(), artifacts="none")

    def retire(self, **fields):
        interaction = retire.RetireInteraction(self.run, lambda _question: "", self.messages.append)
        request = retire.RetireRequest(**{"node": "old01", "reason": "test", "wipe": True, **fields})
        return retire.retire_node(self.registry, request, interaction)

    def data(self):
        return int(self.host.check_output(f"grep -c somebody {FOLDER}/nvme0n1 || true"))


@pytest.fixture(scope="module")
def scenario(make_lab, tmp_path_factory):
    """Give the desk; tests come in the order of a node's last day."""
    lab = make_lab("retire")
    with pytest.MonkeyPatch.context() as patch, Registry(f"sqlite:///{lab.home}/desk.db") as registry:
        patch.setenv("GPUFLEET_HOME", str(tmp_path_factory.mktemp("desk")))
        yield RetireScenario(lab, registry)


def test_wrong_serial_wipes_nothing(scenario):
    with pytest.raises(InputError, match="nothing was changed"):
        scenario.retire(confirm="1000")
    assert scenario.data() > 0
    assert len(scenario.runs) == 1
    assert scenario.runs[0].changed() == 0
    assert any(
        "format-crypto (purge): nvme format /dev/nvme0n1 --ses=2 --force" in line
        for line in scenario.messages
    )


def test_play_refuses_another_plan_and_another_serial(scenario):
    for changes in (
        {"wipe_confirm": scenario.serial, "wipe_plan_id": "0"},
        {"wipe_confirm": "1000", "wipe_plan_id": "0"},
    ):
        result = scenario.lab.run(PLAY, limit="old01", extra_vars=changes)
        assert result.rc
        assert "nothing was" in result.failure_text("old01")
    assert scenario.data() > 0


def test_failed_wipe_is_reported_and_keeps_the_node(scenario):
    scenario.host.check_output(f"touch {FOLDER}/broken")
    with pytest.raises(
        CheckFailed,
        match=r"is not wiped: /dev/nvme0n1: nvme format exited with status 1: NVMe status: Internal",
    ):
        scenario.retire(confirm=scenario.serial)
    scenario.host.check_output(f"rm {FOLDER}/broken")
    assert scenario.registry.get_node("old01").state != "retired"
    assert scenario.data() > 0


def test_next_call_resumes_and_writes_the_certificate(scenario):
    result = scenario.retire(confirm=scenario.serial)
    assert scenario.data() == 0
    certificate = json.loads(result.certificate.read_text())
    drive = certificate["drives"][0]
    assert certificate["fake"] is True
    assert "begun at" in drive["resumed"]
    assert drive["read_back"] == {"places": 16, "held_data": 16, "still_there": 0, "zero": 16}
    assert drive["commands"][-1]["output"] == "Success formatting namespace:1 (FAKE)\n"
    assert scenario.registry.get_node("old01").state == "retired"
