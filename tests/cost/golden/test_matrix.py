"""Test that golden programs cover every pricer, purchase kind and known pitfall."""

from __future__ import annotations

import json
from pathlib import Path

import golden
import pytest

from aws_service_cases import CASES as SERVICE_CASES
from gpufleet.cost.inputs.graph import strip_api_version
from gpufleet.cost.pricing.pricers import PRICERS
from gpufleet.cost.pricing.pricers.aws.native import COUNTERPARTS, EARLIER_NAMES
from gpufleet.cost.pricing.pricers.charge_table import load_charges
from hand_arithmetic import evaluate_arithmetic

CASES = golden.load_cases()
CASE_TABLES = Path(__file__).resolve().parents[1] / "pricers"
CASE_FILES = Path(__file__).resolve().parents[2] / "cases" / "cost"
ON_FILE = Path(__file__).resolve().parents[2] / "cases" / "cost"
MACHINES = {
    "EC2 instance": {
        "on_demand", "spot", "spot with fallback", "reserved_1y", "reserved_3y", "commitment",
        "capacity reservation", "capacity block",
    },
    "EC2 launch template": {"on_demand"},
    "EC2 Auto Scaling group": {"on_demand", "spot", "mixed", "capacity reservation"},
    "EC2 fleet": {"on_demand", "spot", "mixed"},
    "EC2 spot fleet": {"spot", "mixed"},
    "EC2 capacity reservation": {"capacity reservation", "reserved_1y"},
    "EC2 capacity block": {"capacity block"},
    "EC2 dedicated host": {"on_demand"},
    "GCP instance": {"on_demand", "spot", "reserved_1y", "commitment"},
    "GCP instance template": {"on_demand"},
    "GCP managed group": {"on_demand", "spot"},
    "GCP reservation": {"capacity reservation", "reserved_1y"},
    "GCP resize request": {"DWS flex"},
    "Azure VM": {"on_demand", "spot", "reserved_1y", "commitment", "capacity reservation"},
    "Azure scale set": {"on_demand", "spot", "mixed"},
    "Azure fleet": {"on_demand", "spot", "mixed"},
    "Azure capacity reservation": {"capacity reservation", "reserved_1y"},
    "EKS": {"on_demand", "spot", "capacity block"},
    "GKE": {"on_demand", "spot", "DWS flex", "capacity reservation"},
    "AKS": {"on_demand", "spot"},
    "on-prem": {"owned"},
}  # fmt: skip
PARTS = {
    "EBS", "EIP", "AWS NAT", "AWS LB", "GCP disk", "GCP address", "GCP network", "Azure disk", "Azure network",
    "Kubernetes objects",
}  # fmt: skip
# The traps of previews, event logs and states, and the case file that holds each part of one.
TRAPS = {
    1: ("unknown-machine-type", "unknown-disk-size", "group-desired-unknown", "group-size-unknown",
        "fleet-size-unknown", "unknown-of-every-kind"),
    2: ("secret-machine-type", "secret-of-a-state"),
    3: ("replace-one-step", "replace-three-steps", "replace-deletes-first", "replace-marks-the-old"),
    4: ("pending-deletion", "retain-on-delete", "read-is-not-ours"),
    5: ("discard", "discard-replaced", "import", "refresh", "remove-pending-replace", "unknown-operation",
        "import-replacement"),
    6: ("component-children", "view-of-another"),
    7: ("group-min-desired-max", "template-edit-without-group-step", "group-ignores-desired",
        "group-several-types"),
    8: ("group-weighted", "group-mixed-purchases", "fleet-weighted", "fleet-on-demand-and-spot",
        "group-spot-below-its-price", "spot-with-fallback"),
    9: ("region-on-the-provider", "default-provider-region", "gcp-zone-and-parts", "azure-location-spelling"),
    10: ("volume-and-address", "public-address", "nat-and-load-balancer", "gcp-network", "azure-network",
         "azure-windows", "local-ssd-and-efa"),
    11: ("protected-deletion",),
    12: ("target-leaves-steps-out", "failed-steps-missing", "same-steps-missing"),
}  # fmt: skip


def test_every_pricer_has_a_golden_program_or_a_case_of_its_service():
    used = {
        strip_api_version(resource["type"])
        for case in CASES
        for side in (case.old, case.new)
        for resource in side.program.values()
    }
    used |= {case.type for case in SERVICE_CASES.values()} | {
        *load_charges("aws:"),
        *COUNTERPARTS,
        *EARLIER_NAMES,
    }
    files = [*CASE_TABLES.glob("test_*.py"), *CASE_FILES.glob("*.json"), CASE_FILES / "pricers/charges.json"]
    cases = "".join(path.read_text() for path in files)
    assert {type_ for type_ in set(PRICERS) - used if f'"{type_}"' not in cases} == set()


def test_every_family_has_every_purchase_kind():
    bought = {}
    for case in CASES:
        bought.setdefault(case.family, set()).add(case.purchase)
    assert {
        family: purchase_kinds for family, purchase_kinds in bought.items() if family not in PARTS
    } == MACHINES
    assert bought.keys() >= PARTS


def test_golden_programs_are_distinct_and_cover_all_clouds():
    assert len({case.slug for case in CASES}) == len(CASES) >= 40
    assert len(golden.OPERATIONS) == 8


def test_old_and_new_programs_of_a_case_differ():
    assert [case.slug for case in CASES if case.old.program == case.new.program] == []


def test_wrong_sum_in_a_case_is_detected():
    with pytest.raises(AssertionError, match=r"it is 884\.76"):
        evaluate_arithmetic("1.212 USD x 1 machine x 730 h = 885")


@pytest.mark.parametrize("trap", TRAPS)
def test_every_known_pitfall_has_a_case(trap):
    for name in TRAPS[trap]:
        case = json.loads((ON_FILE / f"{name}.json").read_text())
        assert case["trap"]
        assert case["expect"].keys() & {"before", "after"}


def test_pitfalls_are_numbered_1_to_12():
    assert list(TRAPS) == list(range(1, 13))
