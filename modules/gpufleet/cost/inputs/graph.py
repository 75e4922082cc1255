"""The resources of one program, and how they refer to each other before any of them has an id."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeVar

from gpufleet.cost.inputs.default_region import (
    NO_REGIONS,
    DefaultRegion,
    DefaultRegions,
    find_region_in_provider_name,
)
from gpufleet.cost.inputs.terms import (
    PRICE_TAGS,
    PurchaseTerms,
    is_in_pool,
    read_default_tags,
    read_purchase_terms,
    read_resource_tags,
)
from gpufleet.cost.inputs.usage import EMPTY_USAGE, NO_USAGE, ResourceUsage, UsageFile, UsageRecord
from gpufleet.cost.inputs.values import read_reference
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.engine import StateResource, UnreadableValue

Key = TypeVar("Key")

# The inputs with the names of these resources, by which others refer to them; "name" of all others.
NAME_KEYS = {
    "aws:docdb/cluster:Cluster": "clusterIdentifier",
    "aws:ecs/taskDefinition:TaskDefinition": "family",
    "aws:elasticache/replicationGroup:ReplicationGroup": "replicationGroupId",
    "aws:neptune/cluster:Cluster": "clusterIdentifier",
    "aws:rds/cluster:Cluster": "clusterIdentifier",
    "aws:rds/instance:Instance": "identifier",
    "azure-native:resources:ResourceGroup": "resourceGroupName",
    "azure-native:compute:CapacityReservationGroup": "capacityReservationGroupName",
    "azure-native:compute:VirtualMachineScaleSet": "vmScaleSetName",
    "azure-native:containerservice:ManagedCluster": "resourceName",
    "azure-native:batch:BatchAccount": "accountName",
    "azure-native:cognitiveservices:Account": "accountName",
    "azure-native:cosmosdb:DatabaseAccount": "accountName",
    "azure-native:documentdb:DatabaseAccount": "accountName",
    "azure-native:machinelearningservices:Workspace": "workspaceName",
    "azure-native:sql:Server": "serverName",
    "azure-native:storage:StorageAccount": "accountName",
    "azure-native:synapse:Workspace": "workspaceName",
}
EVALUATED_PROVIDER = (
    "default"  # the name of a default provider where a program is evaluated without an engine
)
PROVIDER_CLOUDS = {
    "pulumi:providers:aws": "aws",
    "pulumi:providers:gcp": "gcp",
    "pulumi:providers:azure-native": "azure",
    "pulumi:providers:azure": "azure",
}


def strip_api_version(type_token: str) -> str:
    """Return a type without the API version that azure-native may include."""
    package, _, rest = type_token.partition(":")
    module, _, name = rest.partition(":")
    family, _, version = module.partition("/")
    return f"{package}:{family}:{name}" if package == "azure-native" and version else type_token


def is_default_provider(name: str) -> bool:
    """Return whether a provider is the engine's own, by its name: default, or default_7_51_1."""
    return name == EVALUATED_PROVIDER or name.startswith(f"{EVALUATED_PROVIDER}_")


class ResourceGraph:
    """Look-ups over the resources of one program, with their usage."""

    def __init__(
        self,
        resources: Iterable[StateResource],
        usage: UsageFile = NO_USAGE,
        updated_from: Iterable[StateResource] = (),
        regions: DefaultRegions = NO_REGIONS,
        on_date: date | None = None,
    ) -> None:
        """``updated_from`` are resources before the change that these come from, without those it replaces.

        ``regions`` are those of resources that name none, by cloud. ``on_date`` is the day of the bill, today without
        one: what a version bills depends on it.
        """
        self.resources = tuple(resources)
        self._usage = usage
        self._usage_record = UsageRecord()
        self._regions = regions
        self.on_date = on_date or datetime.now(UTC).date()
        self.region_notes: set[str] = set()
        self._ignored_tags: dict[str, set[str]] = {}  # names of resources, by tag
        self._updated_from = {resource.urn: resource for resource in updated_from}
        self._by_urn = {resource.urn: resource for resource in self.resources if not resource.delete}
        self._by_type: dict[str, list[StateResource]] = {}
        for resource in self._by_urn.values():
            self._by_type.setdefault(strip_api_version(resource.type), []).append(resource)
        # Indices by type, made at first use: resources by name or id, and by parent component.
        self._by_name: dict[str, dict[str, list[StateResource]]] = {}
        self._by_parent: dict[str, dict[str | None, list[StateResource]]] = {}
        self._tags: dict[tuple[str, bool], dict[str, str]] = {}
        self._default_tags: dict[str, dict[str, str]] = {}  # by the URN of a provider
        self._referrers: dict[tuple[object, ...], dict[str, list[StateResource]]] = {}

    def get_resource(self, urn: str | None) -> StateResource | None:
        """Return the live resource of that URN."""
        return self._by_urn.get(urn) if urn else None

    def find_earlier_resource(self, resource: StateResource) -> StateResource | None:
        """Return the resource before the change; None if it is new, replaced, or there is no change."""
        return self._updated_from.get(resource.urn)

    def resources_of_types(self, *types: str) -> list[StateResource]:
        """Return the live resources of these types."""
        return [resource for type_ in types for resource in self._by_type.get(type_, [])]

    def find_provider_resource(self, resource: StateResource) -> StateResource | None:
        """Return the explicit provider resource (``urn::id``) that manages this one."""
        provider = self.get_resource(resource.provider.rpartition("::")[0]) if resource.provider else None
        if provider and provider.name == EVALUATED_PROVIDER:
            cloud = PROVIDER_CLOUDS.get(provider.type, "")
            default = next(iter(self._regions.get(cloud, ())), None)
            if default and default.is_from_environment and default.region in provider.inputs.values():
                self._note_default_region(cloud, default)
        return provider

    def find_default_region(self, cloud: str, resource: StateResource) -> str:
        """Return the region of a resource that names none, nor does its provider if it is here; empty if unknown.

        An explicit provider without a region does not have the stack's: it takes the variables of who deploys
        (``_utilities.get_env`` in provider.py of pulumi_aws 7.51.1 and pulumi_gcp 10.2.0; the provider of
        azure-native 3.29.0 reads none). Those of the gate and ``--region`` count for them, with a note.
        """
        defaults = self._regions.get(cloud, ())
        provider = self.find_provider_resource(resource)
        if provider is None or PROVIDER_CLOUDS.get(provider.type) != cloud:
            named = find_region_in_provider_name(cloud, resource.provider)
            defaults = (named, *defaults) if named else defaults
        elif not is_default_provider(provider.name):
            defaults = tuple(each for each in defaults if each.is_from_environment)
        if not defaults:
            return ""
        self._note_default_region(cloud, defaults[0])
        return defaults[0].region

    def _note_default_region(self, cloud: str, default: DefaultRegion) -> None:
        self.region_notes.add(
            f"region {default.region} of {cloud} resources without one is from {default.source}"
        )

    def tags_of_resource(self, resource: StateResource) -> dict[str, str]:
        """Return a resource's tags or labels: its own, and those that its provider gives to each resource."""
        key = (resource.urn, resource.delete)  # a pending deletion has the URN of its replacement
        if key not in self._tags:
            self._tags[key] = {**self._default_tags_of(resource), **read_resource_tags(resource.inputs)}
        return self._tags[key]

    def _default_tags_of(self, resource: StateResource) -> dict[str, str]:
        """Return the tags of a resource's provider; without the provider those that an engine recorded."""
        provider_urn = (resource.provider or "").rpartition("::")[0]
        provider = self.get_resource(provider_urn)
        if provider is None:
            return read_resource_tags({"tags": resource.outputs.get("tagsAll")})
        if provider_urn not in self._default_tags:
            self._default_tags[provider_urn] = read_default_tags(provider)
        return self._default_tags[provider_urn]

    def usage_of_resource(self, resource: StateResource) -> ResourceUsage:
        """Return the usage of a resource from the usage file, and record what is read of it."""
        usage = self._usage.find_resource_usage(resource)
        return usage if usage is EMPTY_USAGE else self._usage_record.record(resource, usage)

    def record_billed_hours(self, resource: StateResource, hours_per_month: Decimal) -> None:
        """Record that a resource has a component that bills for so many hours, which the usage file may have."""
        if self._usage.find_resource_usage(resource).hours_per_month in (hours_per_month, HOURS_PER_MONTH):
            self._usage_record.record_billed_hours(resource)

    def format_unread_usage_notes(self) -> tuple[str, ...]:
        """Return a note for each figure of the usage file that no pricer has read."""
        return tuple(self._usage_record.format_unread_key_notes(self.resources, self._usage))

    def format_ignored_tag_notes(self) -> tuple[str, ...]:
        """Return a note for each tag of a purchase that is on resources outside gpufleet's pools."""
        return tuple(
            f"the tag {tag} sets no price outside a pool of gpufleet: {', '.join(sorted(names))}"
            for tag, names in sorted(self._ignored_tags.items())
        )

    def purchase_terms_of(
        self,
        resource: StateResource,
        *templates: StateResource | None,
        spot: bool | UnreadableValue | None = None,
    ) -> PurchaseTerms:
        """Return how a resource is bought: its tags, its own market setting, and the hours it is used."""
        default_tags = self._default_tags_of(resource)
        if not is_in_pool(resource):
            for tag in self.tags_of_resource(resource).keys() & PRICE_TAGS:
                self._ignored_tags.setdefault(tag, set()).add(resource.name)
        terms = read_purchase_terms(resource, *templates, spot=spot, default_tags=default_tags)
        hours = self.usage_of_resource(resource).hours_per_month
        return terms if hours is None else replace(terms, hours=hours)

    def resolve_group_size(self, resource: StateResource, declared_size: Range | None) -> Range | None:
        """Return a group's size: as the usage file has it, else as declared."""
        return self.usage_of_resource(resource).resolve_group_size(declared_size)

    def find_referenced_resource(
        self, resource: StateResource, path: tuple[str | int, ...], *types: str
    ) -> StateResource | None:
        """Return the resource of these types that an input refers to.

        A known id or name is looked up. An id that is not known yet is resolved by the engine's property
        dependencies, and without those by the only candidate in the same component.
        """
        reference = read_reference(resource.inputs, *path)
        if reference is None:
            return None
        candidates = self._find_by_name(reference, types) if isinstance(reference, str) else []
        if not candidates:
            dependencies = map(self.get_resource, resource.property_dependencies.get(str(path[0]), ()))
            candidates = [each for each in dependencies if each and strip_api_version(each.type) in types]
        if not candidates and not isinstance(reference, str):
            candidates = [each for type_ in types for each in self._siblings(resource, type_)]
        return candidates[0] if len(candidates) == 1 else None

    def find_referring_resources(
        self, resource: StateResource, path: tuple[str | int, ...], *types: str
    ) -> list[StateResource]:
        """Return the resources of these types whose input refers to this one, such as its autoscalers."""
        target_type = strip_api_version(resource.type)
        key = (path, types, target_type)
        if key not in self._referrers:
            index: dict[str, list[StateResource]] = {}
            for referrer in self.resources_of_types(*types):
                if target := self.find_referenced_resource(referrer, path, target_type):
                    index.setdefault(target.urn, []).append(referrer)
            self._referrers[key] = index
        return self._referrers[key].get(resource.urn, [])

    def _find_by_name(self, reference: str, types: tuple[str, ...]) -> list[StateResource]:
        """Return the resources of these types by name or id; of a URL also by its last part."""
        matches: dict[str, StateResource] = {}
        for type_ in types:
            if type_ not in self._by_name:
                self._by_name[type_] = _index(self._by_type.get(type_, ()), _names)
            for name in (reference, reference.rsplit("/", 1)[-1]):
                matches |= {each.urn: each for each in self._by_name[type_].get(name, ())}
        return list(matches.values())

    def _siblings(self, resource: StateResource, type_: str) -> list[StateResource]:
        """Return the resources of a type in the same component."""
        if type_ not in self._by_parent:
            self._by_parent[type_] = _index(self._by_type.get(type_, ()), lambda each: {each.parent})
        return self._by_parent[type_].get(resource.parent, [])

    def component_or_own_name(self, resource: StateResource) -> str:
        """Return the name of the component that a resource is in, else its own."""
        parent = self.get_resource(resource.parent)
        return parent.name if parent and not parent.custom and ":Stack" not in parent.type else resource.name


def _index(
    resources: Iterable[StateResource], keys: Callable[[StateResource], Iterable[Key]]
) -> dict[Key, list[StateResource]]:
    """Return the resources by each of their keys."""
    index: dict[Key, list[StateResource]] = {}
    for resource in resources:
        for key in keys(resource):
            index.setdefault(key, []).append(resource)
    return index


def _names(resource: StateResource) -> set[str]:
    """Return the names and ids by which others may refer to a resource."""
    own_name = NAME_KEYS.get(strip_api_version(resource.type), "name")
    names = {resource.id, read_reference(resource.inputs, own_name), read_reference(resource.inputs, "id")}
    names |= {read_reference(resource.outputs, key) for key in ("id", "name", "selfLink", "arn")}
    return {name for name in names if isinstance(name, str) and name}
