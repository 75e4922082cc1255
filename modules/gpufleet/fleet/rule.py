"""Validation rules, and the table of keys that belong to another kind of purchase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.fleet.document import SpecProblem
from gpufleet.rule import Rule, RuleTable, add_rule

if TYPE_CHECKING:
    from gpufleet.fleet.spec import Fleet, FleetSpec, Pool

RULES: dict[str, Rule] = {}

POOL_RULES: RuleTable[Pool, SpecProblem] = RuleTable(RULES)
"""Checks of one pool; paths of their problems start at the pool."""

SPEC_RULES: RuleTable[FleetSpec, SpecProblem] = RuleTable(RULES)
"""Checks of the whole spec."""

FLEET_RULES: RuleTable[Fleet, SpecProblem] = RuleTable(RULES)
"""Checks of the spec together with its racks."""


def find_fleet_problems(fleet: Fleet) -> list[SpecProblem]:
    """Return the problems that the rules find once the racks are read."""
    return [_add_rule_id(rule, problem) for rule, problem in FLEET_RULES.find_violations(fleet)]


def find_spec_problems(spec: FleetSpec) -> list[SpecProblem]:
    """Return the problems that the rules find in a spec, each with the rule's id."""
    problems = [_add_rule_id(rule, problem) for rule, problem in SPEC_RULES.find_violations(spec)]
    for index, pool in enumerate(spec.pools):
        problems += [
            _add_rule_id(rule, SpecProblem(("pools", index, *problem.path), problem.text, problem.remedy))
            for rule, problem in POOL_RULES.find_violations(pool)
        ]
    return problems


def _add_rule_id(rule: Rule, problem: SpecProblem) -> SpecProblem:
    return SpecProblem(problem.path, f"{problem.text} (rule {rule.id})", problem.remedy)


def find_misplaced_key_rule(purchase_kind: str, key: str) -> Rule | None:
    """Return the rule that keeps a key out of a kind of purchase, where there is one."""
    return MISPLACED_KEYS.get((purchase_kind, key))


_SPOT_RESERVATION = add_rule(
    RULES,
    Rule(
        "spot-reservation",
        "spot capacity cannot come from a reservation",
        "Google, Consume reservations, Limitations: no Spot VMs; AWS CapacityReservationSpecification: On-Demand; "
        "Azure: not confirmed by a stored source",
        "remove 'reservation', or set kind: reserved",
    ),
)
_EVICTION_NEEDS_SPOT = add_rule(
    RULES,
    Rule(
        "eviction-needs-spot",
        "only spot capacity is evicted",
        "Microsoft, error-codes-spot: EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines",
        "remove it, or set kind: spot",
    ),
)
_FALLBACK_NEEDS_SPOT = add_rule(
    RULES,
    Rule(
        "fallback-needs-spot",
        "only spot capacity needs a fallback",
        "on-demand and reserved capacity are the fallback",
        "remove it, or set kind: spot",
    ),
)
_CAP_NEEDS_SPOT = add_rule(
    RULES,
    Rule(
        "cap-needs-spot",
        "a price cap belongs to spot: other prices do not move",
        "Microsoft, VirtualMachine BillingMaxPrice: of a Spot VM; AWS: SpotOptions.MaxPrice",
        "remove it, or set kind: spot",
    ),
)
_TERM_NEEDS_RESERVED = add_rule(
    RULES,
    Rule(
        "term-needs-reserved",
        "commitments cover capacity that runs around the clock, not this kind",
        "commitment discounts do not apply to spot; on-demand has no term",
        "remove it, or set kind: reserved",
    ),
)
_RESERVATION_NEEDS_RESERVED = add_rule(
    RULES,
    Rule(
        "reservation-needs-reserved",
        "on-demand nodes do not target a reservation",
        "a node that uses a reservation is kind reserved here, so that its price and hours are correct",
        "remove it, or set kind: reserved",
    ),
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
