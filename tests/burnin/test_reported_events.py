"""Test logs of public reports from the line to the verdict: rules over time and by register."""

from __future__ import annotations

import pytest

from gpufleet import burnin
from gpufleet.burnin.agent.kernel_log import BURST_SECONDS, MAX_BURSTS, extend_bursts, group_hardware_errors
from gpufleet.burnin.repair_step import choose_ladder

XID = "NVRM: Xid (PCI:0000:{}): "
UNKNOWN = "pid='<unknown>', name=<unknown>, "


def lines(*entries):
    return "".join(f"[{at:13.6f}] {XID.format(card)}{text}\n" for at, card, text in entries)


def sm(gpc, tpc):
    return f"13, Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}): Out Of Range Address"


def mmu(pid):
    return f"31, pid={pid}, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS"


def nvlink(link, registers):
    return f"74, {UNKNOWN}NVLink: fatal error detected on link {link}({registers})"


REPORTS = {
    "NVSentinel 364: only bit 30 of XID 74": (
        lines((9921.004, "ba:00", nvlink(6, "0x40000000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0"))),
        "healthy", "",
    ),
    "NVSentinel 545: bit 20 of XID 74 alone": (
        lines((449410.332316, "d8:00", nvlink(14, "0x100000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0"))),
        "faulty", "XID 74 on GPU 0000:d8:00.0, first register bit 20: a secondary error without a first one: RMA",
    ),
    "NVSentinel 516: bit 16 of the third register once": (
        lines((449410.332316, "d8:00", nvlink(14, "0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0"))),
        "degraded", "third register bit 16",
    ),
    "open-gpu-kernel-modules 1150: XID 45 names XID 149": (
        lines(
            (77121.1, "db:00", "45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149"),
            (77121.2, "ba:00", "45, pid=1818989, name=python3, Ch 00000002 caused by previous Xid 145"),
        ),
        "faulty", "XID 45 on GPU 0000:db:00.0 caused by XID 149: reset, then reboot",
    ),
    "john 2491: XID 13 on every TPC": (
        lines(*[(139600.598066 + n / 1e5, "05:00", sm(n // 2, n % 2)) for n in range(8)]),
        "healthy", "",
    ),
    "vllm 5901: XID 13 without a TPC": (
        lines(
            (93297.027938, "43:00", f"13, {UNKNOWN}Graphics Exception: ESR 0x52e7b0=0x101000e 0x52e7b4=0x4"),
            (93297.029837, "43:00", f"13, {UNKNOWN}Graphics Exception: ESR 0x52ef30=0x0 0x52ef34=0x20"),
        ),
        "degraded", "XID 13",
    ),
    "dxvk 1027: XID 31, then 13 and 32 of one game": (
        lines(
            (31543.449443, "01:00", "31, Ch 0000003a, intr 10000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3"),
            (31609.615230, "01:00", "13, Graphics Exception: Class 0x0 Subchannel 0x0 Mismatch"),
            (31609.615232, "01:00", "13, Graphics Exception: ESR 0x404000=0x80000002"),
            (31609.615516, "01:00", "32, Channel ID 00000052 intr 02000000"),
        ),
        "degraded", "XID 31",
    ),
    "gpud 46: XID 13 of one SM, then XID 109": (
        lines(
            (10.0, "cb:00", f"13, {UNKNOWN}Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction"),
            (10.1, "cb:00", f"13, {UNKNOWN}Graphics SM Global Exception on (GPC 7, TPC 7, SM 0): Multiple Warp"),
            (15.0, "cb:00", "109, pid=1797828, name=pt_main_thread, Ch 00000008, errorString CTX SWITCH TIMEOUT"),
        ),
        "faulty", "XID 109 on 0000:cb:00.0",
    ),
    "OpenWrt-NIC-Drivers 11: transmit queues stop three times in an hour": (
        "".join(
            f"[{at:13.6f}] r8125 0000:22:0{port}.0 eth{port}: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out\n"
            for at, port in ((1356.29693, 4), (3651.381145, 1), (3680.140984, 4), (16986.118987, 1))
        ),
        "faulty", "nic watchdog 3 times in 1 h: the driver does not recover: RMA",
    ),
    "NVSentinel 271: MMU faults again on one GPU": (
        lines((100, "18:00", mmu(1)), (101, "18:00", mmu(1)), (7300, "18:00", mmu(2))),
        "faulty", "XID 31 twice in 24 h on GPU 0000:18:00.0: possibly hardware: field diagnostics, then RMA",
    ),
    "NVSentinel 271: MMU faults on different GPUs": (
        lines((100, "18:00", mmu(1)), (7300, "2a:00", mmu(2))), "healthy", "",
    ),
    "XID 13 again on one TPC": (
        lines((100, "18:00", sm(1, 2)), (7300, "18:00", sm(1, 2))),
        "faulty", "XID 13 twice in 24 h on GPU 0000:18:00.0, GPC 1 TPC 2",
    ),
    "NVSentinel 1629 and 1710: XID 45 by the hundred where jobs end": (
        lines(*[(1000 + n * 8.7, "18:00", f"45, pid={n}, name=python3, Ch 00000001") for n in range(200)]),
        "healthy", "",
    ),
    "NVSentinel 1252: power smoothing is disengaged and engaged again": (
        lines((10, "18:00", f"163, {UNKNOWN}PSHC disengaged"), (20, "18:00", f"162, {UNKNOWN}PSHC engaged")),
        "healthy", "",
    ),
    "NVSentinel 1252: power smoothing stays disengaged": (
        lines((10, "18:00", f"162, {UNKNOWN}PSHC engaged"), (20, "18:00", f"163, {UNKNOWN}PSHC disengaged")),
        "degraded", "XID 163 on 0000:18:00.0",
    ),
    "nvtrust 124: SXid 22013 of every link when the switches start": (
        "".join(
            f"[{38 + n / 100:.6f}] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, {text}\n"
            for n, text in enumerate(
                ("Non-fatal, Link 57 Minion Link DLREQ interrupt", "Severity 0 Engine instance 57", "Data {0x38}") * 9
            )
        ),
        "healthy", "",
    ),
    "gpud 1271: a GPU does not see its neighbour's NVLinks": (
        "[ 41.5] NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer0's postRxDetLinkMask failed!\n",
        "degraded", "nvrm_fabric",
    ),
    "VulkanXMRMiner 6: a Vega starts": ("[ 2.767] [drm] PSP loading UVD firmware\n", "healthy", ""),
    "DietPi 4499: a USB drive is given up": (
        "".join(
            f"[ 406.913243] sd 1:0:0:0: {text}\n"
            for text in ("[sda] tag#0 uas_eh_abort_handler 0", "Device offlined - not ready after error recovery")
        ),
        "faulty", "scsi_lost on 1:0:0:0",
    ),
    "five fatal XIDs of one GPU": (
        lines(*[(hour * 3600, "18:00", "48, pid=1, name=a, DBE (double bit error) ECC Error") for hour in range(5)]),
        "faulty", "fatal XIDs 5 times in 24 h on GPU 0000:18:00.0: resets do not last: RMA",
    ),
}  # fmt: skip


def judge_log(records_of, log):
    """Return a GPU server's records with this kernel log, and their report."""
    change = {"gpu_xid": {"raw": group_hardware_errors(log)}}
    records = records_of({"base": "gpu_server", "change": change})
    return records, burnin.judge_attempt(records, "gpu_server", "quick", is_configured=True)


@pytest.mark.parametrize(("log", "verdict", "reason"), REPORTS.values(), ids=REPORTS)
def test_reported_events(records_of, log, verdict, reason):
    records, report = judge_log(records_of, log)
    assert report.verdict == verdict, report.list_unhealthy_reasons()
    assert reason in report.find_check_result("gpu_xid").reason
    faults = burnin.observe_parts(records, "gpu_server", report).faults
    assert bool(faults) is (verdict == "faulty")
    assert all(choose_ladder(fault.fault).steps for fault in faults)


@pytest.mark.parametrize("size", [1, 2, 100, 20_000])
def test_storm_of_lines_is_one_event(records_of, size):
    storm = lines(*[(100 + number / 10, "18:00", mmu(number)) for number in range(size)])
    assert judge_log(records_of, storm)[1].verdict == "degraded"
    assert judge_log(records_of, storm + lines((80_000, "18:00", mmu(1))))[1].verdict == "faulty"


def test_widest_gaps_between_bursts_are_kept():
    bursts = []
    for number in range(100):
        extend_bursts(bursts, number * (BURST_SECONDS + 1))
    extend_bursts(bursts, 50_000.0)
    extend_bursts(bursts, 50_010.0)
    assert len(bursts) == MAX_BURSTS
    assert bursts[-1] == [50_000.0, 50_010.0]
    assert bursts[-2][1] == 99 * (BURST_SECONDS + 1)
