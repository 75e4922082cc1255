"""Enums of the vendors that Pulumi's types leave out, though the API checks them.

Those of AWS come from botocore's service models. The listed ones are text in the API; the sources are the validation
of Terraform's aws provider, and ``Scheduling`` and ``DistributionPolicy`` of Google's Compute API v1.
"""

from __future__ import annotations

from botocore.session import Session

# Property of the SDK -> (service, shape) of botocore. Every value of the shape is what the API takes today.
SHAPES = {
    "ec2.CapacityReservation.endDateType": ("ec2", "EndDateType"),
    "ec2.CapacityReservation.instanceMatchCriteria": ("ec2", "InstanceMatchCriteria"),
    "ec2.CapacityReservation.instancePlatform": ("ec2", "CapacityReservationInstancePlatform"),
    "ec2.CapacityReservation.instanceType": ("ec2", "InstanceType"),
    "ec2.CapacityReservation.tenancy": ("ec2", "CapacityReservationTenancy"),
    "ec2.Eip.domain": ("ec2", "DomainType"),
    "ec2.Fleet.excessCapacityTerminationPolicy": ("ec2", "FleetExcessCapacityTerminationPolicy"),
    "ec2.Fleet.type": ("ec2", "FleetType"),
    "ec2.FleetLaunchTemplateConfigOverride.instanceType": ("ec2", "InstanceType"),
    "ec2.FleetOnDemandOptions.allocationStrategy": ("ec2", "FleetOnDemandAllocationStrategy"),
    "ec2.FleetTargetCapacitySpecification.defaultTargetCapacityType": ("ec2", "DefaultTargetCapacityType"),
    "ec2.Instance.instanceType": ("ec2", "InstanceType"),
    "ec2.InstanceCapacityReservationSpecification.capacityReservationPreference": (
        "ec2",
        "CapacityReservationPreference",
    ),
    "ec2.InstanceEbsBlockDevice.volumeType": ("ec2", "VolumeType"),
    "ec2.InstanceInstanceMarketOptions.marketType": ("ec2", "MarketType"),
    "ec2.InstanceInstanceMarketOptionsSpotOptions.instanceInterruptionBehavior": (
        "ec2",
        "InstanceInterruptionBehavior",
    ),
    "ec2.InstanceInstanceMarketOptionsSpotOptions.spotInstanceType": ("ec2", "SpotInstanceType"),
    "ec2.InstanceMetadataOptions.httpEndpoint": ("ec2", "InstanceMetadataEndpointState"),
    "ec2.InstanceMetadataOptions.httpTokens": ("ec2", "HttpTokensState"),
    "ec2.InstanceMetadataOptions.instanceMetadataTags": ("ec2", "InstanceMetadataTagsState"),
    "ec2.InstanceRootBlockDevice.volumeType": ("ec2", "VolumeType"),
    "ec2.Instance.tenancy": ("ec2", "Tenancy"),
    "ec2.LaunchTemplate.instanceInitiatedShutdownBehavior": ("ec2", "ShutdownBehavior"),
    "ec2.LaunchTemplate.instanceType": ("ec2", "InstanceType"),
    "ec2.LaunchTemplateBlockDeviceMappingEbs.volumeType": ("ec2", "VolumeType"),
    "ec2.LaunchTemplateCapacityReservationSpecification.capacityReservationPreference": (
        "ec2",
        "CapacityReservationPreference",
    ),
    "ec2.LaunchTemplateInstanceMarketOptions.marketType": ("ec2", "MarketType"),
    "ec2.LaunchTemplateInstanceMarketOptionsSpotOptions.instanceInterruptionBehavior": (
        "ec2",
        "InstanceInterruptionBehavior",
    ),
    "ec2.LaunchTemplateInstanceMarketOptionsSpotOptions.spotInstanceType": ("ec2", "SpotInstanceType"),
    "ec2.LaunchTemplateMetadataOptions.httpEndpoint": ("ec2", "InstanceMetadataEndpointState"),
    "ec2.LaunchTemplateMetadataOptions.httpTokens": ("ec2", "HttpTokensState"),
    "ec2.LaunchTemplatePlacement.tenancy": ("ec2", "Tenancy"),
    "ec2.LaunchTemplateTagSpecification.resourceType": ("ec2", "ResourceType"),
    "ec2.NatGateway.connectivityType": ("ec2", "ConnectivityType"),
    "ec2.PlacementGroup.strategy": ("ec2", "PlacementStrategy"),
    "ec2.PlacementGroup.spreadLevel": ("ec2", "SpreadLevel"),
    "ec2.VpcEndpoint.vpcEndpointType": ("ec2", "VpcEndpointType"),
    "ebs.Volume.type": ("ec2", "VolumeType"),
    "cloudwatch.MetricAlarm.comparisonOperator": ("cloudwatch", "ComparisonOperator"),
    "cloudwatch.MetricAlarm.statistic": ("cloudwatch", "Statistic"),
}
_SCHEDULING = {
    "onHostMaintenance": ("MIGRATE", "TERMINATE"),
    "provisioningModel": ("STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND"),
    "instanceTerminationAction": ("DELETE", "STOP"),
}
_SHAPES_OF_GROUPS = ("ANY", "ANY_SINGLE_ZONE", "BALANCED", "EVEN")
GCP_LISTED = {
    **{
        f"compute.{owner}Scheduling.{key}": values
        for owner in ("Instance", "InstanceTemplate", "RegionInstanceTemplate")
        for key, values in _SCHEDULING.items()
    },
    "compute.RegionInstanceGroupManager.distributionPolicyTargetShape": _SHAPES_OF_GROUPS,
}
AWS_LISTED = {
    "ec2.LaunchTemplateNetworkInterface.interfaceType": ("efa", "efa-only", "interface"),
    "ec2.FleetSpotOptions.allocationStrategy": (
        "diversified", "lowestPrice", "capacityOptimized", "capacityOptimizedPrioritized", "priceCapacityOptimized",
    ),
    "autoscaling.GroupMixedInstancesPolicyInstancesDistribution.spotAllocationStrategy": (
        "lowest-price", "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized",
    ),
    "autoscaling.GroupMixedInstancesPolicyInstancesDistribution.onDemandAllocationStrategy": (
        "prioritized", "lowest-price",
    ),
    "autoscaling.GroupCapacityReservationSpecification.capacityReservationPreference": (
        "default", "capacity-reservations-only", "capacity-reservations-first", "none",
    ),
    "autoscaling.Policy.adjustmentType": ("ChangeInCapacity", "ExactCapacity", "PercentChangeInCapacity"),
    "autoscaling.Policy.policyType": ("SimpleScaling", "StepScaling", "TargetTrackingScaling", "PredictiveScaling"),
}  # fmt: skip


def load_vendor_enums(cloud: str) -> dict[str, list[str]]:
    """Return property -> values; those of AWS from botocore's models where they have an enum."""
    if cloud != "aws":
        return {path: list(values) for path, values in GCP_LISTED.items()} if cloud == "gcp" else {}
    session, models = Session(), {}
    for service in {service for service, _ in SHAPES.values()}:
        models[service] = session.get_service_model(service)
    enums = {
        path: list(models[service].shape_for(shape).metadata["enum"])
        for path, (service, shape) in SHAPES.items()
    }
    return {**enums, **{path: list(values) for path, values in AWS_LISTED.items()}}
