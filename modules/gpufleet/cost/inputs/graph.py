"""The resources of one side, and how they refer to each other before any of them has an id."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from gpufleet.cost.inputs.terms import Terms, read_terms, tags
from gpufleet.cost.inputs.usage import NO_USAGE, Usage, UsageFile
from gpufleet.cost.inputs.values import read_text
from gpufleet.cost.money import Range
from gpufleet.engine import Marker, Resource

Key = TypeVar("Key")

# azure-native calls a resource's name after its kind.
NAME_KEYS = {
    "azure-native:resources:ResourceGroup": "resourceGroupName",
    "azure-native:compute:CapacityReservationGroup": "capacityReservationGroupName",
    "azure-native:compute:VirtualMachineScaleSet": "vmScaleSetName",
    "azure-native:containerservice:ManagedCluster": "resourceName",
}


def unversioned_type(type_token: str) -> str:
    """Return a type without the API version that azure-native may carry in it."""
    package, _, rest = type_token.partition(":")
    module, _, name = rest.partition(":")
    family, _, version = module.partition("/")
    return f"{package}:{family}:{name}" if package == "azure-native" and version else type_token


class Graph:
    """Look-ups over the resources of one side, and what is said of their use."""

    def __init__(self, resources: Iterable[Resource], usage: UsageFile = NO_USAGE) -> None:
        self.resources = tuple(resources)
        self._said = usage
        self._by_urn = {resource.urn: resource for resource in self.resources if not resource.delete}
        self._by_kind: dict[str, list[Resource]] = {}
        for resource in self._by_urn.values():
            self._by_kind.setdefault(unversioned_type(resource.type), []).append(resource)
        # By kind: which resources answer to a name, and which a component holds. Made when first asked for.
        self._named: dict[str, dict[str, list[Resource]]] = {}
        self._held: dict[str, dict[str | None, list[Resource]]] = {}
        self._tags: dict[tuple[str, bool], dict[str, str]] = {}
        self._pointing: dict[tuple[object, ...], dict[str, list[Resource]]] = {}

    def get(self, urn: str | None) -> Resource | None:
        """Return the live resource of that URN."""
        return self._by_urn.get(urn) if urn else None

    def resources_of_type(self, *kinds: str) -> list[Resource]:
        """Return the live resources of these types."""
        return [resource for wanted in kinds for resource in self._by_kind.get(wanted, [])]

    def find_provider(self, resource: Resource) -> Resource | None:
        """Return the explicit provider resource (``urn::id``) that manages this one."""
        return self.get(resource.provider.rpartition("::")[0]) if resource.provider else None

    def tags_of(self, resource: Resource) -> dict[str, str]:
        """Return a resource's own tags or labels."""
        key = (resource.urn, resource.delete)  # one that awaits deletion may stand beside its successor
        if key not in self._tags:
            self._tags[key] = tags(resource.inputs)
        return self._tags[key]

    def usage_of(self, resource: Resource) -> Usage:
        """Return what the usage file says of a resource."""
        return self._said.for_resource(resource)

    def terms_of(
        self, resource: Resource, *templates: Resource | None, spot: bool | Marker | None = None
    ) -> Terms:
        """Return how a resource is bought: its tags, its own market setting, and the hours it is used."""
        found = read_terms(resource, *templates, spot=spot)
        hours = self.usage_of(resource).hours_per_month
        return found if hours is None else replace(found, hours=hours)

    def resolve_size(self, resource: Resource, declared: Range | None) -> Range | None:
        """Return a group's size: as the usage file has it, else as declared."""
        return self.usage_of(resource).size(declared)

    def find_target(self, resource: Resource, path: tuple[str | int, ...], *kinds: str) -> Resource | None:
        """Return the resource that an input refers to.

        A known id or name is looked up. An id that deployment will bring (and one that a preview does not
        show on the other side) is followed through the engine's property dependencies; where those are not
        told either, to the only candidate in the same component.
        """
        value = read_text(resource.inputs, *path)
        if value is None:
            return None
        made_from = resource.property_dependencies.get(str(path[0]), ())
        chosen = self._answering(value, kinds) if isinstance(value, str) else []
        chosen = chosen or [
            found for found in map(self.get, made_from) if found and unversioned_type(found.type) in kinds
        ]
        if not chosen and not isinstance(value, str):
            chosen = [found for wanted in kinds for found in self._beside(resource, wanted)]
        return chosen[0] if len(chosen) == 1 else None

    def find_referrers(self, resource: Resource, path: tuple[str | int, ...], *kinds: str) -> list[Resource]:
        """Return the resources of these kinds whose input refers to this one: its autoscalers, its schedules."""
        key = (path, kinds, unversioned_type(resource.type))
        if key not in self._pointing:
            found = ((each, self.find_target(each, path, key[2])) for each in self.resources_of_type(*kinds))
            targets = {each.urn: target.urn for each, target in found if target}
            pointing = (each for each in self.resources_of_type(*kinds) if each.urn in targets)
            self._pointing[key] = _index(pointing, lambda each: {targets[each.urn]})
        return self._pointing[key].get(resource.urn, [])

    def _answering(self, value: str, kinds: tuple[str, ...]) -> list[Resource]:
        """Return the resources of these kinds that have such a name or id, or one that ends in it."""
        found: dict[str, Resource] = {}
        for wanted in kinds:
            if wanted not in self._named:
                self._named[wanted] = _index(self._by_kind.get(wanted, ()), _names)
            for name in (value, value.rsplit("/", 1)[-1]):
                found |= {each.urn: each for each in self._named[wanted].get(name, ())}
        return list(found.values())

    def _beside(self, resource: Resource, wanted: str) -> list[Resource]:
        """Return the resources of a kind in the same component."""
        if wanted not in self._held:
            self._held[wanted] = _index(self._by_kind.get(wanted, ()), lambda each: {each.parent})
        return self._held[wanted].get(resource.parent, [])

    def pool_name(self, resource: Resource) -> str:
        """Return the name of the component that holds a resource, its own where none does."""
        parent = self.get(resource.parent)
        return parent.name if parent and not parent.custom and ":Stack" not in parent.type else resource.name


def _index(
    resources: Iterable[Resource], keys: Callable[[Resource], Iterable[Key]]
) -> dict[Key, list[Resource]]:
    """Put resources under each of their keys."""
    found: dict[Key, list[Resource]] = {}
    for resource in resources:
        for key in keys(resource):
            found.setdefault(key, []).append(resource)
    return found


def _names(resource: Resource) -> set[str]:
    """Return what a resource may be referred to by."""
    own_name = NAME_KEYS.get(unversioned_type(resource.type), "name")
    names = {resource.id, read_text(resource.inputs, own_name), read_text(resource.inputs, "id")}
    names |= {read_text(resource.outputs, key) for key in ("id", "name", "selfLink", "arn")}
    return {name for name in names if isinstance(name, str) and name}
