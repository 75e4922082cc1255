"""Test the first-boot files of a rack: for cloud-init, the firmware and a network boot server."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from gpufleet.errors import InputError
from gpufleet.fleet import Rack
from gpufleet.nodes import first_boot
from gpufleet.nodes.first_boot import SshHostKey, cloud_init, firmware

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
HOST = SshHostKey("PRIVATE", "ssh-ed25519 AAAAHOST blade")


def rack(machine="Compute Blade CM4 8GB", nodes="blade[01-02]", network=True, **boot):
    expected_notes = {
        "plugin": "gpufleet.fleet.rack",
        "name": "r1",
        "kind": "blades",
        "site": "lab",
        "machine": machine,
    }
    if network:
        expected_notes["network"] = {"cidr": "10.9.0.0/24"}
    return Rack.model_validate(
        {**expected_notes, "nodes": nodes, "boot": {"ssh": {"authorized_keys": [KEY]}, **boot}}
    )


def export(rack_spec, key=HOST):
    return first_boot.build_first_boot_files(rack_spec, rack_spec.nodes, [KEY], lambda _node: key)


def read(text):
    return YAML(typ="safe").load(text)


def test_node_gets_its_name_address_and_keys():
    seed = export(rack(gateway="10.9.0.1", dns=["10.9.0.1"])).seeds[1]
    user, network = read(seed.files["user-data"]), read(seed.files["network-config"])
    assert seed.files["user-data"].startswith("#cloud-config\n")
    assert user["hostname"] == "blade02"
    assert user["users"] == [{"name": "root", "lock_passwd": True, "ssh_authorized_keys": [KEY]}]
    assert user["ssh_pwauth"] is False
    assert network["ethernets"]["eth0"] == {
        "dhcp4": False, "dhcp6": False, "addresses": ["10.9.0.12/24"],
        "routes": [{"to": "0.0.0.0/0", "via": "10.9.0.1"}],
        "nameservers": {"addresses": ["10.9.0.1"], "search": []},
    }  # fmt: skip
    node_file = json.loads(user["write_files"][0]["content"])
    assert node_file == {"rack": "r1", "slot": 2, "name": "blade02", "serial": None}


@pytest.mark.parametrize(
    ("family", "interface", "more"),
    [("raspios", "eth0", {"enable_ssh": True}), ("ubuntu", "eth0", {}), ("debian", "end0", {})],
)
def test_each_image_family_gets_its_network_name_and_keys(family, interface, more):
    image = {"url": "https://example.org/image.img.xz", "sha256": "a" * 64, "family": family}
    seed = export(rack(image=image)).seeds[0]
    user = read(seed.files["user-data"])
    assert list(read(seed.files["network-config"])["ethernets"]) == [interface]
    assert {key: user[key] for key in ("enable_ssh",) if key in user} == more
    named = export(rack(image=image, interface="lan0")).seeds[0].files["network-config"]
    assert list(read(named)["ethernets"]) == ["lan0"]


@pytest.mark.parametrize(
    ("boot", "message"),
    [
        ({"order": ["restart", "nvme", "restart"]}, "nothing after restart is ever tried"),
        ({"order": ["nvme", "stop", "restart"]}, "nothing after stop is ever tried"),
        ({"search": ["lab.example.org", "two words"]}, "a domain like lab.example.org"),
    ],
)
def test_contradictory_boot_settings_are_refused(boot, message):
    with pytest.raises(ValidationError, match=message):
        rack(**boot)


def test_other_login_than_root_uses_sudo_and_root_cannot_log_in():
    user = read(export(rack(user="ops")).seeds[0].files["user-data"])
    assert user["disable_root"] is True
    assert user["users"][0]["sudo"] == "ALL=(ALL) NOPASSWD:ALL"


def test_known_mac_address_selects_the_link():
    rack_spec = rack(nodes=[{"name": "blade01", "mac": "2c:cf:67:00:00:07"}])
    link = read(export(rack_spec).seeds[0].files["network-config"])["ethernets"]["eth0"]
    assert (link["match"], link["set-name"]) == ({"macaddress": "2c:cf:67:00:00:07"}, "eth0")


def test_rack_without_a_network_uses_dhcp():
    link = read(export(rack(network=False)).seeds[0].files["network-config"])["ethernets"]["eth0"]
    assert link == {"dhcp4": True, "dhcp6": False}


def test_host_key_is_generated_before_the_first_boot_and_its_copy_removed():
    exported = export(rack())
    user = read(exported.seeds[0].files["user-data"])
    assert user["ssh_keys"] == {"ed25519_private": "PRIVATE", "ed25519_public": f"{HOST.public}\n"}
    assert user["runcmd"][0][:2] == ["python3", "-c"]
    assert exported.known_hosts_lines()[:2] == [
        "10.9.0.11 ssh-ed25519 AAAAHOST",
        "blade01 ssh-ed25519 AAAAHOST",
    ]
    assert (
        "PRIVATE"
        not in repr(HOST)
        + exported.files_by_path()["manifest.json"]
        + exported.files_by_path()["known_hosts"]
    )


def test_host_key_generated_on_the_node_is_printed_on_its_console_only():
    exported = export(rack(host_keys="console"), key=None)
    user = read(exported.seeds[0].files["user-data"])
    assert user["ssh"] == {"emit_keys_to_console": True}
    assert "ssh_keys" not in user
    assert "known_hosts" not in exported.files_by_path()


def test_any_change_gives_a_new_instance_id():
    before, after = export(rack()).seeds[0], export(rack(timezone="Europe/Berlin")).seeds[0]
    assert before.instance_id != after.instance_id
    assert export(rack()).seeds[0].instance_id == before.instance_id
    # An id on the kernel's command line wins over meta-data's, so both must say the same.
    assert before.files["cmdline.append.txt"] == f"ds=nocloud;i={before.instance_id}\n"
    assert read(before.files["meta-data"])["instance-id"] == before.instance_id


@pytest.mark.parametrize(
    ("order", "digits"),
    [(["nvme", "sd", "usb", "restart"], "0xf416"), (["nvme", "usb", "restart"], "0xf46"),
     (["sd", "network", "restart"], "0xf21"), (["usb", "sd", "restart"], "0xf14"), (["network", "restart"], "0xf2")],
)  # fmt: skip
def test_boot_orders_match_the_documentation(order, digits):
    """raspberrypi/documentation: eeprom-bootloader.adoc, pcie.adoc (0xf416), cm-bootloader.adoc (0xf2)."""
    assert first_boot.encode_boot_order(order) == digits


def test_boot_conf_states_reasons_and_respects_its_size_limit():
    text = export(rack()).seeds[0].files["boot.conf"]
    assert "BOOT_ORDER=0xf416\n" in text
    assert "#   6 NVMe drive on PCIe (CM4 CM5 Pi 5)\n" in text
    assert len(text.encode()) < firmware.LONGEST_BOOT_CONF


@pytest.mark.parametrize(
    ("machine", "boot", "lines", "note"),
    [
        ("Compute Blade CM4 8GB", {}, ["[cm4]", "dtoverlay=disable-wifi", "dtoverlay=disable-bt", "[all]"], None),
        ("Compute Blade CM4 8GB", {"radio": "as_is", "fan_unit": "smart"},
         ["[cm4]", "enable_uart=1", "dtoverlay=uart5", "[all]"], None),
        ("Raspberry Pi 5 8GB", {"radio": "as_is", "pcie_generation": 3},
         ["[pi5]", "dtparam=pciex1", "dtparam=pciex1_gen=3", "[all]"], None),
        ("Compute Blade CM4 8GB", {"radio": "as_is", "pcie_generation": 3}, ["[cm4]", "[all]"], "has PCIe 2.0"),
        ("Compute Blade CM5 8GB", {"radio": "as_is", "medium": "sd", "fan_unit": "smart"}, ["[cm5]", "[all]"],
         "documents name no overlay"),
    ],
)  # fmt: skip
def test_config_txt_has_supported_settings_and_notes_the_others(machine, boot, lines, note):
    exported = export(rack(machine, **boot))
    assert exported.seeds[0].files["config.append.txt"].splitlines() == lines
    assert (note is None and not exported.notes) or note in exported.notes[0]


def test_no_exported_file_mentions_vfat():
    assert not [path for path, text in export(rack()).files_by_path().items() if "vfat" in text]


NETBOOT = {"medium": "netboot", "netboot": {"server": "10.9.0.2"}}
KNOWN = [{"name": "blade01", "serial": "10000000ABCD1234", "mac": "2c:cf:67:00:00:07"}]


@pytest.mark.parametrize(
    ("prefix", "folder", "digit"), [("serial", "abcd1234", 0), ("mac", "2c-cf-67-00-00-07", 2)]
)
def test_netboot_files_name_boot_folder_and_root(prefix, folder, digit):
    boot = {**NETBOOT, "netboot": {"server": "10.9.0.2", "prefix": prefix}, "gateway": "10.9.0.1"}
    files = export(rack(nodes=KNOWN, **boot)).files_by_path()
    assert f"TFTP_PREFIX={digit}\n" in files["blade01/boot.conf"]
    cmdline = files[f"netboot/tftp/{folder}/cmdline.append.txt"]
    assert cmdline.startswith(
        "root=/dev/nfs nfsroot=10.9.0.2:/srv/nfs/blade01,vers=3 rw "
        "ip=10.9.0.11::10.9.0.1:255.255.255.0:blade01::off rootwait ds=nocloud;"
    )
    assert cmdline.count("\n") == 1
    assert 'pxe-service=0,"Raspberry Pi Boot"\n' in files["netboot/dnsmasq.conf"]
    assert files["netboot/exports"].startswith("/srv/nfs/blade01 10.9.0.11(rw,")


def test_netboot_without_serial_or_network_is_refused():
    with pytest.raises(InputError, match="blade01 has no serial, by which TFTP folders are named"):
        export(rack(**NETBOOT))
    with pytest.raises(InputError, match=r"inventory/r1.yaml: network: a network boot needs it"):
        export(rack(nodes=KNOWN, network=False, **NETBOOT))


def test_machine_without_known_firmware_is_refused():
    with pytest.raises(InputError, match="no boot firmware is known for 'GPU server'; known: CM4, CM5"):
        export(rack("GPU server"))


def test_rack_without_boot_section_is_refused_with_a_link_to_the_documentation():
    bare = rack().model_copy(update={"boot": None})
    with pytest.raises(
        InputError, match=r"inventory/r1.yaml: boot: is missing; declare how .*commissioning.md"
    ):
        export(bare)


def test_script_that_removes_keys_keeps_other_data(tmp_path):
    seed = tmp_path / "user-data"
    seed.write_text(export(rack()).seeds[0].files["user-data"])
    script = cloud_init.FORGET_KEYS.replace(
        '"/boot/firmware", "/var/lib/cloud/seed/nocloud"', repr(str(tmp_path)) + ","
    )
    exec(script, {})  # the very text that a node runs
    remaining_text = seed.read_text()
    assert "PRIVATE" not in remaining_text
    assert remaining_text.startswith("#cloud-config\n")
    assert read(remaining_text)["hostname"] == "blade01"
