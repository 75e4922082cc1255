"""Pricers of AWS resources. ``reader`` says how they are written."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws import (
    dedicated_host,
    fleet,
    group,
    instance,
    kubernetes,
    network,
    reservation,
    volume,
)
from gpufleet.cost.pricing.pricers.aws.services import SERVICE_PRICERS
from gpufleet.cost.pricing.pricers.extensions import Pricer

PRICERS: dict[str, Pricer] = {
    "aws:ec2/instance:Instance": instance.price_ec2_instance,
    "aws:ec2/spotInstanceRequest:SpotInstanceRequest": instance.price_ec2_instance,
    "aws:autoscaling/group:Group": group.price_auto_scaling_group,
    "aws:ec2/capacityReservation:CapacityReservation": reservation.price_capacity_reservation,
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": reservation.price_capacity_block,
    "aws:ec2/dedicatedHost:DedicatedHost": dedicated_host.price_dedicated_host,
    "aws:ec2/fleet:Fleet": fleet.price_ec2_fleet,
    "aws:ec2/spotFleetRequest:SpotFleetRequest": fleet.price_spot_fleet,
    "aws:ec2/natGateway:NatGateway": network.price_nat_gateway,
    "aws:ec2/vpcEndpoint:VpcEndpoint": network.price_vpc_endpoint,
    "aws:lb/loadBalancer:LoadBalancer": network.price_load_balancer,
    "aws:alb/loadBalancer:LoadBalancer": network.price_load_balancer,
    "aws:elb/loadBalancer:LoadBalancer": network.price_classic_load_balancer,
    "aws:eks/cluster:Cluster": kubernetes.price_eks_cluster,
    "aws:eks/nodeGroup:NodeGroup": kubernetes.price_eks_node_group,
    "aws:eks/fargateProfile:FargateProfile": kubernetes.price_fargate_profile,
    "aws:ebs/volume:Volume": volume.price_ebs_volume,
    **SERVICE_PRICERS,
}
