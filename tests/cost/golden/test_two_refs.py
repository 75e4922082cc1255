"""Test cost differences between two commits of a clone for each changed setting."""

from __future__ import annotations

import subprocess
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.program.evaluation import start_git_ref_comparison
from gpufleet.cost.money import round_to_cents
from hand_arithmetic import evaluate_arithmetic

SERVE = "        machine: n1-standard-8\n        accelerators: {model: T4, count: 1}\n        count: "
TEST = "        region: %s\n        machine: Standard_NC4as_T4_v3"
TRAIN = "        machine: p4d.24xlarge          # 8x A100 40 GB\n        count: "
TUNE = "        region: %s\n        machine: Standard_ND96amsr_A100_v4"
M3 = """\
    workstations:
      - name: m3
        machine: MacBook Pro M2 16GB
        owner: research
        cost:
          capital_usd: {value: 1752, source: by hand, as_of: "2026-11-21"}
          life_years: 4
          watts_per_node: {value: 10, assumption: true, source: by hand, as_of: "2026-11-21"}
          usd_per_kwh: {value: 0.30, assumption: true, source: by hand, as_of: "2026-11-21"}
"""

# Of each change: the stack, what is rewritten, and by charge the dollars of a month that it adds.
CHANGES = {
    "dev: a second machine that serves": (
        "dev",
        (SERVE + "1", SERVE + "2"),
        {
            "serve-2 machine": "0.379998 USD x 160 h = 60.79968",
            "serve-2 accelerators": "0.35 USD x 1 card x 160 h = 56",
            "serve-2 disk:boot": "0.0002 USD x 100 GiB x 730 h = 14.6",
            "serve-2-models disk": "0.0002 USD x 200 GiB x 730 h = 29.2",
            "serve-2 public_ipv4": "0.005 USD x 160 h = 0.8",
        },
    ),
    "dev: the test machine moves to the west": (
        "dev",
        (TEST % "eastus", TEST % "westus2"),
        {
            "test-1 machine": "0.074 USD (0.6 and not 0.526) x 160 h = 11.84",
            "test-1 disk:os": "0.003 USD (0.03 and not 0.027) x 730 h = 2.19",
            "test-1 public_ipv4": "0 USD x 730 h, it costs the same there = 0",
        },
    ),
    "production: a second machine that trains": (
        "production",
        (TRAIN + "1", TRAIN + "2"),
        {
            "train machine": "21.957642 USD x 1 machine more in the reservation x 730 h = 16029.07866",
            "train-2 machine": "0 USD, it runs in the reservation = 0",
            "train-2 disk:root": "0.0001 USD x 100 GiB x 730 h = 7.3",
        },
    ),
    "production: what serves is bought on demand": (
        "production",
        ("purchase: {kind: spot, on_eviction: stop}", "purchase: {kind: on_demand}"),
        {
            "serve-1 machine": "26.483824 USD (55.739504 and not 29.25568) x 730 h = 19333.19152",
            "serve-1 public_ipv4": "0.0025 USD (0.005 and not 0.0025) x 730 h = 1.825",
        },
    ),
    "production: what is tuned moves to the south": (
        "production",
        (TUNE % "eastus", TUNE % "southcentralus"),
        {
            "tune-1 machine": "4.19452 USD (25.16735 and not 20.97283) x 730 h = 3061.9996",
            "tune-1 disk:os": "0.003 USD (0.03 and not 0.027) x 730 h = 2.19",
            "tune-1 public_ipv4": "0 USD x 730 h, it costs the same there = 0",
        },
    ),
    "poc: a second workstation": (
        "poc",
        ("    workstations:\n", M3),
        {"m3 machine": "36.5 USD (1752 over 48 months) + 0.003 USD (10 W at 0.30 a kWh) x 730 h = 38.69"},
    ),
}


def git(root, *arguments):
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def clone(shared_project, tmp_path_factory):
    """Clone the project, as somebody who reviews a change does."""
    target = tmp_path_factory.mktemp("clone") / "fleet"
    subprocess.run(["git", "clone", "-q", str(shared_project), str(target)], check=True)
    (target / ".venv").symlink_to(shared_project / ".venv")
    return target


@pytest.mark.parametrize("stack", ["poc", "dev", "production"])
def test_commit_has_the_manually_calculated_cost(stack, clone, golden_book):
    path = clone / "stacks" / f"Pulumi.{stack}.yaml"
    text, expected = path.read_text(), {}
    for where, (old, new), differences in CHANGES.values():
        if where == stack:
            assert text.count(old) == 1
            text = text.replace(old, new)
            expected |= differences
    path.write_text(text)
    git(clone, "commit", "-qam", f"what changes in {stack}")
    with start_git_ref_comparison(clone, stack, "HEAD~1") as run:
        before, after = run()
    cost_diff = cost.diff(before, after, book=golden_book)
    git(clone, "reset", "-q", "--hard", "HEAD~1")
    expected_change = {key: evaluate_arithmetic(arithmetic) for key, arithmetic in expected.items()}
    # Hardware of our own is worked out in binary floating point: a millionth of a cent is near enough.
    moved = {
        f"{line.shown_charge.name} {line.shown_charge.component}": round(line.change_usd_per_month, 8)
        for line in cost_diff.lines
        if line.is_changed or f"{line.shown_charge.name} {line.shown_charge.component}" in expected
    }
    assert moved == expected_change
    total_change = cost_diff.after.usd_per_month.expected - cost_diff.before.usd_per_month.expected
    assert round_to_cents(total_change) == round_to_cents(sum(expected_change.values(), Decimal(0)))


def test_removed_spot_purchase_removes_the_standby_group(clone, golden_book):
    """In dev the spot group and the one that stands by become one machine: 160 h at 1.212 and not at 0.43632."""
    path = clone / "stacks" / "Pulumi.dev.yaml"
    text = path.read_text()
    spot = "purchase: {kind: spot, on_eviction: delete, fallback: on_demand}"
    assert spot in text
    path.write_text(text.replace(spot, "purchase: {kind: on_demand}"))
    git(clone, "commit", "-qam", "no spot")
    with start_git_ref_comparison(clone, "dev", "HEAD~1") as run:
        before, after = run()
    git(clone, "reset", "-q", "--hard", "HEAD~1")
    cost_diff = cost.diff(before, after, book=golden_book)
    expected_change = evaluate_arithmetic("0.77568 USD (1.212 and not 0.43632) x 160 h = 124.1088")
    machines = {
        side: sum(
            charge.usd_per_month.expected
            for charge in bill.charges
            if charge.item == "g5.2xlarge"
        )
        for side, bill in (("before", cost_diff.before), ("after", cost_diff.after))
    }  # fmt: skip
    assert machines["after"] - machines["before"] == expected_change
    disk = evaluate_arithmetic("0.0001 USD x 100 GiB x 570 h more, which an own machine keeps = 5.7")
    assert (
        cost_diff.after.usd_per_month.expected - cost_diff.before.usd_per_month.expected
        == expected_change + disk
    )
