"""Test driver plans as text, as JSON and as tables of the documentation."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest

from gpufleet.drivers import HostFacts, RequestedSoftware, plan_drivers, report
from gpufleet.errors import InputError
from tools import driver_page

T4 = {"address": "0000:01:00.0", "vendor": "10de", "device": "1eb8", "class": "030200"}
STRANGE = T4 | {"device": "fffe"}
SYSTEM = {"id": "debian", "version_id": "12"}


def build_plan(*devices, requested=None, **more):
    document = {
        "pci": list(devices),
        "os": SYSTEM,
        "kernel": "6.1.0-50-amd64",
        "arch": "x86_64",
        "secure_boot": False,
    }
    return plan_drivers(
        HostFacts.from_json(document | more), RequestedSoftware.from_json(requested)
    ).as_json()


def fold(names):
    return ",".join(names)


def test_hosts_with_the_same_plan_share_a_line_and_hosts_without_cards_come_last():
    plans = {"a": build_plan(T4), "b": build_plan(), "c": build_plan(T4), "d": build_plan()}
    lines = report.format_driver_plans(plans, fold).splitlines()
    assert lines[0].split()[:2] == ["HOST", "CARDS"]
    assert lines[1].startswith("a,c   1 x T4  install 535.261.03  proprietary (distribution)")
    assert lines[-1] == "b,d: no GPU that needs a driver"


def test_hosts_without_cards_are_listed_without_a_table():
    assert (
        report.format_driver_plans({"a": build_plan(), "b": build_plan()}, fold)
        == "a,b: no GPU that needs a driver"
    )


def test_kernel_driver_has_no_origin_and_every_package_is_listed():
    radeon = build_plan({"vendor": "1002", "device": "67ef", "class": "030000"})
    packages = [{"name": name, "version": None} for name in ("amdrocm7.14", "nvidia-gds")]
    parts = {"rocm": {"version": "7.14", "packages": packages[:1]}, "gpudirect": packages[1:]}
    text = report.format_driver_plans({"a": {**radeon, "origin": "vendor", **parts}}, fold)
    assert "the kernel's own  amdgpu  -" in text
    assert "amdrocm7.14, nvidia-gds\n" in text


def test_refusal_is_printed_with_its_remedy():
    text = report.format_driver_plans({"a": build_plan(STRANGE)}, fold)
    assert "refused: unknown card: PCI id 10de:fffe at 0000:01:00.0" in text
    assert "remedy: look it up in the PCI ID Repository" in text


def test_sources_are_printed_on_request():
    plans = {"a": build_plan(T4)}
    assert "[NVIDIA Data Center Drivers" not in report.format_driver_plans(plans, fold)
    assert "[NVIDIA Data Center Drivers" in report.format_driver_plans(plans, fold, show_sources=True)


@pytest.mark.parametrize(
    ("packages", "branch", "expected"),
    [
        ({}, None, "install 535.261.03"),
        ({"nvidia-kernel-dkms": "535.261.03-1"}, None, "keep 535.261.03"),
        ({"nvidia-kernel-dkms": "535.216.03-1"}, "535", "upgrade 535.216.03 -> 535.261.03"),
        ({"nvidia-open": "580.95.05-1"}, "535", "downgrade 580.95.05 -> 535.261.03"),
    ],
)
def test_version_change_is_formatted(packages, branch, expected):
    requested = {"driver": {"branch": branch}, "origin": "distribution" if branch else None}
    assert report.format_driver_change(build_plan(T4, requested=requested, packages=packages)) == expected


def test_amd_driver_of_the_kernel_has_no_version():
    radeon = {"vendor": "1002", "device": "67ef", "class": "030000"}
    assert report.format_driver_change(build_plan(radeon)) == "install: the kernel's own"


def test_every_plan_matches_the_schema():
    schema = json.loads((files("gpufleet.drivers") / "data" / "plans.schema.json").read_text())
    hosts = [
        {"name": "a", "status": "ok", "reason": "", "plan": plan}
        for plan in (
            build_plan(),
            build_plan(T4),
            build_plan(STRANGE),
            build_plan(T4, requested={"cuda": "11.8"}),
        )
    ]
    jsonschema.validate({"limit": "all", "hosts": hosts}, schema)


def test_documentation_has_the_current_tables(repo_root):
    page = (repo_root / "docs" / "drivers.md").read_text()
    assert driver_page.update_docs_tables(page) == page, "run: python -m tools.driver_page docs/drivers.md"


def test_page_without_a_marker_for_a_table_is_refused():
    with pytest.raises(InputError, match="no place for the table 'generations'"):
        driver_page.update_docs_tables("# Drivers\n")
