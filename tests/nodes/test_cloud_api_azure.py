"""Azure's machines through azure-mgmt-compute and azure-mgmt-network, against a double of Resource Manager."""

from __future__ import annotations

import pytest

import cloud_http
from gpufleet.errors import EnvironmentFault
from gpufleet.nodes.cloud_api import azure
from gpufleet.nodes.cloud_api.instance import CloudGroup

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
ROOT = f"/subscriptions/{SUBSCRIPTION}"
GROUP_PATH = f"{ROOT}/resourceGroups/dev-eastus"
COMPUTE, NETWORK = f"{ROOT}/providers/Microsoft.Compute", f"{ROOT}/providers/Microsoft.Network"
SET_ID = f"{GROUP_PATH}/providers/Microsoft.Compute/virtualMachineScaleSets/dev-tune"
TAGS = {"gpufleet-stack": "dev", "gpufleet-pool": "tune"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    certificate = cloud_http.write_certificate(tmp_path_factory.mktemp("tls") / "azure.pem")
    with cloud_http.serve(cloud_http.AzureService(), str(certificate)) as served:
        served.certificate = str(certificate)
        yield served


@pytest.fixture
def api(service):
    service.routes.clear()
    service.seen.clear()
    return azure.AzureApi(
        SUBSCRIPTION, cloud_http.StaticAzureCredential(), service.url, certificates=service.certificate
    )


def uniform_member(number, **properties):
    """Return a member of a Uniform set as ``VirtualMachineScaleSetVM_List`` shows it."""
    return {
        "name": f"dev-tune_{number}",
        "id": f"{SET_ID}/virtualMachines/{number}",
        "type": "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
        "location": "eastus",
        "instanceId": str(number),
        "sku": {"name": "Standard_ND96asr_v4", "tier": "Standard"},
        "properties": {
            "provisioningState": "Succeeded",
            "vmId": f"eb282db2-12d4-4fc6-8bd5-00000000000{number}",
            "hardwareProfile": {"vmSize": "Standard_ND96asr_v4"},
            "osProfile": {"computerName": f"dev-tune00000{number}"},
            "timeCreated": "2026-11-05T20:11:32.5722157+00:00",
            "instanceView": {
                "statuses": [{"code": "ProvisioningState/succeeded"}, {"code": "PowerState/running"}]
            },
            **properties,
        },
    }


def card(machine_id, number, parent):
    """Return a network card as Microsoft.Network lists it."""
    configuration = {
        "id": f"{parent}/networkInterfaces/nic/ipConfigurations/primary",
        "name": "primary",
        "properties": {"privateIPAddress": f"10.2.0.{number}", "primary": True},
    }
    return {
        "id": f"{parent}/networkInterfaces/nic",
        "name": "nic",
        "properties": {
            "primary": True,
            "virtualMachine": {"id": machine_id.upper()},
            "ipConfigurations": [configuration],
        },
    }


def public(number, parent):
    """Return a public address that belongs to the configuration of ``card``."""
    owner = {"id": f"{parent}/networkInterfaces/nic/ipConfigurations/primary"}
    return {"name": "public", "properties": {"ipAddress": f"203.0.113.{number}", "ipConfiguration": owner}}


def serve_scale_set(service, members, mode="Uniform"):
    scale_set = {
        "id": SET_ID,
        "name": "dev-tune",
        "location": "eastus",
        "tags": {**TAGS, "gpufleet-purchase": "spot"},
        "sku": {"name": "Standard_ND96asr_v4", "capacity": len(members)},
        "properties": {"orchestrationMode": mode, "virtualMachineProfile": {"priority": "Spot"}},
    }
    service.list_at(rf"{COMPUTE}/virtualMachineScaleSets", [scale_set])
    service.list_at(rf"{COMPUTE}/virtualMachines", [])
    service.list_at(rf"{SET_ID}/virtualMachines", members)
    cards = [card(member["id"], number, member["id"]) for number, member in enumerate(members)]
    service.list_at(rf"{SET_ID}/networkInterfaces", cards)
    service.list_at(
        rf"{SET_ID}/publicipaddresses",
        [public(number, member["id"]) for number, member in enumerate(members)],
    )


def test_members_of_a_uniform_set_are_found_over_pages(service, api, lab):
    serve_scale_set(service, [uniform_member(number) for number in range(5)])
    group = CloudGroup(
        "tune", "azure", "eastus", "scale_set", SET_ID, "dev-tune", "spot", "trainer", "ubuntu"
    )
    report = azure.fetch_azure_instance_report("dev", api, lab.minutes(0), [group])
    assert [seen.name for seen in report.observations] == [f"dev-tune00000{number}" for number in range(5)]
    assert report.group_sizes == {SET_ID: 5}
    third = report.observations[2]
    assert third.identity.instance_id == "eb282db2-12d4-4fc6-8bd5-000000000002"
    assert (third.observed["private_address"], third.observed["public_address"]) == (
        "10.2.0.2",
        "203.0.113.2",
    )
    assert (third.observed["machine"], third.observed["power"]) == ("Standard_ND96asr_v4", "running")
    assert (third.observed["purchase"], third.observed["template"]) == ("spot", "trainer")
    assert all("api-version" in query for _, _, query in service.seen)


def test_single_machines_and_members_of_a_flexible_set_are_found_by_tag(service, api, lab):
    machine_id = f"{GROUP_PATH}/providers/Microsoft.Compute/virtualMachines/dev-serve-1"
    machine = {
        "id": machine_id,
        "name": "dev-serve-1",
        "location": "East US",
        "zones": ["2"],
        "tags": {**TAGS, "gpufleet-node": "dev-serve-1"},
        "properties": {"vmId": "0c6473a4", "hardwareProfile": {"vmSize": "Standard_NC24ads_A100_v4"}},
    }
    member = {**machine, "id": f"{machine_id}9", "name": "dev-tune_ab", "tags": TAGS}
    member["properties"] = {
        **machine["properties"],
        "vmId": "1c6473a4",
        "osProfile": {"computerName": "DEV-TUNEAB"},
        "virtualMachineScaleSet": {"id": SET_ID},
    }
    foreign = {**machine, "id": "/foreign", "name": "web", "tags": {}}
    serve_scale_set(service, [], mode="Flexible")
    service.list_at(rf"{COMPUTE}/virtualMachines", [machine, member, foreign])
    owner = f"{GROUP_PATH}/providers/Microsoft.Network"
    service.list_at(rf"{NETWORK}/networkInterfaces", [card(machine_id, 7, owner)])
    service.list_at(rf"{NETWORK}/publicIPAddresses", [public(7, owner)])
    report = azure.fetch_azure_instance_report("dev", api, lab.minutes(0), prefer_public=True)
    one, two = report.observations
    assert (one.name, one.observed["address"], one.observed["region"]) == (
        "dev-serve-1",
        "203.0.113.7",
        "eastus",
    )
    assert (two.name, two.observed["group"]) == ("dev-tuneab", SET_ID)
    assert "address" not in two.observed


def test_a_missing_token_is_an_environment_fault_with_the_permission(service, api):
    service.route(
        "GET", rf"{COMPUTE}/virtualMachineScaleSets", service.error(403, "AuthorizationFailed", "no")
    )
    with pytest.raises(EnvironmentFault, match="AuthorizationFailed") as raised:
        azure.list_azure_instances(api)
    assert "Microsoft.Compute/virtualMachineScaleSets/read" in raised.value.hint


def test_a_redirect_does_not_carry_the_token_elsewhere(service, api):
    service.route("GET", rf"{COMPUTE}/virtualMachineScaleSets", (302, {}))
    with pytest.raises(EnvironmentFault):
        azure.list_azure_instances(api)


@pytest.mark.parametrize("hostile", [{"vmId": 7}, {"osProfile": "x"}, {"instanceView": {"statuses": "x"}}])
def test_values_of_another_type_do_not_break_the_listing(service, api, lab, hostile):
    serve_scale_set(service, [uniform_member(1, **hostile)])
    try:
        report = azure.fetch_azure_instance_report("dev", api, lab.minutes(0))
    except EnvironmentFault:
        return
    (seen,) = report.observations
    assert isinstance(seen.identity.instance_id, str)


def test_credentials_of_pulumi_are_used_where_complete():
    from azure.identity import ClientSecretCredential

    names = {"ARM_TENANT_ID": SUBSCRIPTION, "ARM_CLIENT_ID": "app", "ARM_CLIENT_SECRET": "secret"}
    assert isinstance(azure.create_credential(names), ClientSecretCredential)
