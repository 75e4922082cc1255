"""Machines, disks and clusters of the classic ``azure:`` package, translated into the inputs of azure-native."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_input, read_input_list
from gpufleet.cost.pricing.component import Components
from gpufleet.cost.pricing.pricers.azure.disk import price_managed_disk
from gpufleet.cost.pricing.pricers.azure.kubernetes import (
    agent_pool_components,
    parse_aks_agent_pool_inputs,
    price_aks_cluster,
)
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine import price_virtual_machine
from gpufleet.cost.pricing.pricers.azure.network import (
    price_bastion,
    price_classic_load_balancer,
    price_classic_public_ip,
    price_nat_gateway,
)
from gpufleet.cost.pricing.pricers.azure.reservation import price_capacity_reservation
from gpufleet.cost.pricing.pricers.azure.scale_set import price_scale_set
from gpufleet.cost.pricing.pricers.azure.service import (
    translated,
    with_inputs,
)
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.engine import StateResource

CLUSTER = "azure:containerservice/kubernetesCluster:KubernetesCluster"
POOL_NAMES = {
    "nodeCount": "count",
    "minCount": "minCount",
    "maxCount": "maxCount",
    "vmSize": "vmSize",
    "osDiskSizeGb": "osDiskSizeGB",
    "osDiskType": "osDiskType",
    "priority": "scaleSetPriority",
    "spotMaxPrice": "spotMaxPrice",
    "capacityReservationGroupId": "capacityReservationGroupID",
    "name": "name",
}


def price_kubernetes_node_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a node pool of its own, in its cluster's region."""
    cluster = graph.find_referenced_resource(resource, ("kubernetesClusterId",), CLUSTER)
    pool = parse_aks_agent_pool_inputs(_agent_pool(resource.inputs))
    return agent_pool_components(resource, pool, find_region(cluster or resource, graph), graph)


def _agent_pool(pool: Any) -> dict[str, Any]:
    translation = {new: read_input(pool, old) for old, new in POOL_NAMES.items()}
    for old, new in (
        ("autoScalingEnabled", "enableAutoScaling"),
        ("nodePublicIpEnabled", "enableNodePublicIP"),
    ):
        value = read_input(pool, old)
        translation[new] = read_input(pool, new.replace("IP", "Ip")) if value is None else value
    return translation


def _cluster(inputs: Any) -> Any:
    pools = [_agent_pool(pool) for pool in read_input_list(inputs, "defaultNodePool")]
    hidden = read_input(inputs, "defaultNodePool")
    return {
        **inputs,
        "sku": {"tier": read_input(inputs, "skuTier")},
        "networkProfile": _network_profile(read_input(inputs, "networkProfile")),
        "agentPoolProfiles": pools if pools or hidden is None else hidden,
    }


def _network_profile(profile: Any) -> Any:
    """Return a cluster's outbound network."""
    if not isinstance(profile, dict):
        return profile
    balancer, gateway = (read_input(profile, key) for key in ("loadBalancerProfile", "natGatewayProfile"))
    return {
        "outboundType": read_input(profile, "outboundType"),
        "loadBalancerSku": read_input(profile, "loadBalancerSku"),
        "loadBalancerProfile": {
            "managedOutboundIPs": {"count": read_input(balancer, "managedOutboundIpCount")},
            "outboundIPs": read_input(balancer, "outboundIpAddressIds"),
            "outboundIPPrefixes": read_input(balancer, "outboundIpPrefixIds"),
        },
        "natGatewayProfile": {
            "managedOutboundIPProfile": {"count": read_input(gateway, "managedOutboundIpCount")}
        },
    }


def _disk(disk: Any) -> Any:
    """Return a disk of a machine, by the names of the newer and of the older classic resources."""
    if disk is not None and not isinstance(disk, dict):
        return disk
    sku = read_input(disk, "storageAccountType")
    return {
        "diskSizeGB": read_input(disk, "diskSizeGb"),
        "createOption": read_input(disk, "createOption"),
        "diffDiskSettings": read_input(disk, "diffDiskSettings"),
        "managedDisk": {"storageAccountType": read_input(disk, "managedDiskType") if sku is None else sku},
    }


def _machine_profile(inputs: Any, *, is_windows: bool) -> dict[str, Any]:
    """Return the profile of a machine: size, priority, image, disks and public addresses."""
    group = read_input(inputs, "capacityReservationGroupId")
    os_disk = read_input(inputs, "osDisk")
    image = read_input(inputs, "sourceImageReference")
    interfaces = [
        {"ipConfigurations": [_address(each) for each in read_input_list(interface, "ipConfigurations")]}
        for interface in read_input_list(inputs, "networkInterfaces")
    ]
    return {
        "hardwareProfile": {"vmSize": _first(inputs, "size", "vmSize")},
        "priority": read_input(inputs, "priority"),
        "billingProfile": {"maxPrice": read_input(inputs, "maxBidPrice")},
        "licenseType": read_input(inputs, "licenseType"),
        "osProfile": {"windowsConfiguration": {}} if is_windows else {},
        "storageProfile": {
            "osDisk": _disk(_first(inputs, "storageOsDisk") if os_disk is None else os_disk),
            "dataDisks": [
                _disk(disk)
                for key in ("dataDisks", "storageDataDisks")
                for disk in read_input_list(inputs, key)
            ],
            "imageReference": _first(inputs, "storageImageReference") if image is None else image,
        },
        "networkProfile": {"networkInterfaceConfigurations": interfaces},
        "capacityReservation": None if group is None else {"capacityReservationGroup": {"id": group}},
    }


def _address(configuration: Any) -> dict[str, Any]:
    addresses = read_input_list(configuration, "publicIpAddresses")
    return {"publicIPAddressConfiguration": {} if addresses else None}


def _machine(inputs: Any, *, is_windows: bool) -> Any:
    return {**inputs, **_machine_profile(inputs, is_windows=is_windows)}


def _older_machine(inputs: Any) -> Any:
    return _machine(inputs, is_windows=read_input(inputs, "osProfileWindowsConfig") is not None)


def _scale_set(inputs: Any, *, is_windows: bool) -> Any:
    sku = _first(inputs, "sku", "skuName")
    return {
        **inputs,
        "sku": {"name": sku, "capacity": read_input(inputs, "instances")},
        "virtualMachineProfile": _machine_profile(inputs, is_windows=is_windows),
    }


def _orchestrated_scale_set(inputs: Any) -> Any:
    if read_input(inputs, "skuName") is None:
        return {}  # it only groups machines that are declared elsewhere
    is_windows = isinstance(read_input(inputs, "osProfile", "windowsConfiguration"), dict)
    return _scale_set(inputs, is_windows=is_windows)


def _first(inputs: Any, *keys: str) -> Any:
    """Return the first input of these names that is set."""
    return next((value for key in keys if (value := read_input(inputs, key)) is not None), None)


PRICERS: dict[str, Pricer] = {
    "azure:compute/bastionHost:BastionHost": price_bastion,
    "azure:compute/capacityReservation:CapacityReservation": price_capacity_reservation,
    "azure:compute/linuxVirtualMachine:LinuxVirtualMachine": with_inputs(
        price_virtual_machine, lambda inputs: _machine(inputs, is_windows=False)
    ),
    "azure:compute/linuxVirtualMachineScaleSet:LinuxVirtualMachineScaleSet": with_inputs(
        price_scale_set, lambda inputs: _scale_set(inputs, is_windows=False)
    ),
    "azure:compute/managedDisk:ManagedDisk": translated(
        price_managed_disk, {"diskSizeGb": "diskSizeGB", "storageAccountType": "sku.name"}
    ),
    "azure:compute/orchestratedVirtualMachineScaleSet:OrchestratedVirtualMachineScaleSet": with_inputs(
        price_scale_set, _orchestrated_scale_set
    ),
    "azure:compute/virtualMachine:VirtualMachine": with_inputs(price_virtual_machine, _older_machine),
    "azure:compute/windowsVirtualMachine:WindowsVirtualMachine": with_inputs(
        price_virtual_machine, lambda inputs: _machine(inputs, is_windows=True)
    ),
    "azure:compute/windowsVirtualMachineScaleSet:WindowsVirtualMachineScaleSet": with_inputs(
        price_scale_set, lambda inputs: _scale_set(inputs, is_windows=True)
    ),
    "azure:containerservice/kubernetesCluster:KubernetesCluster": with_inputs(price_aks_cluster, _cluster),
    "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool": price_kubernetes_node_pool,
    "azure:lb/loadBalancer:LoadBalancer": price_classic_load_balancer,
    "azure:network/natGateway:NatGateway": price_nat_gateway,
    "azure:network/publicIp:PublicIp": price_classic_public_ip,
}
