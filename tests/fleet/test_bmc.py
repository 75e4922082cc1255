"""Test how a rack file declares BMCs, and which declarations are refused."""

from __future__ import annotations

import pytest

from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.nodes import inventory
from gpufleet.nodes.declaration import list_declared_nodes

RACK = """\
plugin: gpufleet.fleet.rack
name: r1
kind: servers
site: lab
machine: 8-GPU server
accelerators: [{model: H100 SXM5 80GB, count: 8}]
bmc: {protocol: redfish, ca_file: /etc/bmc-ca.pem, network: {cidr: 10.9.1.0/24}}
nodes:
  - {name: "gpu[01-02]"}
  - {name: gpu03, bmc: {address: bmc03.lab, certificate_sha256: SHA}}
""".replace("SHA", "0a" * 32)


@pytest.fixture
def load_rack(tmp_path):
    def load(old="", new=""):
        assert old in RACK
        file = tmp_path / "r1.yaml"
        file.write_text(RACK.replace(old, new, 1))
        return fleet.load_rack(file, tmp_path)

    return load


def test_nodes_get_their_bmc_from_the_rack_and_their_entry(load_rack):
    first, _, third = (node.bmc for node in load_rack().nodes)
    assert (first.address, first.ca_file, first.certificate_sha256) == ("10.9.1.11", "/etc/bmc-ca.pem", None)
    assert (third.address, third.ca_file, third.certificate_sha256) == ("bmc03.lab", None, "0a" * 32)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ca_file: /etc/bmc-ca.pem, ", "", "must be verified in exactly one way"),
        (", network: {cidr: 10.9.1.0/24}", "", "the BMC of gpu01 has no address"),
        ("protocol: redfish", "protocol: ipmi", "IPMI has no certificates"),
        ("protocol: redfish", "protocol: ilo", "ilo"),
        ("bmc03.lab", "10.9.1.12", "gpu02 and gpu03 share the BMC 10.9.1.12"),
        ("bmc03.lab", "'evil.example/redfish?x='", "is not an address"),
        ("bmc03.lab", "'user@10.9.1.13'", "is not an address"),
        ("bmc03.lab", "'fe80::1%eth0'", "is not an address"),
        ("/etc/bmc-ca.pem", "bmc-ca.pem", "an absolute path"),
        ("bmc03.lab", "bmc03.lab, password: x", "password"),
    ],
)
def test_unusable_declaration_is_one_line(load_rack, old, new, message):
    with pytest.raises(InputError, match=r"r1\.yaml") as error:
        load_rack(old, new)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_rehearsal_gets_no_real_bmc(load_rack):
    rack = load_rack()
    bmcs = {("r1", "1"): rack.nodes[0].bmc.model_dump(exclude_none=True)}
    listed = inventory.assemble_ansible_inventory([], list_declared_nodes(rack), bmcs=bmcs)
    assert listed.hosts[0].vars["gpufleet_bmc"]["address"] == "10.9.1.11"
    assert "gpufleet_bmc" not in inventory._block_connections(listed.hosts[0]).vars


def test_server_without_a_bmc_in_a_rack_with_them(load_rack):
    rack = load_rack('{name: "gpu[01-02]"}', "{name: gpu01}\n  - {name: gpu02, bmc: none}")
    assert [node.bmc and node.bmc.address for node in rack.nodes] == ["10.9.1.11", None, "bmc03.lab"]
