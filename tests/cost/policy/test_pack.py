"""Test what the policy pack reads from CrossGuard; tests/engine/test_policy_pack.py runs it with the engine."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from pulumi_policy.proxy import UNKNOWN_NUMBER_VALUE, UnknownValueError, unknown_checking_proxy

from gpufleet.cost import CostPolicy
from gpufleet.cost.analysis.policy import CostLimits, PolicyRule
from gpufleet.cost.analysis.policy.pack import (
    find_policy_violations,
    remove_increase_limits,
    write_policy_pack,
)
from gpufleet.cost.money import to_decimal
from gpufleet.errors import InputError

INSTANCE = "aws:ec2/instance:Instance"


def pulumi_resource(name="a", type_=INSTANCE, provider=True, **props):
    """Show a resource as pulumi_policy's PolicyResource does: proxied inputs that raise where one is unknown."""
    inputs = {"instanceType": "p4d.24xlarge", "region": "us-east-1", "rootBlockDevice": {"volumeSize": 100.0}}
    return SimpleNamespace(
        urn=f"urn:pulumi:prod::gpufleet::{type_}::{name}",
        resource_type=type_,
        name=name,
        props=unknown_checking_proxy(inputs | props),
        opts=SimpleNamespace(protect=False),
        provider=SimpleNamespace(urn="urn:pulumi:prod::gpufleet::pulumi:providers:aws::default")
        if provider
        else None,
        parent=None,
        property_dependencies={},
    )


def test_policy_pack_checks_the_same_rules(book):
    (violation,) = find_policy_violations(
        [pulumi_resource()], CostPolicy(budget_usd_per_month=to_decimal(16000)), book
    )
    assert (violation.rule, "is over the budget of $16,000.00" in violation.message) == (
        "budget_usd_per_month",
        True,
    )
    assert (
        find_policy_violations([pulumi_resource()], CostPolicy(budget_usd_per_month=to_decimal(17000)), book)
        == ()
    )


def test_unknown_value_in_a_policy_pack_is_unpriced(book):
    disk = pulumi_resource(rootBlockDevice={"volumeSize": UNKNOWN_NUMBER_VALUE, "volumeType": "gp3"})
    with pytest.raises(UnknownValueError):
        disk.props["rootBlockDevice"]["volumeSize"]
    (violation,) = find_policy_violations([disk], CostPolicy(unpriced=()), book)
    assert violation.rule == "unpriced"


def test_component_resources_have_no_cost(book):
    component = pulumi_resource("pool", "acme:index:Pool", provider=False)
    assert find_policy_violations([component], CostPolicy(unpriced=()), book) == ()


def test_increase_limits_are_removed_from_the_policy_of_the_pack():
    grown = CostLimits(max_increase_percent=to_decimal(1))
    policy = CostPolicy(max_increase_usd_per_month=to_decimal(1), rules=(PolicyRule("grown", limits=grown),))
    assert remove_increase_limits(policy) == CostPolicy()


def test_policy_pack_is_written_once(tmp_path):
    write_policy_pack(tmp_path / "pack")
    assert {path.name for path in (tmp_path / "pack").iterdir()} == {
        "PulumiPolicy.yaml",
        "__main__.py",
        "gpufleet-cost.sh",
    }
    assert os.access(tmp_path / "pack/gpufleet-cost.sh", os.X_OK)
    with pytest.raises(InputError, match="exists already"):
        write_policy_pack(tmp_path / "pack")
