"""Test the fabric's adapters: what sysfs shows against what the stack output declares."""

from __future__ import annotations

import pytest

from gpufleet import burnin
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.hardware import measure as hardware


@pytest.fixture
def judge_sysfs(tmp_path, records_of):
    """Give a function that judges a cloud VM with these sysfs files and bound drivers."""

    def judge(files, drivers, expected):
        for name, text in files.items():
            path = tmp_path / "sys" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        for place, driver in drivers.items():
            target = tmp_path / "sys/bus/pci/drivers" / driver
            target.mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys" / place).mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys" / place / "driver").symlink_to(target)
        (tmp_path / "sys/kernel").mkdir(parents=True, exist_ok=True)
        measured = hardware.measure_host(HostAccess(root=str(tmp_path)))
        records = records_of({"base": "cloud_vm", "change": {"hardware": {"raw": measured.raw}}})
        report = burnin.judge_attempt(records, "cloud_vm", "quick", expected=expected)
        return report.verdict, report.find_check_result("hardware").reason

    return judge


def ports(count, layer="InfiniBand", state="4: ACTIVE", rate="400 Gb/sec (4X NDR)"):
    """Return the sysfs files of RDMA ports, in the kernel's format (Documentation/infiniband/sysfs)."""
    facts = {"link_layer": layer, "state": state, "phys_state": "5: LinkUp", "rate": rate}
    return {
        f"class/infiniband/mlx5_{number}/ports/1/{name}": value
        for number in range(count)
        for name, value in facts.items()
    }


def efa(count):
    return {
        f"bus/pci/devices/0000:{number:02x}:00.0/{name}": value
        for number in range(count)
        for name, value in {"vendor": "0x1d0f", "device": "0xefa2", "class": "0x020000"}.items()
    }


ND_H100 = {"expect_fabric": "infiniband", "expect_fabric_adapters": 8, "expect_fabric_gbit_per_s": 3200.0}
HDR, OTHER = "200 Gb/sec (4X HDR)", {f"class/infiniband/mlx5_9/ports/1/{n}": v for n, v in
                                     {"link_layer": "Ethernet", "state": "1: DOWN"}.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("files", "verdict", "reason"),
    [
        (ports(8) | OTHER, "healthy", ""),
        (ports(7) | OTHER, "faulty", "an adapter of the fabric is missing (1 adapters)"),
        (ports(8, state="1: DOWN"), "faulty", "a port of the fabric is not active (8 ports)"),
        (ports(8) | ports(1, state="2: INIT"), "faulty", "a port of the fabric is not active (1 ports)"),
        (ports(8) | ports(1, rate=HDR), "faulty", "slower than declared (0.9375 of declared"),
        (ports(8, layer="Ethernet"), "faulty", "an adapter of the fabric is missing (8 adapters)"),
        ({}, "faulty", "an adapter of the fabric is missing (8 adapters)"),
    ],
)
def test_infiniband_ports_are_counted_with_state_and_rate(judge_sysfs, files, verdict, reason):
    found = judge_sysfs(files, {}, ND_H100)
    assert found[0] == verdict, found
    assert reason in found[1]


def storage_ports(*states, rate="400 Gb/sec (4X NDR)"):
    """Return ports of the fabric's link layer that are not the fabric's: mlx5_20 and following."""
    facts = [{"link_layer": "InfiniBand", "state": state, "rate": rate} for state in states]
    return {
        f"class/infiniband/mlx5_{20 + number}/ports/1/{name}": value
        for number, values in enumerate(facts)
        for name, value in values.items()
    }


def test_ports_that_all_have_another_rate_do_not_pass_as_the_fabric(judge_sysfs):
    rate = "800 Gb/sec (4X XDR)"
    verdict, reason = judge_sysfs(ports(8, rate=rate), {}, ND_H100)
    assert verdict == "degraded"
    assert "no port has the fabric's declared rate" in reason
    assert f"(8 ports): declared 400 Gb/sec, mlx5_0/1 {rate}, mlx5_1/1 {rate}" in reason


def test_named_ports_of_another_rate_are_known_to_be_the_fabrics(judge_sysfs):
    names = ",".join(f"mlx5_{number}" for number in range(8))
    expected = ND_H100 | {"expect_fabric_devices": names}
    assert judge_sysfs(ports(8, rate="800 Gb/sec (4X XDR)"), {}, expected)[0] == "healthy"


UP, DOWN = "4: ACTIVE", "1: DOWN"
UNCLEAR = "a missing one would not show"


@pytest.mark.parametrize(
    ("files", "verdict", "reason"),
    [
        (ports(8) | storage_ports(UP, UP, rate=HDR), "healthy", ""),  # told apart by their rate
        (ports(7) | storage_ports(UP, UP, rate=HDR), "faulty", "slower than declared (0.9375 of declared"),
        (
            ports(8) | storage_ports(UP, DOWN, rate=HDR),
            "degraded",
            UNCLEAR,
        ),  # a port that is down has no rate
        (ports(8) | storage_ports(UP, UP), "degraded", f"{UNCLEAR} (2 ports): 10 ports, 8 declared"),
        (ports(7) | storage_ports(UP, UP), "degraded", UNCLEAR),
        (ports(8) | ports(1, state=DOWN) | storage_ports(UP, rate=HDR), "faulty", "not active (1 ports)"),
    ],
)
def test_other_ports_of_the_same_kind_neither_fail_nor_hide_the_fabric(judge_sysfs, files, verdict, reason):
    found = judge_sysfs(files, {}, ND_H100)
    assert found[0] == verdict, found
    assert reason in found[1]


MISSING_PORT, PORT_DOWN = "an adapter of the fabric is missing", "a port of the fabric is not active"
SLOW_PORT = "the links of the fabric are slower than declared"


@pytest.mark.parametrize(
    ("files", "verdict", "reason"),
    [
        (ports(8, rate=HDR) | storage_ports(UP, UP), "healthy", ""),
        (ports(6, rate=HDR) | storage_ports(UP, UP), "faulty", f"{MISSING_PORT} (2 adapters): 6 of 8"),
        (
            ports(8, rate=HDR) | ports(1, rate="100 Gb/sec (4X EDR)") | storage_ports(UP, UP),
            "faulty",
            f"{SLOW_PORT} (0.9375 of declared, at least 0.99 of declared): mlx5_0/1 100 Gb/sec (4X EDR)",
        ),
        (
            ports(8, rate=HDR) | ports(1, state=DOWN, rate=HDR) | storage_ports(UP, UP),
            "faulty",
            f"{PORT_DOWN} (1 ports): mlx5_0/1 1: DOWN",
        ),
        (ports(8, rate=HDR) | storage_ports(UP, DOWN), "degraded", UNCLEAR),  # which one is down is not known
        (ports(9, rate=HDR) | storage_ports(UP), "degraded", f"{UNCLEAR} (1 ports): 9 ports, 8 declared"),
        (
            ports(8, rate="100 Gb/sec (4X EDR)") | storage_ports(UP, UP),
            "faulty",
            SLOW_PORT,
        ),  # none has the rate
    ],
)
def test_faster_ports_of_a_storage_are_not_the_fabrics(judge_sysfs, files, verdict, reason):
    found = judge_sysfs(files, {}, ND_H100 | {"expect_fabric_gbit_per_s": 1600.0})
    assert found[0] == verdict, found
    assert reason in found[1]


def test_faster_named_port_does_not_make_up_for_a_slower_one(judge_sysfs):
    names = ",".join(f"mlx5_{number}" for number in range(8))
    expected = ND_H100 | {"expect_fabric_gbit_per_s": 1600.0, "expect_fabric_devices": names}
    files = ports(8, rate=HDR) | ports(2) | ports(1, rate="100 Gb/sec (4X EDR)")
    found = judge_sysfs(files, {}, expected)
    assert found[0] == "faulty", found
    assert f"{SLOW_PORT} (0.9375 of declared" in found[1]


@pytest.mark.parametrize(
    ("files", "verdict", "reason"),
    [
        (ports(8) | storage_ports(UP, DOWN), "healthy", ""),
        (ports(7) | storage_ports(UP, UP), "faulty", "an adapter of the fabric is missing (1 adapters): 7 of 8 mlx5_7"),
        (ports(8) | ports(1, state=DOWN) | storage_ports(UP, UP), "faulty", "(1 ports): mlx5_0/1 1: DOWN"),
        (ports(8) | ports(1, rate=HDR) | storage_ports(UP), "faulty", "mlx5_0/1 200 Gb/sec (4X HDR)"),
    ],
)  # fmt: skip
def test_named_devices_are_the_fabric_whatever_else_there_is(judge_sysfs, files, verdict, reason):
    names = ",".join(f"mlx5_{number}" for number in range(8))
    found = judge_sysfs(files, {}, ND_H100 | {"expect_fabric_devices": names})
    assert found[0] == verdict, found
    assert reason in found[1]


def test_reason_stays_short_and_printable_whatever_a_device_is_called(judge_sysfs):
    state = "1: DOWN\x1b[31m" + "x" * 3000
    _, reason = judge_sysfs(ports(8, state=state), {}, ND_H100)
    assert "\x1b" not in reason
    assert len(reason) < 800


def test_roce_ports_are_those_of_ethernet(judge_sysfs):
    expected = {**ND_H100, "expect_fabric": "gpudirect_rdma"}
    assert judge_sysfs(ports(8, layer="Ethernet"), {}, expected)[0] == "healthy"


@pytest.mark.parametrize(
    ("count", "bound", "verdict", "reason"),
    [
        (4, 4, "healthy", ""),
        (3, 3, "faulty", "an adapter of the fabric is missing (1 adapters)"),
        (4, 3, "faulty", "an EFA device has no driver (1 adapters)"),
    ],
)
def test_efa_devices_are_counted_with_their_driver(judge_sysfs, count, bound, verdict, reason):
    drivers = {f"bus/pci/devices/0000:{number:02x}:00.0": "efa" for number in range(bound)}
    found = judge_sysfs(efa(count), drivers, {"expect_fabric": "efa", "expect_fabric_adapters": 4})
    assert found[0] == verdict, found
    assert reason in found[1]


@pytest.mark.parametrize(("cards", "verdict"), [(5, "healthy"), (4, "faulty"), (0, "faulty")])
def test_gvnic_interfaces_count_next_to_the_first_one(judge_sysfs, cards, verdict):
    drivers = {f"class/net/eth{number}/device": "gve" for number in range(cards)}
    expected = {"expect_fabric": "gpudirect_tcpx", "expect_fabric_adapters": 4}
    assert judge_sysfs({"class/net/lo/type": "772"}, drivers, expected)[0] == verdict


def test_undeclared_fabric_is_not_judged(judge_sysfs):
    assert judge_sysfs(ports(1, state="1: DOWN"), {}, {})[0] == "healthy"
