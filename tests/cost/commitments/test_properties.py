"""Properties of any cost components with any commitments."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet import cost
from gpufleet.cost.pricing.commitments.model import CommitmentFile
from gpufleet.engine import StateResource

quick = settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
ON = date(2026, 11, 21)
TERM = {"start": date(2026, 1, 1), "end": date(2027, 1, 1), "source": "drawn"}
INSTANCE, GROUP = "aws:ec2/instance:Instance", "aws:autoscaling/group:Group"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
AWS_TYPES = st.sampled_from(["m4.large", "m4.xlarge", "g5.2xlarge", "p4d.24xlarge"])


def make_resource(kind, name, inputs):
    urn = f"urn:pulumi:s::p::gpufleet:cloud:AwsPool${kind}::{name}"
    return StateResource(urn, kind, name, inputs, {}, id=name)


@st.composite
def instance(draw):
    tags = {"gpufleet-hours-per-month": str(draw(st.integers(1, 730)))}
    inputs = {"instanceType": draw(AWS_TYPES), "region": "us-east-1", "tags": tags}
    if draw(st.booleans()):
        inputs["availabilityZone"] = draw(st.sampled_from(["us-east-1a", "us-east-1b"]))
    if draw(st.booleans()):
        inputs["instanceMarketOptions"] = {"marketType": "spot"}
    return [make_resource(INSTANCE, draw(st.text("abc", min_size=1, max_size=3)), inputs)]


@st.composite
def group(draw):
    name = draw(st.text("xyz", min_size=1, max_size=2))
    low = draw(st.integers(0, 3))
    desired = low + draw(st.integers(0, 3))
    sizes = {"minSize": low, "desiredCapacity": desired, "maxSize": desired + draw(st.integers(0, 3))}
    template = make_resource(
        TEMPLATE, f"{name}-template", {"instanceType": draw(AWS_TYPES), "region": "us-east-1"}
    )
    return [
        template,
        make_resource(
            GROUP, name, sizes | {"region": "us-east-1", "launchTemplate": {"id": f"{name}-template"}}
        ),
    ]


@st.composite
def commitment(draw):
    usd = draw(st.floats(0.05, 60, allow_nan=False))
    kinds = {
        "reserved_instance": {
            "region": "us-east-1",
            "machine": draw(AWS_TYPES),
            "count": draw(st.integers(1, 4)),
            "zone": draw(st.sampled_from([None, "us-east-1a"])),
        },
        "compute_savings_plan": {"discount_percent": draw(st.floats(1, 80))},
        "ec2_instance_savings_plan": {
            "region": "us-east-1",
            "family": "p4d",
            "rates": {"p4d.24xlarge": 15.5},
        },
    }
    kind = draw(st.sampled_from(sorted(kinds)))
    return {"kind": kind, "usd_per_hour": usd, **kinds[kind], **TERM}


@st.composite
def inventory(draw):
    entries = draw(st.lists(commitment(), max_size=4))
    documents = [{"id": f"c-{at}", **entry} for at, entry in enumerate(entries)]
    return CommitmentFile.model_validate({"commitments": documents}).commitments


def flatten_resources(groups):
    named = {resource.urn: resource for resources in groups for resource in resources}
    return list(named.values())


resource_lists = st.lists(st.one_of(instance(), group()), max_size=5).map(flatten_resources)


@quick
@given(resources=resource_lists, commitments=inventory())
def test_commitments_never_increase_the_bill(resources, commitments, book):
    plain = cost.price_resources(resources, book).usd_per_month
    net = cost.price_resources(resources, book, commitments=commitments, on_date=ON).usd_per_month
    assert net.low <= plain.low
    assert net.expected <= plain.expected
    assert net.high <= plain.high


@quick
@given(resources=resource_lists, commitments=inventory())
def test_covered_and_billed_counts_sum_to_the_declared_count(resources, commitments, book):
    def count_machines(bill):
        counts = {}
        for charge in bill.charges:
            if charge.component.startswith("machine"):
                counts[charge.urn] = counts.get(charge.urn, Decimal(0)) + charge.quantity.expected
        return {urn: count for urn, count in counts.items() if count}

    assert count_machines(
        cost.price_resources(resources, book, commitments=commitments, on_date=ON)
    ) == count_machines(cost.price_resources(resources, book))


@quick
@given(resources=resource_lists, commitments=inventory())
def test_no_commitment_covers_more_than_was_bought(resources, commitments, book):
    bill = cost.price_resources(resources, book, commitments=commitments, on_date=ON)
    assert len(bill.commitments) == len(commitments)
    for use in bill.commitments:
        assert 0 <= use.used <= 1
        assert 0 <= use.unused_usd_per_month <= use.usd_per_month


@quick
@given(resources=resource_lists, commitments=inventory(), seed=st.integers())
def test_order_of_inputs_does_not_change_the_bill(resources, commitments, seed, book):
    shuffled_resources, shuffled_commitments = list(resources), list(commitments)
    random.Random(seed).shuffle(shuffled_resources)
    random.Random(seed).shuffle(shuffled_commitments)
    bill = cost.price_resources(resources, book, commitments=commitments, on_date=ON)
    assert (
        cost.price_resources(shuffled_resources, book, commitments=shuffled_commitments, on_date=ON) == bill
    )


@quick
@given(resources=resource_lists, commitments=inventory(), removed=instance())
def test_removing_a_machine_that_always_runs_never_increases_commitment_use(
    resources, commitments, removed, book
):
    """Of what runs a part of the month this is not true: it keeps a plan's capacity in the hours that it is off."""
    ((resource,), rest) = (removed, [resource for resource in resources if resource.urn != removed[0].urn])
    resource.inputs["tags"]["gpufleet-hours-per-month"] = "730"

    def unused(remaining):
        return sum(
            use.unused_usd_per_month
            for use in cost.price_resources(remaining, book, commitments=commitments, on_date=ON).commitments
        )

    if len(commitments) <= 1:
        assert unused(rest) >= unused([*rest, resource])
