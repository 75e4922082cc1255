"""Pricers: the cost components of each type of resource, before prices. ``PRICERS`` is the registry.

A pricer takes a resource and the graph of its program. It returns cost components (how many of which item,
where, on which terms) and unpriced components (with the reason). It knows no prices. A type that is neither
here nor among the free ones of ``data/free_types.csv`` is listed as unpriced. Other distributions add pricers
by the entry-point group ``gpufleet.pricers``.
"""

from __future__ import annotations

from gpufleet.cost.pricing.pricers import (
    kubernetes,
    onprem,
)
from gpufleet.cost.pricing.pricers.aws import address as aws_address
from gpufleet.cost.pricing.pricers.aws import dedicated_host as aws_dedicated_host
from gpufleet.cost.pricing.pricers.aws import fleet as aws_fleet
from gpufleet.cost.pricing.pricers.aws import group as aws_group
from gpufleet.cost.pricing.pricers.aws import instance as aws_instance
from gpufleet.cost.pricing.pricers.aws import kubernetes as aws_kubernetes
from gpufleet.cost.pricing.pricers.aws import network as aws_network
from gpufleet.cost.pricing.pricers.aws import reservation as aws_reservation
from gpufleet.cost.pricing.pricers.aws import volume as aws_volume
from gpufleet.cost.pricing.pricers.azure import disk as azure_disk
from gpufleet.cost.pricing.pricers.azure import fleet as azure_fleet
from gpufleet.cost.pricing.pricers.azure import kubernetes as azure_kubernetes
from gpufleet.cost.pricing.pricers.azure import machine as azure_machine
from gpufleet.cost.pricing.pricers.azure import network as azure_network
from gpufleet.cost.pricing.pricers.azure import reservation as azure_reservation
from gpufleet.cost.pricing.pricers.azure import scale_set as azure_scale_set
from gpufleet.cost.pricing.pricers.extensions import Pricer, load_extension_pricers
from gpufleet.cost.pricing.pricers.gcp import disk as gcp_disk
from gpufleet.cost.pricing.pricers.gcp import group as gcp_group
from gpufleet.cost.pricing.pricers.gcp import instance as gcp_instance
from gpufleet.cost.pricing.pricers.gcp import kubernetes as gcp_kubernetes
from gpufleet.cost.pricing.pricers.gcp import network as gcp_network
from gpufleet.cost.pricing.pricers.gcp import reservation as gcp_reservation
from gpufleet.cost.pricing.pricers.gcp import resize_request as gcp_resize_request

PRICERS: dict[str, Pricer] = {
    "aws:ec2/instance:Instance": aws_instance.price_ec2_instance,
    "aws:ec2/spotInstanceRequest:SpotInstanceRequest": aws_instance.price_ec2_instance,
    "aws:autoscaling/group:Group": aws_group.price_auto_scaling_group,
    "aws:ec2/capacityReservation:CapacityReservation": aws_reservation.price_capacity_reservation,
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": aws_reservation.price_capacity_block,
    "aws:ec2/dedicatedHost:DedicatedHost": aws_dedicated_host.price_dedicated_host,
    "aws:ec2/fleet:Fleet": aws_fleet.price_ec2_fleet,
    "aws:ec2/spotFleetRequest:SpotFleetRequest": aws_fleet.price_spot_fleet,
    "aws:ec2/natGateway:NatGateway": aws_network.price_nat_gateway,
    "aws:ec2/vpcEndpoint:VpcEndpoint": aws_network.price_vpc_endpoint,
    "aws:lb/loadBalancer:LoadBalancer": aws_network.price_load_balancer,
    "aws:alb/loadBalancer:LoadBalancer": aws_network.price_load_balancer,
    "aws:elb/loadBalancer:LoadBalancer": aws_network.price_classic_load_balancer,
    "aws:eks/cluster:Cluster": aws_kubernetes.price_eks_cluster,
    "aws:eks/nodeGroup:NodeGroup": aws_kubernetes.price_eks_node_group,
    "aws:eks/fargateProfile:FargateProfile": aws_kubernetes.price_fargate_profile,
    "aws:ebs/volume:Volume": aws_volume.price_ebs_volume,
    "aws:ec2/eip:Eip": aws_address.price_elastic_ip,
    "gcp:compute/instance:Instance": gcp_instance.price_compute_instance,
    "gcp:compute/instanceGroupManager:InstanceGroupManager": gcp_group.price_instance_group,
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": gcp_group.price_instance_group,
    "gcp:compute/instanceFromTemplate:InstanceFromTemplate": gcp_instance.price_instance_from_template,
    "gcp:compute/resizeRequest:ResizeRequest": gcp_resize_request.price_resize_request,
    "gcp:compute/regionResizeRequest:RegionResizeRequest": gcp_resize_request.price_resize_request,
    "gcp:compute/routerNat:RouterNat": gcp_network.price_cloud_nat,
    "gcp:compute/forwardingRule:ForwardingRule": gcp_network.price_forwarding_rule,
    "gcp:compute/globalForwardingRule:GlobalForwardingRule": gcp_network.price_forwarding_rule,
    "gcp:compute/globalAddress:GlobalAddress": gcp_network.price_global_address,
    "gcp:container/cluster:Cluster": gcp_kubernetes.price_gke_cluster,
    "gcp:container/nodePool:NodePool": gcp_kubernetes.price_gke_node_pool,
    "gcp:compute/reservation:Reservation": gcp_reservation.price_reservation,
    "gcp:compute/disk:Disk": gcp_disk.price_persistent_disk,
    "gcp:compute/regionDisk:RegionDisk": gcp_disk.price_regional_persistent_disk,
    "gcp:compute/address:Address": gcp_network.price_static_address,
    "azure-native:compute:VirtualMachine": azure_machine.price_virtual_machine,
    "azure-native:compute:VirtualMachineScaleSet": azure_scale_set.price_scale_set,
    "azure-native:azurefleet:Fleet": azure_fleet.price_compute_fleet,
    "azure-native:containerservice:ManagedCluster": azure_kubernetes.price_aks_cluster,
    "azure-native:containerservice:AgentPool": azure_kubernetes.price_aks_agent_pool,
    "azure-native:network:NatGateway": azure_network.price_nat_gateway,
    "azure-native:network:BastionHost": azure_network.price_bastion,
    "azure-native:network:LoadBalancer": azure_network.price_load_balancer,
    "azure-native:compute:CapacityReservation": azure_reservation.price_capacity_reservation,
    "azure-native:compute:Disk": azure_disk.price_managed_disk,
    "azure-native:network:PublicIPAddress": azure_network.price_public_ip,
    "kubernetes:core/v1:Service": kubernetes.price_kubernetes_service,
    "kubernetes:core/v1:PersistentVolumeClaim": kubernetes.price_volume_claim,
    "kubernetes:helm.sh/v3:Release": kubernetes.price_helm_release,
    "gpufleet:onprem:Rack": onprem.price_owned_machine,
    "gpufleet:onprem:Workstation": onprem.price_owned_machine,
}


def load_pricers() -> dict[str, Pricer]:
    """Return every pricer by resource type; those of other distributions replace ours."""
    return PRICERS | load_extension_pricers()
