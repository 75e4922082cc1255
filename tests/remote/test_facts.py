"""Test parsing of reported facts with recorded output."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.remote.facts import SOURCES, find_main_mac_address, parse_probe_answer, split_probe_sections

CASES = Path(__file__).resolve().parents[1] / "cases/remote"


def test_serial_of_a_blade_is_read_from_the_device_tree():
    facts = parse_probe_answer((CASES / "probe-rehearsed-blade.txt").read_text())
    assert (facts.serial, facts.serial_source) == ("10000000c8b2a3ea", "device_tree")
    assert facts.model.startswith("Raspberry Pi Compute Module 4 Rev 1.1")
    assert (facts.os, facts.os_version, facts.arch) == ("debian", "12", "x86_64")
    assert facts.mac == "02:c8:b2:a3:ea:f2"


def test_machine_without_serial_has_an_empty_one():
    facts = parse_probe_answer((CASES / "probe-vm.txt").read_text())
    assert (facts.serial, facts.serial_source, facts.model) == ("", "", "")
    assert facts.mac == "02:fc:00:00:00:01", "the card with the default route, not the first by name"


def test_every_command_has_its_own_output_section():
    assert set(split_probe_sections((CASES / "probe-vm.txt").read_text())) == set(SOURCES)


def test_text_before_the_first_section_is_ignored():
    assert parse_probe_answer("Welcome!\narch: riscv\n=== gpufleet arch\naarch64\n").arch == "aarch64"


def test_dmi_is_used_without_a_device_tree():
    answer = "=== gpufleet device_tree_serial\n=== gpufleet dmi_serial\n=== gpufleet dmi_board_serial\nB-77\n"
    facts = parse_probe_answer(answer)
    assert (facts.serial, facts.serial_source) == ("B-77", "dmi")


def test_what_tells_boards_of_one_chassis_apart_is_read():
    answer = (
        "=== gpufleet dmi_serial\n0AB1C24\n=== gpufleet dmi_board_serial\n..CN7016348F00AB.\n"
        "=== gpufleet dmi_uuid\n4c4c4544-0041-4210-8031-b0c04f433234\n"
    )
    facts = parse_probe_answer(answer)
    assert (facts.serial, facts.board_serial) == ("0AB1C24", "..CN7016348F00AB.")
    assert facts.uuid == "4c4c4544-0041-4210-8031-b0c04f433234"


@pytest.mark.parametrize("text", ["", "no such shell", "=== gpufleet", "=== gpufleet arch"])
def test_empty_output_gives_empty_facts(text):
    assert set(vars(parse_probe_answer(text)).values()) == {""}


def test_first_card_with_an_address_is_used_without_a_default_route():
    assert (
        find_main_mac_address("", "lo/address:00:00:00:00:00:00\neth1/address:02:00:00:00:00:07\n")
        == "02:00:00:00:00:07"
    )
