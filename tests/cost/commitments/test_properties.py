"""What holds for any demands and any commitments."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet import cost
from gpufleet.cost.pricing.commitments.model import Commitments
from gpufleet.engine import Resource

quick = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
ON = date(2026, 11, 21)
TERM = {"start": date(2026, 1, 1), "end": date(2027, 1, 1), "source": "drawn"}
INSTANCE, GROUP = "aws:ec2/instance:Instance", "aws:autoscaling/group:Group"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
AWS_TYPES = st.sampled_from(["m4.large", "m4.xlarge", "g5.2xlarge", "p4d.24xlarge"])


def made(kind, name, inputs):
    return Resource(f"urn:pulumi:s::p::{kind}::{name}", kind, name, inputs, {}, id=name)


@st.composite
def instance(draw):
    tags = {"gpufleet-hours-per-month": str(draw(st.integers(1, 730)))}
    inputs = {"instanceType": draw(AWS_TYPES), "region": "us-east-1", "tags": tags}
    if draw(st.booleans()):
        inputs["availabilityZone"] = draw(st.sampled_from(["us-east-1a", "us-east-1b"]))
    if draw(st.booleans()):
        inputs["instanceMarketOptions"] = {"marketType": "spot"}
    return [made(INSTANCE, draw(st.text("abc", min_size=1, max_size=3)), inputs)]


@st.composite
def group(draw):
    name = draw(st.text("xyz", min_size=1, max_size=2))
    low = draw(st.integers(0, 3))
    wanted = low + draw(st.integers(0, 3))
    sizes = {"minSize": low, "desiredCapacity": wanted, "maxSize": wanted + draw(st.integers(0, 3))}
    template = made(TEMPLATE, f"{name}-template", {"instanceType": draw(AWS_TYPES), "region": "us-east-1"})
    return [
        template,
        made(GROUP, name, sizes | {"region": "us-east-1", "launchTemplate": {"id": f"{name}-template"}}),
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
    drawn = draw(st.lists(commitment(), max_size=4))
    listed = [{"id": f"c-{at}", **told} for at, told in enumerate(drawn)]
    return Commitments.model_validate({"commitments": listed}).commitments


def flat(groups):
    named = {resource.urn: resource for resources in groups for resource in resources}
    return list(named.values())


resource_lists = st.lists(st.one_of(instance(), group()), max_size=5).map(flat)


@quick
@given(resources=resource_lists, held=inventory())
def test_commitments_never_raise_what_is_to_be_paid(resources, held, book):
    plain = cost.price_resources(resources, book).usd_per_month
    net = cost.price_resources(resources, book, commitments=held, on=ON).usd_per_month
    assert net.low <= plain.low
    assert net.expected <= plain.expected
    assert net.high <= plain.high


@quick
@given(resources=resource_lists, held=inventory())
def test_covered_and_paid_for_make_the_demand(resources, held, book):
    def counted(bill):
        found = {}
        for charge in bill.charges:
            if charge.component.startswith("machine"):
                found[charge.urn] = found.get(charge.urn, Decimal(0)) + charge.quantity.expected
        return {urn: count for urn, count in found.items() if count}

    assert counted(cost.price_resources(resources, book, commitments=held, on=ON)) == counted(
        cost.price_resources(resources, book)
    )


@quick
@given(resources=resource_lists, held=inventory())
def test_no_commitment_gives_more_than_was_bought(resources, held, book):
    bill = cost.price_resources(resources, book, commitments=held, on=ON)
    assert len(bill.commitments) == len(held)
    for use in bill.commitments:
        assert 0 <= use.used <= 1
        assert 0 <= use.unused_usd_per_month <= use.usd_per_month


@quick
@given(resources=resource_lists, held=inventory(), seed=st.integers())
def test_no_order_changes_the_answer(resources, held, seed, book):
    shuffled, turned = list(resources), list(held)
    random.Random(seed).shuffle(shuffled)
    random.Random(seed).shuffle(turned)
    one = cost.price_resources(resources, book, commitments=held, on=ON)
    assert cost.price_resources(shuffled, book, commitments=turned, on=ON) == one


@quick
@given(resources=resource_lists, held=inventory(), gone=instance())
def test_taking_away_what_always_runs_never_uses_a_commitment_more(resources, held, gone, book):
    """Of what runs a part of the month this is not true: it keeps a plan's capacity in the hours that it is off."""
    ((away,), rest) = (gone, [each for each in resources if each.urn != gone[0].urn])
    away.inputs["tags"]["gpufleet-hours-per-month"] = "730"

    def unused(side):
        return sum(
            use.unused_usd_per_month
            for use in cost.price_resources(side, book, commitments=held, on=ON).commitments
        )

    if len(held) <= 1:
        assert unused(rest) >= unused([*rest, away])
