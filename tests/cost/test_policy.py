from __future__ import annotations

from datetime import date

import pytest

from gpufleet import cost
from gpufleet.cost import CostPolicy
from gpufleet.cost.money import to_decimal
from gpufleet.errors import InputError
from gpufleet.fleet import MonthlyBudget

TODAY = date(2026, 11, 21)


@pytest.fixture
def check_growth(make_resource, book):
    """Judge adding one p4d to another: 16,029.08 and 7.30 of disk each a month."""

    def judge(today=TODAY, after=None, budget=None, **rules):
        before, both = [make_resource("a")], [make_resource("a"), make_resource("b")]
        policy = CostPolicy(
            **{
                name: to_decimal(limit) if isinstance(limit, float) else limit
                for name, limit in rules.items()
            }
        )
        return cost.diff(before, after or both, policy, book=book, today=today, budget=budget).policy

    return judge


def violated_rules(verdict):
    return [violation.rule for violation in verdict.violations]


def test_policy_without_rules_passes(check_growth):
    assert check_growth().passed


@pytest.mark.parametrize(
    ("limit", "broken"), [(32072.77, []), (32072.76, []), (32072.74, ["budget_usd_per_month"])]
)
def test_budget_limit_is_checked(check_growth, limit, broken):
    assert (
        violated_rules(check_growth(budget_usd_per_month=limit)) == broken
    )  # 2 * (21.957642 + 0.01) * 730 = 32072.7573


def test_stack_budget_applies_if_the_policy_has_none(check_growth):
    assert violated_rules(check_growth(budget=MonthlyBudget(max=100))) == ["budget_usd_per_month"]
    assert check_growth(budget=MonthlyBudget(max=100), budget_usd_per_month=99999.0).passed


def test_increase_limit_is_checked(check_growth):
    assert violated_rules(check_growth(max_increase_usd_per_month=16000.0)) == ["max_increase_usd_per_month"]
    assert check_growth(max_increase_usd_per_month=16100.0).passed
    assert violated_rules(check_growth(max_increase_percent=99.0)) == ["max_increase_percent"]
    assert check_growth(max_increase_percent=100.0).passed


def test_any_increase_from_zero_violates_a_percentage_limit(make_resource, book):
    cost_diff = cost.diff([], [make_resource()], CostPolicy(max_increase_percent=to_decimal(1000)), book=book)
    assert violated_rules(cost_diff.policy) == ["max_increase_percent"]


def test_price_age_limit_is_checked(check_growth):
    assert check_growth(max_price_age_days=138).passed  # 2026-07-06 to 2026-11-21
    verdict = check_growth(max_price_age_days=137)
    assert "138 days old" in verdict.violations[0].message


def test_limit_of_unpriced_resources_is_checked(check_growth, make_resource):
    strange = [make_resource(type_="aws:sagemaker/endpoint:Endpoint")]
    allowed = ("*",)
    assert check_growth(after=strange, unknown_change=allowed).passed
    verdict = check_growth(after=strange, unknown_change=allowed, unpriced=())
    assert violated_rules(verdict) == ["unpriced"]
    assert check_growth(after=strange, unknown_change=allowed, unpriced=("aws:sagemaker/*",)).passed


def test_partial_totals_violate_limits_on_totals(make_resource, book):
    change = cost.StackChange(partial=True)
    policy = CostPolicy(budget_usd_per_month=to_decimal(10**9), max_increase_percent=to_decimal(10**9))
    verdict = cost.diff([], [make_resource()], policy, change=change, book=book).policy
    assert violated_rules(verdict) == ["budget_usd_per_month", "max_increase_percent"]
    assert "--show-sames" in verdict.violations[0].message


def test_policy_file_is_read(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("budget_usd_per_month: 60000\nmax_price_age_days: 400\nunpriced: forbid\n")
    policy = cost.load_policy(path)
    assert (policy.budget_usd_per_month, policy.max_price_age_days, policy.unpriced) == (60000, 400, ())


def test_empty_policy_has_no_rules(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("# nothing\n")
    assert cost.load_policy(path) == CostPolicy()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("budget: 1\n", "policy.yaml:1: budget: unknown rule; did you mean budget_usd_per_month?"),
        (
            "\nmax_increase_percent: -1\n",
            "policy.yaml:2: max_increase_percent: -1 is not a number of 0 or more",
        ),
        ("max_price_age_days: 1.5\n", "policy.yaml:1: max_price_age_days: 1.5 is not a whole number of days"),
        (
            "unpriced: never\n",
            "policy.yaml:1: unpriced: 'never' is not allow, forbid, or a list of resource types",
        ),
        (
            "budget_usd_per_month: true\n",
            "policy.yaml:1: budget_usd_per_month: True is not a number of 0 or more",
        ),
        (
            "budget_usd_per_month: .nan\n",
            "policy.yaml:1: nan is not a number that JSON can represent",
        ),
        ("- a\n", "policy.yaml:1: not a mapping of rules"),
        ("a: [\n", "policy.yaml:2: is not valid YAML"),
    ],
)
def test_mistakes_are_reported_in_one_line_with_their_place(tmp_path, text, line):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as excinfo:
        cost.load_policy(path)
    assert line in str(excinfo.value)
    assert "\n" not in str(excinfo.value)


def test_missing_policy_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        cost.load_policy(tmp_path / "none.yaml")


def test_policy_without_limits_or_with_an_unmatched_rule_gives_warnings(make_resource, book, tmp_path):
    path = tmp_path / "policy.yaml"

    def warned(text):
        path.write_text(text)
        return cost.diff([], [make_resource()], cost.load_policy(path), book=book).warnings

    assert any("the policy has no limit for " in warning for warning in warned("# nothing\n"))
    limited = 'rules:\n  - {name: capped, when: {pool: "trian*"}, budget_usd_per_month: 5}\n'
    assert any(
        "policy rule capped selects nothing here (pool trian*)" in warning for warning in warned(limited)
    )
    assert not any("policy" in warning for warning in warned(limited.replace("trian*", "*")))
