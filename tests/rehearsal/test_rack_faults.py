"""Faults files: valid content, and the messages for invalid content."""

from __future__ import annotations

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal.rack import FAULT_KINDS, load_faults
from gpufleet.rehearsal.rack.faults import parse_faults


def test_demo_fault_set_is_loaded():
    assert dict(load_faults("demo").by_place) == {
        "blades-1/4": frozenset({"unreachable"}),
        "blades-1/9": frozenset({"disk_full"}),
        "blades-1/13": frozenset({"undervoltage"}),
    }


def test_fault_set_none_loads_no_faults():
    assert load_faults(None).get_host_faults("blades-1/4") == frozenset()


def test_users_file_is_loaded(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("arm64: [r/1]\nfaults:\n  r/2: [disk_full, link_down]\n")
    faults = load_faults(file)
    assert faults.get_host_faults("r/2") == {"disk_full", "link_down"}
    assert faults.arm64 == {"r/1"}


@pytest.mark.parametrize("text", ["", "# none\n", "faults:\n", "arm64: []\n", "faults: {}\n"])
def test_empty_files_have_no_faults(text):
    assert not parse_faults(text, "f").by_place


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("faults:\n  r/1: disk_ful\n", "f.yaml:2: r/1: unknown fault 'disk_ful'; use unreachable, disk_full"),
        ("faults:\n  r/1: [disk_full, 7]\n", "f.yaml:2: r/1: unknown fault"),
        ("faults:\n  r/1:\n", "f.yaml:2: r/1: unknown fault None"),
        (
            "fault: {r/1: disk_full}\n",
            "f.yaml:1: unknown section 'fault'; sections are faults, arm64, disks, systems; places such as",
        ),
        ("systems: [r/1]\n", "f.yaml: wrong shape; systems must map rack/slot to a system"),
        (
            "systems: {r/1: ubuntu-24.04}\n",
            "f.yaml: r/1: 'ubuntu-24.04' is not a system that can be rehearsed; use debian-12 or debian-13",
        ),
        ("disks: [r/1]\n", "f.yaml: wrong shape; disks must map rack/slot to a number of disks"),
        ("disks: {r/1: 0}\n", "f.yaml: r/1: 0 is not a valid number of disks; 1 to 16"),
        ("disks: {r/1: yes}\n", "f.yaml: r/1: 'yes' is not a valid number of disks"),
        ("faults: [r/1]\n", "f.yaml: wrong shape; faults must be a mapping, arm64 a list"),
        ("- faults\n", "f.yaml: has no sections; write a mapping with faults"),
        ("faults: {r/1: \n", "f.yaml:2: is not valid YAML"),
    ],
)
def test_errors_contain_file_line_and_remedy(text, line):
    with pytest.raises(InputError) as excinfo:
        parse_faults(text, "f.yaml")
    assert str(excinfo.value).startswith(line)
    assert "\n" not in str(excinfo.value)


def test_missing_file_is_refused():
    with pytest.raises(InputError, match=r"no faults file or set 'nowhere\.yaml'"):
        load_faults("nowhere.yaml")


def test_fault_on_a_place_outside_all_racks_is_refused_with_its_line():
    faults = parse_faults("faults:\n  r/1: disk_full\n  r/9: disk_full\n", "f.yaml")
    with pytest.raises(InputError, match=r"f\.yaml:3: r/9: no such node; write nodes as rack/slot: r/1, r/2"):
        faults.check_places_exist({"r/1", "r/2"})


def test_every_fault_kind_has_a_description():
    assert all(
        kind.replace("_", "").isalpha() and len(description) > 10 for kind, description in FAULT_KINDS.items()
    )
