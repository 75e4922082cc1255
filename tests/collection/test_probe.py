"""Test the module `probe`: facts from file trees of real machines, and its registry event."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.fleet.plugins.modules import probe

ROUTES = "Iface\tDestination\nwlan0\t000A0A0A\neth0\t00000000\n"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("proc/device-tree/serial-number", "device_tree"),
        ("sys/firmware/devicetree/base/serial-number", "device_tree"),
        ("sys/class/dmi/id/product_serial", "dmi"),
        ("sys/class/dmi/id/board_serial", "dmi"),
    ],
)
def test_serial_is_reported_with_its_source(tmp_path, path, source):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("10000000abcdef01\0")
    assert probe.read_board_serial(tmp_path) == {"serial": "10000000abcdef01", "serial_source": source}


def test_pi_serial_is_read_from_the_device_tree_before_dmi(tmp_path):
    for path in ("proc/device-tree/serial-number", "sys/class/dmi/id/product_serial"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(path.split("/")[0])
    assert probe.read_board_serial(tmp_path)["serial"] == "proc"


def test_missing_facts_are_omitted(tmp_path):
    assert set(probe.read_node_facts(tmp_path)) == {"arch", "kernel", "hostname", "root_free_mib"}


def test_network_card_with_the_default_route_is_used(tmp_path):
    for path, text in {"proc/net/route": ROUTES, "sys/class/net/eth0/address": "02:00:00:00:00:01\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    assert probe.read_node_facts(tmp_path)["mac"] == "02:00:00:00:00:01"


def test_os_release_is_read_with_and_without_quotes():
    assert probe.parse_os_release('ID=debian\nVERSION_ID="12"\n\n# x') == {"os": "debian", "os_version": "12"}


@pytest.mark.parametrize(("check", "is_reported"), [(False, True), (True, False)])
def test_check_mode_reports_nothing_to_the_registry(capsys, check, is_reported):
    with (
        patch_module_args({"node": "b1", "attempt": "a1", "_ansible_check_mode": check}),
        pytest.raises(SystemExit),
    ):
        probe.main()
    result = json.loads(capsys.readouterr().out)
    assert result["changed"] is False
    assert ("gpufleet" in result) is is_reported
    assert result["facts"]["arch"]


def test_container_files_of_a_template_and_units_of_older_releases_are_listed(tmp_path):
    for path in (
        "etc/containers/systemd/gpufleet/server.container",
        "etc/containers/systemd/dcgm-exporter.container",
        "etc/gpufleet/compose/llm/compose.yaml",
        "etc/gpufleet/compose/llm/.env",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("# of the operator\n")
    folder = tmp_path / "etc/systemd/system"
    folder.mkdir(parents=True)
    (folder / "gpufleet-a.service").write_text("# Written by gpufleet from the node's template; x\n[Unit]\n")
    (folder / "gpufleet-cdi-nvidia.service").write_text("# Written by gpufleet\n[Unit]\n")
    assert probe.list_installed_applications(tmp_path) == ["gpufleet-a", "llm", "server.container"]
    assert probe.list_installed_applications(tmp_path / "nothing") == []
