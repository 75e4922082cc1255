"""Test guardrails on increases: absolute and in percent, for each pool, owner and project, as failure and as advice."""

from __future__ import annotations

import subprocess

import pytest

from gpufleet import cost
from gpufleet.cost import load_policy
from gpufleet.engine import StateResource
from gpufleet.errors import InputError
from small_program import write_small_program

DISK = {"volumeSize": 100, "volumeType": "gp3"}
NO_DISK = {"volumeSize": 0, "volumeType": "gp3"}  # the size of an image's disk is not known


@pytest.fixture
def check_file(tmp_path, book):
    """Judge a change of two projects: pool a grows by a g5.xlarge (734.38 a month), pool b is new."""

    def machine(project, name, pool, owner="web"):
        tags = {"gpufleet-pool": pool, "gpufleet-owner": owner}
        inputs = {
            "instanceType": "g5.xlarge",
            "region": "us-east-1",
            "associatePublicIpAddress": False,
            "rootBlockDevice": NO_DISK,
            "tags": tags,
        }
        kind = "aws:ec2/instance:Instance"
        return StateResource(f"urn:pulumi:prod::{project}::{kind}::{name}", kind, name, inputs, {})

    before = [machine("infra", "a1", "a"), machine("infra", "a2", "a"), machine("app", "c1", "c")]
    after = [*before, machine("infra", "a3", "a"), machine("app", "b1", "b", "research")]

    def judge(text):
        path = tmp_path / "policy.yaml"
        path.write_text(text)
        change = cost.StackChange(stack="prod")
        return cost.diff(before, after, load_policy(path), change=change, book=book)

    return judge


def list_violations(diff):
    return [(each.rule, each.message) for each in diff.policy.violations]


def test_increase_is_judged_for_each_pool(check_file):
    diff = check_file("rules: [{name: r, each: pool, max_increase_percent: 49}]")
    assert list_violations(diff) == [
        ("r", "pool a: an increase of 50.00 % is over 49 %"),
        ("r", "pool b: an increase from nothing is over 49 %"),
    ]
    assert list_violations(check_file("rules: [{name: r, each: pool, max_increase_percent: 50}]")) == [
        ("r", "pool b: an increase from nothing is over 50 %")
    ]


def test_absolute_increase_is_judged_for_each_project(check_file):
    # A g5.xlarge is 1.006 * 730 = 734.38 a month; each project grows by one, the stack by two.
    assert check_file("rules: [{name: r, each: project, max_increase_usd_per_month: 734.38}]").policy.passed
    diff = check_file("rules: [{name: r, each: project, max_increase_usd_per_month: 734.37}]")
    assert [message.split(":")[0] for _, message in list_violations(diff)] == ["project app", "project infra"]
    assert not check_file("max_increase_usd_per_month: 1468.75").policy.passed
    assert check_file("max_increase_usd_per_month: 1468.76").policy.passed


def test_rule_of_one_project_and_one_owner(check_file):
    text = "rules: [{{name: r, when: {{project: {0}, owner: {1}}}, max_increase_usd_per_month: 0}}]"
    assert not check_file(text.format("infra", "web")).policy.passed
    assert not check_file(text.format("app", "research")).policy.passed
    assert check_file(text.format("app", "web")).policy.passed


@pytest.mark.parametrize(("floor", "is_passed"), [("734.37", False), ("734.38", True)])
def test_small_increase_is_not_too_large_in_percent(check_file, floor, is_passed):
    text = f"max_increase_percent: 1\nignore_increase_below_usd_per_month: {floor}\n"
    assert not check_file(text).policy.passed  # of the whole stack the increase is twice as large
    rule = f"rules: [{{name: r, each: pool, max_increase_percent: 1, ignore_increase_below_usd_per_month: {floor}}}]"
    assert check_file(rule).policy.passed == is_passed


def test_floor_does_not_weaken_the_absolute_limit(check_file):
    text = "max_increase_usd_per_month: 1\nignore_increase_below_usd_per_month: 99999\n"
    assert not check_file(text).policy.passed


def test_advice_warns_and_passes(check_file):
    diff = check_file("rules: [{name: r, each: pool, on_violation: warn, max_increase_percent: 49}]")
    assert diff.policy.passed
    assert [each for each in diff.warnings if each.startswith("r: ")] == [
        "r: pool a: an increase of 50.00 % is over 49 %",
        "r: pool b: an increase from nothing is over 49 %",
    ]
    assert [check.scope for check in diff.policy.checks] == ["pool c"]  # only what is kept counts as met
    assert "Policy violated" not in cost.render_diff(diff, "table")


def test_requirement_names_the_floor(check_file):
    diff = check_file("max_increase_percent: 500\nignore_increase_below_usd_per_month: 50\n")
    (check,) = diff.policy.checks
    assert check.requirement == "at most 500 % more, from $50.00 a month"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rules: [{name: r, each: region, max_increase_percent: 1}]",
            "'region' is not one of project, pool, owner",
        ),
        ("rules: [{name: r, on_violation: ask, max_increase_percent: 1}]", "'ask' is not one of fail, warn"),
        ("rules: [{name: r, each: [pool], max_increase_percent: 1}]", "is not one of project, pool, owner"),
        ("rules: [{name: r, ignore_increase_below_usd_per_month: 1}]", "r: has no limit"),
        ("ignore_increase_below_usd_per_month: -1", "-1 is not a number of 0 or more"),
    ],
)
def test_mistake_is_one_line_with_its_place(check_file, text, message):
    with pytest.raises(InputError) as excinfo:
        check_file(text)
    assert message in str(excinfo.value)
    assert "policy.yaml:1" in str(excinfo.value)


def test_command_exits_with_1_for_a_failure_and_0_for_advice(gpufleet, project):
    write_small_program(project, "dev")
    commit = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-qam", "small"]
    subprocess.run(commit, cwd=project, check=True)
    for action, code in (("fail", 1), ("warn", 0)):
        text = f"rules: [{{name: r, each: pool, on_violation: {action}, max_usd_per_month: 1}}]"
        (project / "guard.yaml").write_text(text)
        result = gpufleet(
            "cost", "diff", "-s", "dev", "--base", "HEAD", "--policy", "guard.yaml", cwd=project
        )
        assert result.returncode == code, result.stderr
        assert "r: pool rack: $" in result.stdout
