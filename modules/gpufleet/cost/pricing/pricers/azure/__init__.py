"""Pricers of Azure resources. ``reader`` says how they are written."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.azure import (
    app_service,
    cache,
    compute_service,
    container,
    cosmos,
    disk,
    fleet,
    flexible_server,
    gateway,
    kubernetes,
    machine,
    network,
    platform,
    reservation,
    scale_set,
    sql,
    storage,
)
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.charge_table import load_charges, make_table_pricers
from gpufleet.cost.pricing.pricers.extensions import Pricer

PRICERS: dict[str, Pricer] = {
    **make_table_pricers(load_charges("azure"), pricer),
    **app_service.PRICERS,
    **cache.PRICERS,
    **compute_service.PRICERS,
    **container.PRICERS,
    **cosmos.PRICERS,
    **flexible_server.PRICERS,
    **gateway.PRICERS,
    **platform.PRICERS,
    **sql.PRICERS,
    **storage.PRICERS,
    "azure-native:azurefleet:Fleet": fleet.price_compute_fleet,
    "azure-native:compute:CapacityReservation": reservation.price_capacity_reservation,
    "azure-native:compute:Disk": disk.price_managed_disk,
    "azure-native:compute:VirtualMachine": machine.price_virtual_machine,
    "azure-native:compute:VirtualMachineScaleSet": scale_set.price_scale_set,
    "azure-native:containerservice:AgentPool": kubernetes.price_aks_agent_pool,
    "azure-native:containerservice:ManagedCluster": kubernetes.price_aks_cluster,
    "azure-native:network:BastionHost": network.price_bastion,
    "azure-native:network:LoadBalancer": network.price_load_balancer,
    "azure-native:network:NatGateway": network.price_nat_gateway,
    "azure-native:network:PublicIPAddress": network.price_public_ip,
    "azure:compute/bastionHost:BastionHost": network.price_classic_bastion,
    "azure:compute/capacityReservation:CapacityReservation": reservation.price_capacity_reservation,
    "azure:compute/linuxVirtualMachine:LinuxVirtualMachine": machine.price_virtual_machine,
    "azure:compute/linuxVirtualMachineScaleSet:LinuxVirtualMachineScaleSet": (
        scale_set.price_classic_scale_set
    ),
    "azure:compute/managedDisk:ManagedDisk": disk.price_managed_disk,
    "azure:compute/orchestratedVirtualMachineScaleSet:OrchestratedVirtualMachineScaleSet": (
        scale_set.price_scale_set
    ),
    "azure:compute/virtualMachine:VirtualMachine": machine.price_virtual_machine,
    "azure:compute/windowsVirtualMachine:WindowsVirtualMachine": machine.price_virtual_machine,
    "azure:compute/windowsVirtualMachineScaleSet:WindowsVirtualMachineScaleSet": (
        scale_set.price_classic_scale_set
    ),
    "azure:containerservice/kubernetesCluster:KubernetesCluster": kubernetes.price_aks_cluster,
    "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool": (
        kubernetes.price_aks_agent_pool
    ),
    "azure:lb/loadBalancer:LoadBalancer": network.price_classic_load_balancer,
    "azure:network/natGateway:NatGateway": network.price_nat_gateway,
    "azure:network/publicIp:PublicIp": network.price_classic_public_ip,
}
