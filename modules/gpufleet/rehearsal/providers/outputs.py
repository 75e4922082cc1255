"""What a simulated cloud computes for a resource: ids, addresses, links. Pure but for address leases."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpufleet.rehearsal.providers.property_values import UNKNOWN, PlainValues, unwrap_secrets
from gpufleet.rehearsal.providers.schema import CloudSchema, SimulatedResourceType
from gpufleet.rehearsal.providers.store import ResourceStore

_API = "https://www.googleapis.com/compute/v1"
_TIMESTAMP = "2026-01-01T00:00:00Z"  # fixed: a rerun ends in the same state


@dataclass
class ResourceContext:
    """The inputs of computed values; in a preview, future values are unknown."""

    schema: CloudSchema
    kind: SimulatedResourceType
    store: ResourceStore
    inputs: PlainValues
    seed: str
    id: str = ""
    old_outputs: PlainValues = field(default_factory=dict)
    preview: bool = False

    def build_template_placeholders(self) -> dict[str, str]:
        """Return the placeholders of templates: top-level inputs, the account's facts and digests of the seed."""
        digest = hashlib.sha256(self.seed.encode()).hexdigest()
        texts = {
            key: str(value)
            for key, value in unwrap_secrets(self.inputs).items()
            if isinstance(value, (str, int))
        }
        values = {**self.schema.defaults, **texts, "id": self.id, "hex17": digest[:17], "api": _API}
        values["name"] = texts.get(self.kind.name or "name", "")
        values["number"] = str(int(digest[:15], 16))
        values["uuid"] = str(uuid.UUID(digest[:32]))
        values["mac"] = "-".join(("00-0D-3A", *(digest[at : at + 2].upper() for at in (0, 2, 4))))
        values["timestamp"] = _TIMESTAMP
        values["group"] = (
            f"/subscriptions/{values.get('subscription')}/resourceGroups/{texts.get('resourceGroupName')}"
        )
        return values

    def lease_ip_address(self, network: str, purpose: str) -> str:
        return (
            UNKNOWN
            if self.preview
            else self.store.lease_ip_address(network, self.kind.token, self.id, purpose)
        )


def generate_resource_id(context: ResourceContext) -> str:
    """Return the id that the cloud assigns."""
    return context.kind.id.format_map(context.build_template_placeholders())


def compute_resource_outputs(context: ResourceContext) -> PlainValues:
    """Return the inputs with the computed outputs."""
    values = context.build_template_placeholders()
    computed = {key: _compute(context, values, rule) for key, rule in context.kind.computed.items()}
    return {**context.inputs, **{key: value for key, value in computed.items() if value is not None}}


def _compute(context: ResourceContext, values: dict[str, str], rule: str) -> Any:
    if rule.startswith("="):
        return _RULES[rule[1:]](context)
    return UNKNOWN if context.preview and "{" in rule else rule.format_map(values)


def _first(items: Any) -> PlainValues:
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


def _subnet_range(context: ResourceContext, kind: str, reference: Any, key: str) -> str:
    """Return the address range of the subnet of a resource; raise LookupError if it does not exist."""
    if context.preview or not isinstance(reference, str):
        return "10.255.0.0/16"
    row = context.store.get_resource(kind, reference.removeprefix(f"{_API}/"))
    if row is None:
        raise LookupError(f"the subnet {reference} does not exist in the simulated {context.schema.cloud}")
    return str(row.inputs[key])


def _aws_subnet(context: ResourceContext) -> Any:
    """Return the subnet of an instance or of its launch template; None for the default network."""
    if "subnetId" in context.inputs or "launchTemplate" not in context.inputs or context.preview:
        return context.inputs.get("subnetId")
    template = context.store.get_resource(
        "aws:ec2/launchTemplate:LaunchTemplate", context.inputs["launchTemplate"]["id"]
    )
    return _first(template.inputs.get("networkInterfaces")).get("subnetId") if template else None


def _private_ip(context: ResourceContext) -> Any:
    if "privateIp" in context.inputs:
        return context.inputs["privateIp"]
    return context.lease_ip_address(
        _subnet_range(context, "aws:ec2/subnet:Subnet", _aws_subnet(context), "cidrBlock"), "private"
    )


def _zone(context: ResourceContext) -> Any:
    if "availabilityZone" in context.inputs:
        return context.inputs["availabilityZone"]
    if context.preview:
        return UNKNOWN
    subnet = context.store.get_resource("aws:ec2/subnet:Subnet", str(context.inputs.get("subnetId")))
    return (
        subnet.outputs["availabilityZone"]
        if subnet
        else f"{context.build_template_placeholders()['region']}a"
    )


def _public_ip(context: ResourceContext) -> str:
    if context.preview:
        return UNKNOWN
    return context.store.lease_public_address(context.schema.public_network, context.kind.token, context.id)


def _aws_public_ip(context: ResourceContext) -> str:
    return _public_ip(context) if context.inputs.get("associatePublicIpAddress") else ""


def _aws_lifecycle(context: ResourceContext) -> str:
    return str(context.inputs.get("instanceMarketOptions", {}).get("marketType", ""))


def _private_dns(context: ResourceContext) -> str:
    address = _private_ip(context)
    return address if address == UNKNOWN else f"ip-{address.replace('.', '-')}.ec2.internal"


def _gcp_interfaces(context: ResourceContext) -> list[PlainValues]:
    """Return the interfaces with their assigned addresses."""
    return [
        _gcp_interface(context, nic, number)
        for number, nic in enumerate(context.inputs.get("networkInterfaces", []))
    ]


def _gcp_interface(context: ResourceContext, nic: PlainValues, number: int) -> PlainValues:
    network = _subnet_range(
        context, "gcp:compute/subnetwork:Subnetwork", nic.get("subnetwork"), "ipCidrRange"
    )
    access = [{**entry, "natIp": _public_ip(context)} for entry in nic.get("accessConfigs", [])]
    return {
        **nic,
        "name": f"nic{number}",
        "networkIp": context.lease_ip_address(network, f"nic{number}"),
        "accessConfigs": access,
    }


def _azure_ip_configurations(context: ResourceContext) -> list[PlainValues]:
    return [_azure_ip(context, entry) for entry in context.inputs.get("ipConfigurations", [])]


def _azure_ip(context: ResourceContext, entry: PlainValues) -> PlainValues:
    subnet = entry.get("subnet", {}).get("id")
    network = _subnet_range(context, "azure-native:network:Subnet", subnet, "addressPrefix")
    return {
        **entry,
        "privateIPAddress": context.lease_ip_address(network, str(entry.get("name"))),
        "provisioningState": "Succeeded",
    }


def _next_version(context: ResourceContext) -> Any:
    return UNKNOWN if context.preview else int(context.old_outputs.get("latestVersion", 0)) + 1


def _desired_capacity(context: ResourceContext) -> Any:
    return context.inputs.get("desiredCapacity", context.inputs.get("minSize"))


_RULES: dict[str, Callable[[ResourceContext], Any]] = {
    "tags": lambda context: context.inputs.get("tags", {}),
    "labels": lambda context: context.inputs.get("labels", {}),
    "zone": _zone,
    "private_ip": _private_ip,
    "private_dns": _private_dns,
    "public_ip": _public_ip,
    "aws_public_ip": _aws_public_ip,
    "aws_lifecycle": _aws_lifecycle,
    "gcp_interfaces": _gcp_interfaces,
    "azure_ip_configurations": _azure_ip_configurations,
    "next_version": _next_version,
    "desired_capacity": _desired_capacity,
}
