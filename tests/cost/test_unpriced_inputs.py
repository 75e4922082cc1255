"""Test inputs that bill and that no pricer reads: a change of one has no known effect, and is never silent."""

from __future__ import annotations

import re
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.analysis.size_setter import find_size_setter
from gpufleet.cost.pricing.billing import find_free_reason
from gpufleet.cost.pricing.pricers import find_pricer
from gpufleet.engine import UNKNOWN, StateResource

ROWS = list(read_packaged_rows("gpufleet.cost", "data/unpriced_inputs.csv"))
SETTERS = list(read_packaged_rows("gpufleet.cost", "data/size_setters.csv"))
PACKAGES = {"aws": "pulumi_aws", "gcp": "pulumi_gcp", "azure-native": "pulumi_azure_native"}
PATTERN_TYPES = {
    "aws:*": "aws:rds/instance:Instance",
    "aws:fsx/*": "aws:fsx/windowsFileSystem:WindowsFileSystem",
    "gcp:logging/*BucketConfig": "gcp:logging/projectBucketConfig:ProjectBucketConfig",
}
SOME_DAY = date(2027, 6, 1)  # after each day of the table


def make(type_, inputs, name="it", **fields):
    return StateResource(f"urn:pulumi:prod::shop::{type_}::{name}", type_, name, inputs, {}, **fields)


def compare(before, after, book, day=SOME_DAY):
    return cost.diff(before, after, book=book, today=day)


def nest(path, value):
    """Return inputs with a value at a path: {a: {b: value}}."""
    for step in reversed(path.split(".")):
        value = {"x" if step == "*" else step: value}
    return value


def example_values(row):
    """Return two values of which at least one bills."""
    pattern = (row["bills"] or "*").split()[0]
    if pattern == "*":
        return ("7", "35")
    value = re.sub(r"\[(.).*?\]", r"\1", pattern).replace("*", "x" if "_" in pattern else "")
    return (value, "another")


def row_id(row):
    return f"{row['type']} {row['input']} {row['since']}".strip()


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_change_of_an_input_that_bills_is_unknown(row, book):
    type_ = PATTERN_TYPES.get(row["type"], row["type"])
    first, second = (make(type_, nest(row["input"], value)) for value in example_values(row))
    for before, after in ((make(type_, {}), first), (first, make(type_, {})), (first, second)):
        (change,) = compare([before], [after], book).unknown_changes
        assert change.urn == after.urn
    assert compare([first], [first], book).unknown_changes == ()


@pytest.mark.parametrize("row", [row for row in ROWS if row["counts"] != "change"], ids=row_id)
def test_input_that_bills_by_itself_is_a_part_without_a_price(row, book):
    resource = make(row["type"], nest(row["input"], example_values(row)[0]))
    gaps = cost.price_resources([resource], book, on_date=SOME_DAY).unpriced_resources
    assert [row["why"] in gap.reason for gap in gaps if gap.component == f"input:{row['input']}"] == [True]


@cache
def read_arguments(path):
    """Return the inputs of each class of arguments in a file of an SDK, with the classes of their values."""
    pattern = r"^class (\w+Args):\n    def __init__\(__self__, \*,\n(.*?)\):\n"
    return {
        name: {
            argument.replace("_", "").lower(): re.findall(r"'(?:\w+\.)*(\w+Args)'", annotation)
            for argument, annotation in re.findall(r"^ +(\w+): (.*)$", body, re.MULTILINE)
        }
        for name, body in re.findall(pattern, path.read_text(), re.DOTALL | re.MULTILINE)
    }


@cache
def find_arguments(type_token):
    """Return the inputs of a type, and the classes of arguments of its module; nothing if the SDK does not have it."""
    package, module, name = type_token.split(":")
    folder = Path(find_spec(PACKAGES[package]).origin).parent / module.split("/")[0].replace(
        "lambda", "lambda_"
    )
    for path in folder.glob("[a-z]*.py"):
        own = read_arguments(path) if f"'{type_token}'" in path.read_text() else {}
        if found := own.get(f"{name}Args") or own.get(f"{name}InitArgs"):
            return found, read_arguments(folder / "_inputs.py")
    return {}, {}


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row["type"].split(":")[0] in PACKAGES and row["type"] not in PATTERN_TYPES],
    ids=row_id,
)
def test_input_exists_in_the_sdk(row):
    inputs, classes = find_arguments(row["type"])
    if not inputs:
        assert row["type"].startswith("azure-native:")  # older versions have other modules
        return
    choices = [inputs]
    for step in (each.lower() for each in row["input"].split(".") if each != "*"):
        assert any(step in choice for choice in choices), step
        names = [name for choice in choices for name in choice.get(step, ())]
        choices = [classes[name] for name in names if name in classes]


def test_table_has_each_row_once_with_reason_and_source():
    keys = [(row["type"], row["input"], row["bills"]) for row in ROWS]
    assert len(keys) == len(set(keys))
    assert {row["counts"] for row in ROWS} == {"always", "machines", "change"}
    assert all(row["why"] and row["source"] for row in ROWS)
    unknown = [
        row["type"]
        for row in ROWS
        if "*" not in row["type"] and not find_pricer(row["type"]) and not find_free_reason(row["type"])
    ]
    assert unknown == []  # any other type has no price, so each of its inputs counts


@pytest.mark.parametrize(
    ("type_", "inputs"),
    [
        (
            "azure-native:network:PublicIPAddress",
            {"ddosSettings": {"protectionMode": "VirtualNetworkInherited"}},
        ),
        ("azure-native:compute:Disk", {"maxShares": 1, "burstingEnabled": False}),
        ("aws:msk/cluster:Cluster", {"enhancedMonitoring": "DEFAULT"}),
        ("aws:opensearch/domain:Domain", {"engineVersion": "OpenSearch_2.19"}),
        ("aws:elasticache/cluster:Cluster", {"engineVersion": "7.1"}),
        ("gcp:sql/databaseInstance:DatabaseInstance", {"databaseVersion": "POSTGRES_17"}),
        (
            "gcp:compute/instance:Instance",
            {"confidentialInstanceConfig": {"enableConfidentialCompute": False}},
        ),
        ("gcp:container/cluster:Cluster", {"enterpriseConfig": {"desiredTier": "STANDARD"}}),
        ("aws:ec2/vpc:Vpc", {"instanceTenancy": "default"}),
    ],
)
def test_value_that_bills_nothing_is_no_part(book, type_, inputs):
    gaps = cost.price_resources([make(type_, inputs)], book, on_date=SOME_DAY).unpriced_resources
    assert [gap for gap in gaps if gap.component.startswith("input:")] == []


@pytest.mark.parametrize(
    ("type_", "key", "version", "first_day"),
    [
        ("aws:elasticache/replicationGroup:ReplicationGroup", "engineVersion", "5.0.6", date(2026, 2, 1)),
        ("aws:docdb/cluster:Cluster", "engineVersion", "3.6.0", date(2026, 7, 1)),
        ("aws:opensearch/domain:Domain", "engineVersion", "Elasticsearch_5.6", date(2025, 11, 8)),
        ("gcp:sql/databaseInstance:DatabaseInstance", "databaseVersion", "POSTGRES_14", date(2027, 2, 1)),
    ],
)
def test_version_bills_from_its_day_on(book, type_, key, version, first_day):
    def gaps(day):
        bill = cost.price_resources([make(type_, {key: version})], book, on_date=day)
        return [gap.component for gap in bill.unpriced_resources if gap.component == f"input:{key}"]

    assert gaps(first_day) == [f"input:{key}"]
    assert gaps(date.fromordinal(first_day.toordinal() - 1)) == []


def test_new_resource_with_an_input_that_bills_by_use_later_is_known(make_resource, book):
    machine = make_resource(inputs={"instanceType": "g5.xlarge", "region": "us-east-1", "rootBlockDevice": {
        "volumeSize": 1, "volumeType": "gp3"}, "creditSpecification": {"cpuCredits": "unlimited"}})  # fmt: skip
    assert compare([], [machine], book).unknown_changes == ()


def test_part_that_is_not_known_until_deployment_counts(book):
    disk = {"burstingEnabled": UNKNOWN}
    (gap,) = (
        each
        for each in cost.price_resources([make("azure-native:compute:Disk", disk)], book).unpriced_resources
        if each.component == "input:burstingEnabled"
    )
    assert gap.reason.startswith("burstingEnabled not known until deployment: ")


def group_with(template_inputs, size):
    template = make(
        "gcp:compute/instanceTemplate:InstanceTemplate",
        {"machineType": "g2-standard-4", "disks": [], **template_inputs}, "t",
    )  # fmt: skip
    group = make(
        "gcp:compute/instanceGroupManager:InstanceGroupManager",
        {"zone": "us-central1-a", "targetSize": size, "versions": [{"instanceTemplate": UNKNOWN}]}, "g",
        property_dependencies={"versions": (template.urn,)},
    )  # fmt: skip
    return [template, group]


def test_group_has_what_its_template_bills(book):
    tier = {"networkPerformanceConfig": {"totalEgressBandwidthTier": "TIER_1"}}
    assert compare(group_with({}, 1), group_with({}, 9), book).unknown_changes == ()
    (change,) = compare(group_with(tier, 1), group_with(tier, 9), book).unknown_changes
    assert (change.name, change.inputs) == ("g", ("targetSize",))
    names = {each.name for each in compare(group_with({}, 1), group_with(tier, 1), book).unknown_changes}
    assert "g" in names


def network_with(tenancy, machine="g5.xlarge"):
    vpc = make("aws:ec2/vpc:Vpc", {"instanceTenancy": tenancy}, "v")
    subnet = make("aws:ec2/subnet:Subnet", {}, "s", property_dependencies={"vpcId": (vpc.urn,)})
    inputs = {"instanceType": machine, "region": "us-east-1", "subnetId": UNKNOWN, "rootBlockDevice": {
        "volumeSize": 1, "volumeType": "gp3"}}  # fmt: skip
    instance = make("aws:ec2/instance:Instance", inputs, property_dependencies={"subnetId": (subnet.urn,)})
    gateway = make("aws:ec2/natGateway:NatGateway", {"region": "us-east-1"}, "n",
                   property_dependencies={"subnetId": (subnet.urn,)})  # fmt: skip
    return [vpc, subnet, gateway], instance


def test_machine_in_a_dedicated_network_has_a_part_without_a_price(book):
    shared, machine = network_with("default")
    assert compare(shared, [*shared, machine], book).unknown_changes == ()
    dedicated, machine = network_with("dedicated")
    (change,) = compare(dedicated, [*dedicated, machine], book).unknown_changes
    assert "dedicated hardware" in change.reason
    changed = compare([*shared, machine], [*dedicated, machine], book).unknown_changes
    assert {each.name for each in changed} == {"v", "it"}  # not the gateway, which is no machine


def test_performance_tier_of_a_disk_has_its_price(book):
    def price(**inputs):
        inputs = {"location": "eastus", "diskSizeGB": 64, "sku": {"name": "Premium_LRS"}, **inputs}
        return cost.price_resources([make("azure-native:compute:Disk", inputs)], book)

    (charge,) = price(tier="P10").charges
    assert charge.item == "premium-ssd-p10"
    assert "premium-ssd-p50" in price(tier="P50").unpriced_resources[0].reason  # the fake prices have no P50
    assert (
        price(tier=UNKNOWN).unpriced_resources[0].reason == "performance tier is not known until deployment"
    )


@pytest.mark.parametrize("row", [row for row in SETTERS if row["target"] == "*"], ids=lambda row: row["type"])
def test_what_sets_the_size_of_anything_is_unknown(row, book):
    free = [
        each["type"]
        for each in read_packaged_rows("gpufleet.cost", "data/free_types.csv")
        if fnmatchcase(each["type"], row["type"]) or fnmatchcase(row["type"], each["type"])
    ]
    assert free  # a type without a price counts by itself
    type_ = next((each for each in free if "*" not in each), row["type"].replace("*", ""))
    assert find_size_setter(make(type_, {})).target == "*"
    before, after = make(type_, {"setting": 1}), make(type_, {"setting": 2})
    for sides in (([before], [after]), ([], [after]), ([before], [])):
        (change,) = compare(*sides, book).unknown_changes
        assert change.reason == row["why"]
