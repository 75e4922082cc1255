"""The resources of a remote component, by its inputs: its provider is a program that an evaluation does not run.

Only what bills is here, and only of components whose defaults are documented: @pulumi/awsx 3.9 and @pulumi/eks 4.3 (the
declarations of their inputs, read 2026-11-29). A component that is not here is listed as without a price. One that has
children in the graph, as a preview lists them, is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpufleet.engine import StateResource

# awsx.ec2.Vpc: three zones; a gateway in each if there are public and private subnets, as there are by default.
ZONES, SUBNET_TYPES = 3, ("Public", "Private")
# eks.Cluster and eks.NodeGroup(V2): the nodes without instanceType, desiredCapacity, minSize, maxSize and volume.
NODE_DEFAULTS: Mapping[str, Any] = {
    "instanceType": "t3.medium",
    "desiredCapacity": 2,
    "minSize": 1,
    "maxSize": 2,
    "nodeRootVolumeSize": 20,
    "nodeRootVolumeType": "gp2",
}

Child = tuple[str, str, Mapping[str, Any]]
"""A child's type, name and inputs."""


def expand_remote_components(resources: Iterable[StateResource]) -> tuple[StateResource, ...]:
    """Return resources with the children of the remote components that are known here, each after its component."""
    resources = tuple(resources)
    parents = {resource.parent for resource in resources}
    expanded: list[StateResource] = []
    for resource in resources:
        list_children = COMPONENTS.get(resource.type) if resource.remote else None
        if list_children is None or resource.urn in parents:
            expanded.append(resource)
            continue
        expanded.append(replace(resource, remote=False, custom=False))
        expanded += [_make_child(resource, *child) for child in list_children(resource.name, resource.inputs)]
    return tuple(expanded)


def _make_child(component: StateResource, type_: str, name: str, inputs: Mapping[str, Any]) -> StateResource:
    place, _, _ = component.urn.rpartition("::")
    given = {key: value for key, value in inputs.items() if value is not None}
    return replace(
        component,
        urn=f"{place}${type_}::{name}",
        type=type_,
        name=name,
        inputs=given,
        outputs={},
        parent=component.urn,
        provider=None,
        custom=True,
        remote=False,
        aliases=(),
    )


def _list_vpc_children(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:
    zones = inputs.get("availabilityZoneNames")
    zone_count = len(zones) if isinstance(zones, list) else inputs.get("numberOfAvailabilityZones", ZONES)
    specifications = inputs.get("subnetSpecs")
    types = (
        {each.get("type") for each in specifications if isinstance(each, dict)}
        if isinstance(specifications, list)
        else set(SUBNET_TYPES)
    )
    gateways = inputs.get("natGateways")
    settings = gateways if isinstance(gateways, dict) else {}
    default = "OnePerAz" if types.issuperset(SUBNET_TYPES) else "None"
    strategy = settings.get("strategy", default)
    count = {"None": 0, "Single": 1}.get(
        str(strategy), zone_count if isinstance(zone_count, int | float) else ZONES
    )
    addresses = settings.get("elasticIpAllocationIds")
    for index in range(1, int(count) + 1):
        if not addresses:  # the others are declared where they are made
            yield "aws:ec2/eip:Eip", f"{name}-{index}", {"domain": "vpc"}
        yield "aws:ec2/natGateway:NatGateway", f"{name}-{index}", {"connectivityType": "public"}
    for endpoint in inputs.get("vpcEndpointSpecs") or ():
        if isinstance(endpoint, dict):
            service = str(endpoint.get("serviceName", ""))
            yield "aws:ec2/vpcEndpoint:VpcEndpoint", f"{name}-{service}", endpoint


def _list_cluster_children(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:
    cluster = {key: inputs.get(key) for key in ("version", "upgradePolicy", "enabledClusterLogTypes")}
    mode = inputs.get("autoMode")
    is_automatic = isinstance(mode, dict) and mode.get("enabled") is not False
    if is_automatic:
        cluster["computeConfig"] = {"enabled": True}
    yield "aws:eks/cluster:Cluster", name, cluster
    if not (inputs.get("skipDefaultNodeGroup") or inputs.get("fargate") or is_automatic):
        options = inputs.get("nodeGroupOptions")
        subnets = next((inputs[key] for key in ("privateSubnetIds", "subnetIds") if inputs.get(key)), None)
        own = options if isinstance(options, dict) else {}
        yield from _list_node_children(name, {"nodeSubnetIds": subnets, **inputs, **own})


def _list_node_children(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:
    """Yield an Auto Scaling group and its launch template, which bill like the group of any version."""
    nodes = {**NODE_DEFAULTS, **{key: value for key, value in inputs.items() if value is not None}}
    public = nodes.get("nodeAssociatePublicIpAddress")
    yield (
        "aws:ec2/launchTemplate:LaunchTemplate",
        f"{name}-nodes",
        {
            "name": f"{name}-nodes",
            "instanceType": nodes["instanceType"],
            "imageId": nodes.get("amiId"),
            "instanceMarketOptions": {"marketType": "spot"} if nodes.get("spotPrice") else None,
            "networkInterfaces": None
            if public is None
            else [{"associatePublicIpAddress": str(public).lower()}],
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "ebs": {
                        "volumeSize": nodes["nodeRootVolumeSize"],
                        "volumeType": nodes["nodeRootVolumeType"],
                        "iops": nodes.get("nodeRootVolumeIops"),
                        "throughput": nodes.get("nodeRootVolumeThroughput"),
                    },
                }
            ],
        },
    )
    yield (
        "aws:autoscaling/group:Group",
        f"{name}-nodes",
        {
            "desiredCapacity": nodes["desiredCapacity"],
            "minSize": nodes["minSize"],
            "maxSize": nodes["maxSize"],
            "vpcZoneIdentifiers": nodes.get("nodeSubnetIds"),
            "launchTemplate": {"name": f"{name}-nodes", "version": "$Latest"},
        },
    )


def _list_managed_node_children(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:
    yield "aws:eks/nodeGroup:NodeGroup", name, inputs


def _list_fargate_children(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:
    task = inputs.get("taskDefinitionArgs")
    family = {"taskDefinition": inputs.get("taskDefinition")}
    if isinstance(task, dict):
        family = {"taskDefinition": name}
        yield "aws:ecs/taskDefinition:TaskDefinition", name, _describe_task(name, task)
    yield "aws:ecs/service:Service", name, {"launchType": "FARGATE", **inputs, **family}


def _describe_task(name: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's size: its own, or the sum of its containers', as awsx chooses the smallest that Fargate sells."""
    single = task.get("container")
    several = task.get("containers")
    containers = (
        [*([single] if isinstance(single, dict) else []), *(several or {}).values()]
        if (several is None or isinstance(several, dict))
        else []
    )
    cpu = sum(each.get("cpu") or 0 for each in containers if isinstance(each, dict))
    memory = sum(
        each.get("memory") or each.get("memoryReservation") or 0
        for each in containers
        if isinstance(each, dict)
    )
    chosen_cpu, chosen_memory = choose_fargate_size(cpu, memory)
    return {
        "family": name,
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": task.get("cpu") or str(chosen_cpu),
        "memory": task.get("memory") or str(chosen_memory),
        "runtimePlatform": task.get("runtimePlatform"),
        "ephemeralStorage": task.get("ephemeralStorage"),
    }


# AWS's sizes of a task (ECS developer guide, "Task CPU and memory", read in 2026): CPU units, then MiB from, to, step.
FARGATE_SIZES = (
    (256, 512, 2048, 512),
    (512, 1024, 4096, 1024),
    (1024, 2048, 8192, 1024),
    (2048, 4096, 16384, 1024),
    (4096, 8192, 30720, 1024),
    (8192, 16384, 61440, 4096),
    (16384, 32768, 122880, 8192),
)


def choose_fargate_size(cpu: float, memory: float) -> tuple[int, int]:
    """Return the smallest size of a task, in CPU units and MiB, that holds containers of these sums."""
    for units, least, most, step in FARGATE_SIZES:
        if cpu <= units and memory <= most:
            extra = max(0, -(-int(memory - least) // step)) * step
            return units, least + extra
    return FARGATE_SIZES[-1][0], FARGATE_SIZES[-1][2]


def _list_application_balancer_children(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:
    yield "aws:lb/loadBalancer:LoadBalancer", name, {"loadBalancerType": "application", **inputs}


def _list_network_balancer_children(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:
    yield "aws:lb/loadBalancer:LoadBalancer", name, {**inputs, "loadBalancerType": "network"}


def _list_repository_children(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:
    yield "aws:ecr/repository:Repository", name, inputs


def _list_nothing(name: str, inputs: Mapping[str, Any]) -> Iterator[Child]:  # noqa: ARG001 - one signature
    """Yield nothing: the component builds or finds something, and what it pushes to bills elsewhere."""
    return iter(())


COMPONENTS: Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[Child]]] = {
    "awsx:ec2:Vpc": _list_vpc_children,
    "awsx:ec2:DefaultVpc": _list_nothing,
    "awsx:ecr:Image": _list_nothing,
    "awsx:ecr:RegistryImage": _list_nothing,
    "awsx:ecr:Repository": _list_repository_children,
    "awsx:ecs:FargateService": _list_fargate_children,
    "awsx:lb:ApplicationLoadBalancer": _list_application_balancer_children,
    "awsx:lb:NetworkLoadBalancer": _list_network_balancer_children,
    "awsx:lb:TargetGroupAttachment": _list_nothing,
    "eks:index:Addon": _list_nothing,
    "eks:index:Cluster": _list_cluster_children,
    "eks:index:ManagedNodeGroup": _list_managed_node_children,
    "eks:index:NodeGroup": _list_node_children,
    "eks:index:NodeGroupV2": _list_node_children,
    "eks:index:NodeGroupSecurityGroup": _list_nothing,
    "eks:index:VpcCniAddon": _list_nothing,
}
