"""Test that machines in a CloudFormation template have the price of machines of the program."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.engine import StateResource

YAML = """
Parameters:
  MaxCount: {Type: Number, Default: 2}
  Kind: {Type: String, Default: m5.large}
Resources:
  Template:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: !Ref Kind
        ImageId: ami-1
        BlockDeviceMappings:
          - DeviceName: /dev/xvda
            Ebs: {VolumeSize: 30, VolumeType: gp3}
        NetworkInterfaces:
          - {AssociatePublicIpAddress: false, DeviceIndex: 0}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: "1"
      DesiredCapacity: "1"
      MaxSize: !Ref MaxCount
      LaunchTemplate:
        LaunchTemplateId: !Ref Template
        Version: !GetAtt Template.LatestVersionNumber
  Role: {Type: "AWS::IAM::Role", Properties: {}}
  Search: {Type: "AWS::OpenSearchService::Domain", Properties: {}}
"""
JSON = json.dumps(
    {
        "Resources": {
            "Web": {
                "Type": "AWS::EC2::Instance",
                "Properties": {
                    "InstanceType": "m5.xlarge",
                    "ImageId": {"Fn::FindInMap": ["a", "b", "c"]},
                    "BlockDeviceMappings": [
                        {"DeviceName": "a", "Ebs": {"VolumeSize": 50, "VolumeType": "gp3"}}
                    ],
                    "NetworkInterfaces": [{"AssociatePublicIpAddress": False, "DeviceIndex": "0"}],
                },
            }
        }
    }
)


def price(body, type_="aws:cloudformation/stack:Stack", **inputs):
    stack = StateResource(
        urn=f"urn:pulumi:dev::app::{type_}::pc", type=type_, name="pc", outputs={},
        inputs={"region": "us-east-1", "templateBody": body, **inputs},
    )  # fmt: skip
    return cost.price_resources([stack])


def cents(month):
    return tuple(round(each, 2) for each in (month.low, month.expected, month.high))


@pytest.mark.parametrize(("parameters", "most"), [({}, 2), ({"MaxCount": "64"}, 64)])
def test_group_of_a_template_has_the_size_of_its_parameters(parameters, most):
    bill = price(YAML, parameters=parameters)
    one = Decimal("72.48")  # 0.096 x 730 + 30 GiB x 0.08
    assert cents(bill.usd_per_month) == (one, one, one * most)
    assert [(each.component, each.reason) for each in bill.unpriced_resources] == [
        ("Search", "AWS::OpenSearchService::Domain in its template has no pricer")
    ]
    assert {each.component for each in bill.charges} == {"machine:Group", "disk:root:Group"}


def test_instance_of_a_template_in_json_is_priced():
    bill = price(JSON)
    charges = {each.component: round(each.usd_per_month.expected, 2) for each in bill.charges}
    assert charges["machine:Web"] == Decimal("140.16")  # 0.192 x 730
    assert charges["disk:root:Web"] == Decimal("4.00")  # 50 GiB x 0.08


@pytest.mark.parametrize(
    "body", ["{...}", "", "[1]", "Resources: {}", "Resources: 3", "a: &a [*a]", "{" * 5000]
)
def test_template_that_is_not_readable_has_no_price(body):
    bill = price(body)
    assert bill.charges == ()
    assert len(bill.unpriced_resources) == 1
    assert "\n" not in bill.unpriced_resources[0].reason


def test_stack_of_the_native_provider_is_priced_alike():
    assert price(YAML, "aws-native:cloudformation:Stack").charges
