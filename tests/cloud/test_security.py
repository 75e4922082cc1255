"""Test that only the spec's networks have access, disks are encrypted and credentials stay on the node."""

from __future__ import annotations

import json

import pytest

ANY_ADDRESS = {"0.0.0.0/0", "::/0", "*", "Internet", "0.0.0.0"}
KINDS = [{"kind": "on_demand"}, {"kind": "spot"}, {"kind": "reserved"}]
CLOUDS = ["aws", "gcp", "azure"]


def allowed_sources(evaluated):
    """Yield every source address that the rules of the three clouds allow."""
    for rule in evaluated.list_resources("SecurityGroupIngressRule"):
        yield from (rule[key] for key in ("cidrIpv4", "cidrIpv6") if key in rule)
    for rule in evaluated.list_resources("Firewall"):
        yield from rule.get("sourceRanges", [])
    for group in evaluated.list_resources("NetworkSecurityGroup"):
        yield from (rule["sourceAddressPrefix"] for rule in group["securityRules"])


@pytest.mark.parametrize("purchase", KINDS, ids=lambda purchase: purchase["kind"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_only_the_networks_of_the_spec_have_access(evaluate, cloud, purchase):
    machine = {"machine": "Standard_NC24ads_A100_v4"} if cloud == "azure" else {}  # ND cannot be reserved
    pool = {"cloud": cloud, "purchase": purchase, **machine}
    evaluated = evaluate(pool, cidrs=["10.0.0.0/8", "198.51.100.0/24"])
    sources = set(allowed_sources(evaluated))
    assert sources == {"10.0.0.0/8", "198.51.100.0/24"}
    assert not sources & ANY_ADDRESS


@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_networks_means_no_access(evaluate, cloud):
    assert list(allowed_sources(evaluate({"cloud": cloud}, cidrs=[]))) == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_ipv4_and_ipv6_networks_have_rules(evaluate, cloud):
    evaluated = evaluate({"cloud": cloud}, cidrs=["10.0.0.0/8", "2001:db8::/32"])
    assert set(allowed_sources(evaluated)) == {"10.0.0.0/8", "2001:db8::/32"}


def test_only_the_ssh_port_is_open(evaluate):
    aws = evaluate({"cloud": "aws"}).find_resource("SecurityGroupIngressRule")
    gcp = evaluate({"cloud": "gcp"}).find_resource("Firewall")
    (azure,) = evaluate({"cloud": "azure"}).find_resource("NetworkSecurityGroup")["securityRules"]
    assert (aws["fromPort"], aws["toPort"], aws["ipProtocol"]) == (22, 22, "tcp")
    assert gcp["allows"] == [{"protocol": "tcp", "ports": ["22"]}]
    assert (azure["destinationPortRange"], azure["protocol"], azure["direction"]) == ("22", "Tcp", "Inbound")


@pytest.mark.parametrize("count", [1, {"min": 1, "max": 4}], ids=["fixed", "elastic"])
def test_aws_nodes_require_imdsv2_and_encrypt_their_disk(evaluate, count):
    evaluated = evaluate({"cloud": "aws", "machine": "g5.2xlarge", "count": count})
    node = evaluated.find_resource("Instance" if count == 1 else "LaunchTemplate")
    disk = node["rootBlockDevice"] if count == 1 else node["blockDeviceMappings"][0]["ebs"]
    assert node["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }
    assert str(disk["encrypted"]).lower() == "true"
    assert disk["volumeType"] == "gp3"


def test_aws_images_have_a_fixed_owner(evaluate):
    evaluated = evaluate({"cloud": "aws"})
    (call,) = [call for call in evaluated.recorder.calls if call.token.endswith("getAmi")]
    assert call.args["owners"] == ["amazon"]
    assert call.args["region"] == "us-east-1"


def test_gcp_nodes_are_shielded_and_authorize_only_the_keys_of_the_spec(evaluate):
    node = evaluate({"cloud": "gcp"}).find_resource("Instance")
    assert node["shieldedInstanceConfig"]["enableVtpm"]
    assert node["shieldedInstanceConfig"]["enableIntegrityMonitoring"]
    assert node["metadata"]["block-project-ssh-keys"] == "true"
    assert node["metadata"]["ssh-keys"].count("ubuntu:ssh-ed25519") == 2
    assert "serviceAccount" not in node


def test_gcp_does_not_use_the_default_network(evaluate):
    evaluated = evaluate({"cloud": "gcp"})
    assert evaluated.find_resource("Network")["autoCreateSubnetworks"] is False
    assert evaluated.find_resource("Instance")["networkInterfaces"][0]["subnetwork"] == "gcp-us-central1-id"


@pytest.mark.parametrize("count", [1, {"min": 1, "max": 4}], ids=["fixed", "elastic"])
def test_azure_nodes_disable_password_login(evaluate, count):
    evaluated = evaluate({"cloud": "azure", "machine": "Standard_NC4as_T4_v3", "count": count})
    node = (
        evaluated.find_resource("VirtualMachine")
        if count == 1
        else evaluated.find_resource("VirtualMachineScaleSet")["virtualMachineProfile"]
    )
    assert "adminPassword" not in node["osProfile"]
    assert node["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"] is True
    assert len(node["osProfile"]["linuxConfiguration"]["ssh"]["publicKeys"]) == 2
    assert node["storageProfile"]["osDisk"]["managedDisk"]["storageAccountType"] == "Premium_LRS"


def test_aws_node_authorizes_every_key_of_the_spec(evaluate):
    evaluated = evaluate({"cloud": "aws"})
    head, body = evaluated.find_resource("Instance")["userData"].split("\n", 1)
    assert head == "#cloud-config"
    assert len(json.loads(body)["ssh_authorized_keys"]) == 2
    # A key pair would add nothing, and a new first key would replace every instance.
    assert "KeyPair" not in evaluated.kinds
