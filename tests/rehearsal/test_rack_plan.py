"""Host plans: names that fit the kernel, addresses without conflicts, stable identities."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet.errors import InputError
from gpufleet.fleet import NodeHardware
from gpufleet.rehearsal.rack.faults import NO_FAULTS, parse_faults
from gpufleet.rehearsal.rack.plan import choose_rack_networks, plan_hosts, rehearsal_name_prefix

HOME = Path("/project/.gpufleet/rehearsal/production")


def rack(name, *slots, kind="blades", **facts):
    node = {
        "serial": None,
        "mac": None,
        "storage_gb": 500.0,
        "machine": "a board",
        "accelerators": (),
        "hardware": NodeHardware(),
    } | facts
    nodes = [SimpleNamespace(name=f"{name}-{slot:02}", slot=slot, **node) for slot in slots]
    return SimpleNamespace(name=name, rack=SimpleNamespace(kind=kind, nodes=nodes))


def plans(*racks, faults=NO_FAULTS, home=HOME, blocks=None):
    order = {use.name: number for number, use in enumerate(racks, start=1)}
    return {p.place: p for p in plan_hosts(home, racks, blocks or order, faults, "amd64")}


def test_addresses_follow_rack_and_slot():
    by_place = plans(rack("blades-1", 1, 7, 20), rack("bench-1", 1, kind="bench"))
    assert {place: p.ip_address for place, p in by_place.items()} == {
        "blades-1/1": "198.18.1.11",
        "blades-1/7": "198.18.1.17",
        "blades-1/20": "198.18.1.30",
        "bench-1/1": "198.18.2.11",
    }
    assert by_place["bench-1/1"].gateway_address == "198.18.2.1"


def test_networks_continue_in_the_second_half_of_the_range():
    assert plans(rack("r", 1), blocks={"r": 300})["r/1"].ip_address == "198.19.44.11"


@pytest.mark.parametrize("slot", [1, 20, 200])
def test_names_fit_the_kernels_15_characters_and_carry_the_rehearsals_prefix(slot):
    racks = [rack(f"r{number}", slot) for number in range(1, 13)]
    labels = [p.label for p in plans(*racks).values()]
    assert all(len(label) <= 15 and label.startswith(f"{rehearsal_name_prefix(HOME)}-") for label in labels)
    assert len(set(labels)) == len(racks)


def test_rehearsals_in_different_folders_have_different_names():
    assert rehearsal_name_prefix(HOME) != rehearsal_name_prefix(HOME.with_name("dev"))


def test_identities_are_unique_and_stable():
    first, second = plans(rack("r", 1, 2)), plans(rack("r", 1, 2))
    assert first == second
    for field in ("machine_id", "serial", "mac", "label", "ip_address"):
        assert len({getattr(p, field) for p in first.values()}) == 2


def test_server_has_a_different_form_of_serial():
    assert plans(rack("r", 1))["r/1"].serial.startswith("10000000")
    assert re.fullmatch(r"GF[0-9A-F]{10}", plans(rack("r", 1, kind="servers"))["r/1"].serial)


def test_declared_serial_and_mac_take_precedence():
    plan = plans(rack("r", 1, serial="10000000deadbeef", mac="d8:3a:dd:00:00:01"))["r/1"]
    assert (plan.serial, plan.mac) == ("10000000deadbeef", "d8:3a:dd:00:00:01")


def test_faults_and_architecture_apply_to_their_host_only():
    faults = parse_faults("{faults: {r/1: unreachable, r/2: disk_full}, arm64: [r/3]}", "f")
    by_place = plans(rack("r", 1, 2, 3), faults=faults)
    assert [p.should_answer_ssh for p in by_place.values()] == [False, True, True]
    assert [p.arch for p in by_place.values()] == ["amd64", "amd64", "arm64"]


def test_drives_apply_to_their_host_only():
    by_place = plans(rack("r", 1, 2), faults=parse_faults("disks: {r/2: 3}", "f"))
    assert [p.disks for p in by_place.values()] == [0, 3]
    with pytest.raises(InputError, match="r/9: no such node"):
        plans(rack("r", 1), faults=parse_faults("disks: {r/9: 1}", "f"))


def test_hosts_have_the_release_that_the_file_names():
    by_place = plans(rack("r", 1, 2), faults=parse_faults("systems: {r/2: debian-13}", "f"))
    assert [p.image_key for p in by_place.values()] == [("", "amd64"), ("trixie", "amd64")]
    with pytest.raises(InputError, match="no such node"):
        plans(rack("r", 1), faults=parse_faults("systems: {r/9: debian-13}", "f"))


def test_arm64_on_an_unknown_place_is_refused():
    with pytest.raises(InputError, match="r/9: no such node"):
        plans(rack("r", 1), faults=parse_faults("arm64: [r/9]", "f"))


@pytest.mark.parametrize(
    ("previous", "used", "chosen"),
    [
        ({}, set(), {"a": 1, "b": 2}),
        ({"a": 40}, set(), {"a": 40, "b": 2}),
        ({}, {1}, {"a": 16, "b": 2}),
        ({}, {1, 2, 16}, {"a": 17, "b": 18}),
        ({"a": 40}, {40}, {"a": 1, "b": 2}),
        ({"b": 1}, set(), {"a": 1, "b": 2}),
    ],
)
def test_networks_are_reused_or_numbered_in_order_or_the_first_free(previous, used, chosen):
    assert choose_rack_networks(["a", "b"], previous, used) == chosen


def test_network_range_without_free_network_is_refused():
    with pytest.raises(InputError, match="no free /24 network is left for rack a"):
        choose_rack_networks(["a"], {}, range(1, 512))
