"""Releases a failed rented node and has another take its place.

A member of a group is given back through its cloud's API, and the group starts another. A single node is a resource of
the stack: the engine replaces it. The registry keeps the history of the old node and retires it; the next
``nodes sync`` brings the new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gpufleet import engine, fleet, paths
from gpufleet.boundary import Json
from gpufleet.errors import CheckFailed, GpufleetError, InputError
from gpufleet.nodes import Node, Registry, latest_values_by_key
from gpufleet.nodes.cloud_api.account import find_azure_subscription, find_gcp_project
from gpufleet.operations import repair
from gpufleet.operations.member_release import release_aws_member, release_azure_member, release_gcp_member
from gpufleet.operations.node_change import require_reason
from gpufleet.operations.stack_state import build_engine_environment

BEGUN, DONE, FAILED = "replace_begun", "replaced", "replace_failed"
REPLACEABLE = ("quarantined", "repair")

SimulatedRelease = Callable[[str, str], str]
"""In a rehearsal: give a member back to its simulated cloud, by stack and instance id; return what happened."""


@dataclass(frozen=True)
class ReplacementRequest:
    """What to replace and why. ``stack`` is the node's own if left out."""

    node: str
    reason: str
    stack: str | None = None
    simulated_release: SimulatedRelease | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass(frozen=True)
class NodeReplacement:
    """A planned replacement: what will be done, how to look at it first, and how to do it."""

    node: Node
    stack: str
    description: str
    preview: Callable[[Callable[[str], None]], None]
    execute: Callable[[Callable[[str], None]], None]

    def as_json(self) -> Json:
        """Return the plan for scripts."""
        return {
            "node": self.node.name,
            "cloud": self.node.cloud,
            "instance_id": self.node.instance_id,
            "stack": self.stack,
            "plan": self.description,
        }

    def format_plan(self) -> list[str]:
        """Return the plan as lines."""
        return [
            f"{self.node.name} ({self.node.cloud} {self.node.instance_id}): {self.node.state_reason}",
            f"  {self.description}",
            "  then: the registry retires it and keeps its history",
        ]


def plan_replacement(registry: Registry, request: ReplacementRequest) -> NodeReplacement:
    """Return how a node is replaced; InputError for a node that is in use, not rented, or of unknown origin."""
    require_reason(request.reason)
    node = registry.get_node(request.node)
    _check_is_replaceable(node)
    values = latest_values_by_key(registry.list_node_values(node.id))
    stack = request.stack or node.stack
    if not stack:
        raise InputError("the node's stack is unknown", where=node.name, remedy="give it with --stack")
    group, urn = (str(values.get(f"observed.{name}") or "") for name in ("group", "urn"))
    if urn:
        return _plan_single(node, stack, urn, request)
    if not group:
        remedy = "gpufleet nodes sync -s STACK --cloud-api"
        raise InputError(
            "neither its group nor its resource in the stack is known", where=node.name, remedy=remedy
        )
    release: Callable[[Callable[[str], None]], None]
    if request.simulated_release is not None:
        release = partial(_release_simulated, request.simulated_release, stack, str(node.instance_id))
    else:
        release = _find_release(node, stack, group, values, request)
    return NodeReplacement(
        node,
        stack,
        f"give it back to {node.cloud}; its group {group.rpartition('/')[2]} starts another",
        lambda _report: None,
        release,
    )


def _check_is_replaceable(node: Node) -> None:
    if not node.cloud:
        raise InputError("is your own hardware", where=node.name, remedy="repair it: gpufleet repairs list")
    if node.state not in REPLACEABLE:
        remedy = f"first: gpufleet nodes state {node.name} quarantined --reason …"
        if node.state == "retired":
            remedy = "nothing is left to do"
        raise InputError(f"is {node.state}, not {' or '.join(REPLACEABLE)}", where=node.name, remedy=remedy)


def _plan_single(node: Node, stack: str, urn: str, request: ReplacementRequest) -> NodeReplacement:
    environment = build_engine_environment(request.environment)
    target = ["--stack", stack, "--target-replace", urn, "--target-dependents"]

    def run(verb: list[str], report: Callable[[str], None]) -> None:
        engine.run_pulumi([*verb, *target], paths.find_project_root(), environment, report)

    return NodeReplacement(
        node,
        stack,
        f"pulumi up {' '.join(target)}",
        partial(run, ["preview"]),
        partial(run, ["up", "--yes", "--skip-preview"]),
    )


def _release_simulated(
    release: SimulatedRelease, stack: str, instance_id: str, report: Callable[[str], None]
) -> None:
    report(release(stack, instance_id))


def _find_release(
    node: Node, stack: str, group: str, values: Mapping[str, Any], request: ReplacementRequest
) -> Callable[[Callable[[str], None]], None]:
    """Return the call of the cloud's API that gives a member back such that its group keeps its size."""
    declared = fleet.load_fleet(stack, paths.find_project_root()).find_account_part(node.pool)
    if node.cloud == "aws":
        return partial(release_aws_member, str(node.region), str(node.instance_id), account=declared.aws)
    if node.cloud == "gcp":
        project = find_gcp_project(declared, request.environment)
        zone = str(values.get("observed.zone") or "")
        return partial(release_gcp_member, project, group, zone, node.name, str(node.region))
    if node.cloud == "azure":
        subscription = find_azure_subscription(declared, request.environment)
        return partial(release_azure_member, subscription, group, str(node.instance_id))
    raise InputError(f"gpufleet gives no members of groups back to {node.cloud}", where=node.name)


def execute_replacement(
    registry: Registry, planned: NodeReplacement, reason: str, actor: str, report: Callable[[str], None]
) -> None:
    """Do what was planned; the node is retired only after its cloud or the engine has agreed.

    Interrupted, the node stays as it is, with a line in its history, and the command can be repeated.
    """
    node = planned.node
    with registry.acting_as(actor):
        current = registry.get_node(node.id)
        if (current.state, current.instance_id) != (node.state, node.instance_id):
            raise CheckFailed(f"{node.name} has changed since it was planned: it is {current.state}")
        registry.add_history_entry_once(node.id, BEGUN, f"{planned.description}: {reason}")
        try:
            planned.execute(report)
        except GpufleetError as error:
            registry.add_history_entry_once(node.id, FAILED, str(error))
            raise
        with registry.transaction():
            registry.add_history_entry_once(node.id, DONE, planned.description)
            for status in repair.list_part_statuses(registry, node):
                registry.record_repair_action(status.part.id, "replace", reason, actor)
            registry.retire_node(node.id, f"released and replaced: {reason}")
