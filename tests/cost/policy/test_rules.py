"""Test named rules for parts of a stack, and limits on single resources and purchases."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost import CostPolicy, load_policy
from gpufleet.cost.analysis.policy import CostLimits, PolicyRule, PolicyScope
from gpufleet.errors import InputError

POOL = "urn:pulumi:prod::gpufleet::gpufleet:cloud:AwsPool::pool"  # tags set prices in a pool only
DISK = {"volumeSize": 100, "volumeType": "gp3"}


@pytest.fixture
def check_two_pools(make_resource, book):
    """Judge a stack that grows by a train p4d (16,036.38 a month with its disk) beside a serve g5 on spot."""

    def machine(name, kind, pool, owner, purchase):
        tags = {"gpufleet-pool": pool, "gpufleet-owner": owner, "gpufleet-purchase": purchase}
        inputs = {"instanceType": kind, "region": "us-east-1", "rootBlockDevice": DISK, "tags": tags}
        return make_resource(name, inputs=inputs, parent=POOL)

    serve = machine("serve-1", "g5.2xlarge", "serve", "web", "spot")
    train = machine("train-1", "p4d.24xlarge", "train", "research", "on_demand")

    def judge(policy, stack="prod"):
        change = cost.StackChange(stack=stack)
        return cost.diff([serve], [serve, train], policy, change=change, book=book).policy

    return judge


def make_rule_policy(when=None, name="rule", **limits):
    return CostPolicy(rules=(PolicyRule(name, PolicyScope(**(when or {})), CostLimits(**limits)),))


@pytest.mark.parametrize(
    ("when", "broken"),
    [
        ({}, True),
        ({"pool": "train"}, True),
        ({"pool": "t*"}, True),
        ({"pool": "serve"}, False),
        ({"owner": "research"}, True),
        ({"owner": "web"}, False),
        ({"pool": "train", "owner": "web"}, False),
        ({"stack": "prod*"}, True),
        ({"stack": "dev*"}, False),
    ],
)
def test_rule_applies_only_to_matching_resources(check_two_pools, when, broken):
    verdict = check_two_pools(make_rule_policy(when, budget_usd_per_month=Decimal(16000)))
    assert [violation.rule for violation in verdict.violations] == ["rule"] * broken


def test_increase_limit_applies_to_matching_resources(check_two_pools):
    grown = {"max_increase_usd_per_month": Decimal(100), "max_increase_percent": Decimal(5)}
    assert check_two_pools(make_rule_policy({"pool": "serve"}, **grown)).passed
    assert len(check_two_pools(make_rule_policy({"pool": "train"}, **grown)).violations) == 2


def test_largest_resource_includes_its_disks(check_two_pools):
    # 21.957642 * 730 + 100 * 0.0001 * 730 = 16,029.08 + 7.30
    assert check_two_pools(CostPolicy(max_resource_usd_per_month=Decimal("16036.38"))).passed
    (broken,) = check_two_pools(CostPolicy(max_resource_usd_per_month=Decimal("16036.37"))).violations
    assert broken.rule == "max_resource_usd_per_month"
    assert broken.message == "train-1 costs $16,036.38 a month, over $16,036.37 for one resource"


@pytest.mark.parametrize(
    ("allowed", "broken"),
    [
        (("spot", "on_demand"), []),
        (("spot",), ["train-1 is bought as on demand; allowed: spot"]),
        (("reserved", "on_demand"), ["serve-1 is bought as spot; allowed: reserved or on demand"]),
    ],
)
def test_purchase_limits_apply_to_machines_only(check_two_pools, allowed, broken):
    check_rows = [
        violation.message.replace(", on", " or on")
        for violation in check_two_pools(CostPolicy(purchases=allowed)).violations
    ]
    assert check_rows == broken


def test_reserved_allows_every_term(make_resource, book):
    inputs = {
        "instanceType": "p4d.24xlarge",
        "region": "us-east-1",
        "rootBlockDevice": DISK,
        "tags": {"gpufleet-purchase": "reserved-3y"},
    }
    allowed, only_one_year = CostPolicy(purchases=("reserved",)), CostPolicy(purchases=("reserved_1y",))
    machine = make_resource(inputs=inputs, parent=POOL)
    assert cost.diff([], [machine], allowed, book=book).policy.passed
    assert not cost.diff([], [machine], only_one_year, book=book).policy.passed


def test_unpriced_limit_applies_to_matching_resources(make_resource, book):
    strange = make_resource("s", "aws:sagemaker/endpoint:Endpoint", {"tags": {"Owner": "web"}})
    checked_limits = (
        make_rule_policy({"owner": "web"}, unpriced=()),
        make_rule_policy({"owner": "research"}, unpriced=()),
    )
    verdicts = [cost.diff([strange], [strange], policy, book=book).policy for policy in checked_limits]
    assert [verdict.passed for verdict in verdicts] == [False, True]


def test_each_limit_gives_one_check(check_two_pools):
    verdict = check_two_pools(
        CostPolicy(
            budget_usd_per_month=Decimal(1),
            max_price_age_days=9999,
            rules=(
                PolicyRule("cap", PolicyScope(pool="serve"), CostLimits(budget_usd_per_month=Decimal(9999))),
            ),
        )
    )
    check_rows = [
        (check.rule, check.requirement, check.scope, bool(check.violations)) for check in verdict.checks
    ]
    assert check_rows == [
        ("budget_usd_per_month", "at most $1.00 a month", "", True),
        ("max_price_age_days", "no price older than 9999 days", "", False),
        ("cap", "at most $9,999.00 a month", "pool serve", False),
    ]


def test_policy_file_with_rules_is_read(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(
        "budget_usd_per_month: 500\n"
        "rules:\n"
        "- name: spot in training\n"
        "  when: {stack: dev*, pool: train, owner: research}\n"
        "  max_usd_per_month: 100\n"
        "  purchases: [spot, reserved]\n"
    )
    limits = CostLimits(budget_usd_per_month=Decimal(100), purchases=("spot", "reserved"))
    rule = PolicyRule("spot in training", PolicyScope("dev*", "train", "research"), limits)
    assert load_policy(path) == CostPolicy(budget_usd_per_month=Decimal(500), rules=(rule,))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rules: 3\n", "policy.yaml:1: rules: not a list of rules"),
        ("rules:\n- max_increase_percent: 3\n", "policy.yaml:2: rules: a rule without a name"),
        ("rules:\n- name: x\n", "policy.yaml:2: x: has no limit"),
        (
            "rules:\n- {name: x, purchases: [spott]}\n",
            "policy.yaml:2: purchases: ['spott'] is not a list of on_demand, spot",
        ),
        (
            "rules:\n- name: x\n  budjet_usd_per_month: 3\n",
            "policy.yaml:3: budjet_usd_per_month: unknown rule; did you mean budget_usd_per_month?",
        ),
        (
            "rules:\n- name: x\n  when: {poll: a}\n  unpriced: forbid\n",
            "policy.yaml:3: poll: unknown scope; did you mean pool?",
        ),
        (
            "rules:\n- {name: x, when: 3, unpriced: forbid}\n",
            "policy.yaml:2: when: is not a mapping of scopes to patterns",
        ),
        (
            "rules:\n- {name: x, unpriced: forbid}\n- {name: x, unpriced: allow}\n",
            "policy.yaml:1: rules: two rules are named 'x'",
        ),
        (
            "max_usd_per_month: 3\nbudget_usd_per_month: 3\n",
            "policy.yaml:2: budget_usd_per_month: is the same limit as budget_usd_per_month",
        ),
    ],
)
def test_mistakes_in_rules_are_reported_in_one_line_with_their_place(tmp_path, text, line):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as excinfo:
        load_policy(path)
    assert line in str(excinfo.value)
    assert "\n" not in str(excinfo.value)


@pytest.mark.parametrize("name", ["policy-dev", "policy-production", "cost-policy"])
def test_examples_are_valid_policies(repo_root, name):
    policy = load_policy(repo_root / "docs/examples" / f"{name}.yaml")
    assert policy.rules


@pytest.fixture
def judge_retagging(make_resource, book):
    """Judge a g5.2xlarge of pool train that becomes a p4d.24xlarge of another pool, beside another g5.2xlarge."""

    def machine(name, kind, pool):
        inputs = {"instanceType": kind, "region": "us-east-1", "rootBlockDevice": DISK,
                  "tags": {"gpufleet-pool": pool}}  # fmt: skip
        return make_resource(name, inputs=inputs)

    def judge(policy, kind="p4d.24xlarge", pool="other"):
        other = machine("b", "g5.2xlarge", "other")
        before, after = machine("a", "g5.2xlarge", "train"), machine("a", kind, pool)
        return cost.diff([before, other], [after, other], policy, book=book)

    return judge


@pytest.mark.parametrize(
    "limits",
    [
        {"max_increase_usd_per_month": Decimal(100)},
        {"max_increase_percent": Decimal(5)},
        {"budget_usd_per_month": Decimal(1000)},
        {"max_resource_usd_per_month": Decimal(1000)},
        {"purchases": ("spot",)},
    ],
)
def test_resource_that_leaves_a_part_counts_in_it_once_more(judge_retagging, limits):
    diff = judge_retagging(make_rule_policy({"pool": "train*"}, **limits))
    assert [each.rule for each in diff.policy.violations] == ["rule"]
    assert not any("selects nothing" in each for each in diff.warnings)


def test_each_pool_counts_what_leaves_it(judge_retagging):
    limits = CostLimits(max_increase_usd_per_month=Decimal(100))
    verdict = judge_retagging(CostPolicy(rules=(PolicyRule("each", limits=limits, each="pool"),))).policy
    assert [each.message.partition(":")[0] for each in verdict.violations] == ["pool other", "pool train"]


def test_moving_to_another_pool_is_an_increase_there_and_none_where_it_was(judge_retagging):
    policy = make_rule_policy({"pool": "train"}, max_increase_usd_per_month=Decimal(0))
    assert judge_retagging(policy, "g5.2xlarge").policy.passed
    policy = make_rule_policy({"pool": "other"}, max_increase_usd_per_month=Decimal(100))
    assert not judge_retagging(policy, "g5.2xlarge").policy.passed


@pytest.mark.parametrize(
    ("rules", "passes"),
    [
        ({"other": ("*",)}, False),
        ({"other": ("*",), "train": ("*",)}, True),
        ({"other": ("*",), "train": ()}, False),
    ],
)
def test_part_that_a_change_moves_to_cannot_allow_it_alone(judge_retagging, rules, passes):
    policy = CostPolicy(
        rules=tuple(
            PolicyRule(pool, PolicyScope(pool=pool), CostLimits(unknown_change=types))
            for pool, types in rules.items()
        )
    )
    assert judge_retagging(policy, "acme.large").policy.passed is passes
