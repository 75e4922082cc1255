"""A stack's state (``pulumi stack export``) as typed resources, and the resource that previews share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.engine.property_value import REMEDY, decode_properties
from gpufleet.errors import InputError


@dataclass(frozen=True)
class ResourceAlias:
    """An earlier identity of a resource: a URN, or the parts that differ from the present one."""

    urn: str = ""
    name: str = ""
    type: str = ""
    parent: str = ""
    no_parent: bool = False
    stack: str = ""
    project: str = ""


@dataclass(frozen=True)
class StateResource:
    """One resource as the engine knows it.

    ``custom`` is false for components, which exist in no cloud and cost nothing themselves. ``external``
    resources were only read, not made. ``delete`` marks one that awaits deletion and still bills.
    ``pending`` names an operation (creating, deleting …) that an interrupted run left open. One with
    ``pending_replacement`` is gone already: the engine deleted it and has yet to make its successor.
    ``remote`` is a component whose children another process makes (only a program's own run tells).
    """

    urn: str
    type: str
    name: str
    inputs: dict[str, Any] = field(repr=False)
    outputs: dict[str, Any] = field(repr=False)
    parent: str | None = None
    provider: str | None = None
    custom: bool = True
    external: bool = False
    protect: bool = False
    retain_on_delete: bool = False
    delete: bool = False
    id: str | None = None
    view_of: str | None = None
    pending: str | None = None
    pending_replacement: bool = False
    remote: bool = False
    ignore_changes: tuple[str, ...] = ()
    aliases: tuple[ResourceAlias, ...] = ()  # in the order in which the engine tries them
    # The resources that each input was made from: what a reference means before deployment gives it an id.
    property_dependencies: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @property
    def is_provider_resource(self) -> bool:
        """True if this is a provider's own record, e.g. ``pulumi:providers:aws``."""
        return self.type.startswith("pulumi:providers:")


def parse_state_resource(record: Mapping[str, Any], *, pending_operation: str | None = None) -> StateResource:
    """Return one resource from a record of a state or of a preview's step."""
    if not isinstance(record, Mapping):
        raise InputError(
            f"the input contains a resource that is not a mapping: {str(record)[:40]!r}", remedy=REMEDY
        )
    urn = record.get("urn")
    if not isinstance(urn, str) or urn.count("::") < 3:  # noqa: PLR2004 - urn:pulumi:stack::project::type::name
        raise InputError(f"the input contains a resource without a URN: {str(urn)[:80]!r}", remedy=REMEDY)
    return StateResource(
        urn=urn,
        type=str(record.get("type") or parse_type_from_urn(urn)),
        name=urn.split("::", 3)[3],
        inputs=decode_properties(record.get("inputs")),
        outputs=decode_properties(record.get("outputs")),
        parent=record.get("parent") or None,
        provider=record.get("provider") or None,
        custom=bool(record.get("custom", False)),
        external=bool(record.get("external", False)),
        protect=bool(record.get("protect", False)),
        retain_on_delete=bool(record.get("retainOnDelete", False)),
        delete=bool(record.get("delete", False)),
        id=record.get("id") or None,
        view_of=record.get("viewOf") or None,
        pending=pending_operation,
        pending_replacement=bool(record.get("pendingReplacement", False)),
        remote=bool(record.get("remote", False)),
        ignore_changes=tuple(str(path) for path in _check_list(record.get("ignoreChanges"), "ignoreChanges")),
        aliases=tuple(map(_parse_alias, _check_list(record.get("aliases"), "aliases"))),
        property_dependencies={
            name: tuple(urns or ())
            for name, urns in _check_mapping(
                record.get("propertyDependencies"), "propertyDependencies"
            ).items()
        },
    )


def _parse_alias(value: Any) -> ResourceAlias:
    """Return an alias: the URN that a state has, or the parts that a program registers."""
    if isinstance(value, str):
        return ResourceAlias(urn=value)
    parts = _check_mapping(value, "aliases")
    texts = {key: str(parts.get(key) or "") for key in ("urn", "name", "type", "parent", "stack", "project")}
    return ResourceAlias(**texts, no_parent=parts.get("noParent") is True)


def parse_type_from_urn(urn: str) -> str:
    """Return the resource's own type from its URN, without its parents' types."""
    return urn.split("::")[2].rsplit("$", 1)[-1]


def parse_stack_state(document: Mapping[str, Any]) -> list[StateResource]:
    """Return the resources of a ``pulumi stack export``, pending creations included, in its order."""
    deployment = document.get("deployment") if isinstance(document, Mapping) else None
    if not isinstance(deployment, Mapping):
        raise InputError(
            "the input is not the state of a stack: it has no 'deployment'",
            remedy="give the output of `pulumi stack export`",
        )
    operations = _check_list(deployment.get("pending_operations"), "pending_operations")
    for item in operations:
        parse_state_resource(_check_mapping(item, "pending_operations").get("resource") or {})
    pending = {str(item["resource"]["urn"]): str(item.get("type", "")) for item in operations}
    records = [
        _check_mapping(record, "resources")
        for record in _check_list(deployment.get("resources"), "resources")
    ]
    resources = [
        parse_state_resource(record, pending_operation=pending.get(str(record.get("urn"))))
        for record in records
    ]
    known = {resource.urn for resource in resources}
    unrecorded = (item for item in operations if item["resource"]["urn"] not in known)
    return resources + [
        parse_state_resource(item["resource"], pending_operation=str(item.get("type", "")))
        for item in unrecorded
    ]


def _check_mapping(value: Any, key: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"is not a mapping: {str(value)[:40]!r}", key=key, remedy=REMEDY)
    return value or {}


def _check_list(value: Any, key: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise InputError(f"is not a list: {str(value)[:40]!r}", key=key, remedy=REMEDY)
    return value or []
