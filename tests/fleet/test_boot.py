"""Test the boot section of a rack file: its settings, and each refusal with its remedy."""

from __future__ import annotations

import pytest

from gpufleet import fleet
from gpufleet.errors import InputError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
RACK = """\
plugin: gpufleet.fleet.rack
name: r1
kind: blades
site: lab
machine: Compute Blade CM4 8GB
network: {{cidr: 10.9.0.0/24}}
boot:
  {boot}
nodes: blade[01-03]
"""


def boot(tmp_path, text):
    """Load a rack whose boot section says this, one line a key."""
    file = tmp_path / "r1.yaml"
    file.write_text(RACK.format(boot=text.strip().replace("\n", "\n  ")))
    return fleet.load_rack(file, tmp_path).boot


def test_omitted_boot_settings_have_safe_defaults(tmp_path):
    settings = boot(tmp_path, f"ssh: {{authorized_keys: ['{KEY}']}}")
    assert (settings.medium, settings.user, settings.radio, settings.host_keys) == (
        "nvme",
        "root",
        "off",
        "pregenerated",
    )
    assert settings.boot_order == ("nvme", "sd", "usb", "restart")


REFUSED = {
    "medium: nvme": "ssh: ",
    "ssh: {}": "boot.ssh: the nodes would have no SSH key; give authorized_keys, or the stack",
    "ssh: {authorized_keys: [secret]}": "is not an SSH public key",
    "ssh: {stack: production}\ntimezone: Mars/Base": "'Mars/Base' is not a time zone",
    "ssh: {stack: production}\nlocale: english": "give a locale like C.UTF-8",
    "ssh: {stack: production}\ngateway: 192.168.0.1": "boot.gateway: 192.168.0.1 is not in network.cidr",
    "ssh: {stack: production}\ngateway: 10.9.0.12": "boot.gateway: 10.9.0.12 is blade02's address",
    "ssh: {stack: production}\nmedium: netboot": "medium netboot needs a server; give netboot.server",
    "ssh: {stack: production}\norder: [sd, restart]": "order does not contain nvme, but the medium is nvme; add nvme",
    "ssh: {stack: production}\norder: [nvme, sd]": "order must end with restart or stop",
    "ssh: {stack: production}\norder: [nvme, rpiboot, sd, usb, restart]": "rpiboot has no timeout",
    "ssh: {stack: production}\norder: [nvme, floppy]": "order[1]",
    "ssh: {stack: production}\npcie_generation: 4": "pcie_generation",
    "ssh: {stack: production}\nimage: {url: 'http://x/i.img', sha256: '0'}": "give an https:// address",
    "ssh: {stack: production}\nimage: {url: 'https://x/i.img', sha256: 'abc'}": "64 lowercase hexadecimal digits",
    "ssh: {stack: production}\nwifi: on": "wifi",
    "ssh: {stack: production}\nnetboot: {server: 10.9.0.2, nfs_root: /srv}": "write it like /srv/nfs/{name}",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_refusal_names_file_key_and_remedy(tmp_path, text, message):
    with pytest.raises(InputError) as excinfo:
        boot(tmp_path, text)
    line = str(excinfo.value)
    assert line.startswith("r1.yaml")
    assert message in line
    assert "\n" not in line
