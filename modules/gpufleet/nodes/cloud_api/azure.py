"""Instances that Azure Resource Manager lists: single machines, and members of scale sets of both orchestration modes.

A Uniform set's members and their network cards are resources of the set, and are listed set by set; those of a
Flexible set are ordinary machines. Addresses are on network cards and public addresses, which are listed once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from gpufleet.boundary import Json
from gpufleet.catalog.prices.refresh.source import MissingCredentials, RequestRejected, SourceUnavailable
from gpufleet.nodes.cloud_api.account import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    STACK_TAG,
    TRIES,
    format_sdk_error,
    import_sdk,
    parse_time,
    take_bounded,
)
from gpufleet.nodes.cloud_api.instance import CloudGroup, CloudInstance, build_stack_report
from gpufleet.nodes.pulumi_state import get_nested_text, get_nested_value
from gpufleet.nodes.source_report import SourceReport

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _BAD_REQUEST = 401, 403, 404, 400


@dataclass
class AzureApi:
    """Clients of one subscription. ``endpoint`` and ``certificates`` are those of Azure's public cloud if left out."""

    subscription: str
    credential: Any = None
    endpoint: str | None = None
    certificates: str | bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def compute(self) -> Any:
        """Return the client of Microsoft.Compute."""
        return self._make_client("azure.mgmt.compute", "ComputeManagementClient")

    @cached_property
    def network(self) -> Any:
        """Return the client of Microsoft.Network."""
        return self._make_client("azure.mgmt.network", "NetworkManagementClient")

    def _make_client(self, module: str, name: str) -> Any:
        credential = self.credential or create_credential(os.environ)
        scopes = {"credential_scopes": [f"{self.endpoint}/.default"]} if self.endpoint else {}
        return getattr(import_sdk(module), name)(
            credential,
            self.subscription,
            base_url=self.endpoint,
            connection_verify=self.certificates,
            connection_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retry_total=TRIES - 1,
            retry_backoff_max=READ_TIMEOUT_S,
            permit_redirects=False,  # a token must not travel to another host
            **scopes,
            **self.options,
        )

    def list_all(self, what: str, call: Any, *arguments: str, **options: Any) -> list[Json]:
        """Return every item of a listing as Azure wrote it; ``what`` is the permission that it needs."""
        with self.translate_errors(what):
            return [item.as_dict() for item in take_bounded(call(*arguments, **options), f"azure {what}")]

    @contextmanager
    def translate_errors(self, permission: str) -> Iterator[None]:
        """Translate the SDK's errors into those of gpufleet."""
        errors = import_sdk("azure.core.exceptions")
        name = f"azure {self.subscription}"
        hint = f"give Azure credentials (az login, AZURE_CLIENT_ID …) that allow {permission}"
        try:
            yield
        except errors.ClientAuthenticationError as error:
            raise MissingCredentials(f"{name}: {format_sdk_error(error)}", hint=hint) from None
        except errors.HttpResponseError as error:
            line = f"{name}: {format_sdk_error(error)}"
            if error.status_code in (_UNAUTHORIZED, _FORBIDDEN):
                raise MissingCredentials(line, hint=hint) from None
            if error.status_code in (_BAD_REQUEST, _NOT_FOUND):
                raise RequestRejected(line, hint=hint) from None
            raise SourceUnavailable(line) from None
        except (errors.AzureError, ValueError) as error:  # no connection, no token, an unreadable page
            raise SourceUnavailable(f"{name}: {format_sdk_error(error)}") from None


def create_credential(environment: Mapping[str, str]) -> Any:
    """Return the credential of Pulumi's variables (``ARM_…``) if they are complete, else Azure's default chain."""
    identity = import_sdk("azure.identity")
    # Without a handler Python prints the SDK's warnings as they are; the error that we raise says the same in one line.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    names = ("ARM_TENANT_ID", "ARM_CLIENT_ID", "ARM_CLIENT_SECRET")
    values = [environment.get(name, "") for name in names]
    if all(values):
        return identity.ClientSecretCredential(*values)
    return identity.DefaultAzureCredential(process_timeout=READ_TIMEOUT_S)


def fetch_azure_instance_report(
    stack_tag: str,
    api: AzureApi,
    observed_at: datetime,
    groups: Iterable[CloudGroup] = (),
    *,
    account: str = "",
    prefer_public: bool = False,
) -> SourceReport:
    """Return a stack's instances in one subscription; EnvironmentFault when the API does not answer."""
    return build_stack_report(
        "azure",
        list_azure_instances(api),
        stack_tag,
        observed_at,
        groups,
        account=account,
        prefer_public=prefer_public,
    )


def list_azure_instances(api: AzureApi, tag: str = STACK_TAG) -> list[CloudInstance]:
    """Return the machines of a subscription that have our tag, all with ``tag=""``, members of scale sets included."""
    sets = api.list_all(
        "Microsoft.Compute/virtualMachineScaleSets/read", api.compute.virtual_machine_scale_sets.list_all
    )
    machines = api.list_all("Microsoft.Compute/virtualMachines/read", api.compute.virtual_machines.list_all)
    tagged_machines = [machine for machine in machines if not tag or tag in read_tags(machine)]
    addresses = _list_addresses(api) if tagged_machines else {}
    instances = [parse_azure_machine(machine, addresses) for machine in tagged_machines]
    for scale_set in sets:
        is_uniform = get_nested_text(scale_set, "properties", "orchestrationMode") != "Flexible"
        if is_uniform and (not tag or tag in read_tags(scale_set)):
            instances += _list_uniform_members(api, scale_set)
    return instances


def _list_addresses(api: AzureApi) -> dict[str, tuple[str, str]]:
    cards = api.list_all("Microsoft.Network/networkInterfaces/read", api.network.network_interfaces.list_all)
    public = api.list_all(
        "Microsoft.Network/publicIPAddresses/read", api.network.public_ip_addresses.list_all
    )
    return map_addresses(cards, public)


def _list_uniform_members(api: AzureApi, scale_set: Json) -> Iterator[CloudInstance]:
    group, name = resource_group_of(get_nested_text(scale_set, "id")), get_nested_text(scale_set, "name")
    prefix = "Microsoft.Compute/virtualMachineScaleSets"
    members = api.list_all(
        f"{prefix}/virtualMachines/read",
        api.compute.virtual_machine_scale_set_vms.list,
        group,
        name,
        expand="instanceView",
    )
    if not members:
        return
    cards = api.list_all(
        f"{prefix}/networkInterfaces/read",
        api.network.network_interfaces.list_virtual_machine_scale_set_network_interfaces,
        group,
        name,
    )
    public = api.list_all(
        f"{prefix}/publicIPAddresses/read",
        api.network.public_ip_addresses.list_virtual_machine_scale_set_public_ip_addresses,
        group,
        name,
    )
    addresses = map_addresses(cards, public)
    priority = get_nested_text(scale_set, "properties", "virtualMachineProfile", "priority")
    for member in members:
        tagged = {**member, "tags": {**read_tags(scale_set), **read_tags(member)}}
        yield parse_azure_machine(tagged, addresses, scale_set, priority)


def map_addresses(cards: Iterable[Json], public: Iterable[Json]) -> dict[str, tuple[str, str]]:
    """Return (private, public) address of each machine, by its id in lower case. The primary card decides. Pure."""
    public_by_configuration = {
        get_nested_text(address, "properties", "ipConfiguration", "id").lower(): get_nested_text(
            address, "properties", "ipAddress"
        )
        for address in public
    }
    addresses: dict[str, tuple[str, str]] = {}
    for card in cards:
        machine = get_nested_text(card, "properties", "virtualMachine", "id").lower()
        configuration = get_nested_value(card, "properties", "ipConfigurations", 0)
        if not machine or (machine in addresses and not get_nested_value(card, "properties", "primary")):
            continue
        private = get_nested_text(configuration, "properties", "privateIPAddress")
        name = get_nested_text(configuration, "id").lower()
        addresses[machine] = (private, public_by_configuration.get(name, ""))
    return addresses


def parse_azure_machine(
    machine: Json,
    addresses: Mapping[str, tuple[str, str]],
    scale_set: Json | None = None,
    priority: str = "",
) -> CloudInstance:
    """Return one machine, or one member of a Uniform set, from Azure's answer. Pure."""
    resource_id, owner = get_nested_text(machine, "id"), scale_set or {}
    properties = get_nested_value(machine, "properties")
    private, public = addresses.get(resource_id.lower(), ("", ""))
    bought = get_nested_text(properties, "priority") or priority
    computer = get_nested_text(properties, "osProfile", "computerName").lower()
    return CloudInstance(
        cloud="azure",
        instance_id=get_nested_text(properties, "vmId") or resource_id.lstrip("/"),
        resource_id=resource_id,
        name=read_tags(machine).get("gpufleet-node") or computer or get_nested_text(machine, "name"),
        region=get_nested_text(machine, "location").lower().replace(" ", ""),
        machine=get_nested_text(properties, "hardwareProfile", "vmSize")
        or get_nested_text(owner, "sku", "name"),
        state=_power_state(properties),
        lifecycle="spot" if bought.lower() in ("spot", "low") else "on-demand",
        zone=get_nested_text(machine, "zones", 0),
        private_address=private,
        public_address=public,
        group=get_nested_text(owner, "id") or get_nested_text(properties, "virtualMachineScaleSet", "id"),
        created_at=parse_time(get_nested_text(properties, "timeCreated")),
        tags=read_tags(machine),
    )


def _power_state(properties: Any) -> str:
    statuses = get_nested_value(properties, "instanceView", "statuses")
    codes = [get_nested_text(status, "code") for status in statuses or () if isinstance(status, dict)]
    power = next((code for code in codes if code.startswith("PowerState/")), "")
    return power.rpartition("/")[2] or get_nested_text(properties, "provisioningState").lower()


def read_tags(resource: Any) -> dict[str, str]:
    tags = get_nested_value(resource, "tags")
    return {str(key): str(value) for key, value in tags.items()} if isinstance(tags, dict) else {}


def resource_group_of(resource_id: str) -> str:
    """Return the resource group in an id of Azure, empty if it has none."""
    parts = resource_id.split("/")
    names = [part.lower() for part in parts]
    place = names.index("resourcegroups") + 1 if "resourcegroups" in names else len(parts)
    return parts[place] if place < len(parts) else ""
