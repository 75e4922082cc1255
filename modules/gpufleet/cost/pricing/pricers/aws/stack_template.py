"""CloudFormation stacks: the resources of a template are priced through the pricers of the same types.

Templates are JSON or YAML (``templateBody``). ``Ref`` of a parameter is its value or default, ``Ref`` of a resource
refers to it; what other functions compute is not known here. A type that is not in ``TYPES`` has no price.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpufleet.boundary import DocumentLimits, decode_yaml
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.pricing.component import Component, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import UNKNOWN, StateResource
from gpufleet.errors import InputError

LIMITS = DocumentLimits(bytes=1024 * 1024, depth=32, values=50_000)  # CloudFormation's own limit is 1 MB
# The types of templates and ours, with the inputs that have another name.
TYPES: dict[str, tuple[str, dict[str, str]]] = {
    "AWS::AutoScaling::AutoScalingGroup": (
        "aws:autoscaling/group:Group",
        {"vPCZoneIdentifier": "vpcZoneIdentifiers"},
    ),
    "AWS::EC2::EIP": ("aws:ec2/eip:Eip", {}),
    "AWS::EC2::Instance": ("aws:ec2/instance:Instance", {"imageId": "ami"}),
    "AWS::EC2::LaunchTemplate": ("aws:ec2/launchTemplate:LaunchTemplate", {}),
    "AWS::EC2::NatGateway": ("aws:ec2/natGateway:NatGateway", {}),
    "AWS::EC2::Volume": ("aws:ebs/volume:Volume", {"volumeType": "type"}),
    "AWS::EKS::Cluster": ("aws:eks/cluster:Cluster", {}),
    "AWS::EKS::Nodegroup": ("aws:eks/nodeGroup:NodeGroup", {"subnets": "subnetIds"}),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": (
        "aws:lb/loadBalancer:LoadBalancer",
        {"type": "loadBalancerType"},
    ),
    "AWS::Lambda::Function": ("aws:lambda/function:Function", {}),
    "AWS::Logs::LogGroup": ("aws:cloudwatch/logGroup:LogGroup", {}),
    "AWS::S3::Bucket": ("aws:s3/bucket:Bucket", {}),
}
# Parts of types that bill nothing by themselves, as their counterparts in free_types.csv.
FREE = re.compile(
    r"AWS::(IAM|SSM|CloudFormation::WaitCondition\w*|Lambda::Permission|S3::BucketPolicy"
    r"|EC2::(VPC|Subnet|SecurityGroup\w*|Route\w*|InternetGateway|VPCGatewayAttachment|SubnetRouteTableAssociation"
    r"|KeyPair|PlacementGroup))(::\w+)?"
)
_SHORT_REF = re.compile(r"!Ref\s+['\"]?([\w:.]+)['\"]?")
_SHORT_TAG = re.compile(r"(?<=[\s\[,])!(?:Sub|GetAtt|If|FindInMap|Select|Join|Split|Base64|GetAZs|ImportValue|Cidr|"
                        r"Equals|And|Or|Not|Condition|Transform)\b")  # fmt: skip


@pricer("aws:cloudformation/stack:Stack", "aws-native:cloudformation:Stack")
def price_template_stack(stack: Reader) -> Parts:
    """Yield what the resources of a stack's template bill, each component with the resource's name."""
    with stack.of("template") as template:
        body = template.text("templateBody", "its template's text, which a URL may have,")
        document = _decode(template, body)
        resources = document.get("Resources")
        if not isinstance(resources, Mapping) or not resources:
            raise template.refuse("its template has no resources that are readable here")
        yield from _list_resources(stack, document, resources)


def _decode(template: Reader, body: str) -> Mapping[str, Any]:
    text = _SHORT_TAG.sub("", _SHORT_REF.sub(r'{"Ref": "\1"}', body))
    try:
        document = decode_yaml(text, "templateBody", LIMITS)
    except InputError as error:
        raise template.refuse(f"its template is not readable here: {error.problem}") from None
    if not isinstance(document, Mapping):
        raise template.refuse("its template is not readable here: not a mapping")
    return document


def _list_resources(stack: Reader, document: Mapping[str, Any], resources: Mapping[str, Any]) -> Parts:
    from gpufleet.cost.pricing.pricers.aws import PRICERS  # which has this module

    parameters = _find_parameters(stack, document)
    children: list[StateResource] = []
    for name, entry in resources.items():
        kind = entry.get("Type") if isinstance(entry, Mapping) else None
        if isinstance(kind, str) and kind in TYPES:
            children.append(_make_resource(stack, str(name), kind, entry, parameters, resources))
        elif not (isinstance(kind, str) and FREE.fullmatch(kind)):
            yield UnpricedComponent(
                f"{kind or 'a resource without a type'} in its template has no pricer", f"{name}"
            )
    graph = ResourceGraph(children, on_date=stack.graph.on_date)
    for child in children:
        find = PRICERS.get(child.type)
        for part in find(child, graph) if find else ():
            yield _name(part, child.name)


def _name(part: Component, name: str) -> Component:
    return replace(part, component=f"{part.component}:{name}" if part.component else name)


def _find_parameters(stack: Reader, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters' values: those given, else their defaults, and the region."""
    declared = document.get("Parameters")
    values: dict[str, Any] = {"AWS::Region": stack.region}
    for name, entry in declared.items() if isinstance(declared, Mapping) else ():
        values[str(name)] = entry.get("Default", UNKNOWN) if isinstance(entry, Mapping) else UNKNOWN
    given = stack.inside("parameters").inputs
    return values | (dict(given) if isinstance(given, Mapping) else {})


def _make_resource(  # noqa: PLR0917 - one call
    stack: Reader,
    name: str,
    kind: str,
    entry: Mapping[str, Any],
    parameters: Mapping[str, Any],
    resources: Mapping[str, Any],
) -> StateResource:
    type_, other_names = TYPES[kind]
    properties = entry.get("Properties")
    urns: dict[str, tuple[str, ...]] = {}
    inputs: dict[str, Any] = {}
    for key, value in properties.items() if isinstance(properties, Mapping) else ():
        plain_key = _lower(str(key))
        found: list[str] = []
        inputs[other_names.get(plain_key, plain_key)] = _resolve(value, parameters, resources, found)
        urns[other_names.get(plain_key, plain_key)] = tuple(
            _make_urn(stack, each, resources) for each in found
        )
    if isinstance(data := inputs.pop("launchTemplateData", None), Mapping):
        inputs |= data
    if kind == "AWS::EC2::Instance" and isinstance(devices := inputs.pop("blockDeviceMappings", None), list):
        disks = [
            each["ebs"]
            for each in devices
            if isinstance(each, Mapping) and isinstance(each.get("ebs"), Mapping)
        ]
        inputs |= {"rootBlockDevice": disks[0]} if disks else {}
        inputs |= {"ebsBlockDevices": disks[1:]} if disks[1:] else {}
    if isinstance(launch := inputs.get("launchTemplate"), Mapping) and "launchTemplateId" in launch:
        inputs["launchTemplate"] = {**launch, "id": launch["launchTemplateId"]}
    inputs["region"] = text_if_known(stack.region) or stack.region
    return StateResource(
        urn=_make_urn(stack, name, resources), type=type_, name=name, inputs=inputs, outputs={},
        property_dependencies=urns,
    )  # fmt: skip


def _make_urn(stack: Reader, name: str, resources: Mapping[str, Any]) -> str:
    entry = resources.get(name)
    kind = entry.get("Type") if isinstance(entry, Mapping) else None
    type_ = TYPES[kind][0] if isinstance(kind, str) and kind in TYPES else "aws:unknown/resource:Resource"
    return f"{stack.resource.urn}${type_}::{name}"


def _resolve(
    value: Any, parameters: Mapping[str, Any], resources: Mapping[str, Any], found: list[str]
) -> Any:
    """Return a value with our spelling of keys; a reference to a resource is unknown, and its name is added."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((key, argument),) = value.items()
        if key == "Ref" and isinstance(argument, str):
            if argument in resources:
                found.append(argument)
                return UNKNOWN
            return parameters.get(argument, UNKNOWN)
        if str(key).startswith("Fn::"):
            if key == "Fn::GetAtt" and isinstance(argument, list) and argument and argument[0] in resources:
                found.append(argument[0])
            return UNKNOWN
    if isinstance(value, Mapping):
        return {_lower(str(key)): _resolve(each, parameters, resources, found) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolve(each, parameters, resources, found) for each in value]
    return UNKNOWN if isinstance(value, str) and "${" in value else value


def _lower(key: str) -> str:
    return key[:1].lower() + key[1:]
