"""Test the counters of RDMA ports and interfaces: gains over the run decide, totals since boot only show flapping."""

from __future__ import annotations

import copy
import json

import pytest

from gpufleet.burnin.agent.fabric import read_link_counters
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.hardware import measure as hardware
from gpufleet.burnin.checks.link_errors import measure as link_errors
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

COUNTERS = {"link_downed": 3, "symbol_error": 91834, "link_error_recovery": 2, "port_rcv_errors": 7}


def judge(name, raw):
    return judge_check(
        {"name": name, "status": "ran", "raw": raw}, select_thresholds("gpu_server"), "", False
    )


def build_record(port=None, interface=None, seconds=600.0, drop=()):
    """Return the counters of a run in which one port and one interface gained this."""
    before = {
        "uptime_s": 90_000.0,
        "ports": {f"mlx5_{number}/1": dict(COUNTERS) for number in range(4)},
        "interfaces": {"eth0": {"carrier_down_count": 2, "carrier_changes": 5}},
    }
    after = copy.deepcopy(before) | {"uptime_s": 90_000.0 + seconds}
    for name, gain in (port or {}).items():
        after["ports"]["mlx5_3/1"][name] = before["ports"]["mlx5_3/1"].get(name, 0) + gain
        before["ports"]["mlx5_3/1"].setdefault(name, 0)
    for name, gain in (interface or {}).items():
        after["interfaces"]["eth0"][name] += gain
    for name in drop:
        del after["ports"][name]
    return {"before": before, "after": after}


@pytest.mark.parametrize(
    ("change", "outcome", "reason"),
    [
        ({}, "pass", ""),
        ({"port": {"link_downed": 1}}, "fail", "dropped during the run (1 drops): mlx5_3/1 +1"),
        ({"port": {"local_link_integrity_errors": 1}}, "fail", "integrity errors"),
        ({"port": {"excessive_buffer_overrun_errors": 2}}, "fail", "buffer overruns"),
        ({"port": {"no_completion_cmds": 1}}, "fail", "did not answer its driver"),
        ({"drop": ["mlx5_2/1"]}, "fail", "disappeared during the run (1 ports): mlx5_2/1"),
        ({"port": {"symbol_error": 120}}, "pass", ""),
        ({"port": {"symbol_error": 121}}, "warn", "faster than InfiniBand allows"),
        ({"port": {"symbol_error": 240}, "seconds": 7200.0}, "pass", ""),
        ({"port": {"link_error_recovery": 51}}, "warn", "retrains its link"),
        ({"port": {"link_error_recovery": 50}}, "pass", ""),
        ({"port": {"port_rcv_errors": 6001}}, "warn", "malformed packets"),
        ({"port": {"port_xmit_discards": 60_001}}, "warn", "discards packets"),
        ({"port": {"roce_slow_restart": 6001}}, "warn", "RoCE port"),
        ({"port": {"local_ack_timeout_err": 601}}, "warn", "acknowledgements"),
        ({"port": {"rnr_nak_retry_err": 1}}, "warn", "gave up connections"),
        ({"interface": {"carrier_down_count": 1, "carrier_changes": 2}}, "warn", "carrier during the run"),
        ({"interface": {"carrier_changes": 1}}, "pass", ""),
    ],
)
def test_gain_over_the_run_decides(change, outcome, reason):
    result = judge("link_errors", build_record(**change))
    assert result.outcome == outcome
    assert reason in result.reason


def test_counters_that_a_restart_reset_start_at_zero():
    raw = build_record()
    raw["after"]["uptime_s"] = 300.0
    for counters in raw["after"]["ports"].values():
        counters.update(dict.fromkeys(counters, 0))
    assert judge("link_errors", raw).outcome == "pass"
    raw["after"]["ports"]["mlx5_0/1"]["link_downed"] = 1
    assert judge("link_errors", raw).outcome == "fail"


@pytest.mark.parametrize("raw", [{}, {"before": {}, "after": {"ports": {}}}, {"before": 7, "after": []}])
def test_record_without_counters_is_not_a_pass(raw):
    assert judge("link_errors", raw).outcome == "not_run"


def test_hostile_counters_are_ignored():
    raw = {
        "before": {"ports": {"a": {"link_downed": "1"}, "b": 7}, "interfaces": []},
        "after": {"ports": {"a": {"link_downed": None, "x": True}, "b": [1]}, "uptime_s": "x"},
    }
    assert judge("link_errors", raw).outcome == "pass"


@pytest.fixture
def write_ports(tmp_path):
    """Give a function that writes RDMA ports with their counters to sysfs, each port on a card of its own."""

    def write(counters, states=(), cards=None, model="MT_0000000838", **facts):
        base = tmp_path / "sys/class/infiniband"
        for number, counts in enumerate(counters):
            port = base / f"mlx5_{number}/ports/1"
            (port / "counters").mkdir(parents=True, exist_ok=True)
            state = states[number] if number < len(states) else "4: ACTIVE"
            files = {"link_layer": "InfiniBand", "state": state, "phys_state": "5: LinkUp", **facts}
            for name, text in files.items():
                (port / name).write_text(f"{text}\n")
            for name, count in counts.items():
                (port / "counters" / name).write_text(f"{count}\n")
            (base / f"mlx5_{number}/board_id").write_text(f"{model}\n")
            card = tmp_path / "sys/devices" / f"0000:{(cards or range(99))[number]:02x}:00.0"
            card.mkdir(parents=True, exist_ok=True)
            if not (base / f"mlx5_{number}/device").exists():
                (base / f"mlx5_{number}/device").symlink_to(card)
        return HostAccess(root=str(tmp_path))

    return write


def judge_hardware(tmp_path, host, days=2.0, **expected):
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "proc/uptime").write_text(f"{days * 86_400:.2f} 1.0\n")
    raw = hardware.measure_host(host).raw
    return judge("hardware", {**raw, "devices": raw["devices"], "expect_gpus": 0, **expected}), raw


@pytest.mark.parametrize(
    ("drops", "days", "flaps"),
    [(27, 2, True), (10, 2, False), (11, 29, True), (27, 400, False), (255, 400, True), (0, 2, False)],
)
def test_port_that_flapped_since_boot_is_named(tmp_path, write_ports, drops, days, flaps):
    counters = [{"link_downed": 1, "symbol_error": 0}] * 3 + [{"link_downed": drops, "symbol_error": 91834}]
    result, _ = judge_hardware(tmp_path, write_ports(counters), days)
    assert (f"mlx5_3/1 dropped {drops} times since boot" in result.reason) is flaps


@pytest.mark.parametrize(
    ("states", "facts", "is_named"),
    [
        (["4: ACTIVE"] * 7 + ["1: DOWN"], {}, True),  # NVSentinel: uncabled port by comparison
        (
            ["4: ACTIVE"] * 7 + ["1: DOWN"],
            {"phys_state": "3: Disabled"},
            False,
        ),  # NVSentinel #1361: down on purpose
        (["4: ACTIVE", "1: DOWN"], {}, False),  # two cards have no majority
        (["4: ACTIVE"] * 4 + ["1: DOWN"] * 4, {}, False),
        (["1: DOWN"] * 8, {}, False),
    ],
)
def test_port_that_is_up_on_equal_cards_is_named(tmp_path, write_ports, states, facts, is_named):
    host = write_ports([{}] * len(states), states)
    if facts:
        port = tmp_path / f"sys/class/infiniband/mlx5_{len(states) - 1}/ports/1"
        for name, text in facts.items():
            (port / name).write_text(text)
    result, raw = judge_hardware(tmp_path, host)
    assert ("up on most cards of the same model" in result.reason) is is_named
    assert len(json.dumps(raw)) < 8000
    declared, _ = judge_hardware(tmp_path, host, expect_fabric="infiniband", expect_fabric_adapters=4)
    assert "up on most cards" not in declared.reason  # the declaration says it better


def test_agent_reads_counters_before_and_after(tmp_path, write_ports):
    host = write_ports([{"link_downed": 4}])
    net = tmp_path / "sys/class/net"
    for name, state in (("eth0", "up"), ("eth1", "down"), ("veth0", "up")):
        (net / name).mkdir(parents=True)
        (net / name / "operstate").write_text(state)
        (net / name / "carrier_changes").write_text("6")
    (net / "eth0/device").mkdir()
    (net / "eth1/device").mkdir()
    start = read_link_counters(host, "/sys")
    assert start["ports"] == {"mlx5_0/1": {"link_downed": 4}}
    assert start["interfaces"] == {"eth0": {"carrier_down_count": None, "carrier_changes": 6}}
    write_ports([{"link_downed": 5}])
    result = link_errors.measure_host(HostAccess(root=str(tmp_path), start_links=start))
    assert judge("link_errors", result.raw).outcome == "fail"


def test_node_without_links_is_not_measured(tmp_path):
    assert link_errors.measure_host(HostAccess(root=str(tmp_path))).status == "not_run"


@pytest.mark.parametrize(
    ("link", "gain", "outcome"),
    [
        (None, 0, "pass"),
        (None, 307, "pass"),  # in ten minutes: Gen5 with 16 lanes may have 30.7 a minute
        (None, 308, "warn"),
        (("32.0 GT/s PCIe", "16"), 307, "pass"),
        (("8.0 GT/s PCIe", "16"), 76, "pass"),  # Gen3: 7.7 a minute, as DCGM's old bound of 8
        (("8.0 GT/s PCIe", "16"), 77, "warn"),
        (("16.0 GT/s PCIe", "8"), 77, "warn"),
        (("Unknown", "255"), 307, "pass"),
    ],
)
def test_replays_of_an_amd_gpu_count_by_its_link_as_those_of_nvidia(tmp_path, link, gain, outcome):
    card = tmp_path / "sys/bus/pci/devices/0000:05:00.0"
    card.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    for name, text in {"vendor": "0x1002", "class": "0x120000", "pcie_replay_count": "500"}.items():
        (card / name).write_text(f"{text}\n")
    for name, text in zip(("max_link_speed", "max_link_width"), link or (), strict=False):
        (card / name).write_text(f"{text}\n")
    (tmp_path / "proc/uptime").write_text("1000.00 1.0\n")
    start = read_link_counters(HostAccess(root=str(tmp_path)), "/sys")
    (card / "pcie_replay_count").write_text(f"{500 + gain}\n")
    (tmp_path / "proc/uptime").write_text("1600.00 1.0\n")
    result = link_errors.measure_host(HostAccess(root=str(tmp_path), start_links=start))
    assert judge("link_errors", result.raw).outcome == outcome
