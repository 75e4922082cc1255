"""Test rows of exports as the providers write them: tests/cases/cost/bills, where README.md names each source."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet.cost.analysis.actual import sum_billed_charges
from gpufleet.cost.inputs.bill_export import stream_billed_charges
from gpufleet.cost.inputs.bill_value import find_machine
from gpufleet.errors import InputError

CASES = Path(__file__).parents[2] / "cases/cost/bills"
FOCUS = "BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd"
DAY = "2026-10-01T00:00:00Z,2026-10-02T00:00:00Z"


def sum_case(name):
    return sum_billed_charges(stream_billed_charges(CASES / name), "prod")


def test_focus_sample_has_effective_costs_and_machines_without_its_nulls():
    rows = list(stream_billed_charges(CASES / "focus-1.0-sample.csv"))
    assert len(rows) == 9
    assert sum(row.cost for row in rows) == Decimal("5.58088")  # EffectiveCost of the nine rows
    assert sum(row.invoiced for row in rows) == Decimal("5.517815736")  # BilledCost
    credit = next(row for row in rows if row.kind == "credits")
    assert (credit.cost, credit.hours, credit.tags, credit.resource) == (Decimal(-3), None, {}, "")
    machines = {row.machine: row.hours for row in rows if row.hours}
    assert machines["i-021f2ebl49063f9l1"] == 1
    assert len(machines) == 5
    assert {row.cloud for row in rows} == {"aws", "azure", ""}


def test_focus_sample_is_summed_apart_from_credits_and_adjustments():
    billed = sum_case("focus-1.0-sample.csv")
    assert billed.other_usd == {"credits": Decimal(-3)}  # the adjustment is 0
    assert billed.untagged_usd["Amazon Elastic Compute Cloud"] == 7
    assert (billed.usd, billed.invoiced_usd) == (Decimal("5.58088"), Decimal("5.517815736"))


def test_azure_actual_costs_of_an_enterprise_agreement():
    purchase, machine, disk = stream_billed_charges(CASES / "azure-ea-actual.csv")
    assert (purchase.kind, purchase.cost) == ("purchases", Decimal("3.25"))
    assert (machine.kind, machine.cost, machine.hours) == ("usage", Decimal("2.64"), 24)
    assert (machine.start.isoformat(), (machine.end - machine.start).days) == ("2023-09-04T00:00:00+00:00", 1)
    assert (disk.hours, disk.tags) == (None, {"costcenter": "SubACM", "org": ""})


def test_azure_amortized_costs_have_the_share_of_the_reservation():
    (row,) = stream_billed_charges(CASES / "azure-ea-amortized.csv")
    assert (row.cost, row.hours, row.machine) == (Decimal("0.493152"), 8, "aks-agentpool-42850074-vmss")
    assert not row.is_paid_by_commitment


def test_azure_actual_costs_report_machines_that_a_reservation_pays(tmp_path):
    text = (CASES / "azure-ea-amortized.csv").read_text().replace(",0.061644,0.493152,", ",0,0,")
    (tmp_path / "actual.csv").write_text(text)
    billed = sum_billed_charges(stream_billed_charges(tmp_path / "actual.csv"), "prod")
    assert billed.paid_elsewhere_rows == 1


def test_google_row_in_euros_is_converted_at_googles_rate():
    (row,) = stream_billed_charges(CASES / "google-detailed.jsonl")
    assert row.currency == "USD"
    assert row.cost == Decimal("0.012434") / Decimal("0.9336499999998755")
    assert row.machine == ""  # a disk


def write_google(tmp_path, **changes):
    record = json.loads((CASES / "google-detailed.jsonl").read_text()) | {"currency": "USD"} | changes
    path = tmp_path / "google.jsonl"
    path.write_text(json.dumps(record))
    (row,) = stream_billed_charges(path)
    return row


@pytest.mark.parametrize(
    ("cost_type", "kind"), [("regular", "usage"), ("tax", "taxes"), ("adjustment", "adjustments"),
                            ("rounding_error", "adjustments"), ("surprise", "other charges")],
)  # fmt: skip
def test_google_cost_types(tmp_path, cost_type, kind):
    assert write_google(tmp_path, cost_type=cost_type).kind == kind


def test_google_promotion_is_a_credit_and_a_discount_a_lower_price(tmp_path):
    reductions = [{"type": "PROMOTION", "amount": -2}, {"type": "SUSTAINED_USAGE_DISCOUNT", "amount": -3}]
    row = write_google(tmp_path, cost=10, credits=reductions)
    assert (row.cost, row.credit) == (5, -2)


def test_google_machine_is_named_by_its_number(tmp_path):
    name = "//compute.googleapis.com/projects/4/zones/europe-west4-a/instances/5731447681477044785"
    assert write_google(tmp_path, resource={"global_name": name}).machine == "5731447681477044785"


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"ChargeCategory": "Tax"}, "taxes"),
        ({"ChargeCategory": "Credit"}, "credits"),
        ({"ChargeCategory": "Purchase"}, "purchases"),
        ({"ChargeCategory": "Adjustment"}, "adjustments"),
        ({"ChargeClass": "Correction"}, "corrections"),
        ({"CommitmentDiscountStatus": "Unused"}, "unused commitments"),
        ({"ChargeCategory": "=cmd()"}, "other charges"),
    ],
)
def test_focus_categories(tmp_path, more, kind):
    columns = dict(zip(FOCUS.split(","), ["-4", "-4", "USD", "Usage", *DAY.split(",")], strict=True)) | more
    path = tmp_path / "f.csv"
    path.write_text(",".join(columns) + "\n" + ",".join(columns.values()) + "\n")
    (row,) = stream_billed_charges(path)
    assert (row.kind, row.cost) == (kind, -4)


def test_bill_in_another_currency_uses_the_providers_own_conversion(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(f"{FOCUS},x_EffectiveCostInUsd\n9,9,EUR,Usage,{DAY},10.5\n")
    (row,) = stream_billed_charges(path)
    assert (row.cost, row.currency, row.column) == (Decimal("10.5"), "USD", "x_EffectiveCostInUsd")


def test_mixed_currencies_name_the_row(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(f"{FOCUS}\n9,9,USD,Usage,{DAY}\n9,9,CHF,Usage,{DAY}\n")
    with pytest.raises(InputError, match=r"f\.csv:3: the bill is in CHF; export it in USD"):
        sum_billed_charges(stream_billed_charges(path), "prod")


def test_row_without_a_cost_is_refused(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(f"{FOCUS}\n,NULL,USD,Usage,{DAY}\n")
    with pytest.raises(InputError, match=r"f\.csv:2: BilledCost: has no cost"):
        list(stream_billed_charges(path))


AZURE = "/subscriptions/1/resourceGroups/g/providers"
GOOGLE = "//compute.googleapis.com/projects/4/zones/europe-west4-a"


@pytest.mark.parametrize(
    ("resource", "machine"),
    [
        ("i-0a", "i-0a"),
        ("arn:aws:ec2:us-east-1:1:instance/i-0a", "i-0a"),
        (f"{GOOGLE}/instances/GPU-0", "gpu-0"),
        (f"{AZURE}/Microsoft.Compute/virtualMachines/GPU-0", "gpu-0"),
        (f"{AZURE.lower()}/microsoft.compute/virtualmachinescalesets/gpu", "gpu"),
        (f"{AZURE}/Microsoft.Compute/virtualMachineScaleSets/gpu/virtualMachines/3", "gpu_3"),
        (f"{AZURE}/Microsoft.Compute/virtualMachines/gpu-0/extensions/driver", ""),
        (f"{AZURE}/Microsoft.Sql/managedInstances/main", ""),
        ("//sqladmin.googleapis.com/projects/4/instances/main", ""),
        ("//cloudsql.googleapis.com/projects/4/instances/main", ""),
        ("//redis.googleapis.com/projects/4/locations/europe-west4/instances/main", ""),
        ("//spanner.googleapis.com/projects/4/instances/main", ""),
        ("//notebooks.googleapis.com/projects/4/zones/z/instances/main", ""),
        ("projects/4/instances/main", ""),
    ],
)
def test_only_a_machines_path_is_a_machine(resource, machine):
    assert find_machine(resource) == machine


def test_licences_of_a_machine_add_to_its_cost_and_not_to_its_hours(tmp_path):
    header, _, machine, *_ = (CASES / "azure-ea-actual.csv").read_text().splitlines()
    licence = machine.replace(",Virtual Machines,", ",Virtual Machines Licenses,")
    assert licence != machine
    (tmp_path / "azure.csv").write_text(f"{header}\n{machine}\n{licence}\n")
    focus = f"{FOCUS},ConsumedQuantity,ConsumedUnit,ServiceCategory,x_SkuMeterCategory,Tags"
    row = f"2.64,2.64,USD,Usage,{DAY},24,Hours,Compute,Virtual Machines{{}},"
    (tmp_path / "focus.csv").write_text("\n".join([focus, row.format(""), row.format(" Licenses")]))
    for name in ("azure.csv", "focus.csv"):
        rows = list(stream_billed_charges(tmp_path / name))
        assert [(each.cost, each.hours) for each in rows] == [(Decimal("2.64"), 24), (Decimal("2.64"), 0)]
