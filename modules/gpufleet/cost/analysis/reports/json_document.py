"""Estimates and differences as JSON. ``data/cost_diff.schema.json`` describes a difference."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from gpufleet.boundary import read_packaged_json
from gpufleet.cost.analysis.diff import CodeAndPriceEffects, CostDiff, CostDiffLine, PolicyLimitCheck
from gpufleet.cost.analysis.estimate import CostEstimate
from gpufleet.cost.analysis.pool import PoolCost, group_charges_by_pool
from gpufleet.cost.analysis.unknown_change import UnknownChange
from gpufleet.cost.money import ZERO, ZERO_RANGE, Range, round_hourly_rate, round_to_cents
from gpufleet.cost.pricing.bill import Bill, Charge, CommitmentUse, GapClasses, UnpricedResource
from gpufleet.cost.pricing.monthly_use import MonthlyUse


def render_diff_json(diff: CostDiff) -> str:
    """Return a difference as JSON text."""
    return json.dumps(build_diff_document(diff), indent=2)


def render_estimate_json(estimate: CostEstimate) -> str:
    """Return an estimate as JSON text."""
    return json.dumps(build_estimate_document(estimate), indent=2)


def build_diff_document(diff: CostDiff) -> dict[str, Any]:
    """Return a difference as its JSON Schema describes."""
    percent = diff.change_percent
    return {
        "stack": diff.stack,
        "currency": "USD",
        "before": _total_document(diff.before),
        "after": _total_document(diff.after),
        "change": {
            "usd_per_month": float(diff.change_usd_per_month),
            "percent": None if percent is None else float(percent),
            "is_known": not diff.unknown_changes,
            "unknown": [_unknown_change_document(each) for each in diff.unknown_changes],
        },
        "one_off_usd": float(diff.one_off_usd),
        "budget_usd_per_month": _number_or_none(diff.budget_usd_per_month),
        "resources": [_line_document(line) for line in diff.lines],
        **_gap_documents(diff.gaps),
        "warnings": list(diff.warnings),
        "notes": list(diff.notes),
        "commitments": [_commitment_document(use) for use in diff.after.commitments],
        "partial": diff.partial,
        "policy": {
            "passed": diff.policy.passed,
            "violations": [{"rule": each.rule, "message": each.message} for each in diff.policy.violations],
            "undecided": [{"rule": each.rule, "message": each.message} for each in diff.policy.undecided],
            "checks": [_check_document(check) for check in diff.policy.checks],
        },
        "prices": None if diff.prices is None else _price_effect_document(diff.prices),
        **_skipped_document(diff.after),
    }


def build_estimate_document(estimate: CostEstimate) -> dict[str, Any]:
    """Return an estimate: totals, pools, charges, unpriced resources and notes."""
    return {
        "stack": estimate.stack,
        "currency": "USD",
        "total": _total_document(estimate.bill),
        "budget": {
            "usd_per_month": None if estimate.budget is None else estimate.budget.max,
            "within": estimate.is_within_budget,
            "verdict": estimate.budget_verdict,
        },
        "pools": [_pool_document(pool) for pool in group_charges_by_pool(estimate.bill)],
        "resources": [_charge_document(charge) for charge in estimate.bill.charges],
        **_gap_documents(estimate.bill.gaps),
        "notes": list(estimate.notes),
        "commitments": [_commitment_document(use) for use in estimate.bill.commitments],
        **_skipped_document(estimate.bill),
    }


def load_diff_schema() -> dict[str, Any]:
    """Return the JSON Schema of a difference."""
    document: dict[str, Any] = read_packaged_json("gpufleet.cost", "data/cost_diff.schema.json")
    return document


def _total_document(bill: Bill) -> dict[str, float]:
    month = bill.usd_per_month
    return {
        "usd_per_hour": _rate_number(bill.usd_per_hour.expected),
        "usd_per_month": float(round_to_cents(month.expected)),
        "usd_per_month_low": float(round_to_cents(month.low)),
        "usd_per_month_high": float(round_to_cents(month.high)),
    }


def _line_document(line: CostDiffLine) -> dict[str, Any]:
    after = line.after.usd_per_hour if line.after else ZERO_RANGE
    before = line.before.usd_per_hour.expected if line.before else ZERO
    shown = _charge_document(line.shown_charge)
    return {
        "urn": shown["urn"],
        "type": shown["type"],
        "name": shown["name"],
        "component": shown["component"],
        "item": shown["item"],
        "pool": shown["pool"],
        "op": line.op,
        "quantity": shown["quantity"],
        "unit": shown["unit"],
        "tiers": shown["tiers"],
        "quantity_before": float(line.before.quantity.expected) if line.before else 0.0,
        "hours_per_month": shown["hours_per_month"],
        "purchase": shown["purchase"],
        "before_usd_per_hour": _rate_number(before),
        "after_usd_per_hour": _rate_number(after.expected),
        "after_usd_per_hour_low": _rate_number(after.low),
        "after_usd_per_hour_high": _rate_number(after.high),
        "one_off_usd": float(round_to_cents(line.one_off_usd)),
        "price": shown["price"],
        "note": shown["note"],
        "covered_by": shown["covered_by"],
        "expected_usd_per_useful_hour": shown["expected_usd_per_useful_hour"],
    }


def _charge_document(charge: Charge) -> dict[str, Any]:
    price = charge.price
    return {
        "urn": charge.urn,
        "type": charge.type,
        "name": charge.name,
        "component": charge.component,
        "item": charge.item,
        "pool": charge.pool,
        "region": charge.region,
        "quantity": float(charge.quantity.expected),
        "unit": charge.monthly_use.unit_name if charge.monthly_use else None,
        "tiers": _tier_documents(charge.monthly_use) if charge.monthly_use else [],
        "hours_per_month": float(charge.hours_per_month),
        "purchase": charge.purchase,
        "usd_per_hour": _rate_number(charge.usd_per_hour.expected),
        "usd_per_month": float(round_to_cents(charge.usd_per_month.expected)),
        "price": price and {"usd_per_hour": price.usd_per_hour, "as_of": price.as_of, "source": price.source},
        "note": charge.note,
        "covered_by": charge.covered_by or None,
        "expected_usd_per_useful_hour": charge.usd_per_useful_hour
        and _useful_rate_document(charge.usd_per_useful_hour),
    }


def _tier_documents(use: MonthlyUse) -> list[dict[str, Any]]:
    """Return the volume tiers that an amount reaches."""
    return [
        {
            "from": float(share.from_amount),
            "amount": float(share.amount),
            "usd_per_unit": float(share.usd_per_unit),
            "as_of": share.as_of,
            "source": share.source,
        }
        for share in use.shares
    ]


def _useful_rate_document(rate: Range) -> dict[str, float]:
    return {
        "low": _rate_number(rate.low),
        "expected": _rate_number(rate.expected),
        "high": _rate_number(rate.high),
    }


def _commitment_document(use: CommitmentUse) -> dict[str, Any]:
    return {
        "id": use.id,
        "kind": use.kind,
        "until": str(use.until),
        "usd_per_month": float(round_to_cents(use.usd_per_month)),
        "used": round(float(use.used), 6),
        "unused_usd_per_month": float(round_to_cents(use.unused_usd_per_month)),
    }


def _pool_document(pool: PoolCost) -> dict[str, Any]:
    return {
        "pool": pool.name,
        "machine": pool.machine,
        "region": pool.region,
        "purchase": pool.purchase,
        "count": float(pool.count.expected),
        "unit": pool.unit or None,
        "hours_per_month": float(pool.hours),
        "usd_per_hour": _rate_number(pool.usd_per_hour.expected),
        "usd_per_month": float(round_to_cents(pool.usd_per_month.expected)),
        "usd_per_month_low": float(round_to_cents(pool.usd_per_month.low)),
        "usd_per_month_high": float(round_to_cents(pool.usd_per_month.high)),
    }


def _unknown_change_document(change: UnknownChange) -> dict[str, Any]:
    return {
        "urn": change.urn,
        "type": change.type,
        "name": change.name,
        "op": change.op,
        "inputs": list(change.inputs),
        "causes": list(change.causes),
        "reason": change.reason,
    }


def _gap_documents(gaps: GapClasses) -> dict[str, list[dict[str, Any]]]:
    """Return what has no price, and what bills by use without an amount of use, with their keys."""
    return {
        "unpriced": [_unpriced_document(each) for each in gaps.without_price],
        "usage": [_unpriced_document(each) for each in gaps.by_use],
    }


def _unpriced_document(unpriced: UnpricedResource) -> dict[str, Any]:
    return {
        "urn": unpriced.urn,
        "type": unpriced.type,
        "name": unpriced.name,
        "component": unpriced.component,
        "reason": unpriced.reason,
    }


def _skipped_document(bill: Bill) -> dict[str, Any]:
    """Return the resources that cost nothing, with their key; nothing unless they are asked for."""
    skipped = [
        {"urn": each.urn, "type": each.type, "name": each.name, "component": "", "reason": each.reason}
        for each in bill.skipped_resources
    ]
    return {"skipped": skipped} if skipped else {}


def _check_document(check: PolicyLimitCheck) -> dict[str, Any]:
    return {
        "rule": check.rule,
        "limit": check.limit,
        "demands": check.requirement,
        "scope": check.scope,
        "passed": check.is_met,
        "decided": not check.undecided,
    }


def _price_effect_document(move: CodeAndPriceEffects) -> dict[str, Any]:
    return {
        "before": move.before and move.before.isoformat(),
        "after": move.after and move.after.isoformat(),
        "usd_per_month_by_code": float(move.by_code),
        "usd_per_month_by_prices": float(move.by_prices),
        "usd_per_month_unexplained": float(move.unexplained),
        "same_stack": move.same_stack,
    }


def _rate_number(amount: Decimal) -> float:
    return float(round_hourly_rate(amount))


def _number_or_none(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
