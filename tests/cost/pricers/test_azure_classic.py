"""The classic ``azure:`` package bills like the same resources of azure-native."""

from __future__ import annotations

from decimal import Decimal

import pytest

from azure_bill import make, monthly_usd
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook, price_resources
from gpufleet.cost.inputs.usage import load_usage_file
from gpufleet.cost.pricing.pricers.azure import PRICERS
from gpufleet.engine import UnreadableValue

EAST = {"location": "eastus"}
NODES = "Standard_D2s_v3"
MACHINES = ("azure:compute/", "azure:containerservice/kubernetes", "azure:lb/", "azure:network/")


def price_of_each(cloud, region, item, purchase):
    """Return a price of its own for each item; machines of Windows have one too."""
    return Price(sum(map(ord, item)) / 1000, "unit", None, "test", "low", region, purchase)


def bill_of(type_, inputs, *others):
    bill = price_resources([make(type_, inputs), *others], PriceBook(price_of_each, price_of_each))
    charges = [each for each in bill.charges if each.urn.endswith("::it")]
    return [
        (each.component, each.item, each.purchase, each.region, each.quantity, each.usd_per_hour.expected)
        for each in charges
    ], [each.reason for each in bill.unpriced_resources]


def native_machine(**storage):
    return {
        **EAST,
        "hardwareProfile": {"vmSize": "Standard_D4s_v3"},
        "storageProfile": {
            "osDisk": {"diskSizeGB": 128, "managedDisk": {"storageAccountType": "Premium_LRS"}},
            **storage,
        },
    }


OS_DISK = {"diskSizeGb": 128, "storageAccountType": "Premium_LRS", "caching": "ReadWrite"}
PAIRS = [
    (
        "azure:compute/linuxVirtualMachine:LinuxVirtualMachine",
        {**EAST, "size": "Standard_D4s_v3", "osDisk": OS_DISK},
        "azure-native:compute:VirtualMachine",
        native_machine(),
    ),
    (
        "azure:compute/linuxVirtualMachine:LinuxVirtualMachine",
        {**EAST, "size": "Standard_D4s_v3", "osDisk": OS_DISK, "priority": "Spot", "maxBidPrice": 0.01},
        "azure-native:compute:VirtualMachine",
        {**native_machine(), "priority": "Spot", "billingProfile": {"maxPrice": 0.01}},
    ),
    (
        "azure:compute/windowsVirtualMachine:WindowsVirtualMachine",
        {**EAST, "size": "Standard_D4s_v3", "osDisk": OS_DISK},
        "azure-native:compute:VirtualMachine",
        {**native_machine(), "osProfile": {"windowsConfiguration": {}}},
    ),
    (
        "azure:compute/virtualMachine:VirtualMachine",
        {
            **EAST,
            "vmSize": "Standard_D4s_v3",
            "storageOsDisk": {"diskSizeGb": 128, "managedDiskType": "Premium_LRS"},
            "storageDataDisks": [{"diskSizeGb": 512, "managedDiskType": "Standard_LRS"}],
            "storageImageReference": {"publisher": "MicrosoftWindowsServer", "offer": "WindowsServer"},
        },
        "azure-native:compute:VirtualMachine",
        native_machine(
            dataDisks=[{"diskSizeGB": 512, "managedDisk": {"storageAccountType": "Standard_LRS"}}],
            imageReference={"publisher": "MicrosoftWindowsServer", "offer": "WindowsServer"},
        ),
    ),
    (
        "azure:compute/linuxVirtualMachineScaleSet:LinuxVirtualMachineScaleSet",
        {
            **EAST,
            "sku": "Standard_D4s_v3",
            "instances": 3,
            "osDisk": OS_DISK,
            "networkInterfaces": [{"ipConfigurations": [{"publicIpAddresses": [{"name": "a"}]}]}],
        },
        "azure-native:compute:VirtualMachineScaleSet",
        {
            **EAST,
            "sku": {"name": "Standard_D4s_v3", "capacity": 3},
            "virtualMachineProfile": {
                "storageProfile": native_machine()["storageProfile"],
                "networkProfile": {
                    "networkInterfaceConfigurations": [
                        {"ipConfigurations": [{"publicIPAddressConfiguration": {"name": "a"}}]}
                    ]
                },
            },
        },
    ),
    (
        "azure:compute/windowsVirtualMachineScaleSet:WindowsVirtualMachineScaleSet",
        {**EAST, "sku": "Standard_D4s_v3", "instances": 2, "osDisk": OS_DISK},
        "azure-native:compute:VirtualMachineScaleSet",
        {
            **EAST,
            "sku": {"name": "Standard_D4s_v3", "capacity": 2},
            "virtualMachineProfile": {
                "storageProfile": native_machine()["storageProfile"],
                "osProfile": {"windowsConfiguration": {}},
            },
        },
    ),
    (
        "azure:compute/orchestratedVirtualMachineScaleSet:OrchestratedVirtualMachineScaleSet",
        {**EAST, "skuName": "Standard_D4s_v3", "instances": 2, "osDisk": OS_DISK},
        "azure-native:compute:VirtualMachineScaleSet",
        {
            **EAST,
            "sku": {"name": "Standard_D4s_v3", "capacity": 2},
            "virtualMachineProfile": {"storageProfile": native_machine()["storageProfile"]},
        },
    ),
    (
        "azure:compute/managedDisk:ManagedDisk",
        {**EAST, "diskSizeGb": 200, "storageAccountType": "StandardSSD_LRS"},
        "azure-native:compute:Disk",
        {**EAST, "diskSizeGB": 200, "sku": {"name": "StandardSSD_LRS"}},
    ),
    (
        "azure:compute/capacityReservation:CapacityReservation",
        {**EAST, "sku": {"name": "Standard_D4s_v3", "capacity": 2}},
        "azure-native:compute:CapacityReservation",
        {**EAST, "sku": {"name": "Standard_D4s_v3", "capacity": 2}},
    ),
    (
        "azure:compute/bastionHost:BastionHost",
        {**EAST, "sku": "Standard"},
        "azure-native:network:BastionHost",
        {**EAST, "sku": {"name": "Standard"}},
    ),
    (
        "azure:compute/bastionHost:BastionHost",
        EAST,
        "azure-native:network:BastionHost",
        {**EAST, "sku": {"name": "basic"}},
    ),
    (
        "azure:network/natGateway:NatGateway",
        EAST,
        "azure-native:network:NatGateway",
        EAST,
    ),
    (
        "azure:network/publicIp:PublicIp",
        {**EAST, "allocationMethod": "Static"},
        "azure-native:network:PublicIPAddress",
        {**EAST, "sku": {"name": "Standard"}},
    ),
    (
        "azure:network/publicIp:PublicIp",
        {**EAST, "allocationMethod": "Static", "ipVersion": "IPv6"},
        "azure-native:network:PublicIPAddress",
        {**EAST, "publicIPAddressVersion": "IPv6"},
    ),
    (
        "azure:lb/loadBalancer:LoadBalancer",
        {**EAST, "sku": "Standard", "outboundRules": [{}]},
        "azure-native:network:LoadBalancer",
        {**EAST, "sku": {"name": "Standard"}, "outboundRules": [{}]},
    ),
    (
        "azure:containerservice/kubernetesCluster:KubernetesCluster",
        {
            **EAST,
            "skuTier": "Standard",
            "defaultNodePool": {
                "name": "system",
                "vmSize": NODES,
                "nodeCount": 3,
                "autoScalingEnabled": True,
                "minCount": 1,
                "maxCount": 5,
                "osDiskSizeGb": 64,
                "nodePublicIpEnabled": True,
            },
        },
        "azure-native:containerservice:ManagedCluster",
        {
            **EAST,
            "sku": {"name": "Base", "tier": "Standard"},
            "agentPoolProfiles": [
                {
                    "name": "system",
                    "vmSize": NODES,
                    "count": 3,
                    "enableAutoScaling": True,
                    "minCount": 1,
                    "maxCount": 5,
                    "osDiskSizeGB": 64,
                    "enableNodePublicIP": True,
                }
            ],
        },
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_classic_resource_bills_like_the_native_one(pair):
    classic_type, classic, native_type, native = pair
    assert bill_of(classic_type, classic) == bill_of(native_type, native)
    assert bill_of(classic_type, classic)[0] or "IPv6" in classic.values()


def test_node_pool_is_in_the_region_of_its_cluster():
    cluster = make(
        "azure:containerservice/kubernetesCluster:KubernetesCluster", {**EAST, "name": "aks"}, "aks"
    )
    pool = {
        "kubernetesClusterId": "aks",
        "vmSize": NODES,
        "nodeCount": 2,
        "priority": "Spot",
        "osDiskType": "Ephemeral",
    }
    ((_, item, purchase, region, quantity, _),), reasons = bill_of(
        "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool", pool, cluster
    )
    assert (item, purchase, region, quantity.expected, reasons) == (NODES, "spot", "eastus", 2, [])


def test_autoscale_setting_bounds_a_classic_scale_set():
    type_ = "azure:compute/linuxVirtualMachineScaleSet:LinuxVirtualMachineScaleSet"
    capacity = {"capacity": {"minimum": 2, "default": 3, "maximum": 9}}
    setting = make(
        "azure:monitoring/autoscaleSetting:AutoscaleSetting",
        {**EAST, "targetResourceId": "set", "profiles": [capacity]},
        "auto",
    )
    charges, _ = bill_of(
        type_, {**EAST, "name": "set", "sku": NODES, "instances": 3, "osDisk": OS_DISK}, setting
    )
    assert (charges[-1][4].low, charges[-1][4].expected, charges[-1][4].high) == (2, 3, 9)


def test_orchestrated_set_without_a_size_groups_machines_that_bill_themselves():
    type_ = "azure:compute/orchestratedVirtualMachineScaleSet:OrchestratedVirtualMachineScaleSet"
    assert bill_of(type_, {**EAST, "platformFaultDomainCount": 1}) == ([], [])


def test_classic_location_comes_from_the_resource_group():
    group = make("azure:core/resourceGroup:ResourceGroup", {"location": "West Europe", "name": "rg"}, "rg")
    charges, _ = bill_of("azure:network/natGateway:NatGateway", {"resourceGroupName": "rg"}, group)
    assert charges[0][3] == "westeurope"


@pytest.mark.parametrize("type_", sorted(each for each in PRICERS if each.startswith(MACHINES)))
@pytest.mark.parametrize("value", [UnreadableValue.UNKNOWN, UnreadableValue.SECRET, [], "x", 7, {"a": []}])
def test_hostile_inputs_do_not_raise(type_, value):
    names = (
        "sku",
        "size",
        "osDisk",
        "defaultNodePool",
        "networkInterfaces",
        "instances",
        "dataDisks",
        "vmSize",
    )
    for name in names:
        bill_of(type_, {**EAST, name: value})


@pytest.mark.parametrize("is_classic", [True, False])
def test_load_balancer_bills_each_rule_beyond_five(is_classic):
    """0.025 USD an hour for the balancer and 0.01 for each of two rules more."""
    rules = [make("azure:lb/rule:Rule", {"loadbalancerId": "lb"}, f"rule{i}") for i in range(7)]
    classic = ("azure:lb/loadBalancer:LoadBalancer", {**EAST, "name": "lb", "sku": "Standard"})
    native = (
        "azure-native:network:LoadBalancer",
        {**EAST, "sku": {"name": "Standard"}, "loadBalancingRules": [{}] * 7},
    )
    total, reasons = monthly_usd(*(classic if is_classic else native), others=rules if is_classic else ())
    assert (total, reasons) == (round(Decimal("0.045") * 730, 2), [])


@pytest.mark.parametrize(
    ("machine", "gib", "item"),
    [
        ("Standard_D4s_v3", None, "premium-ssd-p10"),
        ("Standard_D8s_v3", 0, "premium-ssd-p15"),
        ("Standard_E64ds_v5", None, "premium-ssd-p30"),
        ("Standard_NC24ads_A100_v4", 100, "premium-ssd-p10"),
    ],
)
def test_managed_disk_of_a_node_is_premium_of_the_default_size(machine, gib, item):
    pool = {"name": "p", "vmSize": machine, "nodeCount": 3, "osDiskType": "Managed", "osDiskSizeGb": gib}
    type_ = "azure:containerservice/kubernetesCluster:KubernetesCluster"
    charges, reasons = bill_of(type_, {**EAST, "defaultNodePool": pool})
    assert [(charge[1], charge[4].expected) for charge in charges if "disk" in charge[0]] == [(item, 3)]
    assert reasons == []


def test_disk_that_aks_chooses_is_listed_only_where_its_type_is_not_known():
    pool = {"name": "p", "vmSize": "Standard_D4s_v3", "nodeCount": 3}
    type_ = "azure:containerservice/kubernetesCluster:KubernetesCluster"
    assert bill_of(type_, {**EAST, "defaultNodePool": pool})[1] == []
    pool["vmSize"] = "Standard_D4_v3"  # takes no Premium disks
    assert bill_of(type_, {**EAST, "defaultNodePool": pool})[1] == ["AKS chooses the disk of each node"]


def test_data_of_a_balancer_and_a_gateway_bill_with_the_usage_file(tmp_path):
    path = tmp_path / "usage.yaml"
    path.write_text("resources: {it: {monthly_data_processed_gb: 1000}}\n")
    usage = load_usage_file(path)
    balancer = {**EAST, "sku": {"name": "Standard"}, "loadBalancingRules": [{}]}
    total, _ = monthly_usd("azure-native:network:LoadBalancer", balancer, usage=usage)
    assert total == round(Decimal("0.025") * 730 + 5, 2), "data of a balancer is not data of a NAT gateway"
    total, _ = monthly_usd("azure:network/natGateway:NatGateway", {"location": "westeurope"}, usage=usage)
    assert total == round(Decimal("0.045") * 730 + 45, 2)


def test_balancer_of_a_government_region_has_its_own_price():
    balancer = {"location": "usgovvirginia", "sku": {"name": "Standard"}, "outboundRules": [{}]}
    total, _ = monthly_usd("azure-native:network:LoadBalancer", balancer)
    assert total == round(Decimal("0.0313") * 730, 2)
