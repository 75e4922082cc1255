"""The resources of one side, and how they refer to each other before any of them has an id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpufleet.cost.money import Range
from gpufleet.cost.terms import Terms, read_terms
from gpufleet.cost.usage import NO_USAGE, Usage, UsageFile
from gpufleet.cost.values import text
from gpufleet.engine import Marker, Resource

# azure-native calls a resource's name after its kind.
NAME_KEYS = {
    "azure-native:resources:ResourceGroup": "resourceGroupName",
    "azure-native:compute:CapacityReservationGroup": "capacityReservationGroupName",
    "azure-native:compute:VirtualMachineScaleSet": "vmScaleSetName",
    "azure-native:containerservice:ManagedCluster": "resourceName",
}


def kind(type_token: str) -> str:
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
            self._by_kind.setdefault(kind(resource.type), []).append(resource)

    def get(self, urn: str | None) -> Resource | None:
        """Return the live resource of that URN."""
        return self._by_urn.get(urn) if urn else None

    def of_kind(self, *kinds: str) -> list[Resource]:
        """Return the live resources of these types."""
        return [resource for wanted in kinds for resource in self._by_kind.get(wanted, [])]

    def provider(self, resource: Resource) -> Resource | None:
        """Return the explicit provider resource (``urn::id``) that manages this one."""
        return self.get(resource.provider.rpartition("::")[0]) if resource.provider else None

    def usage(self, resource: Resource) -> Usage:
        """Return what the usage file says of a resource."""
        return self._said.of(resource)

    def terms(
        self, resource: Resource, *templates: Resource | None, spot: bool | Marker | None = None
    ) -> Terms:
        """Return how a resource is bought: its tags, its own market setting, and the hours it is used."""
        found = read_terms(resource, *templates, spot=spot)
        hours = self.usage(resource).hours_per_month
        return found if hours is None else replace(found, hours=hours)

    def sized(self, resource: Resource, declared: Range | None) -> Range | None:
        """Return a group's size: as the usage file has it, else as declared."""
        return self.usage(resource).size(declared)

    def target(self, resource: Resource, path: tuple[str | int, ...], *kinds: str) -> Resource | None:
        """Return the resource that an input refers to.

        A known id or name is looked up. An id that deployment will bring (and one that a preview does not
        show on the other side) is followed through the engine's property dependencies; where those are not
        told either, to the only candidate in the same component.
        """
        value = text(resource.inputs, *path)
        if value is None:
            return None
        candidates = self.of_kind(*kinds)
        made_from = resource.property_dependencies.get(str(path[0]), ())
        answering = [found for found in candidates if isinstance(value, str) and _answers_to(found, value)]
        chosen = answering or [found for found in candidates if found.urn in made_from]
        if not chosen and not isinstance(value, str):
            chosen = [found for found in candidates if found.parent == resource.parent]
        return chosen[0] if len(chosen) == 1 else None

    def pool(self, resource: Resource) -> str:
        """Return the name of the component that holds a resource, its own where none does."""
        parent = self.get(resource.parent)
        return parent.name if parent and not parent.custom and ":Stack" not in parent.type else resource.name


def _answers_to(resource: Resource, value: str) -> bool:
    own_name = NAME_KEYS.get(kind(resource.type), "name")
    names = {resource.id, text(resource.inputs, own_name), text(resource.inputs, "id")}
    names |= {text(resource.outputs, key) for key in ("id", "name", "selfLink", "arn")}
    known = {name for name in names if isinstance(name, str) and name}
    return value in known or value.rsplit("/", 1)[-1] in known
