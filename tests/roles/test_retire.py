"""Retiring a rehearsed server: the real play plans, is confirmed, wipes its file-backed drive and reads it back."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.errors import AnswerIsNo, InputError
from gpufleet.nodes import Identity, Observation, Registry
from gpufleet.operations import retire

PLAY = Path(__file__).parents[2] / "playbooks/retire.yml"
FOLDER = "/etc/gpufleet-rehearsal/disks"


class Desk:
    """A registry that knows the host, and hands that run the real play on it."""

    def __init__(self, lab, registry):
        self.lab, self.registry, self.said, self.runs = lab, registry, [], []
        lab.up({"old01": {"kind": "servers"}})
        self.host = lab.host("old01")
        self.serial = self.host.check_output("tr -d '\\0' </sys/firmware/devicetree/base/serial-number")
        who = Identity(serial=self.serial, rack="servers-1", slot="1")
        registry.observe(Observation("rack:servers-1", "old01", who, declared={"kind": "server"}))

    def run(self, node, variables):
        done = self.lab.run(PLAY, limit=node.name, extra_vars=variables)
        self.runs.append(done)
        reports = tuple(one.said["gpufleet"] for one in done.results if one.said.get("gpufleet"))
        hosts = (SimpleNamespace(reason=done.failed(node.name) or ""),)
        return SimpleNamespace(reports=reports, hosts=hosts, errors=(), artifacts="none")

    def retire(self, **asked):
        hands = retire.Interaction(self.run, lambda _question: "", self.said.append)
        request = retire.Request(**{"node": "old01", "reason": "test", "wipe": True, **asked})
        return retire.retire(self.registry, request, hands)

    def data(self):
        return int(self.host.check_output(f"grep -c somebody {FOLDER}/nvme0n1 || true"))


@pytest.fixture(scope="module")
def desk(make_lab, tmp_path_factory):
    """Give the desk; tests come in the order of a node's last day."""
    lab = make_lab("retire")
    with pytest.MonkeyPatch.context() as patch, Registry(f"sqlite:///{lab.home}/desk.db") as registry:
        patch.setenv("GPUFLEET_HOME", str(tmp_path_factory.mktemp("desk")))
        yield Desk(lab, registry)


def test_a_wrong_serial_touches_nothing(desk):
    with pytest.raises(InputError, match="nothing was touched"):
        desk.retire(confirm="1000")
    assert desk.data() > 0
    assert len(desk.runs) == 1
    assert desk.runs[0].changed() == 0
    assert any(
        "format-crypto (purge): nvme format /dev/nvme0n1 --ses=2 --force" in line for line in desk.said
    )


def test_the_play_alone_refuses_another_plan_and_another_serial(desk):
    for wrong in (
        {"wipe_confirm": desk.serial, "wipe_plan_id": "0"},
        {"wipe_confirm": "1000", "wipe_plan_id": "0"},
    ):
        done = desk.lab.run(PLAY, limit="old01", extra_vars=wrong)
        assert done.rc
        assert "nothing was" in done.failed("old01")
    assert desk.data() > 0


def test_a_drive_that_refuses_is_told_and_the_node_stays(desk):
    desk.host.check_output(f"touch {FOLDER}/broken")
    with pytest.raises(
        AnswerIsNo, match=r"is not wiped: /dev/nvme0n1: nvme format ended with 1: NVMe status: Internal"
    ):
        desk.retire(confirm=desk.serial)
    desk.host.check_output(f"rm {FOLDER}/broken")
    assert desk.registry.get("old01").state != "retired"
    assert desk.data() > 0


def test_the_next_call_goes_on_wipes_reads_back_and_certifies(desk):
    done = desk.retire(confirm=desk.serial)
    assert desk.data() == 0
    told = json.loads(done.certificate.read_text())
    drive = told["drives"][0]
    assert told["fake"] is True
    assert "begun at" in drive["resumed"]
    assert drive["read_back"] == {"places": 16, "held_data": 16, "still_there": 0, "zero": 16}
    assert drive["commands"][-1]["output"] == "Success formatting namespace:1 (FAKE)\n"
    assert desk.registry.get("old01").state == "retired"
