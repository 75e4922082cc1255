"""Test what Azure would refuse, bill or leak: purchases, InfiniBand, disks, subscription, access."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pulumi
import pytest

from gpufleet import catalog
from gpufleet.cloud import images
from gpufleet.errors import InputError

spec = importlib.util.spec_from_file_location("cloud_registered", Path(__file__).with_name("registered.py"))
registered = importlib.util.module_from_spec(spec)
spec.loader.exec_module(registered)

T4 = "Standard_NC4as_T4_v3"
ND = "Standard_ND96amsr_A100_v4"
SUBSCRIPTION = "00000000-1111-2222-3333-444444444444"
GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/x"
PRIVATE = {
    "authorized_keys": [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
    ],
    "access": "private",
}
SPOT = {"kind": "spot", "on_eviction": "stop", "max_usd_per_hour": 0.5}
INFINIBAND = {"cloud": "azure", "machine": ND, "count": 4, "fabric": "auto"}


@pytest.fixture
def record(recorder, monkeypatch, sdks, declare):
    """Return a function that registers pools and returns the resources with their options, by type."""

    def run(*pools, **sections):
        rows = registered.record(declare(*pools, **sections), recorder, monkeypatch)["resources"]
        return {row["type"].rpartition(":")[2]: row for row in rows}

    return run


def find_keys(value, key):
    """Yield every value that this key has anywhere in nested inputs."""
    if isinstance(value, dict):
        yield from ([value[key]] if key in value else [])
        for inner in value.values():
            yield from find_keys(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from find_keys(inner, key)


def test_commitment_needs_no_resource(evaluate):
    """A reserved VM instance is a billing discount: Azure has no capacity reservation for ND machines."""
    evaluated = evaluate({"cloud": "azure", "machine": ND, "purchase": {"kind": "committed", "term": "1y"}})
    node = evaluated.find_resource("VirtualMachine")
    assert not evaluated.list_resources("CapacityReservation")
    assert "capacityReservation" not in node
    assert node["tags"]["gpufleet-purchase"] == "committed-1y"


def test_infiniband_is_one_placement_group_without_reservation(evaluate):
    scale_set = evaluate(INFINIBAND).find_resource("VirtualMachineScaleSet")
    assert scale_set["singlePlacementGroup"] is True
    assert (scale_set["platformFaultDomainCount"], scale_set["overprovision"]) == (1, False)
    assert scale_set["orchestrationMode"] == "Uniform"
    assert "capacityReservation" not in scale_set["virtualMachineProfile"]


def test_scale_set_with_a_reservation_may_have_several_placement_groups(evaluate):
    evaluated = evaluate(
        {"cloud": "azure", "machine": T4, "count": 2, "group": True, "purchase": {"kind": "reserved"}}
    )
    scale_set = evaluated.find_resource("VirtualMachineScaleSet")
    assert scale_set["singlePlacementGroup"] is False
    target = scale_set["virtualMachineProfile"]["capacityReservation"]["capacityReservationGroup"]
    assert target == {"id": "train-id"}


def test_everything_is_built_in_the_subscription_of_the_spec(evaluate):
    evaluated = evaluate({"cloud": "azure"}, azure={"subscription": SUBSCRIPTION})
    provider = next(r for r in evaluated.recorder.resources if r.typ == "pulumi:providers:azure-native")
    assert provider.inputs["subscriptionId"] == SUBSCRIPTION
    built = [r for r in evaluated.recorder.resources if r.typ.startswith("azure-native:")]
    assert len(built) > 5
    assert [r.name for r in built if "azure-native::azure::" not in r.provider] == []


def test_with_a_subscription_in_the_environment_the_default_provider_builds(evaluate):
    resources = evaluate({"cloud": "azure"}).recorder.resources
    assert not [r for r in resources if r.typ.startswith("pulumi:providers")]


def test_finding_3_without_a_subscription_nothing_is_registered(monkeypatch, sdks, recorder, declare):
    """The provider would take the Azure CLI's default subscription, which may be anybody's."""
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")
    with pytest.raises(InputError, match="the subscription of train is missing; set azure"):
        registered.record(declare({"cloud": "azure"}), recorder, monkeypatch)
    assert recorder.resources == []


def test_pools_of_other_clouds_need_no_subscription(monkeypatch, evaluate):
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")
    assert evaluate({"cloud": "gcp"}).list_resources("Instance")


@pytest.mark.parametrize("variable", ["GPUFLEET_REHEARSAL", "GPUFLEET_WITHOUT_ENGINE"])
def test_what_builds_nothing_real_needs_no_subscription(monkeypatch, evaluate, variable):
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")
    monkeypatch.setenv(variable, "production")
    assert evaluate({"cloud": "azure"}).list_resources("VirtualMachine")


def test_subscription_of_the_stacks_configuration_counts(monkeypatch, evaluate):
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")
    pulumi.runtime.set_all_config({"azure-native:subscriptionId": SUBSCRIPTION})
    try:
        assert evaluate({"cloud": "azure"}).list_resources("VirtualMachine")
    finally:
        pulumi.runtime.set_all_config({})


@pytest.mark.parametrize(
    "pool",
    [INFINIBAND, {"cloud": "azure", "machine": T4, "count": {"min": 1, "max": 3}}],
    ids=["infiniband", "elastic"],
)
def test_scale_set_is_exported_so_that_its_members_reach_the_inventory(evaluate, pool):
    evaluated = evaluate({**pool, "purchase": {"kind": "spot"}})
    [group] = evaluated.groups
    assert (group["kind"], group["pool"], group["name"]) == ("scale_set", "train", "test-train")
    assert (group["id"], group["purchase"]) == ("train-id", "spot")
    assert evaluated.nodes == []


@pytest.mark.parametrize("pool", [INFINIBAND, {"cloud": "azure", "machine": T4, "count": 2, "group": True}])
def test_scale_set_has_no_delete_option(evaluate, pool):
    """Uniform sets delete disks and cards always; the option exists for Flexible ones only."""
    templates = {"plain": {"volumes": [{"name": "data", "size_gib": 500, "kind": "ssd"}]}}
    scale_set = evaluate(pool, templates=templates).find_resource("VirtualMachineScaleSet")
    assert list(find_keys(scale_set, "deleteOption")) == []
    assert list(find_keys(scale_set, "lun")) == [0]


def test_declared_volumes_are_disks_that_go_with_the_machine(evaluate):
    volumes = [{"name": "a", "size_gib": 500, "kind": "ssd"}, {"name": "b", "size_gib": 100, "kind": "ssd"}]
    node = evaluate(
        {"cloud": "azure", "machine": T4}, templates={"plain": {"volumes": volumes}}
    ).find_resource("VirtualMachine")
    disks = node["storageProfile"]["dataDisks"]
    assert [(disk["lun"], disk["diskSizeGB"], disk["createOption"]) for disk in disks] == [
        (0, 500, "Empty"),
        (1, 100, "Empty"),
    ]
    assert {disk["deleteOption"] for disk in [*disks, node["storageProfile"]["osDisk"]]} == {"Delete"}


def test_card_outlives_its_machine_because_the_replacement_uses_it(evaluate):
    node = evaluate({"cloud": "azure", "machine": T4}).find_resource("VirtualMachine")
    assert node["networkProfile"]["networkInterfaces"][0]["deleteOption"] == "Detach"


def test_reservations_are_one_per_zone_with_the_nodes_of_that_zone(evaluate):
    pool = {
        "cloud": "azure",
        "machine": T4,
        "zones": ["1", "3"],
        "count": 3,
        "purchase": {"kind": "reserved"},
    }
    evaluated = evaluate(pool)
    reservations = evaluated.list_resources("CapacityReservation")
    assert [(row["zones"], row["sku"]["capacity"]) for row in reservations] == [(["1"], 2), (["3"], 1)]
    assert [node["zones"] for node in evaluated.list_resources("VirtualMachine")] == [["1"], ["3"], ["1"]]


def test_reservation_of_another_size_is_another_resource(evaluate):
    """Azure changes no size of a reservation and deletes none in use: the new one must come first."""
    names = {
        machine: evaluate(
            {"cloud": "azure", "machine": machine, "purchase": {"kind": "reserved"}}
        ).find_resource("CapacityReservation")["capacityReservationName"]
        for machine in (T4, "Standard_NC8as_T4_v3")
    }
    assert len(set(names.values())) == 2


def test_ladder_of_reservation_and_on_demand_overallocates_the_group(evaluate):
    ladder = [{"kind": "reserved", "reservation": GROUP}, {"kind": "on_demand"}]
    evaluated = evaluate({"cloud": "azure", "machine": T4, "count": 3, "purchase": {"ladder": ladder}})
    scale_set = evaluated.find_resource("VirtualMachineScaleSet")
    assert (
        scale_set["virtualMachineProfile"]["capacityReservation"]["capacityReservationGroup"]["id"] == GROUP
    )
    assert scale_set["sku"]["capacity"] == 3
    assert not evaluated.list_resources("CapacityReservation")


@pytest.mark.parametrize(("cap", "max_price"), [(None, -1), (0.25, 0.25)])
def test_spot_without_a_cap_is_never_evicted_for_its_price(evaluate, cap, max_price):
    purchase = {"kind": "spot", **({"max_usd_per_hour": cap} if cap else {})}
    node = evaluate({"cloud": "azure", "machine": T4, "purchase": purchase}).find_resource("VirtualMachine")
    assert (node["priority"], node["evictionPolicy"]) == ("Spot", "Delete")
    assert node["billingProfile"] == {"maxPrice": max_price}


def test_restore_of_evicted_nodes_ends(evaluate):
    purchase = {"kind": "spot", "restore_minutes": 90}
    scale_set = evaluate({"cloud": "azure", "machine": T4, "count": 2, "purchase": purchase}).find_resource(
        "VirtualMachineScaleSet"
    )
    assert scale_set["spotRestorePolicy"] == {"enabled": True, "restoreTimeout": "PT90M"}


def test_evicted_nodes_are_not_restored_unasked(evaluate):
    scale_set = evaluate({**INFINIBAND, "purchase": SPOT | {"max_usd_per_hour": 8.0}}).find_resource(
        "VirtualMachineScaleSet"
    )
    assert "spotRestorePolicy" not in scale_set


@pytest.mark.parametrize(
    ("pool", "kind", "prefix"),
    [
        ({"machine": T4}, "VirtualMachine", ""),
        ({"machine": T4, "count": 2, "group": True}, "VirtualMachineScaleSet", "virtualMachineProfile."),
    ],
    ids=["machine", "scale set"],
)
def test_changed_purchase_replaces_what_azure_cannot_change(record, pool, kind, prefix):
    options = record({"cloud": "azure", **pool})[kind]["options"]
    for key in ("priority", "evictionPolicy", "billingProfile", "capacityReservation"):
        assert f"{prefix}{key}" in options["replace_on_changes"]
    assert "zones" in options["replace_on_changes"]
    assert f"{prefix}osProfile.linuxConfiguration.ssh" in options["ignore_changes"]
    assert f"{prefix}storageProfile.imageReference" in options["ignore_changes"]


@pytest.mark.parametrize(
    ("machine", "sku"),
    [
        (ND, "2204"),
        ("Standard_ND96isr_H200_v5", "2204"),
        ("Standard_ND96isr_MI300X_v5", "2204-rocm"),
        (T4, "22_04-lts-gen2"),
    ],
)
def test_image_has_the_stack_of_the_machine(machine, sku):
    facts = catalog.get_machine_facts(machine, "azure")
    assert images.choose_azure_image("auto", facts.image).sku == sku


@pytest.mark.parametrize("count", [1, {"min": 1, "max": 2}], ids=["machine", "scale set"])
@pytest.mark.parametrize(
    ("machine", "has_trusted_launch"), [(T4, True), (ND, False), ("Standard_ND96isr_H100_v5", False)]
)
def test_trusted_launch_where_size_and_image_take_it(evaluate, machine, has_trusted_launch, count):
    """NDm A100 v4 does not take it; the H100 size does, but nobody says so of its HPC image."""
    evaluated = evaluate({"cloud": "azure", "machine": machine, "count": count})
    (profile,) = [
        *evaluated.list_resources("VirtualMachine"),
        *(row["virtualMachineProfile"] for row in evaluated.list_resources("VirtualMachineScaleSet")),
    ]
    security = profile.get("securityProfile", {})
    assert security.get("securityType") == ("TrustedLaunch" if has_trusted_launch else None)
    if has_trusted_launch:  # the drivers are built on the node, so nobody signed them
        assert security["uefiSettings"] == {"secureBootEnabled": False, "vTpmEnabled": True}


def test_private_nodes_leave_through_nat_and_are_reached_through_bastion(evaluate):
    evaluated = evaluate({"cloud": "azure", "machine": T4}, ssh=PRIVATE)
    bastion = evaluated.find_resource("BastionHost")
    assert bastion["enableTunneling"] is True
    assert bastion["sku"] == {"name": "Standard"}
    subnets = {subnet["subnetName"]: subnet for subnet in evaluated.list_resources("Subnet")}
    assert subnets["nodes"]["natGateway"] == {"id": "azure-eastus-id"}
    assert subnets["AzureBastionSubnet"]["addressPrefix"].endswith("/26")
    [configuration] = evaluated.find_resource("NetworkInterface")["ipConfigurations"]
    assert "publicIPAddress" not in configuration
    [node] = evaluated.nodes
    assert (node["public_address"], node["address"], node["access"]) == (None, "10.66.0.7", "bastion")
    assert (node["bastion"], node["resource_id"]) == ("azure-eastus-id", "train-1-id")


def test_private_scale_set_has_no_public_addresses(evaluate):
    pool = {"cloud": "azure", "machine": T4, "count": 2, "group": True}
    public, private = (
        list(
            find_keys(
                evaluate(pool, **sections).find_resource("VirtualMachineScaleSet"),
                "publicIPAddressConfiguration",
            )
        )
        for sections in ({}, {"ssh": PRIVATE})
    )
    assert len(public) == 1
    assert private == []


def test_public_access_builds_neither_bastion_nor_nat(evaluate):
    assert not evaluate({"cloud": "azure", "machine": T4}).kinds & {"BastionHost", "NatGateway"}


@pytest.mark.parametrize("pool", [{}, {"count": {"min": 1, "max": 3}}, {"purchase": {"kind": "reserved"}}])
def test_everything_that_takes_tags_has_owner_and_expiry(evaluate, pool):
    evaluated = evaluate({"cloud": "azure", "machine": T4, **pool}, ssh=PRIVATE, expires="2026-12-31")
    built = [r for r in evaluated.recorder.resources if r.typ.startswith("azure-native:")]
    tagged = [r for r in built if not r.typ.endswith(":Subnet")]  # part of the network, has no tags
    assert len(tagged) > 7
    for resource in tagged:
        assert resource.inputs["tags"]["gpufleet-owner"] == "research", resource.typ
        assert resource.inputs["tags"]["gpufleet-expires"] == "2026-12-31", resource.typ


def test_azure_machines_have_no_identity(evaluate):
    """A node has no right on the cloud: nothing that it runs could use one."""
    node = evaluate({"cloud": "azure", "machine": T4}).find_resource("VirtualMachine")
    assert "identity" not in node
