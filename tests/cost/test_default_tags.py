"""Test tags that a provider gives to each of its resources: the owner and the pool are read from them too."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost import CostPolicy
from gpufleet.cost.analysis.policy import CostLimits, PolicyRule, PolicyScope
from gpufleet.engine import StateResource

TAGS = {"owner": "ml", "gpufleet-pool": "train", "gpufleet-purchase": "spot"}
PROVIDERS = {
    "JSON of an explicit provider": ("aws", {"defaultTags": json.dumps({"tags": TAGS})}),
    "mapping of a state": ("aws", {"defaultTags": {"tags": TAGS}}),
    "labels": ("gcp", {"defaultLabels": json.dumps(TAGS)}),
}


def make_provider(package, inputs):
    type_ = f"pulumi:providers:{package}"
    return StateResource(f"urn:pulumi:prod::p::{type_}::own", type_, "own", inputs, {})


@pytest.fixture
def make_instance(make_resource):
    def build(provider=None, **inputs):
        all_inputs = {"instanceType": "g5.2xlarge", "region": "us-east-1", "subnetId": "s"} | inputs
        return make_resource(inputs=all_inputs, provider=f"{provider.urn}::id" if provider else None)

    return build


@pytest.mark.parametrize("case", PROVIDERS)
def test_charge_has_the_tags_of_its_provider(make_instance, book, case):
    provider = make_provider(*PROVIDERS[case])
    bill = cost.price_resources([provider, make_instance(provider)], book)
    (charge,) = [each for each in bill.charges if each.component == "machine"]
    assert (charge.owner, charge.pool, charge.purchase) == ("ml", "train", "on_demand")


def test_own_tags_come_first(make_instance, book):
    provider = make_provider("aws", {"defaultTags": {"tags": TAGS}})
    bill = cost.price_resources([provider, make_instance(provider, tags={"owner": "web"})], book)
    assert {(charge.owner, charge.pool) for charge in bill.charges} == {("web", "train")}


@pytest.mark.parametrize(
    "inputs", [{"defaultTags": "{"}, {"defaultTags": 3}, {"defaultTags": {"tags": "x"}}, {}]
)
def test_unreadable_default_tags_are_none(make_instance, book, inputs):
    provider = make_provider("aws", inputs)
    assert {
        charge.owner for charge in cost.price_resources([provider, make_instance(provider)], book).charges
    } == {""}


def test_recorded_tags_count_where_the_provider_is_not_listed(make_resource, book):
    instance = make_resource()
    instance.outputs["tagsAll"] = {"owner": "ml"}
    assert {charge.owner for charge in cost.price_resources([instance], book).charges} == {"ml"}


def test_rule_selects_by_default_tags(make_instance, book):
    provider = make_provider("aws", {"defaultTags": {"tags": {"owner": "ml"}}})
    rule = PolicyRule("ml", PolicyScope(owner="ml"), CostLimits(budget_usd_per_month=Decimal(1)))
    diff = cost.diff([], [provider, make_instance(provider)], CostPolicy(rules=(rule,)), book=book)
    assert [each.rule for each in diff.policy.violations] == ["ml"]


PROGRAM = """import pulumi, pulumi_aws as aws
own = aws.Provider("own", region="us-east-1", default_tags={"tags": {"owner": "own"}})
aws.ec2.Eip("by-config")
aws.ec2.Eip("by-provider", opts=pulumi.ResourceOptions(provider=own))
"""


def test_evaluated_program_has_the_tags_of_config_and_provider(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    config = 'config: {"aws:region": us-east-1, "aws:defaultTags": {tags: {owner: config}}}\n'
    (tmp_path / "Pulumi.dev.yaml").write_text(config)
    (tmp_path / "__main__.py").write_text(PROGRAM)
    bill = cost.estimate_stack(tmp_path, "dev").bill
    assert {charge.name: charge.owner for charge in bill.charges} == {
        "by-config": "config",
        "by-provider": "own",
    }
