"""Aliases: the earlier names, types and parents of a resource, matched as the engine matches them.

The engine looks for a resource of the state by the URN, then by each alias in order, then by the names that it would
have under an earlier name of its parent (``generateAliases`` of Pulumi 3.258). A match is an update, not a deletion and
a creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpufleet.engine import ResourceAlias, StateResource

STACK_TYPE = "pulumi:pulumi:Stack"


def rename_aliased_resources(
    before: Iterable[StateResource], after: Iterable[StateResource]
) -> tuple[StateResource, ...]:
    """Return the resources before a change under the URNs that they have after it."""
    old = tuple(before)
    return rename_resources(old, match_aliases({each.urn for each in old}, after))


def rename_resources(
    resources: tuple[StateResource, ...], new_urns: Mapping[str, str]
) -> tuple[StateResource, ...]:
    """Return resources under other URNs, with what refers to them; ``new_urns`` has the new URN of each old one."""
    return tuple(_rename(each, new_urns) for each in resources) if new_urns else resources


def match_aliases(old_urns: set[str], after: Iterable[StateResource]) -> dict[str, str]:
    """Return the new URN of each old one that a resource has as an alias; ``after`` is in registration order."""
    resources = tuple(after)
    taken = {each.urn for each in resources}
    old_by_new: dict[str, str] = {}
    for resource in resources:
        if resource.urn in old_urns:
            continue
        candidates = _list_alias_urns(resource, old_by_new)
        old_urn = next((urn for urn in candidates if urn in old_urns), None)
        if old_urn is not None and old_urn not in taken:  # the engine refuses to match one twice
            taken.add(old_urn)
            old_by_new[resource.urn] = old_urn
    return {old: new for new, old in old_by_new.items()}


def _list_alias_urns(resource: StateResource, old_by_new: Mapping[str, str]) -> Iterator[str]:
    """Yield the URNs of a resource's aliases, then those that an alias of its parent implies."""
    own = [_resolve_alias(alias, resource, old_by_new) for alias in resource.aliases]
    yield from own
    parent_alias = old_by_new.get(resource.parent or "")
    if resource.parent and parent_alias:
        for urn in (resource.urn, *own):
            yield _inherit_alias(urn, resource.parent, parent_alias)


def _resolve_alias(alias: ResourceAlias, resource: StateResource, old_by_new: Mapping[str, str]) -> str:
    if alias.urn:
        return alias.urn
    parent = old_by_new.get(alias.parent, alias.parent) if alias.parent else resource.parent or ""
    stack, project = resource.urn.removeprefix("urn:pulumi:").split("::")[:2]
    return _make_urn(
        alias.stack or stack,
        alias.project or project,
        "" if alias.no_parent else parent,
        alias.type or resource.type,
        alias.name or resource.name,
    )


def _inherit_alias(urn: str, parent: str, parent_alias: str) -> str:
    """Return the URN of a child under an earlier name of its parent, whose name the child's may begin with."""
    name, parent_name = _name(urn), _name(parent)
    if name.startswith(parent_name):
        name = _name(parent_alias) + name.removeprefix(parent_name)
    stack, project = urn.removeprefix("urn:pulumi:").split("::")[:2]
    return _make_urn(stack, project, parent_alias, _qualified_type(urn).rsplit("$", 1)[-1], name)


def _make_urn(stack: str, project: str, parent: str, type_: str, name: str) -> str:
    parent_type = _qualified_type(parent) if parent else STACK_TYPE
    types = type_ if parent_type == STACK_TYPE else f"{parent_type}${type_}"
    return f"urn:pulumi:{stack}::{project}::{types}::{name}"


def _qualified_type(urn: str) -> str:
    return urn.split("::", 3)[2] if urn.count("::") > 2 else STACK_TYPE  # noqa: PLR2004 - stack, project, type, name


def _name(urn: str) -> str:
    return urn.split("::", 3)[-1]


def _rename(resource: StateResource, new_urns: Mapping[str, str]) -> StateResource:
    """Return a resource with the new URNs of itself and of what it refers to."""
    urn = new_urns.get(resource.urn, resource.urn)
    provider_urn, separator, provider_id = (resource.provider or "").rpartition("::")
    return replace(
        resource,
        urn=urn,
        name=_name(urn),
        parent=new_urns.get(resource.parent or "", resource.parent),
        provider=f"{new_urns.get(provider_urn, provider_urn)}{separator}{provider_id}" or None,
        property_dependencies={
            name: tuple(new_urns.get(each, each) for each in urns)
            for name, urns in resource.property_dependencies.items()
        },
    )
