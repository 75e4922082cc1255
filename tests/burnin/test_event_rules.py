"""Test the rules over time and by register: tables of events with their source, and properties of any log."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gpufleet.burnin.event_rule import list_rule_names, load_bit_rules, load_event_rules
from gpufleet.burnin.log_event import KernelEvent
from gpufleet.burnin.repair_step import choose_ladder
from gpufleet.burnin.xid_rule import EventHistory, PartRepair, read_register_bits, refine_events

A, B, C = "0000:18:00.0", "0000:2a:00.0", "0000:3a:00.0"
BASE = {13: "application", 31: "application", 45: "review", 137: "review"}
HOUR = 3600.0
SENTINEL = "github.com/NVIDIA/NVSentinel docs/configuration/health-events-analyzer.md"
CATALOGUE = "docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"


def xid(code, at, part=A, text="", *, count=1, end=None):
    """Return an event as the dictionary of the kernel log gives it."""
    line = f"NVRM: Xid (PCI:{part[:-2]}): {code}, pid=7, name=python3, {text}"
    last = at if end is None else end
    bursts = ((at, last),) if at is not None else ()
    outcome = BASE.get(code, "fatal")
    return KernelEvent(f"xid_{code}", "gpu", part, outcome, (), line, count, at, last, bursts=bursts)


def sm(gpc, tpc):
    return f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 0): Out Of Range Address"


def link(number, *registers):
    words = [*registers, *(0 for _ in range(7 - len(registers)))]
    return f"NVLink: fatal error detected on link {number}({', '.join(map(hex, words))})"


def bit(register, number):
    return tuple(1 << number if place == register else 0 for place in range(1, 8))


def judged(*events, history=None):
    """Return code and outcome of what is left to judge; an ignored event is left out."""
    refined = refine_events(events, history or EventHistory())
    return sorted((event.code, event.outcome) for event in refined if event.outcome != "record")


DIAGNOSE_31, DIAGNOSE_13 = ("xid_31_repeated", "fatal"), ("xid_13_repeated", "fatal")
APP_31, APP_13 = ("xid_31", "application"), ("xid_13", "application")

OVER_TIME = {
    "one XID 31": ([xid(31, 100)], [APP_31], CATALOGUE),
    "XID 31 twice on one GPU": ([xid(31, 0), xid(31, HOUR)], [APP_31, APP_31, DIAGNOSE_31], SENTINEL),
    "XID 31 in one burst": ([xid(31, 0), xid(31, 170)], [APP_31, APP_31], SENTINEL),
    "XID 31 after more than a day": ([xid(31, 0), xid(31, 25 * HOUR)], [APP_31, APP_31], SENTINEL),
    "XID 31 on two GPUs": ([xid(31, 0), xid(31, HOUR, B)], [], SENTINEL),
    "XID 31 of one job on two GPUs, twice": (
        [xid(31, 0), xid(31, 1, B), xid(31, HOUR), xid(31, HOUR + 2, B)], [], CATALOGUE,
    ),
    "XID 31 on one GPU alone twice, once on another": (
        [xid(31, 0), xid(31, HOUR), xid(31, 2 * HOUR, B)], [APP_31, APP_31, DIAGNOSE_31], SENTINEL,
    ),
    "XID 13 twice on one TPC": (
        [xid(13, 0, text=sm(1, 2)), xid(13, 60, text=sm(1, 2))], [APP_13, APP_13, DIAGNOSE_13], SENTINEL,
    ),
    "XID 13 within 15 s on one TPC": (
        [xid(13, 0, text=sm(1, 2)), xid(13, 14, text=sm(1, 2))], [APP_13, APP_13], SENTINEL,
    ),
    "XID 13 on two TPCs": ([xid(13, 0, text=sm(1, 2)), xid(13, 60, text=sm(1, 3))], [], SENTINEL),
    "XID 13 over the whole GPU at once": (
        [xid(13, 5, text=sm(gpc, tpc)) for gpc in range(3) for tpc in range(2)] + [xid(13, 5)],
        [], "github.com/openwall/john issue 2491",
    ),
    "XID 13 without a TPC": (
        [xid(13, 93297, text="Graphics Exception: ESR 0x52e7b0=0x101000e"), xid(13, 99297, text="ESR 0x1")],
        [APP_13, APP_13], "github.com/vllm-project/vllm issue 5901",
    ),
    "five fatal XIDs of one GPU in a day": (
        [xid(48, hour * HOUR) for hour in range(5)],
        [("fatal_xid_repeated", "fatal"), *[("xid_48", "fatal")] * 5], SENTINEL,
    ),
    "four fatal XIDs": ([xid(48, hour * HOUR) for hour in range(4)], [("xid_48", "fatal")] * 4, SENTINEL),
    "five on five GPUs": (
        [xid(48, hour * HOUR, f"0000:{hour}a:00.0") for hour in range(5)], [("xid_48", "fatal")] * 5, SENTINEL,
    ),
    "a GPU off the bus for hours is one event": (
        [xid(79, hour * HOUR) for hour in range(8)], [("xid_79", "fatal")] * 8,
        "github.com/NVIDIA/NVSentinel distros/kubernetes/nvsentinel/charts/health-events-analyzer/values.yaml",
    ),
    "XID 45 names XID 149": ([xid(45, 5, text="Ch 01 caused by previous Xid 149")], [("xid_149", "fatal")],
        "github.com/NVIDIA/open-gpu-kernel-modules issue 1150"),
    "XID 45 names an application's XID": (
        [xid(45, 5, text="Ch 01 caused by previous Xid 31")], [APP_31], CATALOGUE,
    ),
    "XID 45 beside the XID that it names": (
        [xid(145, 4), xid(45, 5, text="Ch 01 caused by previous Xid 145")], [("xid_145", "fatal")],
        CATALOGUE,
    ),
    "XID 45 beside another XID": ([xid(48, 4), xid(45, 5)], [("xid_48", "fatal")], CATALOGUE),
    "XID 45 alone": ([xid(45, 5)], [("xid_45", "review")], CATALOGUE),
    "XID 45 with another GPU's XID": (
        [xid(48, 4, B), xid(45, 5)], [("xid_45", "review"), ("xid_48", "fatal")], CATALOGUE,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "expected", "source"), OVER_TIME.values(), ids=OVER_TIME)
def test_events_over_time(events, expected, source):
    assert source
    assert judged(*events) == sorted(expected)


REGISTERS = {
    "bit 30": ([(0x40000000,)], [], "github.com/NVIDIA/NVSentinel issue 364"),
    "bits 0 and 23": ([(0x800001,)], [], CATALOGUE),
    "bit 30 with bit 4": ([(0x40000010,)], [("xid_74", "review")], CATALOGUE),
    "bit 20 alone": ([(0x100000,)], [("xid_74_solo", "fatal")], "github.com/NVIDIA/NVSentinel pull request 545"),
    "bit 20 with bit 28": ([(0x10100000,)], [("xid_74", "review")], CATALOGUE),
    "bit 22 alone": ([bit(1, 22)], [("xid_74_signal", "fatal")], CATALOGUE),
    "bit 4 once": ([bit(1, 4)], [("xid_74", "review")], CATALOGUE),
    "bit 4 twice on a link": ([bit(1, 4)] * 2, [("xid_74_link_ecc", "fatal")] * 2, CATALOGUE),
    "bit 28 twice": ([bit(1, 28)] * 2, [("xid_74_hardware", "fatal")] * 2, CATALOGUE),
    "bit 29 twice": ([bit(1, 29)] * 2, [("xid_74_repeated", "fatal")] * 2, CATALOGUE),
    "third register, bit 13": ([bit(3, 13)], [("xid_74_unexpected", "fatal")], CATALOGUE),
    "third register, bit 16": (
        [(0, 0, 0x10000)], [("xid_74", "review")], "github.com/NVIDIA/NVSentinel docs/designs/022: XID 74 on link 14",
    ),
    "third register, bit 16 twice": ([bit(3, 16)] * 2, [("xid_74_diagnose", "fatal")] * 2, CATALOGUE),
    "third register, bit 6 twice": ([bit(3, 6)] * 2, [("xid_74_link_ecc", "fatal")] * 2, CATALOGUE),
    "fourth register, bit 18": ([bit(4, 18)], [("xid_74_fabric_reset", "fatal")], CATALOGUE),
    "fifth register, bit 20": ([bit(5, 20)], [("xid_74", "review")], CATALOGUE),
    "fifth register, bit 28 twice": ([bit(5, 28)] * 2, [("xid_74_link_ecc", "fatal")] * 2, CATALOGUE),
    "a bit that NVIDIA does not list": ([bit(1, 3)], [("xid_74", "fatal")], CATALOGUE),
    "no bit at all": ([(0,)], [("xid_74", "fatal")], CATALOGUE),
}  # fmt: skip


@pytest.mark.parametrize(("registers", "expected", "source"), REGISTERS.values(), ids=REGISTERS)
def test_xid_74_by_registers(registers, expected, source):
    assert source
    events = [xid(74, 1000 * number, text=link(6, *words)) for number, words in enumerate(registers)]
    assert judged(*events) == expected


def test_link_errors_of_two_links_are_no_repetition():
    events = [xid(74, 0, text=link(1, 0x10)), xid(74, HOUR, text=link(2, 0x10))]
    assert judged(*events) == [("xid_74", "review")] * 2


def test_secondary_link_error_follows_another_xid():
    assert judged(xid(48, 0), xid(74, 5, text=link(1, 1 << 20))) == [("xid_48", "fatal")]
    marginal = xid(74, 5, text=link(1, 1 << 22))
    assert judged(xid(31, 0), marginal) == [APP_31, ("xid_74", "review")]
    assert ("xid_74_signal", "fatal") in judged(xid(31, 0, B), marginal)


def test_xid_74_without_registers_stays_fatal():
    assert judged(xid(74, 0, text="NVLink error")) == [("xid_74", "fatal")]
    assert read_register_bits("link 6(0x40000000, 0x1, 0x0") == {(1, 30), (2, 0)}


def test_every_fatal_rule_has_a_ladder():
    for rule in load_event_rules():
        if rule.outcome == "fatal":
            assert choose_ladder(rule.rule).steps == rule.steps
    assert len(set(list_rule_names())) == len(list_rule_names())
    assert {place[0] for place in load_bit_rules()} == {1, 3, 4, 5}


@pytest.mark.parametrize("code", [13, 31, 48, 74])
@pytest.mark.parametrize("size", [1, 2, 50, 100_000])
def test_burst_of_any_size_counts_once(code, size):
    text = {13: sm(0, 0), 74: link(1, 0x10)}.get(code, "")
    storm = [xid(code, 5.0, text=text, count=size, end=5.0 + size / 100)]
    lines = [xid(code, 5.0 + number * 2, text=text) for number in range(min(size, 50))]
    for events in (storm, lines):
        assert not [found for found in judged(*events) if found[0].endswith(("_repeated", "_ecc"))]


def test_order_of_events_does_not_matter():
    shuffle = random.Random(26)
    for _ in range(60):
        events = [
            xid(code, shuffle.choice([0, 10, 200, 4000, 90_000]), shuffle.choice([A, B]), shuffle.choice(texts))
            for code, texts in shuffle.choices(
                [(13, [sm(0, 0), sm(0, 1), ""]), (31, [""]), (45, ["", "caused by previous Xid 31"]), (48, [""]),
                 (74, [link(1, 0x10), link(1, 1 << 20)])], k=8,
            )
        ]  # fmt: skip
        expected = judged(*events)
        for _ in range(4):
            shuffle.shuffle(events)
            assert judged(*events) == expected


def earlier(*events, booted_at=0.0):
    history = EventHistory(booted_at=booted_at)
    return tuple(seen for event in events for seen in history.locate(event, is_current=False))


def test_earlier_attempts_support_a_rule():
    history = EventHistory(booted_at=10 * HOUR, earlier=earlier(xid(31, HOUR)))
    assert DIAGNOSE_31 in judged(xid(31, 60), history=history)
    assert judged(history=history) == []
    old = EventHistory(booted_at=30 * HOUR, earlier=earlier(xid(31, HOUR)))
    assert DIAGNOSE_31 not in judged(xid(31, 60), history=old)


def test_one_event_read_by_two_attempts_counts_once():
    event = xid(31, HOUR)
    assert judged(event, history=EventHistory(booted_at=50.0, earlier=earlier(event, booted_at=50.0))) == [
        APP_31
    ]


def test_event_before_the_repair_of_its_rule_does_not_count():
    history = EventHistory(booted_at=10 * HOUR, earlier=earlier(xid(31, HOUR)))
    for action, part, applies in (("diagnose", A, False), ("reset", A, True), ("diagnose", B, True)):
        repaired = replace(history, repairs=(PartRepair(part, action, 2 * HOUR),))
        assert (DIAGNOSE_31 in judged(xid(31, 60), history=repaired)) is applies, action
    before = replace(history, repairs=(PartRepair(A, "diagnose", 60.0),))
    assert DIAGNOSE_31 in judged(xid(31, 60), history=before)


def test_another_gpu_in_the_same_place_has_its_own_history():
    history = EventHistory(booted_at=10 * HOUR, parts={A: "GPU-new"}, earlier=earlier(xid(31, HOUR)))
    assert DIAGNOSE_31 not in judged(xid(31, 60), history=history)


def test_recorded_rule_changes_no_outcome():
    both = xid(31, 0), xid(31, HOUR)
    history = EventHistory(record_only=frozenset({"xid_31_repeated", "xid_74_ignorable"}))
    assert judged(*both, history=history) == [APP_31, APP_31]
    assert "recorded only: XID 31 twice in 24 h" in refine_events(both, history)[-1].meaning
    assert judged(xid(74, 0, text=link(6, 1 << 30)), history=history) == [("xid_74", "fatal")]


def test_reason_names_rule_part_and_step():
    text = refine_events([xid(31, 0), xid(31, HOUR)])[-1].meaning
    assert text == "XID 31 twice in 24 h on GPU 0000:18:00.0: possibly hardware"
    text = refine_events([xid(74, 0, text=link(6, 1 << 30))])[0].meaning
    assert text == "XID 74 on GPU 0000:18:00.0, first register bit 30: NVIDIA says these bits can be ignored"
