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


def find_fleet_problems(fleet: Fleet, *, is_partial: bool = False) -> list[SpecProblem]:
    """Return the problems that the rules find once the racks are read."""
    violations = FLEET_RULES.find_violations(fleet, is_partial=is_partial)
    return [_add_rule_id(rule, problem) for rule, problem in violations]


def find_spec_problems(spec: FleetSpec, *, is_partial: bool = False) -> list[SpecProblem]:
    """Return the problems that the rules find in a spec, each with the rule's id.

    ``is_partial``: it has no attribute where the file is wrong (``partial_model``).
    """
    violations = SPEC_RULES.find_violations(spec, is_partial=is_partial)
    problems = [_add_rule_id(rule, problem) for rule, problem in violations]
    for index, pool in enumerate(getattr(spec, "pools", ())):
        problems += [
            _add_rule_id(rule, SpecProblem(("pools", index, *problem.path), problem.text, problem.remedy))
            for rule, problem in POOL_RULES.find_violations(pool, is_partial=is_partial)
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
        "commitment discounts do not apply to spot, blocks and flex-start; on-demand has no term",
        "remove it, or set kind: reserved or committed",
    ),
)
_RESERVATION_NEEDS_RESERVED = add_rule(
    RULES,
    Rule(
        "reservation-needs-reserved",
        "nodes of this kind do not use a reservation",
        "a node that uses a reservation is kind reserved here, so that its price and hours are correct; "
        "Google, About Flex-start VMs: reservation affinity must be none",
        "remove it, or set kind: reserved",
    ),
)

_CHOICE_NEEDS_SPOT = add_rule(
    RULES,
    Rule(
        "choice-needs-spot",
        "machines, allocation, restore_minutes and work describe spot capacity",
        "EC2 Auto Scaling, InstancesDistribution: spot_allocation_strategy; Azure, spotRestorePolicy: of Spot VMs",
        "remove it, or set kind: spot",
    ),
)
_OFFERING_NEEDS_BLOCK = add_rule(
    RULES,
    Rule(
        "offering-needs-block",
        "only a Capacity Block is bought by an offering",
        "AWS, EC2 PurchaseCapacityBlock: CapacityBlockOfferingId",
        "remove it, or set kind: capacity_block",
    ),
)
_RUN_HOURS_NEED_FLEX_START = add_rule(
    RULES,
    Rule(
        "run-hours-need-flex-start",
        "only flex-start nodes are deleted after a number of hours",
        "Google, About Flex-start VMs: a run duration is required",
        "remove it, or set kind: flex_start",
    ),
)

_PLAIN_KINDS = ("on_demand", "reserved", "committed", "capacity_block", "flex_start")
_KEY_RULES: tuple[tuple[Rule, tuple[str, ...], tuple[str, ...]], ...] = (
    (_SPOT_RESERVATION, ("spot",), ("reservation",)),
    (_RESERVATION_NEEDS_RESERVED, ("on_demand", "committed", "flex_start"), ("reservation",)),
    (_TERM_NEEDS_RESERVED, ("spot", "on_demand", "capacity_block", "flex_start"), ("term",)),
    (_EVICTION_NEEDS_SPOT, _PLAIN_KINDS, ("on_eviction",)),
    (_FALLBACK_NEEDS_SPOT, _PLAIN_KINDS, ("fallback",)),
    (_CAP_NEEDS_SPOT, _PLAIN_KINDS, ("max_usd_per_hour",)),
    (_CHOICE_NEEDS_SPOT, _PLAIN_KINDS, ("machines", "allocation", "restore_minutes", "work")),
    (
        _OFFERING_NEEDS_BLOCK,
        ("on_demand", "spot", "reserved", "committed", "flex_start"),
        ("offering", "buy"),
    ),
    (
        _RUN_HOURS_NEED_FLEX_START,
        ("on_demand", "spot", "reserved", "committed", "capacity_block"),
        ("max_run_hours",),
    ),
)
MISPLACED_KEYS: dict[tuple[str, str], Rule] = {
    (kind, key): rule for rule, kinds, keys in _KEY_RULES for kind in kinds for key in keys
}
