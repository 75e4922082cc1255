"""Plans for wiping, by case: what nodes' tools said, and which drive is then wiped how or left and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.nodes import wiping, wiping_report

CASES = sorted((Path(__file__).parents[1] / "cases/nodes/wipe").glob("*.json"))


def case(name):
    return json.loads((CASES[0].parent / f"{name}.json").read_text())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_recorded_node_gets_its_plan(path):
    told = json.loads(path.read_text())
    plan = wiping.plan(told["seen"], told["method"])
    assert [[d.path, d.method, d.strength] for d in plan.drives] == told["wiped"]
    assert [[r.path, r.ours] for r in plan.refused] == [want[:2] for want in told["refused"]]
    for refused, (_, _, words) in zip(plan.refused, told["refused"], strict=True):
        assert words in refused.reason


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_no_command_names_a_drive_that_is_left_alone(path):
    told = json.loads(path.read_text())
    plan = wiping.plan(told["seen"], told["method"])
    words = {word for drive in plan.drives for argv in drive.commands for word in argv}
    assert not words & {refused.path for refused in plan.refused}
    assert all(
        any(drive.path in argv or "/dev/nvme" in argv[2] for argv in drive.commands) for drive in plan.drives
    )


def test_what_uses_a_drive_is_ended_before_it():
    first, second = wiping.plan(case("swap-and-raid")["seen"]).drives
    assert first.unmount == ["/data"]
    assert first.release == [["mdadm", "--stop", "/dev/md0"], ["swapoff", "/dev/nvme0n1p1"]]
    assert second.release == [["mdadm", "--stop", "/dev/md0"]]


def test_a_plan_is_complete_unless_a_drive_of_the_nodes_own_stays():
    assert wiping.plan(case("usb-stick")["seen"]).complete
    assert not wiping.plan(case("scratch-beside-the-system")["seen"]).complete


def test_another_drive_makes_another_plan():
    told = case("nvme-sanitize-crypto")["seen"]
    before = wiping.plan(told).id
    told["lsblk"]["blockdevices"][0]["serial"] = "S2"
    assert wiping.plan(told).id != before


def test_an_unknown_method_names_the_known_ones():
    with pytest.raises(InputError, match=r"no way to wipe is called .shred.; auto, .*sanitize-crypto"):
        wiping.plan({}, "shred")


def test_every_method_says_where_it_may_be_claimed():
    kinds = {kind: some for kind, some in wiping.table().items() if kind != "release"}
    assert {one["strength"] for some in kinds.values() for one in some} == {"purge", "clear", "discard"}
    # Every kind ends with something that any drive of it can do.
    assert all(kinds[kind][-1]["needs"] == [] for kind in ("nvme", "ata", "scsi", "mmc"))


PLAN = {"id": "abc", "drives": [{"path": "/dev/sda", "serial": "S1"}, {"path": "/dev/sdb", "serial": "S2"}]}
WIPED = [{"path": one["path"], "serial": one["serial"], "wiped": True, "size": 5} for one in PLAN["drives"]]
EVIDENCE = {"plan": "abc", "complete": True, "evidence": WIPED, "refused": []}


def test_evidence_of_the_plan_is_taken():
    wiping_report.check_evidence(EVIDENCE, PLAN, "blade01")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"evidence": WIPED[:1]}, "speaks of /dev/sda, the plan of others"),
        ({"evidence": []}, "speaks of no drive"),
        ({"evidence": [*WIPED, WIPED[0]]}, "the plan of others"),
        ({"evidence": [WIPED[0], WIPED[1] | {"serial": "S9"}]}, "the plan of others"),
        ({"evidence": [WIPED[0], WIPED[1] | {"wiped": "false"}]}, "valid boolean, got 'false'"),
        ({"evidence": [WIPED[0], {"path": "/dev/sdb", "serial": "S2"}]}, "wiped: Field required"),
        ({"evidence": {"a": 1}}, "valid list"),
        ({"plan": "xyz"}, "is of plan xyz, not of abc"),
        ({"complete": 1}, "valid boolean"),
    ],
)
def test_evidence_of_anything_else_is_refused(change, problem):
    with pytest.raises(InputError, match=problem):
        wiping_report.check_evidence(EVIDENCE | change, PLAN, "blade01")


@pytest.mark.parametrize(
    "change",
    [
        {"name": None}, {"name": ["sda"]}, {"size": "many"}, {"children": 5}, {"children": [{}]}, {"mountpoints": [1]},
        {"type": 1}, {"tran": []}, {"disc-max": "x"},
    ],
)  # fmt: skip
def test_a_drive_of_another_shape_is_one_line(change):
    seen = {"lsblk": {"blockdevices": [{"name": "sda", "type": "disk", "size": 1} | change]}}
    with pytest.raises(InputError, match=r"^the node's drives: lsblk\.blockdevices\.0"):
        wiping.plan(seen)
