"""Validation rules, and the table of keys that belong to another kind of purchase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpufleet.fleet.document import Problem

if TYPE_CHECKING:
    from gpufleet.fleet.spec import Fleet, Pool, Spec

PoolCheck = Callable[["Pool"], Iterator[Problem]]
SpecCheck = Callable[["Spec"], Iterator[Problem]]
FleetCheck = Callable[["Fleet"], Iterator[Problem]]


@dataclass(frozen=True)
class Rule:
    """Why a combination is refused, with the source of the rule."""

    id: str
    reason: str
    source: str
    remedy: str = ""


RULES: dict[str, Rule] = {}
POOL_CHECKS: list[tuple[Rule, PoolCheck]] = []
SPEC_CHECKS: list[tuple[Rule, SpecCheck]] = []
FLEET_CHECKS: list[tuple[Rule, FleetCheck]] = []


def register_rule(rule: Rule) -> Rule:
    """Add a rule to the table; ids are unique."""
    if rule.id in RULES:
        raise ValueError(f"rule {rule.id} is registered twice")
    RULES[rule.id] = rule
    return rule


def pool_rule(id_: str, *, reason: str, source: str) -> Callable[[PoolCheck], PoolCheck]:
    """Register a check of one pool; its paths start at the pool."""

    def add(check: PoolCheck) -> PoolCheck:
        POOL_CHECKS.append((register_rule(Rule(id_, reason, source)), check))
        return check

    return add


def spec_rule(id_: str, *, reason: str, source: str) -> Callable[[SpecCheck], SpecCheck]:
    """Register a check of the whole spec."""

    def add(check: SpecCheck) -> SpecCheck:
        SPEC_CHECKS.append((register_rule(Rule(id_, reason, source)), check))
        return check

    return add


def fleet_rule(id_: str, *, reason: str, source: str) -> Callable[[FleetCheck], FleetCheck]:
    """Register a check of the spec together with its racks."""

    def add(check: FleetCheck) -> FleetCheck:
        FLEET_CHECKS.append((register_rule(Rule(id_, reason, source)), check))
        return check

    return add


def check_fleet(fleet: Fleet) -> list[Problem]:
    """Return the problems that the rules find once the racks are read."""
    return [_add_rule_id(rule, problem) for rule, run_check in FLEET_CHECKS for problem in run_check(fleet)]


def check_spec(spec: Spec) -> list[Problem]:
    """Return the problems that the rules find in a spec, each with the rule's id."""
    problems = [_add_rule_id(rule, problem) for rule, run_check in SPEC_CHECKS for problem in run_check(spec)]
    for index, pool in enumerate(spec.pools):
        for rule, test in POOL_CHECKS:
            for problem in test(pool):
                here = Problem(("pools", index, *problem.path), problem.text, problem.remedy)
                problems.append(_add_rule_id(rule, here))
    return problems


def find_misplaced_key_rule(kind: str, key: str) -> Rule | None:
    """Return the rule that keeps a key out of a kind of purchase, where there is one."""
    return MISPLACED_KEYS.get((kind, key))


def _add_rule_id(rule: Rule, problem: Problem) -> Problem:
    return Problem(problem.path, f"{problem.text} (rule {rule.id})", problem.remedy)


_SPOT_RESERVATION = register_rule(
    Rule(
        "spot-reservation",
        "spot capacity cannot come from a reservation",
        "Google, Consume reservations, Limitations: no Spot VMs; AWS CapacityReservationSpecification: On-Demand; "
        "Azure: not confirmed by a stored source",
        "remove 'reservation', or say kind: reserved",
    )
)
_EVICTION_NEEDS_SPOT = register_rule(
    Rule(
        "eviction-needs-spot",
        "only spot capacity is evicted",
        "Microsoft, error-codes-spot: EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines",
        "remove it, or say kind: spot",
    )
)
_FALLBACK_NEEDS_SPOT = register_rule(
    Rule(
        "fallback-needs-spot",
        "only spot capacity needs a fallback",
        "on-demand and reserved capacity are what one falls back to",
        "remove it, or say kind: spot",
    )
)
_CAP_NEEDS_SPOT = register_rule(
    Rule(
        "cap-needs-spot",
        "a price cap belongs to spot: other prices do not move",
        "Microsoft, VirtualMachine BillingMaxPrice: of a Spot VM; AWS: SpotOptions.MaxPrice",
        "remove it, or say kind: spot",
    )
)
_TERM_NEEDS_RESERVED = register_rule(
    Rule(
        "term-needs-reserved",
        "commitments cover capacity that runs around the clock, not this kind",
        "commitment discounts do not apply to spot; on-demand has no term",
        "remove it, or say kind: reserved",
    )
)
_RESERVATION_NEEDS_RESERVED = register_rule(
    Rule(
        "reservation-needs-reserved",
        "on-demand nodes do not target a reservation",
        "a node that uses a reservation is kind reserved here, so that its price and hours are right",
        "remove it, or say kind: reserved",
    )
)

MISPLACED_KEYS: dict[tuple[str, str], Rule] = {
    ("spot", "reservation"): _SPOT_RESERVATION,
    ("spot", "term"): _TERM_NEEDS_RESERVED,
    ("on_demand", "reservation"): _RESERVATION_NEEDS_RESERVED,
    ("on_demand", "term"): _TERM_NEEDS_RESERVED,
    ("on_demand", "on_eviction"): _EVICTION_NEEDS_SPOT,
    ("on_demand", "fallback"): _FALLBACK_NEEDS_SPOT,
    ("on_demand", "max_usd_per_hour"): _CAP_NEEDS_SPOT,
    ("reserved", "on_eviction"): _EVICTION_NEEDS_SPOT,
    ("reserved", "fallback"): _FALLBACK_NEEDS_SPOT,
    ("reserved", "max_usd_per_hour"): _CAP_NEEDS_SPOT,
}
