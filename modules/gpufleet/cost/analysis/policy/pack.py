"""The same rules as a Pulumi policy pack (CrossGuard), for who wants the engine itself to ask.

The pack sees what is to be, not what was: limits on an increase are not asked here. It reads unknown values as
unknown and never touches one as if it were known, because CrossGuard then turns a mandatory policy into advice.
``gpufleet cost diff --policy`` needs no engine and judges the change as well; its verdict is the one to gate on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

from gpufleet.cost.analysis.diff import Violation, compare
from gpufleet.cost.analysis.policy.file import load_policy
from gpufleet.cost.analysis.policy.model import Limits, Policy
from gpufleet.cost.analysis.policy.verdict import judge
from gpufleet.cost.pricing.billing import price_resources
from gpufleet.cost.pricing.rates import PriceBook
from gpufleet.engine import UNKNOWN, Resource
from gpufleet.errors import EnvironmentFault, InputError

PROGRAM = "gpufleet-cost.sh"  # what an engine starts whose Python host knows no policy packs
INCREASES: dict[str, Any] = {"max_increase_usd_per_month": None, "max_increase_percent": None}
Report = Callable[[str, str | None], None]


def serve(file: Path) -> None:
    """Be the policy pack: answer the engine until it ends."""
    try:
        from pulumi_policy import EnforcementLevel, PolicyPack, StackValidationPolicy
    except ImportError:
        raise EnvironmentFault("pulumi-policy is not installed", hint="install gpufleet[policy]") from None
    policy = load_policy(file)

    def validate(args: Any, report: Report) -> None:
        for broken in violations(args.resources, policy):
            report(f"{broken.rule}: {broken.message}", None)

    cost = StackValidationPolicy("cost", "The stack keeps gpufleet's cost policy.", validate)
    PolicyPack("gpufleet-cost", [cost], EnforcementLevel.MANDATORY)


def violations(
    resources: Iterable[Any], policy: Policy, book: PriceBook | None = None
) -> tuple[Violation, ...]:
    """Price the resources that CrossGuard shows, and judge what they cost."""
    found = [_resource(each) for each in resources]
    stack = next((each.urn.split("::")[0].removeprefix("urn:pulumi:") for each in found), "")
    bill = price_resources(found, book)
    diff = compare(stack, bill, bill)
    return judge(diff, standing(policy), datetime.now(UTC).date()).policy.violations


def standing(policy: Policy) -> Policy:
    """Return the policy without what needs to know how it was before."""
    rules = tuple(replace(rule, limits=replace(rule.limits, **INCREASES)) for rule in policy.rules)
    left = tuple(rule for rule in rules if rule.limits != Limits())
    return replace(policy, rules=left, **INCREASES)


def write_pack(folder: Path) -> None:
    """Write the pack's files into a new folder, for its owner to keep and change."""
    if folder.exists():
        raise InputError("is there already", where=str(folder), remedy="give a new folder")
    with as_file(files("gpufleet.cost") / "data" / "policy_pack") as source:
        copytree(source, folder, ignore=ignore_patterns("__pycache__"))
    (folder / PROGRAM).chmod(0o755)  # installing may lose it


def _resource(shown: Any) -> Resource:
    """Return a resource in our words. Components have no provider, and that is how CrossGuard tells them."""
    parent, provider = shown.parent, shown.provider
    return Resource(
        urn=str(shown.urn),
        type=str(shown.resource_type),
        name=str(shown.name),
        inputs=dict(_known(shown.props)),
        outputs={},
        parent=str(parent.urn) if parent else None,
        provider=f"{provider.urn}::" if provider else None,
        custom=provider is not None,
        protect=bool(shown.opts.protect),
        property_dependencies={
            name: tuple(str(each.urn) for each in of) for name, of in shown.property_dependencies.items()
        },
    )


def _known(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in values:
        yield str(key), _looked_at(values, key)


def _looked_at(holder: Any, key: Any) -> Any:
    """Return a value as plain data; one that is not known yet is the marker that says so."""
    from pulumi_policy.proxy import UnknownValueError

    try:
        value = holder[key]
    except UnknownValueError:
        return UNKNOWN
    if isinstance(value, Mapping):
        return dict(_known(value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_looked_at(value, at) for at in range(len(value))]
    return value
