"""Test wipe plans of recorded nodes: which drive is wiped by which method, or refused and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.nodes import wipe_evidence, wipe_plan

CASES = sorted((Path(__file__).parents[1] / "cases/nodes/wipe").glob("*.json"))


def case(name):
    return json.loads((CASES[0].parent / f"{name}.json").read_text())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_recorded_node_gets_its_plan(path):
    recorded = json.loads(path.read_text())
    plan = wipe_plan.plan_wipe(recorded["seen"], recorded["method"])
    assert [[d.path, d.method, d.strength] for d in plan.drives] == recorded["wiped"]
    assert [[r.path, r.is_local] for r in plan.refused] == [want[:2] for want in recorded["refused"]]
    for refused, (_, _, arguments) in zip(plan.refused, recorded["refused"], strict=True):
        assert arguments in refused.reason


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_no_command_names_a_drive_that_is_not_wiped(path):
    recorded = json.loads(path.read_text())
    plan = wipe_plan.plan_wipe(recorded["seen"], recorded["method"])
    arguments = {argument for drive in plan.drives for argv in drive.commands for argument in argv}
    assert not arguments & {refused.path for refused in plan.refused}
    assert all(
        any(drive.path in argv or "/dev/nvme" in argv[2] for argv in drive.commands) for drive in plan.drives
    )


def test_drive_is_unmounted_and_released_before_its_wipe():
    first, second = wipe_plan.plan_wipe(case("swap-and-raid")["seen"]).drives
    assert first.unmount == ["/data"]
    assert first.release == [["mdadm", "--stop", "/dev/md0"], ["swapoff", "/dev/nvme0n1p1"]]
    assert second.release == [["mdadm", "--stop", "/dev/md0"]]


def test_plan_with_a_remaining_local_drive_is_incomplete():
    assert wipe_plan.plan_wipe(case("usb-stick")["seen"]).is_complete
    assert not wipe_plan.plan_wipe(case("scratch-beside-the-system")["seen"]).is_complete


def test_changed_drive_changes_the_plan_id():
    recorded = case("nvme-sanitize-crypto")["seen"]
    before = wipe_plan.plan_wipe(recorded).plan_id
    recorded["lsblk"]["blockdevices"][0]["serial"] = "S2"
    assert wipe_plan.plan_wipe(recorded).plan_id != before


def test_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"unknown wipe method .shred.; methods: auto, .*sanitize-crypto"):
        wipe_plan.plan_wipe({}, "shred")


def test_every_method_states_its_strength():
    kinds = {kind: some for kind, some in wipe_plan.load_wipe_methods().items() if kind != "release"}
    assert {method["strength"] for some in kinds.values() for method in some} == {"purge", "clear", "discard"}
    # Every kind ends with something that any drive of it can do.
    assert all(kinds[kind][-1]["needs"] == [] for kind in ("nvme", "ata", "scsi", "mmc"))


PLAN = {"id": "abc", "drives": [{"path": "/dev/sda", "serial": "S1"}, {"path": "/dev/sdb", "serial": "S2"}]}
WIPED = [
    {"path": drive["path"], "serial": drive["serial"], "wiped": True, "size": 5} for drive in PLAN["drives"]
]
EVIDENCE = {"plan": "abc", "complete": True, "evidence": WIPED, "refused": []}


def test_evidence_that_matches_the_plan_is_accepted():
    wipe_evidence.check_wipe_evidence(EVIDENCE, PLAN, "blade01")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"evidence": WIPED[:1]}, "the evidence names /dev/sda, but the plan has other drives"),
        ({"evidence": []}, "the evidence names no drive"),
        ({"evidence": [*WIPED, WIPED[0]]}, "but the plan has other drives"),
        ({"evidence": [WIPED[0], WIPED[1] | {"serial": "S9"}]}, "but the plan has other drives"),
        ({"evidence": [WIPED[0], WIPED[1] | {"wiped": "false"}]}, "valid boolean, got 'false'"),
        ({"evidence": [WIPED[0], {"path": "/dev/sdb", "serial": "S2"}]}, "wiped: is missing"),
        ({"evidence": {"a": 1}}, "valid list"),
        ({"plan": "xyz"}, "the evidence is of plan xyz, not of abc"),
        ({"complete": 1}, "valid boolean"),
    ],
)
def test_evidence_that_differs_from_the_plan_is_refused(change, problem):
    with pytest.raises(InputError, match=problem):
        wipe_evidence.check_wipe_evidence(EVIDENCE | change, PLAN, "blade01")


@pytest.mark.parametrize(
    "change",
    [
        {"name": None}, {"name": ["sda"]}, {"size": "many"}, {"children": 5}, {"children": [{}]}, {"mountpoints": [1]},
        {"type": 1}, {"tran": []}, {"disc-max": "x"},
    ],
)  # fmt: skip
def test_malformed_drive_is_refused_in_one_line(change):
    seen = {"lsblk": {"blockdevices": [{"name": "sda", "type": "disk", "size": 1} | change]}}
    with pytest.raises(InputError, match=r"^the node's drives: lsblk\.blockdevices\.0"):
        wipe_plan.plan_wipe(seen)


def test_every_plan_matches_its_golden_file(golden):
    """Whole plans: commands, polls, what is unmounted and released first, names by id, sizes, reasons."""
    plans = {}
    for path in CASES:
        recorded = json.loads(path.read_text())
        plans[path.stem] = wipe_plan.plan_wipe(recorded["seen"], recorded["method"]).as_json()
    golden(CASES[0].parents[1] / "wipe-plans.json", json.dumps(plans, indent=1, sort_keys=True) + "\n")


def disk(**changed):
    plain = {
        "name": "sda",
        "path": "/dev/sda",
        "type": "disk",
        "tran": "sata",
        "serial": "S1",
        "size": 10**12,
    }
    return {"lsblk": {"blockdevices": [{**plain, **changed}]}}


@pytest.mark.parametrize(
    ("changed", "stays", "reason"),
    [
        ({"tran": "iscsi"}, False, "it is reached by iSCSI: its storage server's, not the node's"),
        ({"tran": "fc"}, False, "it is reached by Fibre Channel: its storage server's, not the node's"),
        ({"tran": "virtio"}, False, "it is a virtual machine's: its provider erases it"),
        ({"name": "vda", "tran": None}, False, "it is a virtual machine's: its provider erases it"),
        ({"name": "xvda", "tran": None}, False, "it is a virtual machine's: its provider erases it"),
        ({"tran": "usb"}, False, "it can be pulled out: take it out, or wipe it where it belongs"),
        ({"rm": True}, False, "it can be pulled out: take it out, or wipe it where it belongs"),
        ({"rm": "1"}, False, "it can be pulled out: take it out, or wipe it where it belongs"),
        ({"name": "md0"}, False, "it is not a drive of its own (disk)"),
        ({"type": "raid1"}, False, "it is not a drive of its own (raid1)"),
        ({"ro": True}, True, "it is write-protected"),
        ({"ro": "1"}, True, "it is write-protected"),
        ({"serial": " "}, True, "it reports no serial, so it can't be told apart from another"),
        ({"serial": None}, True, "it reports no serial, so it can't be told apart from another"),
        ({"size": 0}, True, "its size is 0: it does not answer"),
        ({"mountpoints": ["/home"]}, True, "the running system is on it (/home): boot the node from elsewhere"),
        ({"fstype": "zfs_member"}, True, "it belongs to a ZFS pool (zpool export): take it out of that first"),
        ({"children": [{"name": "x", "path": "/dev/x", "type": "mpath"}]}, True,
         "it is part of mpath, which we do not know how to stop"),
    ],
)  # fmt: skip
def test_refused_drive_has_a_reason(changed, stays, reason):
    plan = wipe_plan.plan_wipe(disk(**changed))
    assert plan.drives == ()
    assert [(drive.is_local, drive.reason) for drive in plan.refused] == [(stays, reason)]
    assert plan.is_complete is not stays


@pytest.mark.parametrize("mount", wipe_plan.SYSTEM_MOUNTS)
def test_drive_with_a_system_folder_is_never_wiped(mount):
    part = {"name": "sda1", "path": "/dev/sda1", "type": "part", "mountpoints": [mount]}
    assert wipe_plan.plan_wipe(disk(children=[part])).drives == ()


def test_drive_with_the_root_file_system_is_refused_even_without_a_mount():
    part = {"name": "sda1", "path": "/dev/sda1", "type": "part"}
    (refused,) = wipe_plan.plan_wipe({**disk(children=[part]), "root": "/dev/sda1"}).refused
    assert refused.reason == "the running system's root /dev/sda1 is on it: boot the node from elsewhere"


@pytest.mark.parametrize("name", ["zram0", "ram1", "loop7", "fd0", "sr0"])
def test_memory_and_loop_devices_are_not_listed(name):
    plan = wipe_plan.plan_wipe(disk(name=name))
    assert (plan.drives, plan.refused) == ((), ())


def test_host_disks_in_a_container_are_refused_unless_fake():
    (refused,) = wipe_plan.plan_wipe({**disk(), "container": "lxc"}).refused
    assert (refused.is_local, refused.reason) == (
        False,
        "inside a container (lxc) the visible disks are its host's",
    )
    assert (
        len(
            wipe_plan.plan_wipe(
                {**disk(), "container": "lxc", "fake_drives": "/etc/gpufleet-rehearsal/disks"}
            ).drives
        )
        == 1
    )


@pytest.mark.parametrize(
    ("id_ctrl", "can"),
    [
        ({"oacs": 2}, {"format"}), ({"oacs": 1}, set()), ({"fna": 4}, {"format_crypto"}), ({"fna": 1}, set()),
        ({"sanicap": 1}, {"sanitize_crypto"}), ({"sanicap": 2}, {"sanitize_block"}),
        ({"sanicap": 3, "oacs": 2, "fna": 4},
         {"sanitize_crypto", "sanitize_block", "format", "format_crypto"}), ({}, set()),
    ],
)  # fmt: skip
def test_nvme_sanitize_methods_follow_the_capability_bits(id_ctrl, can):
    """NVM Express base specification, Identify Controller: OACS bit 1, FNA bit 2, SANICAP bits 0 and 1."""
    seen = {"controllers": {"nvme0": {"id_ctrl": id_ctrl}}}
    assert wipe_plan.find_supported_wipe_features({"name": "nvme0n1"}, seen) == can
    assert wipe_plan.find_supported_wipe_features(
        {"name": "nvme0n1", "disc-max": "4096"}, seen, "x"
    ) == can | {
        "asked",
        "discard",
    }


SECURITY = (
    "Security: \n\tMaster password revision code = 65534\n\t\tsupported\n{words}\nLogical Unit WWN: 5\n"
)


@pytest.mark.parametrize(
    ("security_lines", "can"),
    [
        ("\tnot\tlocked\n\tnot\tfrozen\n\t2min for SECURITY ERASE UNIT.", {"ata_erase"}),
        ("\tnot\tlocked\n\tnot\tfrozen\n\t\tsupported: enhanced erase\n\t2min for SECURITY ERASE UNIT.",
         {"ata_erase", "ata_enhanced_erase"}),
        ("\tlocked\n\tnot\tfrozen\n\t2min for SECURITY ERASE UNIT.", set()),
        ("\tnot\tlocked\n\tfrozen\n\t2min for SECURITY ERASE UNIT.", set()),
        ("\tnot\tlocked\n\tnot\tfrozen", set()),
    ],
)  # fmt: skip
def test_frozen_or_locked_drive_cannot_be_erased(security_lines, can):
    seen = {"hdparm": {"sda": SECURITY.format(words=security_lines)}}
    assert wipe_plan.find_supported_wipe_features({"name": "sda"}, seen) == can


@pytest.mark.parametrize(
    ("changed", "kind"),
    [({}, "ata"), ({"tran": "sas"}, "scsi"), ({"tran": None}, "scsi"), ({"tran": "ata"}, "ata"),
     ({"name": "mmcblk0"}, "mmc"), ({"name": "nvme0n1"}, "nvme"), ({"tran": "nvme", "name": "x"}, "nvme")],
)  # fmt: skip
def test_drive_kind_is_detected(changed, kind):
    (device,) = disk(**changed)["lsblk"]["blockdevices"]
    assert wipe_plan.classify_disk_interface(device) == kind


def test_namespace_that_is_not_wiped_protects_its_controller():
    """FNA bit 0: a format takes every namespace of the controller."""
    both = [
        {"name": f"nvme0n{n}", "path": f"/dev/nvme0n{n}", "type": "disk", "tran": "nvme", "serial": f"S{n}",
         "size": 10**9, "mountpoints": ["/"] if n == 2 else []}
        for n in (1, 2)
    ]  # fmt: skip
    for fna, wiped in ((0b101, 0), (0b100, 1)):
        seen = {
            "lsblk": {"blockdevices": both},
            "controllers": {"nvme0": {"id_ctrl": {"oacs": 2, "fna": fna}}},
        }
        plan = wipe_plan.plan_wipe(seen, "format-crypto")
        assert len(plan.drives) == wiped
        if not wiped:
            assert plan.refused[-1].reason == (
                "format-crypto erases the whole controller, and /dev/nvme0n2 must stay"
            )
            assert plan.refused[-1].is_local
