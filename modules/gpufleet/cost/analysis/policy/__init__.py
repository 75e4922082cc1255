"""The policy: limits on what a change may cost, each a rule with a name.

A file holds limits for the whole stack, named rules for parts of it, or both::

    budget_usd_per_month: 60000      # default: the stack's own budget
    max_high_usd_per_month: 90000    # of the highest value: every group at its maximum size
    max_increase_usd_per_month: 500
    max_increase_percent: 10
    max_resource_usd_per_month: 20000
    purchases: [spot, reserved]      # allowed purchase kinds
    max_price_age_days: 400          # a price without a date is older than any limit
    unpriced: forbid                 # allow (the default), forbid, or a list of resource types to allow
    unknown_usage: forbid            # allow (the default), forbid, or a list: what bills by use needs an amount of use
    unknown_change: forbid           # the default: a change of unknown cost does not pass; allow, or a list of types;
                                     # [usage] allows what bills by use only
    ignore_increase_below_usd_per_month: 50   # smaller increases are never too large in percent
    rules:
      - name: training is capped
        when: {stack: prod*, project: infra, pool: train*, owner: ml-platform}
        budget_usd_per_month: 40000
      - name: no pool doubles
        each: pool                   # or owner, project: the limits apply to each of them
        on_violation: warn           # or fail (the default)
        max_increase_percent: 100

Input: a policy and a difference. Output: the difference with the verdict. No engine is needed; the verdict is the same
with CrossGuard (``pack``).
"""

from __future__ import annotations

from gpufleet.cost.analysis.policy.file import load_policy
from gpufleet.cost.analysis.policy.model import (
    CostLimits,
    CostPolicy,
    PolicyRule,
    PolicyScope,
    without_allowances,
)
from gpufleet.cost.analysis.policy.verdict import (
    UNKNOWN_CHANGE,
    check_policy,
    format_empty_rule,
    judge_without_policy,
)

__all__ = [
    "UNKNOWN_CHANGE",
    "CostLimits",
    "CostPolicy",
    "PolicyRule",
    "PolicyScope",
    "check_policy",
    "format_empty_rule",
    "judge_without_policy",
    "load_policy",
    "without_allowances",
]
