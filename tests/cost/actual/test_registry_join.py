"""Test the join of a bill with the registry's nodes: cost by node, waste, what one of them does not have."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost.analysis.actual import compare_with_bill, sum_billed_charges
from gpufleet.cost.analysis.billed_node import OutOfUse, RegisteredNode, find_account
from gpufleet.cost.analysis.reports.actual import build_actual_document, format_actual_table
from gpufleet.cost.analysis.reports.actual_nodes import build_node_document, format_node_lines
from gpufleet.cost.inputs.bill_export import stream_billed_charges

HEADER = (
    "BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ConsumedQuantity,"
    "ConsumedUnit,ServiceCategory,ServiceName,ProviderName,ResourceId,Tags"
)
OCTOBER = "2026-10-01T00:00:00Z,2026-11-01T00:00:00Z"


def at(day, month=10):
    return datetime(2026, month, day, tzinfo=UTC)


def make_row(
    usd, machine="i-0a", hours="", *, period=OCTOBER, category="Usage", service="Compute", cloud="AWS", **tags
):
    text = json.dumps({f"gpufleet-{key}": value for key, value in tags.items()}).replace('"', '""')
    return f'{usd},{usd},USD,{category},{period},{hours},Hours,{service},EC2,{cloud},{machine},"{text}"'


def make_node(name="train-1", instance_id="i-0a", **changes):
    values = {
        "id": f"id-{name}-{instance_id}", "name": name, "cloud": "aws", "pool": "train", "stack": "prod",
        "state": "ready", "instance_id": instance_id, "since": at(1, 9),
    }  # fmt: skip
    return RegisteredNode(**values | changes)


@pytest.fixture
def join(make_resource, book, tmp_path):
    """Compare rows of an export with nodes; the stack prod declares one machine, ``a``."""

    def build(rows, nodes):
        path = tmp_path / "export.csv"
        path.write_text("\n".join([HEADER, *rows]) + "\n")
        inputs = {
            "instanceType": "g5.xlarge", "region": "us-east-1", "associatePublicIpAddress": False,
            "tags": {"gpufleet-pool": "train", "gpufleet-node": "prod-train-9", "Name": "spare"},
        }  # fmt: skip
        bill = cost.price_resources([make_resource("a", inputs=inputs)], book)
        billed = sum_billed_charges(stream_billed_charges(path), "prod", nodes)
        return compare_with_bill(bill, billed)

    return build


def test_cost_of_each_node_has_its_machine_by_id_and_its_disk_by_tag(join):
    rows = [
        make_row(70, "i-0a", 744, pool="train"),
        make_row(7, "vol-1", service="Storage", pool="train", node="train-1"),
        make_row(50, "arn:aws:ec2:us-east-1:1:instance/i-0b", 700, pool="train"),
    ]
    nodes = join(rows, [make_node(), make_node("train-2", "i-0b")]).nodes
    assert [(each.node.name, each.usd, each.hours) for each in nodes.billed] == [
        ("train-1", 77, 744),
        ("train-2", 50, 700),
    ]
    assert (nodes.unregistered, nodes.unbilled, nodes.wasted_usd) == ((), (), 0)
    assert nodes.node_counts_by_pool == {"train": (2, 2)}


def test_machine_that_is_billed_but_not_registered_is_an_orphan(join):
    rows = [make_row(70, "i-0a", 744), make_row(9, "i-0lost", 20, pool="train"), make_row(3, "eip-1")]
    nodes = join(rows, [make_node()]).nodes
    (orphan,) = nodes.unregistered  # an address is not a machine
    assert (orphan.id, orphan.pool, orphan.usd, orphan.hours, orphan.is_declared) == (
        "i-0lost",
        "train",
        9,
        20,
        False,
    )
    assert "  i-0lost: $9.00, 20 h, pool train" in format_node_lines(nodes)


@pytest.mark.parametrize("tags", [{"node": "prod-train-9"}, {"node": "a"}])
def test_orphan_that_the_stack_declares_is_said_so(join, tags):
    (orphan,) = join([make_row(9, "i-0b", 20, **tags)], []).nodes.unregistered
    assert orphan.is_declared


def test_machine_of_another_stack_is_no_orphan(join):
    nodes = join([make_row(1), make_row(9, "i-0b", 20, stack="dev")], [make_node()]).nodes
    assert nodes.unregistered == ()


@pytest.mark.parametrize(
    ("changes", "is_listed"),
    [
        ({}, True),
        ({"since": at(31)}, True),
        ({"since": at(1, 11)}, False),  # registered after the export's period
        ({"until": at(30, 9)}, False),  # retired before it
        ({"until": at(2), "state": "retired"}, True),
        ({"cloud": "gcp"}, False),  # the export has no rows of this cloud
        ({"stack": "dev"}, False),
    ],
)
def test_registered_node_that_is_not_billed_is_listed_within_its_dates(join, changes, is_listed):
    nodes = join([make_row(1)], [make_node(), make_node("train-2", "i-0b", **changes)]).nodes
    assert [node.name for node in nodes.unbilled] == (["train-2"] if is_listed else [])


def test_unbilled_node_has_its_dates_in_the_table(join):
    nodes = join([make_row(1)], [make_node("gone", "i-0b", state="retired", until=at(9))]).nodes
    assert "  gone: pool train, retired, registered 2026-09-01 until 2026-10-09" in format_node_lines(nodes)


def test_time_out_of_use_is_wasted_by_its_share_of_each_row(join):
    quarantine = OutOfUse("quarantined", at(11), at(21))
    retired = OutOfUse("retired", at(31))
    node = make_node(state="retired", until=at(31), out_of_use=(quarantine, retired))
    nodes = join([make_row(310, "i-0a", 744)], [node]).nodes
    assert nodes.billed[0].wasted_usd == {"quarantined": 100, "retired": 10}
    lines = format_node_lines(nodes)
    assert "Wasted, $110.00: billed while out of use:" in lines
    assert "  train-1: $100.00 of $310.00 in state quarantined" in lines


def test_hourly_rows_outside_of_the_time_are_not_wasted(join):
    node = make_node(out_of_use=(OutOfUse("repair", at(2)),))
    rows = [make_row(5, hours=24, period=f"2026-10-0{day},2026-10-0{day + 1}") for day in (1, 2)]
    assert join(rows, [node]).nodes.wasted_usd == 5


def test_live_node_has_the_rows_of_a_name_that_was_used_before(join):
    old = make_node("train-1", "i-0old", state="retired", until=at(5))
    nodes = join([make_row(4, "vol-1", node="train-1"), make_row(2, "i-0old")], [make_node(), old]).nodes
    assert {(each.node.instance_id, each.usd) for each in nodes.billed} == {("i-0a", 4), ("i-0old", 2)}


def test_azure_machine_is_found_by_its_name_and_google_machine_by_its_number(join):
    azure = "/subscriptions/1/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/PROD-serve-1"
    google = "//compute.googleapis.com/projects/4/zones/z/instances/5731447681477044785"
    nodes = [
        make_node("prod-serve-1", "9c1f-vm-id", cloud="azure"),
        make_node("tune-1", "5731447681477044785", cloud="gcp"),
    ]
    billed = join(
        [make_row(4, azure, cloud="Microsoft"), make_row(5, google, cloud="Google Cloud")], nodes
    ).nodes.billed
    assert {(each.node.name, each.usd) for each in billed} == {("prod-serve-1", 4), ("tune-1", 5)}


@pytest.mark.parametrize(
    ("cloud", "is_of_node"), [("Google Cloud", False), ("Microsoft", True), ("Other", True)]
)
def test_name_is_of_one_cloud_unless_the_row_names_none(join, cloud, is_of_node):
    machine = "//compute.googleapis.com/projects/other/zones/z/instances/gpu-0"
    nodes = join([make_row(9, machine, cloud=cloud)], [make_node("gpu-0", "vm-id", cloud="azure")]).nodes
    assert [each.node.name for each in nodes.billed] == (["gpu-0"] if is_of_node else [])
    assert [each.id for each in nodes.unregistered] == ([] if is_of_node else ["gpu-0"])


def gcp_row(usd, project, kind="instances", **tags):
    resource = f"//compute.googleapis.com/projects/{project}/zones/z/{kind}/gpu-0"
    return make_row(usd, resource, 1, cloud="Google", **tags)


def test_name_in_two_projects_is_reported_and_counted_for_no_node(join):
    node = make_node("gpu-0", "77", cloud="gcp")
    nodes = join([gcp_row(1, "a"), gcp_row(2, "b"), gcp_row(4, "b", "disks", node="gpu-0")], [node]).nodes
    assert (nodes.billed, nodes.unregistered, nodes.unbilled) == ((), (), (node,))
    assert [(each.account, each.billed.usd) for each in nodes.namesakes] == [("a", 1), ("b", 6)]
    lines = format_node_lines(nodes)
    assert "  gpu-0 in b: $6.00, 2 h" in lines
    assert build_node_document(nodes)["namesakes"][0] == {
        "name": "gpu-0", "cloud": "gcp", "account": "a", "hours": 1.0, "billed_usd": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "own", [gcp_row(8, "b", stack="prod"), gcp_row(8, "b").replace("gpu-0", "77")], ids=["tag", "instance id"]
)
def test_name_in_two_projects_is_the_nodes_in_its_own_project(join, own):
    nodes = join([gcp_row(1, "a"), gcp_row(2, "b"), own], [make_node("gpu-0", "77", cloud="gcp")]).nodes
    assert [(each.node.name, each.usd) for each in nodes.billed] == [("gpu-0", 10)]
    assert [(each.account, each.billed.usd) for each in nodes.namesakes] == [("a", 1)]


def test_name_in_one_project_is_the_nodes(join):
    nodes = join([gcp_row(1, "a"), gcp_row(2, "a")], [make_node("gpu-0", "77", cloud="gcp")]).nodes
    assert [each.usd for each in nodes.billed] == [3]
    assert nodes.namesakes == ()


def test_number_of_accounts_of_a_name_is_bounded(join):
    nodes = join([gcp_row(1, number) for number in range(50)], [make_node("gpu-0", "77", cloud="gcp")]).nodes
    assert len(nodes.namesakes) == 21
    assert sum(each.billed.usd for each in nodes.namesakes) == 50


@pytest.mark.parametrize(
    ("resource", "account"),
    [
        ("//compute.googleapis.com/projects/shop-1/zones/z/instances/a", "shop-1"),
        ("/subscriptions/AB-1/resourceGroups/g/providers/x", "ab-1"),
        ("arn:aws:ec2:us-east-1:123456789012:instance/i-0a", "123456789012"),
        ("i-0a", ""),
    ],
)
def test_account_is_read_from_the_resource(resource, account):
    assert find_account(resource) == account


def test_unregistered_machines_of_one_name_in_two_clouds_are_two(join):
    azure = "/subscriptions/1/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/gpu-0"
    google = "//compute.googleapis.com/projects/4/zones/z/instances/gpu-0"
    rows = [make_row(1, azure, cloud="Microsoft"), make_row(2, google, cloud="Google")]
    unregistered = join(rows, []).nodes.unregistered
    assert [(each.cloud, each.id, each.usd) for each in unregistered] == [
        ("gcp", "gpu-0", 2),
        ("azure", "gpu-0", 1),
    ]


def test_row_without_a_stack_for_a_node_of_another_stack_is_that_stacks(join):
    node = make_node("dev-1", "i-0abc", stack="dev", out_of_use=(OutOfUse("quarantined", at(1)),))
    comparison = join([make_row(9, "i-0abc", 20, pool="train"), make_row(1)], [make_node(), node])
    nodes = comparison.nodes
    assert [each.node.name for each in nodes.billed] == ["train-1"]
    assert (nodes.unregistered, nodes.wasted_usd) == ((), 0)
    assert (comparison.billed.other_stacks_usd, comparison.pools[0].billed_usd) == (9, 0)


def test_row_of_the_stack_goes_to_the_stacks_node_of_a_shared_name(join):
    own, other = make_node("train-0", "i-0a", since=at(20)), make_node("train-0", "i-0b", stack="dev")
    (billed,) = join([make_row(4, "vol-1", node="train-0", stack="prod")], [own, other]).nodes.billed
    assert billed.node is own


def test_row_of_a_reused_name_goes_to_the_node_of_its_time(join):
    old = make_node("train-0", "i-0a", state="retired", until=at(10))
    new = make_node("train-0", "i-0b", since=at(12))
    spans = [("01", "10"), ("10", "11"), ("11", "12"), ("12", "31")]  # two are between both: the nearer one's
    rows = [
        make_row(2**number, "vol-1", period=f"2026-10-{start},2026-10-{end}", node="train-0")
        for number, (start, end) in enumerate(spans)
    ]
    nodes = join(rows, [old, new]).nodes
    assert {each.node.instance_id: each.usd for each in nodes.billed} == {"i-0a": 1 + 2, "i-0b": 4 + 8}
    assert nodes.unbilled == ()


def test_number_of_unregistered_machines_is_bounded(join):
    nodes = join([make_row(1, f"i-{number:x}") for number in range(1500)], []).nodes
    assert len(nodes.unregistered) == 1001
    assert sum(each.usd for each in nodes.unregistered) == 1500


def test_table_and_document_have_the_nodes(join):
    comparison = join([make_row(70, "i-0a", 744, pool="train")], [make_node(), make_node("train-2", "i-0b")])
    text = format_actual_table(comparison)
    assert (
        "POOL          NODES  DECLARED  BILLED  DIFFERENCE\ntrain        1 of 2   $749.05  $70.00    -$679.05"
        in text
    )
    assert "NODE     POOL   STATE  HOURS  BILLED\ntrain-1  train  ready    744  $70.00" in text
    registry = build_actual_document(comparison)["registry"]
    assert registry["nodes"][0]["billed_usd"] == 70
    assert registry["unbilled"][0] | {"registered_at": ""} == {
        "name": "train-2", "cloud": "aws", "pool": "train", "state": "ready", "registered_at": "", "until": None,
    }  # fmt: skip


def test_export_without_ids_and_tags_is_a_note(join):
    text = format_actual_table(join([make_row(70, "")], [make_node()]))
    assert "no row names a registered node: export resource ids" in text


def test_without_a_registry_there_are_no_nodes(join):
    comparison = join([make_row(70)], None)
    assert comparison.nodes is None
    assert build_actual_document(comparison)["registry"] is None
    assert comparison.pools[0].billed_usd == Decimal(0)
