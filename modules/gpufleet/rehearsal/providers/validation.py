"""Validate inputs as a cloud does: missing inputs, and combinations that its API rejects. Pure.

Only documented refusals of the clouds are implemented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gpufleet.rehearsal.providers.property_values import UNKNOWN, PlainValues, unwrap_secrets
from gpufleet.rehearsal.providers.schema import CloudSchema, SimulatedResourceType

Problem = tuple[str, str]  # property, reason
_LABEL = re.compile(r"[a-z0-9_-]{0,63}")
_GPU_FAMILIES = ("a2-", "a3-", "a4-", "g2-", "g4-")


def find_input_problems(
    schema: CloudSchema, resource_type: SimulatedResourceType, inputs: PlainValues
) -> Iterator[Problem]:
    """Yield (property, reason) for every problem with these inputs."""
    plain = unwrap_secrets(inputs)
    problems = list(schema.inputs.find_problems(resource_type.token, plain))
    known = {path for path, _ in problems}
    problems += [
        (key, f"missing required property {key!r}")
        for key in resource_type.required
        if key not in inputs and key not in known
    ]
    yield from problems
    check = _CHECKS.get(resource_type.token)
    if check and not problems:  # a check may rely on names and types
        yield from check(plain)


def _aws_instance(inputs: PlainValues) -> Iterator[Problem]:
    templated = "launchTemplate" in inputs
    for key in ("ami", "instanceType"):
        if key not in inputs and not templated:
            yield key, f"an instance without launch template needs {key!r}"
    target = inputs.get("capacityReservationSpecification", {}).get("capacityReservationTarget")
    if target and "instanceMarketOptions" in inputs:
        yield "instanceMarketOptions", "spot instances can't run in a capacity reservation"


def _aws_ingress(inputs: PlainValues) -> Iterator[Problem]:
    sources = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")
    present = [key for key in sources if key in inputs]
    if len(present) != 1:
        yield "", f"exactly one of {', '.join(sources)} must be set, got {present}"


def _aws_group(inputs: PlainValues) -> Iterator[Problem]:
    if not any(key in inputs for key in ("launchTemplate", "mixedInstancesPolicy", "launchConfiguration")):
        yield "", "one of launchTemplate, mixedInstancesPolicy, launchConfiguration must be set"
    min_size, max_size = inputs.get("minSize"), inputs.get("maxSize")
    desired = inputs.get("desiredCapacity", min_size)
    if UNKNOWN not in (min_size, max_size, desired) and not (min_size or 0) <= (desired or 0) <= (
        max_size or 0
    ):
        yield (
            "desiredCapacity",
            f"minSize {min_size}, desiredCapacity {desired}, maxSize {max_size} are out of order",
        )


def _gcp_instance(inputs: PlainValues) -> Iterator[Problem]:
    scheduling = inputs.get("scheduling", {})
    accelerated = inputs.get("guestAccelerators") or str(inputs.get("machineType")).startswith(_GPU_FAMILIES)
    if accelerated and scheduling.get("onHostMaintenance") != "TERMINATE":
        yield "scheduling.onHostMaintenance", "instances with accelerators can't migrate live; use TERMINATE"
    if scheduling.get("provisioningModel") == "SPOT":
        if not scheduling.get("preemptible") or scheduling.get("automaticRestart", True):
            yield "scheduling", "SPOT needs preemptible = true and automaticRestart = false"
        if (
            "reservationAffinity" in inputs
            and inputs["reservationAffinity"].get("type") == "SPECIFIC_RESERVATION"
        ):
            yield "reservationAffinity", "spot instances can't run in a reservation"
    yield from _gcp_labels(inputs)


def _gcp_labels(inputs: PlainValues) -> Iterator[Problem]:
    for key, value in inputs.get("labels", {}).items():
        if value != UNKNOWN and not (_LABEL.fullmatch(key) and _LABEL.fullmatch(str(value))):
            yield f"labels.{key}", f"label {key}={value}: only a-z, 0-9, _ and -, at most 63 characters"


def _azure_machine(inputs: PlainValues) -> Iterator[Problem]:
    if "evictionPolicy" in inputs and inputs.get("priority") != "Spot":
        yield "evictionPolicy", "an eviction policy is for priority Spot only"
    if inputs.get("priority") == "Spot" and "capacityReservation" in inputs:
        yield "capacityReservation", "spot machines can't run in a capacity reservation"
    linux = inputs.get("osProfile", {}).get("linuxConfiguration", {})
    if "osProfile" in inputs and not linux.get("ssh") and "adminPassword" not in inputs["osProfile"]:
        yield "osProfile", "a Linux machine needs SSH keys or a password"


def _azure_scale_set(inputs: PlainValues) -> Iterator[Problem]:
    profile = inputs.get("virtualMachineProfile", {})
    yield from _azure_machine(profile)
    if inputs.get("orchestrationMode") == "Flexible" and "overprovision" in inputs:
        yield "overprovision", "overprovision is for Uniform scale sets only"


_CHECKS: dict[str, Callable[[PlainValues], Iterator[Problem]]] = {
    "aws:ec2/instance:Instance": _aws_instance,
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _aws_ingress,
    "aws:autoscaling/group:Group": _aws_group,
    "gcp:compute/instance:Instance": _gcp_instance,
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": _gcp_instance,
    "azure-native:compute:VirtualMachine": _azure_machine,
    "azure-native:compute:VirtualMachineScaleSet": _azure_scale_set,
}
