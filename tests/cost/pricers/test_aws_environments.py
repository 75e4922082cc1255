"""Test AWS types that start others, or that stand for others: Beanstalk, Batch, aws-native, old Aurora versions."""

from __future__ import annotations

from decimal import Decimal

import pytest

from aws_service_prices import make_book, make_service, make_usage
from gpufleet.cost import price_resources
from gpufleet.engine import SECRET, UNKNOWN


def price(*resources, prices):
    return price_resources(resources, make_book(prices), usage=make_usage({}))


def month_of(bill):
    return bill.usd_per_month.expected


def test_native_types_cost_the_same_as_their_counterparts():
    key = price(make_service("aws-native:kms:Key", {}), prices={"kms:key": ("1", "month")})
    assert month_of(key) == 1
    stream = make_service("aws-native:kinesis:Stream", {"shardCount": 2})
    assert month_of(price(stream, prices={"kinesis:shard": ("0.015", "hour")})) == Decimal("21.90")


BEANSTALK = "aws:elasticbeanstalk/environment:Environment"
BEANSTALK_PRICES = {
    "t3.large": ("0.0832", "hour"),
    "ebs:gp2": ("0.10", "month"),
    "load_balancer:network": ("0.0225", "hour"),
}


def make_settings(**values):
    spaces = {"InstanceType": "launchconfiguration", "RootVolumeSize": "launchconfiguration"}
    return [
        {
            "namespace": f"aws:autoscaling:{spaces.get(name, 'asg')}"
            if not name.endswith("Type") or name == "InstanceType"
            else "aws:elasticbeanstalk:environment",
            "name": name,
            "value": value,
        }
        for name, value in values.items()
    ]


def test_beanstalk_bills_machines_volumes_and_its_load_balancer():
    settings = make_settings(
        InstanceType="t3.large", RootVolumeSize="20", MinSize="2", MaxSize="4", LoadBalancerType="network"
    )
    month = price(make_service(BEANSTALK, {"settings": settings}), prices=BEANSTALK_PRICES).usd_per_month
    expected = Decimal("141.897")  # 2 x (0.0832 x 730 + 20 x 0.10) + 0.0225 x 730
    assert abs(month.expected - expected) < Decimal("1e-6")
    assert abs(month.high - expected - Decimal("125.472")) < Decimal("1e-6")  # two more machines


def test_single_beanstalk_instance_has_no_load_balancer():
    settings = make_settings(InstanceType="t3.large", RootVolumeSize="20", EnvironmentType="SingleInstance")
    bill = price(make_service(BEANSTALK, {"settings": settings}), prices=BEANSTALK_PRICES)
    assert abs(month_of(bill) - Decimal("62.736")) < Decimal("1e-6")
    assert bill.usd_per_month.is_exact


def test_setting_without_a_readable_name_takes_nothing_along():
    settings = make_settings(InstanceType="t3.large", RootVolumeSize="20", EnvironmentType="SingleInstance")
    known = price(make_service(BEANSTALK, {"settings": settings}), prices=BEANSTALK_PRICES)
    settings.append({"namespace": "aws:autoscaling:asg", "name": UNKNOWN, "value": "9"})
    bill = price(make_service(BEANSTALK, {"settings": settings}), prices=BEANSTALK_PRICES)
    assert bill.charges == known.charges
    (line,) = bill.unpriced_resources
    assert line.reason == "the name of a setting is not known until deployment"


def test_batch_environment_of_an_ordinary_machine():
    resources = {"type": "EC2", "minVcpus": 4, "maxVcpus": 16, "instanceTypes": ["m5.large"]}
    type_ = "aws:batch/computeEnvironment:ComputeEnvironment"
    bill = price(make_service(type_, {"computeResources": resources}), prices={"m5.large": ("0.096", "hour")})
    month = bill.usd_per_month
    assert (month.low, month.high) == (Decimal("140.16"), Decimal("560.64"))  # 2 and 8 machines of 2 vCPUs


@pytest.mark.parametrize(
    ("version", "lifecycle", "usd_per_month"),
    [
        ("13.9", None, "335.80"),  # 0.26 x 730 + 2 vCPUs x 0.10 x 730: past its support since 2026-03-01
        ("13.9", "open-source-rds-extended-support-disabled", "189.80"),
        ("17.4", None, "189.80"),
    ],
)
def test_instance_of_an_old_aurora_version_bills_extended_support(version, lifecycle, usd_per_month):
    cluster = {"clusterIdentifier": "main", "engineVersion": version, "engineLifecycleSupport": lifecycle}
    instance = {"clusterIdentifier": "main", "instanceClass": "db.r6g.large", "engine": "aurora-postgresql"}
    bill = price(
        make_service("aws:rds/cluster:Cluster", cluster | {"engine": "aurora-postgresql"}, "main"),
        make_service("aws:rds/clusterInstance:ClusterInstance", instance, "writer"),
        prices={
            "rds:aurora-postgresql:db.r6g.large": ("0.26", "hour"),
            "rds:extended_support:year_1": ("0.10", "hour"),
            "rds:extended_support:year_3": ("0.10", "hour"),
        },
    )
    assert month_of(bill) == Decimal(usd_per_month)


MACHINE_PRICES = {
    "m5.large": ("0.096", "hour"),
    "ebs:gp3": ("0.08", "month"),
    "public_ipv4": ("0.005", "hour"),
}


@pytest.mark.parametrize(
    ("inputs", "notes"),
    [
        (
            {
                "capacityReservationSpecification": {
                    "capacityReservationTarget": {"capacityReservationId": UNKNOWN}
                }
            },
            {"machine": "", "disk:root": "", "public_ipv4": ""},
        ),
        (
            {"userData": SECRET},
            {
                "machine": "priced as Linux: its user data is not known until deployment",
                "disk:root": "",
                "public_ipv4": "",
            },
        ),
    ],
)
def test_input_that_cannot_be_read_is_a_note_of_what_depends_on_it(inputs, notes):
    instance = make_service(
        "aws:ec2/instance:Instance",
        {
            "instanceType": "m5.large",
            "associatePublicIpAddress": True,
            "rootBlockDevice": {"volumeSize": 20, "volumeType": "gp3"},
            **inputs,
        },
    )
    bill = price(instance, prices=MACHINE_PRICES)
    assert {charge.component: charge.note for charge in bill.charges} == notes
    assert bill.unpriced_resources == ()


def test_weight_that_cannot_be_read_is_the_reason_of_each_part_of_a_group():
    template = make_service(
        "aws:ec2/launchTemplate:LaunchTemplate",
        {
            "name": "t",
            "blockDeviceMappings": [{"ebs": {"volumeSize": 20, "volumeType": "gp3"}}],
            "networkInterfaces": [{"associatePublicIpAddress": True}],
        },
        "t",
    )
    launch = {
        "launchTemplateSpecification": {"launchTemplateName": "t"},
        "overrides": [{"instanceType": "m5.large", "weightedCapacity": UNKNOWN}],
    }
    inputs = {"desiredCapacity": 2, "maxSize": 4, "mixedInstancesPolicy": {"launchTemplate": launch}}
    group = make_service("aws:autoscaling/group:Group", inputs, "g")
    bill = price(template, group, prices=MACHINE_PRICES)
    assert bill.charges == ()
    assert {line.component for line in bill.unpriced_resources} == {"machine", "disk:root", "public_ipv4"}
    assert {line.reason for line in bill.unpriced_resources} == {
        "the weight of a type is not known until deployment"
    }


def test_parts_of_a_reserved_instance_bill_while_it_runs():
    inputs = {
        "instanceType": "m5.large",
        "associatePublicIpAddress": True,
        "rootBlockDevice": {"volumeSize": 20, "volumeType": "gp3"},
        "tags": {"gpufleet-purchase": "reserved_1y", "gpufleet-hours-per-month": "100"},
    }
    pool = "urn:pulumi:prod::p::gpufleet:cloud:AwsPool::train"  # tags set hours in a pool only
    bill = price(make_service("aws:ec2/instance:Instance", inputs, parent=pool), prices=MACHINE_PRICES)
    hours = {charge.component: charge.hours_per_month for charge in bill.charges}
    assert hours == {"machine": 730, "disk:root": 730, "public_ipv4": 100}
