"""Nobody is let in but from the spec's networks, disks are encrypted, credentials stay on the node."""

from __future__ import annotations

import json

import pytest

WORLD = {"0.0.0.0/0", "::/0", "*", "Internet", "0.0.0.0"}
KINDS = [{"kind": "on_demand"}, {"kind": "spot"}, {"kind": "reserved"}]
CLOUDS = ["aws", "gcp", "azure"]


def ingress(found):
    """Return every source that any of the three clouds' rules lets in."""
    for rule in found.all("SecurityGroupIngressRule"):
        yield from (rule[key] for key in ("cidrIpv4", "cidrIpv6") if key in rule)
    for rule in found.all("Firewall"):
        yield from rule.get("sourceRanges", [])
    for group in found.all("NetworkSecurityGroup"):
        yield from (rule["sourceAddressPrefix"] for rule in group["securityRules"])


@pytest.mark.parametrize("purchase", KINDS, ids=lambda purchase: purchase["kind"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_only_the_specs_networks_come_in(evaluate, cloud, purchase):
    found = evaluate({"cloud": cloud, "purchase": purchase}, cidrs=["10.0.0.0/8", "198.51.100.0/24"])
    sources = set(ingress(found))
    assert sources == {"10.0.0.0/8", "198.51.100.0/24"}
    assert not sources & WORLD


@pytest.mark.parametrize("cloud", CLOUDS)
def test_without_networks_nobody_comes_in(evaluate, cloud):
    assert list(ingress(evaluate({"cloud": cloud}, cidrs=[]))) == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_both_ip_versions_have_a_rule(evaluate, cloud):
    found = evaluate({"cloud": cloud}, cidrs=["10.0.0.0/8", "2001:db8::/32"])
    assert set(ingress(found)) == {"10.0.0.0/8", "2001:db8::/32"}


def test_the_open_ports_are_ssh_alone(evaluate):
    aws = evaluate({"cloud": "aws"}).one("SecurityGroupIngressRule")
    gcp = evaluate({"cloud": "gcp"}).one("Firewall")
    (azure,) = evaluate({"cloud": "azure"}).one("NetworkSecurityGroup")["securityRules"]
    assert (aws["fromPort"], aws["toPort"], aws["ipProtocol"]) == (22, 22, "tcp")
    assert gcp["allows"] == [{"protocol": "tcp", "ports": ["22"]}]
    assert (azure["destinationPortRange"], azure["protocol"], azure["direction"]) == ("22", "Tcp", "Inbound")


@pytest.mark.parametrize("count", [1, {"min": 1, "max": 4}], ids=["fixed", "elastic"])
def test_aws_nodes_demand_imdsv2_and_encrypt_their_disk(evaluate, count):
    found = evaluate({"cloud": "aws", "machine": "g5.2xlarge", "count": count})
    node = found.one("Instance") if count == 1 else found.one("LaunchTemplate")
    disk = node["rootBlockDevice"] if count == 1 else node["blockDeviceMappings"][0]["ebs"]
    assert node["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }
    assert str(disk["encrypted"]).lower() == "true"
    assert disk["volumeType"] == "gp3"


def test_aws_images_come_from_a_pinned_owner(evaluate):
    found = evaluate({"cloud": "aws"})
    (call,) = [call for call in found.recorder.calls if call.token.endswith("getAmi")]
    assert call.args["owners"] == ["amazon"]
    assert call.args["region"] == "us-east-1"


def test_gcp_nodes_are_shielded_and_take_only_the_specs_keys(evaluate):
    node = evaluate({"cloud": "gcp"}).one("Instance")
    assert node["shieldedInstanceConfig"]["enableVtpm"]
    assert node["shieldedInstanceConfig"]["enableIntegrityMonitoring"]
    assert node["metadata"]["block-project-ssh-keys"] == "true"
    assert node["metadata"]["ssh-keys"].count("ubuntu:ssh-ed25519") == 2
    assert "serviceAccount" not in node


def test_gcp_uses_a_network_of_its_own(evaluate):
    found = evaluate({"cloud": "gcp"})
    assert found.one("Network")["autoCreateSubnetworks"] is False
    assert found.one("Instance")["networkInterfaces"][0]["subnetwork"] == "gcp-us-central1-id"


@pytest.mark.parametrize("count", [1, {"min": 1, "max": 4}], ids=["fixed", "elastic"])
def test_azure_nodes_know_no_password(evaluate, count):
    found = evaluate({"cloud": "azure", "machine": "Standard_NC4as_T4_v3", "count": count})
    node = (
        found.one("VirtualMachine")
        if count == 1
        else found.one("VirtualMachineScaleSet")["virtualMachineProfile"]
    )
    assert "adminPassword" not in node["osProfile"]
    assert node["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"] is True
    assert len(node["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"]) == 2
    assert node["storageProfile"]["osDisk"]["managedDisk"]["storageAccountType"] == "Premium_LRS"


def test_every_key_of_the_spec_reaches_an_aws_node(evaluate):
    found = evaluate({"cloud": "aws"})
    head, body = found.one("Instance")["userData"].split("\n", 1)
    assert head == "#cloud-config"
    assert len(json.loads(body)["ssh_authorized_keys"]) == 2
    assert found.one("KeyPair")["publicKey"] == json.loads(body)["ssh_authorized_keys"][0]
