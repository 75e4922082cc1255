"""Test MIG geometries against NVIDIA's tables. Placements: the examples of the MIG user guide and `-lgipp`."""

from __future__ import annotations

import pytest

from gpufleet.drivers import mig
from gpufleet.errors import InputError

H100, A100_40, A30, B200, L40S = "2330", "20b0", "20b7", "2901", "26b9"


def profiles(declared, device=H100):
    return mig.resolve_mig_geometry(declared, [device])[0]["profiles"]


@pytest.mark.parametrize(
    ("device", "declared"),
    [
        (H100, {"1g.10gb": 7}),
        (H100, {"3g.40gb": 2}),
        (H100, {"4g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}),
        (H100, {"4g.40gb": 1, "3g.40gb": 1}),
        (A100_40, {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}),  # the guide's example 2
        (A100_40, {"2g.10gb": 1, "1g.5gb": 5}),  # the guide's example 3
        (H100, {"1g.20gb": 4}),
        (A30, {"2g.12gb": 1, "1g.6gb": 2}),
        (B200, {"1g.23gb": 2, "2g.45gb": 1, "3g.90gb": 1}),
    ],
)
def test_documented_geometry_is_accepted(device, declared):
    assert profiles(declared, device) == declared


@pytest.mark.parametrize(
    ("declared", "device", "message"),
    [
        ({"1g.5gb": 1}, H100, "no MIG profile '1g.5gb'"),
        ({"1g.10gb": 8}, H100, "8 of 1g.10gb do not fit"),
        ({"4g.40gb": 1, "3g.40gb": 1, "1g.10gb": 1}, H100, "takes 8 compute slices; the GPU has 7"),
        ({"3g.40gb": 2, "1g.10gb": 1}, H100, "has no placement"),
        ({"1g.20gb": 3, "3g.40gb": 1}, H100, "has no placement"),
        ({"1g.6gb+me": 1, "2g.12gb+me": 1}, A30, "media engines"),
        ({"1g.10gb": 1}, L40S, "does not support MIG"),
        (7, H100, "not a mapping"),
    ],
)
def test_impossible_geometry_is_refused_with_its_reason(declared, device, message):
    with pytest.raises(InputError, match=message):
        profiles(declared, device)


def test_largest_profile_is_placed_first():
    assert list(profiles({"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1})) == ["3g.40gb", "2g.20gb", "1g.10gb"]


@pytest.mark.parametrize("declared", ["all-1g.10gb", "1g.10gb"])
def test_single_profile_fills_the_gpu(declared):
    assert profiles(declared) == {"1g.10gb": 7}


def test_last_entry_for_a_gpu_applies():
    declared = [{"devices": "all", "profiles": "3g.40gb"}, {"devices": [1], "profiles": "disabled"}]
    plan = mig.resolve_mig_geometry(declared, [H100, H100])
    assert [(row["enabled"], row["profiles"]) for row in plan] == [(True, {"3g.40gb": 2}), (False, {})]


def test_gpus_without_an_entry_are_not_changed():
    assert [
        row["index"]
        for row in mig.resolve_mig_geometry([{"devices": [1], "profiles": "1g.10gb"}], [H100, H100])
    ] == [1]


def test_missing_gpu_is_refused():
    with pytest.raises(InputError, match="no GPU 8: the host has 8"):
        mig.resolve_mig_geometry([{"devices": [8], "profiles": "1g.10gb"}], [H100] * 8)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"1g.10gb": "many"}, "1g.10gb: 'many' is not a number of instances"),
        ({"1g.10gb": -1}, "1g.10gb: -1 is not a number"),
        ({"all": "1g.10gb"}, "all: '1g.10gb' is not a number"),
        (["1g.10gb"], "'1g.10gb' is not a mapping of devices and profiles"),
    ],
)
def test_invalid_geometry_is_refused_in_one_line(declared, message):
    with pytest.raises(InputError, match=message):
        mig.resolve_mig_geometry(declared, [H100])


def test_mig_can_be_disabled_on_any_gpu():
    assert mig.resolve_mig_geometry("disabled", [L40S])[0]["enabled"] is False


def test_geometry_converts_to_a_mig_parted_configuration():
    config = mig.build_mig_parted_config(mig.resolve_mig_geometry({"3g.40gb": 2}, [H100]))
    entry = {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.40gb": 2}}
    assert config == {"version": "v1", "mig-configs": {"gpufleet": [entry]}}


def test_every_full_count_of_the_table_fits():
    for family in mig.load_mig_families():
        for name, count in family.profiles.items():
            assert profiles({name: count}, family.devices[0]) == {name: count}


def test_families_share_no_device():
    devices = [device for family in mig.load_mig_families() for device in family.devices]
    assert len(devices) == len(set(devices))
