"""Test the table of repair steps: the golden first step of every XID, and how a part's ledger moves along the steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpufleet.burnin import repair_step
from gpufleet.nodes.part import REPAIR_ACTIONS, RepairEntry

START = datetime(2026, 11, 21, tzinfo=UTC)
GOLDEN = Path(__file__).resolve().parents[1] / "cases/burnin/repair-steps.txt"


def ledger(*events):
    """Return entries from words such as ``fault:xid_79`` and ``action:reset``."""
    return [
        RepairEntry(number, "p-1", "n-1", START + timedelta(hours=number), *word.split(":"), "why")
        for number, word in enumerate(events)
    ]


def next_step(*events, rented=False):
    return [fault.step for fault in repair_step.find_open_faults(ledger(*events), is_rented=rented)]


def test_first_step_of_every_xid_matches_the_golden_file(golden):
    codes = sorted(repair_step.load_xid_actions().items())
    lines = [
        f"{code:>4} {action or '-':<24}{' -> '.join(repair_step.choose_ladder(f'xid_{code}').steps)}"
        for code, action in codes
    ]
    golden(GOLDEN, "\n".join(lines) + "\n")


def test_every_step_is_an_action_with_a_source():
    for ladder in repair_step.load_repair_ladders():
        assert set(ladder.steps) <= set(REPAIR_ACTIONS), ladder
        assert ladder.source
        assert ladder.date
        assert ladder.meaning


RESET, REBOOT, RMA = "action:reset", "action:reboot", "action:rma"
FAULT = "fault:xid_95"  # RESET_GPU


@pytest.mark.parametrize(
    ("events", "step"),
    [
        ((FAULT,), ["reset"]),
        ((FAULT, FAULT), ["reset"]),
        ((FAULT, RESET), ["burn_in"]),
        ((FAULT, RESET, "passed:xid_95"), []),
        ((FAULT, RESET, FAULT), ["reboot"]),
        ((FAULT, RESET, "passed:xid_95", FAULT), ["reboot"]),
        ((FAULT, REBOOT, FAULT), ["rma"]),
        ((FAULT, RESET, FAULT, REBOOT, FAULT), ["rma"]),
        ((FAULT, RMA), ["await"]),
        ((FAULT, RMA, "action:replace"), []),
        ((FAULT, RMA, FAULT), ["rma"]),
        ((FAULT, "action:inspect", FAULT), ["reset"]),
        ((RESET, FAULT), ["reset"]),
        (("fault:xid_79",), ["reboot"]),
        (("fault:xid_142",), ["rma"]),
        (("fault:xid_154.2",), ["reboot"]),
        (("fault:xid_9999",), ["rma"]),
        (("fault:gpu_nvidia.remap_failed",), ["rma"]),
        (("fault:gpu_compute.wrong_results",), ["reset"]),
        (("fault:smart.failing",), ["rma"]),
        (("fault:gpu_amd.ras_uncorrected",), ["reset"]),
        (("fault:gpu_amd.without_driver",), ["reboot"]),
        (("fault:gpu_hip.wrong_results",), ["reset"]),
        (("fault:clock.offset_s",), ["inspect"]),
        (("fault:clock.skew_s",), ["correct"]),
        (("fault:clock.skew_s", "action:correct", "fault:clock.skew_s"), ["inspect"]),
        (("fault:storage.free_share",), ["correct"]),
        (("fault:storage.free_share", "action:correct"), ["burn_in"]),
        (("fault:storage.free_gib",), ["correct"]),
        (("fault:storage.inodes_free_share",), ["correct"]),
        (("fault:storage.wrong_mib",), ["inspect"]),
        (("fault:configuration.failures",), ["correct"]),
        (("fault:xid_95", "fault:smart.failing"), ["reset", "rma"]),
    ],
)
def test_ledger_moves_along_the_steps(events, step):
    assert next_step(*events) == step


def test_rented_hardware_is_replaced_instead_of_repaired():
    assert next_step("fault:smart.failing", rented=True) == ["replace_node"]
    assert next_step(FAULT, rented=True) == ["reset"]
    assert next_step("fault:storage.free_share", rented=True) == ["correct"]


OVER_TIME = "fault:xid_31_repeated"


@pytest.mark.parametrize(
    ("events", "step"),
    [
        ((OVER_TIME,), ["diagnose"]),
        ((OVER_TIME, "passed:xid_31_repeated"), ["diagnose"]),  # a new kernel log has no old events
        ((OVER_TIME, RESET, "passed:xid_31_repeated"), ["diagnose"]),  # a reset is not a step of this rule
        ((OVER_TIME, "action:diagnose"), ["burn_in"]),
        ((OVER_TIME, "action:diagnose", "passed:xid_31_repeated"), []),
        ((OVER_TIME, "action:diagnose", "passed:xid_31_repeated", OVER_TIME), ["rma"]),
        ((OVER_TIME, "action:diagnose", OVER_TIME, "passed:xid_31_repeated"), ["rma"]),
        ((OVER_TIME, RMA), ["await"]),
        ((OVER_TIME, RMA, "action:replace"), []),
        ((FAULT, OVER_TIME, RESET, "passed:xid_95"), ["diagnose"]),  # a repair clears only what it repaired
    ],
)
def test_only_its_own_repair_clears_a_fault_found_over_time(events, step):
    assert next_step(*events) == step


@pytest.mark.parametrize(
    ("hours", "step"),
    [
        ([1, 2, 3, 4], "reset"),
        ([1, 2, 3, 4, 5], "rma"),
        ([1, 1, 1, 1, 1, 1], "reset"),  # one repair, recorded for six parts
        ([-200, 1, 2, 3, 4], "reset"),  # the first is more than seven days older
        ([2, 3, 4, 5, 60], "reset"),  # the last came after the fault
    ],
)
def test_five_repairs_of_a_node_in_a_week_are_the_vendors(hours, step):
    fault = [RepairEntry(1, "p-1", "n-1", START + timedelta(hours=6), "fault", "xid_95", "why")]
    repairs = [START + timedelta(hours=hour) for hour in hours]
    (found,) = repair_step.find_open_faults(fault, node_repairs=repairs)
    assert found.step == step
    assert found.rule == ("5 repairs of the node in 7 days: contact the vendor" if step == "rma" else "")
