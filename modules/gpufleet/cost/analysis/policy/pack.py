"""The cost policy as a Pulumi policy pack (CrossGuard), for users who want the engine to check it.

The pack sees only the new resources, so it skips limits on an increase. It never uses an unknown value as if
it were known, because CrossGuard then turns a mandatory policy into advice. ``gpufleet cost diff --policy``
needs no engine and checks increases as well: use its verdict as the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

from gpufleet.cost.analysis.diff import PolicyViolation, compare_bills
from gpufleet.cost.analysis.policy.file import load_policy
from gpufleet.cost.analysis.policy.model import CostLimits, CostPolicy
from gpufleet.cost.analysis.policy.verdict import check_policy
from gpufleet.cost.pricing.billing import price_resources
from gpufleet.cost.pricing.rates import PriceBook
from gpufleet.engine import UNKNOWN, StateResource
from gpufleet.errors import InputError
from gpufleet.extra import explain_missing_packages

PROGRAM = "gpufleet-cost.sh"  # for engines whose Python host does not run policy packs
INCREASES: dict[str, Any] = {
    "max_increase_usd_per_month": None,
    "max_increase_percent": None,
    "ignore_increase_below_usd_per_month": None,
    "unknown_change": None,
}
Report = Callable[[str, str | None], None]


def run_policy_pack(file: Path) -> None:
    """Run the policy pack until the engine stops."""
    with explain_missing_packages():
        from pulumi_policy import EnforcementLevel, PolicyPack, StackValidationPolicy
    policy = load_policy(file)

    def report_stack_violations(args: Any, report: Report) -> None:
        for broken in find_policy_violations(args.resources, policy):
            report(f"{broken.rule}: {broken.message}", None)

    cost = StackValidationPolicy("cost", "The stack keeps gpufleet's cost policy.", report_stack_violations)
    PolicyPack("gpufleet-cost", [cost], EnforcementLevel.MANDATORY)


def find_policy_violations(
    resources: Iterable[Any], policy: CostPolicy, book: PriceBook | None = None
) -> tuple[PolicyViolation, ...]:
    """Price CrossGuard's resources, and check the policy."""
    resource_list = [_convert_resource(resource) for resource in resources]
    stack = next((resource.urn.split("::")[0].removeprefix("urn:pulumi:") for resource in resource_list), "")
    bill = price_resources(resource_list, book)
    diff = compare_bills(stack, bill, bill)
    return check_policy(diff, remove_increase_limits(policy), datetime.now(UTC).date()).policy.violations


def remove_increase_limits(policy: CostPolicy) -> CostPolicy:
    """Return the policy without limits that need the previous cost."""
    rules = tuple(replace(rule, limits=replace(rule.limits, **INCREASES)) for rule in policy.rules)
    remaining_rules = tuple(rule for rule in rules if rule.limits != CostLimits())
    return replace(policy, rules=remaining_rules, **INCREASES)


def write_policy_pack(folder: Path) -> None:
    """Write the pack's files into a new folder."""
    if folder.exists():
        raise InputError("exists already", where=str(folder), remedy="give a new folder")
    with as_file(files("gpufleet.cost") / "data" / "policy_pack") as source:
        copytree(source, folder, ignore=ignore_patterns("__pycache__"))
    (folder / PROGRAM).chmod(0o755)  # installing may lose it


def _convert_resource(pulumi_resource: Any) -> StateResource:
    """Convert CrossGuard's resource to ours. A component is a resource without a provider."""
    parent, provider = pulumi_resource.parent, pulumi_resource.provider
    return StateResource(
        urn=str(pulumi_resource.urn),
        type=str(pulumi_resource.resource_type),
        name=str(pulumi_resource.name),
        inputs=dict(_known_values(pulumi_resource.props)),
        outputs={},
        parent=str(parent.urn) if parent else None,
        provider=f"{provider.urn}::" if provider else None,
        custom=provider is not None,
        protect=bool(pulumi_resource.opts.protect),
        property_dependencies={
            name: tuple(str(each.urn) for each in dependencies)
            for name, dependencies in pulumi_resource.property_dependencies.items()
        },
    )


def _known_values(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in values:
        yield str(key), _known_value(values, key)


def _known_value(holder: Any, key: Any) -> Any:
    """Return a value as plain data, the UNKNOWN marker if it is not known yet."""
    from pulumi_policy.proxy import UnknownValueError

    try:
        value = holder[key]
    except UnknownValueError:
        return UNKNOWN
    if isinstance(value, Mapping):
        return dict(_known_values(value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_known_value(value, at) for at in range(len(value))]
    return value
