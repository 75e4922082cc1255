from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.engine import parse_stack_state
from gpufleet.nodes import build_pulumi_state_report, list_elastic_groups
from gpufleet.nodes.pulumi_state import find_machine_usd_per_hour

CASES = Path(__file__).parents[1] / "cases" / "nodes"


def resources(stack):
    return parse_stack_state(json.loads((CASES / f"state-{stack}.json").read_text()))


def nodes(stack, lab, change=lambda unchanged: unchanged):
    report = build_pulumi_state_report(change(resources(stack)), stack, lab.minutes(0))
    return {seen.name: seen for seen in report.observations}


@pytest.mark.parametrize(
    ("name", "place", "cards"),
    [
        ("production-train-1", ("aws", "p4d.24xlarge", "us-east-1"), ("A100 SXM4 40GB", 8)),
        ("production-serve-1", ("gcp", "a2-megagpu-16g", "us-central1"), ("A100 SXM4 40GB", 16)),
        ("production-tune-1", ("azure", "Standard_ND96amsr_A100_v4", "eastus"), ("A100 SXM4 80GB", 8)),
    ],
)
def test_instance_of_each_cloud_is_a_node(lab, name, place, cards):
    node = nodes("production", lab)[name]
    assert tuple(node.declared[key] for key in ("cloud", "machine", "region")) == place
    (card,) = node.observed["accelerators"]
    assert (card["model"], card["count"]) == cards
    assert node.identity.instance_id
    assert node.observed["address"].startswith("10.")  # the stack's own word: its networks let in 10.0.0.0/8


def test_tags_give_pool_template_and_purchase(lab):
    declared = nodes("production", lab)["production-tune-1"].declared
    assert (declared["pool"], declared["template"], declared["purchase"]) == (
        "tune",
        "trainer",
        "reserved-1y",
    )


def test_group_member_is_read_from_the_stack_output(lab):
    member = nodes("dev", lab)["dev-train-386d416e"]
    assert member.identity.instance_id == "i-386d416eab5cc2e87"
    assert (member.declared["pool"], member.observed["address"]) == ("train", "10.64.0.9")


def test_elastic_groups_are_named():
    assert ("aws", "train") in list_elastic_groups(resources("dev"))
    assert list_elastic_groups(resources("production")) == []


def test_attached_cards_are_listed_and_priced(lab):
    serve = nodes("dev", lab)["dev-serve-1"]
    assert serve.observed["accelerators"] == [{"model": "T4", "memory_gib": 16.0, "count": 1}]
    # n1-standard-8 0.38 and one T4 0.35 USD an hour in us-central1
    assert serve.declared["usd_per_hour"] == pytest.approx(0.38 + 0.35, abs=0.001)


def test_resources_pending_deletion_are_omitted(lab):
    from dataclasses import replace

    def doomed(state):
        return [
            replace(r, delete=True) if "instance" in r.type.lower() else r
            for r in state
            if "Stack" not in r.type
        ]

    assert set(nodes("production", lab, doomed)) == {"production-tune-1"}


def test_instances_without_the_gpufleet_tag_are_ignored(lab):
    from dataclasses import replace

    def untagged(state):
        bare = [
            replace(r, outputs={}, inputs={}) if r.type.startswith("aws:ec2/instance") else r for r in state
        ]
        return [r for r in bare if "Stack" not in r.type]

    assert "production-train-1" not in nodes("production", lab, untagged)


def test_unknown_price_is_none():
    assert find_machine_usd_per_hour("aws", "us-east-1", "m9x.huge", "on_demand") is None


def test_reservation_without_a_term_is_priced_on_demand():
    prices = [
        find_machine_usd_per_hour("aws", "us-east-1", "p4d.24xlarge", purchase)
        for purchase in ("reserved", "on_demand")
    ]
    assert prices[0] == prices[1] is not None


@pytest.mark.parametrize(("tag", "term"), [("committed-1y", "reserved-1y"), ("committed-3y", "reserved-3y")])
def test_commitment_without_capacity_has_the_price_of_its_term(tag, term):
    committed, reserved = (
        find_machine_usd_per_hour("aws", "us-east-1", "g5.2xlarge", purchase) for purchase in (tag, term)
    )
    assert committed == reserved is not None


def test_kind_without_a_list_price_is_not_priced_on_demand():
    assert find_machine_usd_per_hour("aws", "us-east-1", "p4d.24xlarge", "capacity_block") is None
