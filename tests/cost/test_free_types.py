"""Test the table of types that bill nothing: its tokens exist in the installed SDKs, each with a reason."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.pricing.billing import load_free_resource_types

PACKAGES = {"aws": "pulumi_aws", "gcp": "pulumi_gcp", "azure-native": "pulumi_azure_native"}
TOKEN = re.compile(r'"([a-z-]+:[A-Za-z0-9_./-]*:[A-Za-z0-9_]+)": "')
# Types that bill: a row for one of these would hide money.
BILLED = (
    "aws:cloudwatch/metricAlarm:MetricAlarm", "aws:kms/key:Key", "aws:route53/zone:Zone", "aws:rds/instance:Instance",
    "aws:secretsmanager/secret:Secret", "gcp:sql/databaseInstance:DatabaseInstance", "azure-native:web:AppServicePlan",
    "azure-native:network:AzureFirewall", "kubernetes:core/v1:Service", "aws:ec2/vpnConnection:VpnConnection",
)  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_every_free_type_exists_in_the_sdk_of_its_package(package):
    spec = find_spec(PACKAGES[package])
    assert spec is not None
    assert spec.origin is not None
    known = set(TOKEN.findall(Path(spec.origin).read_text()))
    free = {each for each in load_free_resource_types() if each.startswith(f"{package}:") and "*" not in each}
    assert len(free) > 50
    assert free - known == set()


def test_table_has_at_least_300_types_each_once_with_a_reason():
    rows = list(read_packaged_rows("gpufleet.cost", "data/free_types.csv"))
    types = [row["type"] for row in rows]
    assert len(types) == len(set(types)) >= 300
    assert all(row["why"] for row in rows)


@pytest.mark.parametrize("type_token", BILLED)
def test_type_that_bills_is_not_in_the_table(type_token):
    assert type_token not in load_free_resource_types()
