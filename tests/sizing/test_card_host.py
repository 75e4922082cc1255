"""Cards in a host and slot of one's own, against the same cards on a Raspberry Pi and in a PC."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.sizing.card_host import attach_card, load_host_computers
from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.node_hardware import build_accelerator_hardware

CASES = Path(__file__).parents[1] / "cases/sizing/cards_in_hosts.csv"  # github.com/geerlingguy/ai-benchmarks
ROWS = list(csv.DictReader(CASES.read_text().splitlines()))


@pytest.fixture
def plan_card(answer_size):
    """Return the plan for a row's card in a host; without one as before, in an ordinary server."""

    def plan(row, host="", **options):
        (best,) = answer_size(
            row["model"], precision=row["precision"], on=row["accelerator"], devices=1, engine="llama.cpp",
            context="0/128", host=host, **options,
        ).plans  # fmt: skip
        return best

    return plan


def test_nvidia_cards_lose_on_a_small_host_what_was_measured(plan_card):
    """From the speed measured in a PC, host and slot alone give the speed on the small host."""
    errors = []
    for row in ROWS:
        if not row["tokens_per_s_in_pc"] or row["accelerator"].startswith("Radeon"):
            continue
        extra = 1 / plan_card(row, row["host"]).tokens_per_s - 1 / plan_card(row).tokens_per_s
        predicted = 1 / (1 / float(row["tokens_per_s_in_pc"]) + extra)
        errors.append(abs(predicted / float(row["tokens_per_s"]) - 1))
    assert len(errors) == 17
    assert median(errors) < 0.05
    assert max(errors) < 0.15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['accelerator']}, {row['model']}, {row['host']}")
def test_measured_speed_is_nearer_with_the_host_and_in_the_range(row, plan_card):
    measured, plan = float(row["tokens_per_s"]), plan_card(row, row["host"])
    if row["accelerator"].startswith(("Radeon", "Arc")):
        assert abs(plan.tokens_per_s - measured) < abs(plan_card(row).tokens_per_s - measured)
        assert plan.tokens_per_s_low < measured < plan.tokens_per_s_high
    assert plan.tokens_per_s < plan_card(row).tokens_per_s


def test_narrower_slots_are_slower_and_the_cards_own_slot_changes_nothing(plan_card):
    row = {"model": "Llama-3.2-3B", "precision": "q4_k_m", "accelerator": "GeForce RTX 4090"}
    speeds = [plan_card(row, slot=slot).tokens_per_s for slot in ("2.0x1", "x1", "x4", "tb5", "x8", "x16")]
    assert speeds == sorted(speeds)
    assert plan_card(row, "PC").tokens_per_s == pytest.approx(plan_card(row).tokens_per_s)


def test_a_card_of_ones_own_has_no_cloud_price_and_is_named_with_its_host(answer_size):
    (plan,) = answer_size("llama-3.1-8b", on="H100 PCIe", devices=1, slot="x4").plans
    assert plan.offer is None
    assert plan.hardware.name == "H100 PCIe 80GB in PC (PCIe 5.0 x4)"


def test_cards_of_one_pc_exchange_over_the_slots_they_are_in(plan_card):
    row = {"model": "Llama-3.1-70B", "precision": "int4", "accelerator": "GeForce RTX 3090"}
    hardware = build_accelerator_hardware(catalog.get_accelerator("GeForce RTX 4090"))
    assert attach_card(hardware, "", "x4").link_gb_s == pytest.approx(hardware.link_gb_s / 4)
    assert plan_card(row, slot="x1").hardware.slot_gb_s == pytest.approx(31 / 16)


@pytest.mark.parametrize(
    ("options", "where", "message"),
    [
        ({"on": "RTX 4090", "host": "Commodore 64"}, "--host", "is not a host with measurements"),
        ({"on": "RTX 4090", "slot": "x3"}, "--slot", "'x3' is not a slot"),
        ({"on": "M3 Ultra (80)", "slot": "x4"}, "--slot", "is not a card in a PCIe slot"),
        ({"on": "p4d.24xlarge", "host": "pi 5"}, "--host", "is not a card in a PCIe slot"),
        ({"host": "pi 5"}, "--host", "needs --on"),
    ],
)
def test_wrong_host_or_slot_is_refused(options, where, message, answer_size):
    with pytest.raises(InputError, match=message) as caught:
        answer_size("llama-3.2-3b", **options)
    assert caught.value.where == where


@pytest.mark.parametrize("spelling", ["Raspberry Pi 5", "pi5", "CM5", "raspberry-pi-5", "Pi 500+"])
def test_hosts_are_found_as_people_write_them(spelling, answer_size):
    (plan,) = answer_size("llama-3.2-3b", on="RX 7900 XT", devices=1, host=spelling).plans
    assert plan.hardware.name == "Radeon RX 7900 XT in Raspberry Pi 5 (PCIe 3.0 x1)"


def test_every_host_and_attachment_has_its_source():
    assert all(host.source and host.as_of for host in load_host_computers().values())
    assert all(row["source"] and row["as_of"] for row in load_sizing_rows("attachments.csv"))
