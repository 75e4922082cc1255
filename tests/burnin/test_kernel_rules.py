"""Test the dictionary of the kernel log: a line for each rule, healthy and hostile lines, parts, storms, own rules."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from gpufleet import burnin
from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.agent.kernel_log import MAX_GROUPS, KernelErrorGroups, group_hardware_errors
from gpufleet.burnin.checks.gpu_xid.measure import measure_host
from gpufleet.burnin.checks.gpu_xid.read import read_record
from gpufleet.burnin.kernel_event import read_kernel_events
from gpufleet.burnin.kernel_rule import list_agent_rules, load_kernel_rules
from gpufleet.burnin.kernel_rule_file import parse_kernel_rules
from gpufleet.burnin.pattern_limit import find_pattern_fault
from gpufleet.burnin.repair_step import choose_ladder
from gpufleet.errors import InputError
from gpufleet.nodes.part import REPAIR_ACTIONS

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases/burnin/kernel-log.yaml").read_text())
KEPT = [case for case in CASES if not case.get("not_kept")]
STEPS_OF_HARDWARE = {"reset", "reboot", "reseat", "rma"}


def events_of(log, site_rules=()):
    return read_kernel_events(group_hardware_errors(log, list_agent_rules(site_rules)), site_rules)


@pytest.mark.parametrize("case", KEPT, ids=lambda case: f"{case['rule']}: {case['source']}")
def test_line_is_read_by_its_rule(case):
    event = events_of(case["line"])[0]
    rule = next(rule for rule in load_kernel_rules() if rule.id == case["rule"])
    assert event.code == ("xid_79" if rule.id == "xid" else f"kernel.{rule.id}")
    assert event.outcome == ("fatal" if rule.id == "xid" else rule.outcome)
    if "position" in case:
        assert event.position == case["position"]
    assert read_kernel_events({"lines": case["line"].splitlines()})[0].code == event.code


def test_every_rule_has_a_line():
    assert {rule.id for rule in load_kernel_rules()} == {case["rule"] for case in KEPT}


@pytest.mark.parametrize("rule", load_kernel_rules(), ids=lambda rule: rule.id)
def test_rule_is_complete(rule):
    assert set(rule.steps) <= set(REPAIR_ACTIONS)
    if rule.id != "xid":
        assert choose_ladder(f"kernel.{rule.id}").steps == rule.steps
    assert rule.outcome != "record" or rule.at_boot is None


# What healthy nodes print: kernel logs of this project's test machines, and of the reports named.
HEALTHY = [
    "EXT4-fs (vda): mounted filesystem 00000000-0000-0000-0000-000000000000 r/w without journal. Quota mode: none.",
    "EXT4-fs (mmcblk0p2): re-mounted ff313567 ro. Quota mode: disabled.",
    "EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro. Quota mode: none.",
    "XFS (nvme0n1p2): Ending clean mount",
    "BTRFS info (device sda1): using free-space-tree",
    "nvme nvme0: Shutdown timeout set to 8 seconds",
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "amdgpu 0000:c5:00.0: amdgpu: ring comp_1.2.1 uses VM inv eng 10 on hub 0",
    "amdgpu 0000:c5:00.0: amdgpu: GPU reset(2) succeeded!",
    "amdgpu 0000:0c:00.0: amdgpu: RAS: optional ras ta ucode is not available",
    "amdgpu 0000:83:00.0: amdgpu: SMU driver if version not matched",
    "mlx5_core 0000:63:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
    "mlx5_core 0000:13:00.0: mlx5_pcie_event:297:(pid 11): PCIe slot power capability was not advertised.",
    "mlx5_core 0000:9a:00.0: Port module event: module 0, Cable plugged",
    "brcm-pcie fd500000.pcie: link down",
    "ata2: SATA link down (SStatus 0 SControl 300)",
    "hwmon hwmon1: Voltage normalised",
    "EDAC MC0: Giving out device to module amd64_edac controller F19h_M10h",
    "mce: CPU supports 7 MCE banks",
    "pcieport 0000:00:15.0: pciehp: Slot #160 AttnBtn+ PwrCtrl+ MRL- AttnInd- PwrInd- HotPlug+ Surprise-",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 510",
    "CPU3: Core temperature/speed normal",
    "md/raid1:md0: active with 2 out of 2 mirrors",
    "I/O error, dev sr0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    "I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    # enerc/VulkanXMRMiner/issues/6, FreeBSDDesktop/kms-drm/issues/206: each Vega prints it when it starts.
    "[drm] PSP loading UVD firmware",
    # ROCm/legacy-rocm-build/issues/2995: the form of newer kernels.
    "amdgpu 0000:01:00.0: amdgpu: Will use PSP to load VCN firmware",
    "amdgpu 0000:0c:00.0: amdgpu: SECUREDISPLAY: query securedisplay TA failed. ret 0x0",
    # The power controller does not know this message: only no answer (0) is an event.
    "amdgpu: [powerplay] failed to send message 309 ret is 254",
    # utkuozdemir/nvidia_gpu_exporter/issues/384: a guest with L40-16Q.
    "NVRM: serverControl_ValidateCookie: Unsupported ROUTE_TO_PHYSICAL control 0x20801347 was called on vGPU guest",
    "amdgpu 0000:03:00.0: amdgpu: MES FW version must be >= 0x7f to enable LR compute workaround.",
    # QubesOS/qubes-issues/issues/7971
    "amdgpu 0000:00:06.0: amdgpu: SMU is initialized successfully!",
    # NVIDIA/nvtrust/issues/128: H20 with confidential computing.
    "NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clearing it.",
    "NVRM: kgspCheckGspRmCcCleanup_GH100: CC secret cleanup successful!",
    "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "NVRM: GPU 0000:01:00.0 is already bound to nouveau.",
    "nvidia-gpu 0000:01:00.3: i2c timeout error e0000000",
    "nvme nvme0: missing or invalid SUBNQN field.",
    "nvme nvme0: Identify Descriptors failed (8194)",
    "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
    "mlx5_core 0000:13:00.0: mlx5_pcie_event:297:(pid 11): PCIe slot power capability was not advertised.",
    "NVRM: kceIsGenXorHigherSupported_GH100: Could not get root gen speed - check for GPU gen speed!",
    "igc 0000:2e:00.0 enp46s0: Timeout reading IGC_PTM_STAT register",
    "nvme nvme1: globally duplicate IDs for nsid 1",
    "ena 0000:00:05.0 eth0: Feature 27 isn't supported",
    "x86/cpu: SGX disabled by BIOS.",
    "nvme nvme1: failed to set APST feature (2)",
    "ACPI BIOS Error (bug): Could not resolve symbol [\\_SB.PCI0.GPP2.BCM5], AE_NOT_FOUND (20230628/dswload2-162)",
    "ACPI Warning: \\_SB.PCI0.S60.S00._DSM: Argument #4 type mismatch - Found [Buffer], ACPI requires [Package]",
    "[Firmware Bug]: the BIOS has corrupted hw-PMU resources (MSR 38d is b0)",
    "EDAC amd64: Error: F0 not found, device 0x1650 (broken BIOS?)",
    "EDAC ie31200: No ECC support",
    "CPU0: Thermal LVT vector (0xfa) already installed",
    "thermal thermal_zone0: failed to read out thermal zone (-61)",
    "BERT: Error records from previous boot:",
    "Uhhuh. NMI received for unknown reason 3d on CPU 0.",
    "pcieport 0000:00:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+",
    "pcieport 0000:00:1c.0: pciehp: Slot(8): No link",
    "mpt2sas_cm0: diag reset: SUCCESS",
    "mpt3sas_cm2: log_info(0x31200206): originator(PL), code(0x20), sub_code(0x0206)",
    "ata1.00: supports DRM functions and may not be fully accessible",
    "sd 0:0:0:0: [sda] Asking for cache data failed",
    "EXT4-fs (sda1): orphan cleanup on readonly fs",
    "XFS (nvme0n1p2): Starting recovery (logdev: internal)",
    "AMD-Vi: [Firmware Bug]: : IOAPIC[9] not in IVRS table",
    "DMAR: [Firmware Bug]: No firmware reserved region can cover this RMRR [0x00000000000e0000]",
    "arm-smmu-v3 arm-smmu-v3.0.auto: msi_domain absent - falling back to wired irqs",
    "watchdog: watchdog0: watchdog did not stop!",
    "mlx5_core 0000:9a:00.0: mlx5_cmd_out_err:808:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation",
    "ena 0000:00:05.0: ENA device version: 0.10",
    "x86/amd: Previous system reset reason [0x00080800]: software wrote 0x6 to reset control register 0xCF9",
    # microsoft/lisa PR 4071
    "NMI watchdog: Perf NMI watchdog permanently disabled",
    "xe 0000:03:00.0: [drm] Using GuC firmware from xe/bmg_guc_70.bin version 70.36.0",
    "mmc0: problem reading SD Status register.",
    "brcmfmac: brcmf_c_process_clm_blob: no clm_blob available (err=-2), device may have limited channels available",
]


@pytest.mark.parametrize("line", HEALTHY)
def test_line_of_a_healthy_node_is_no_event(line):
    assert events_of(f"[   12.345678] {line}") == []


ADVERSARIAL = [
    " ",
    "a",
    "0",
    ":",
    "(",
    "x0 ",
    "MC0: ",
    "amdgpu ",
    "failed ",
    "error, dev sd",
    "ring x ",
    "fault (",
    "CE ",
]


@pytest.mark.parametrize("rule", load_kernel_rules(), ids=lambda rule: rule.id)
def test_hostile_line_is_read_in_bounded_time(rule):
    assert find_pattern_fault(rule.pattern) == ""
    lines = [(word + filler * 240)[:240] for word in rule.words for filler in (*ADVERSARIAL, *rule.words)]
    begin = time.process_time()
    for line in lines:
        rule.regex.search(line)
    # The slowest takes 0.1 ms a line here; a pattern that grows out of bounds takes seconds for one.
    assert time.process_time() - begin < 0.02 * len(lines) + 0.1


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a{1,20}){1,20}b", "a repeat inside a repeat"),
        ("x.*y", "a repeat without a bound"),
        ("x[0-9]+y", "a repeat without a bound"),
        (r"(x)y\1", "a reference to a group"),
        ("x(?=y)", "a look-ahead"),
        ("x(", "not a regular expression"),
        ("x" * 201, "at most 200 characters"),
        ("(?P<place>x)", "the group 'place' is not known"),
        ("a{0,9}", "must not match an empty text"),
        (".{0,20}a.{0,20}b.{0,20}c.{0,20}d.{0,20}", "5 wide repeats"),
    ],
)
def test_pattern_that_may_take_too_long_is_refused(pattern, problem):
    assert problem in find_pattern_fault(pattern)


AER = "[{seconds}.1] pcieport 0000:aa:01.0: AER: Corrected error message received from 0000:ab:00.0"
EDAC = "[{seconds}.2] EDAC skx MC2: 1 CE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#0 (channel:0)"
FLAP = "[{seconds}.1] mlx5_core 0000:9a:00.0 ibp154s0: Link down"


@pytest.mark.parametrize(
    ("line", "seconds", "outcome"),
    [
        (AER, range(5000, 5040), "review"),
        (AER, range(0, 80_000, 2000), "record"),
        (AER, [1, 2, 3], "record"),
        # A storm that begins after a quiet week.
        (AER, [*range(0, 600_000, 30_000), *range(600_000, 600_020)], "review"),
        (EDAC, [88_121], "record"),
        (EDAC, range(0, 86_400, 3600), "record"),
        (EDAC, range(0, 86_400, 600), "review"),
        (FLAP, [10, 12], "record"),
        (FLAP, range(8832, 8890, 2), "review"),
    ],
)
def test_rate_of_corrected_events_decides(line, seconds, outcome):
    [event] = events_of("\n".join(line.format(seconds=value) for value in seconds))
    assert (event.outcome, event.count) == (outcome, len(seconds))
    assert (event.first_seconds, event.last_seconds) == (
        min(seconds) + event.first_seconds % 1,
        event.last_seconds,
    )
    assert len(event.times) == min(8, len(seconds))


def test_power_controller_that_is_silent_at_boot_only_is_recorded():
    # ROCm/legacy-rocm-build/issues/146: Polaris cards that work; ishitatsuyuki/acominer/issues/9: a dead one.
    log = "[{}] amdgpu: [powerplay]\n               failed to send message 260 ret is 0"
    assert [event.outcome for event in events_of(log.format("3.485773"))] == ["record"]
    assert [event.outcome for event in events_of(log.format("442366.409593"))] == ["review"]


def test_storm_without_times_needs_ten_times_as_many():
    line = AER.partition("] ")[2]
    assert events_of("\n".join([line] * 199))[0].outcome == "record"
    assert events_of("\n".join([line] * 200))[0].outcome == "review"


def test_machine_check_from_before_the_restart_is_looked_at():
    # andikleen/mcelog issue 70: firmware leaves it behind at every start of these boards.
    line = "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 4: a600000000020408"
    assert [event.outcome for event in events_of(f"[    0.064265] {line}")] == ["review"]
    assert [event.outcome for event in events_of(f"[81234.064265] {line}")] == ["fatal"]


RING = "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3"
RESET = "amdgpu 0000:08:00.0: amdgpu: GPU reset begin!"  # pop-os/cosmic-comp issue 2626 has both


@pytest.mark.parametrize(
    ("log", "position"),
    [
        (f"[100.1] {RING}\n[100.2] {RESET}", "0000:08:00.0"),
        (f"[100.1] {RING}\n[900.2] {RESET}", ""),
        (f"[100.1] {RING}\n[100.2] {RESET}\n[100.3] {RESET.replace('08', '09')}", ""),
        (f"[100.1] {RING}", ""),
    ],
)
def test_line_without_an_address_belongs_to_the_device_of_the_lines_around_it(log, position):
    assert events_of(log)[0].position == position


def test_devices_are_kept_apart():
    log = "\n".join(f"[1.{number}] nvme nvme{number}: controller is down; will reset" for number in (1, 2, 3))
    assert [event.position for event in events_of(log)] == ["nvme1n1", "nvme2n1", "nvme3n1"]


def test_two_reports_of_the_firmware_are_two_events():
    log = "\n".join(
        f"{{{number}}}[Hardware Error]: event severity: {level}\n{{{number}}}[Hardware Error]:   section_type: {kind}"
        for number, level, kind in [(1, "corrected", "memory error"), (2, "fatal", "PCIe error")]
    )
    found = [(event.code, event.outcome) for event in events_of(log)]
    assert found == [("kernel.cper_corrected_memory", "record"), ("kernel.cper_pcie", "fatal")]


def test_registers_of_an_xid_are_kept_apart_and_bounded():
    line = "[{number}.1] NVRM: Xid (PCI:0000:18:00): 74, pid='<unknown>', name=<unknown>, NVLink: ({bits:#x}, 0x0, 0x0)"
    log = "\n".join(line.format(number=bits, bits=bits) for bits in range(1, 200))
    groups = group_hardware_errors(log)["groups"]
    assert 16 <= len(groups) <= 17
    assert "(0x1, 0x0" in groups[0]["line"]


def test_fatal_event_after_a_flood_of_others_is_kept():
    flood = [f"[1.1] nvme nvme{at}: I/O 1 QID 4 timeout, aborting" for at in range(5 * MAX_GROUPS)]
    flood += ["[2.1] NVRM: Xid (PCI:ffff:00:00): 79, pid=1, GPU has fallen off the bus."]
    groups = KernelErrorGroups()
    for line in flood:
        groups.add(line)
    raw = groups.summarize()
    assert len(raw["groups"]) == MAX_GROUPS
    assert raw["dropped_groups"] > MAX_GROUPS
    assert read_record(raw).metrics["fatal"] == 1
    assert len(json.dumps(raw)) < 100_000


def test_reason_names_code_device_and_steps_and_is_bounded():
    lines = [
        f"[1.1] NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid=1, GPU has fallen off the bus."
        for bus in range(16, 24)
    ]
    text = read_record(group_hardware_errors("\n".join(lines))).explanations["fatal"]
    assert text.startswith("XID 79 on 0000:10:00.0: GPU has fallen off the bus: reboot, then RMA; ")
    assert text.endswith("; and 5 more")
    assert len(text) < 700


DMESG = """\
[1.1] pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0
[2.1] pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: 0000:02:00.0
[3.1] pcieport 0000:00:03.0: AER: Uncorrected (Fatal) error received: 0000:03:00.0
"""


def build_host(tmp_path, log=DMESG, code=0, error=""):
    for address, kind in (
        ("0000:01:00.0", "0x030200"),
        ("0000:02:00.0", "0x010802"),
        ("0000:03:00.0", "0x020700"),
    ):
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "class").write_text(f"{kind}\n")
        (folder / "vendor").write_text("0x10de\n")
    (tmp_path / "sys/bus/pci/devices/0000:02:00.0/nvme/nvme3").mkdir(parents=True)

    def run(argv, _seconds, consume):
        assert argv == ["dmesg"]
        for line in log.splitlines():
            consume(line)
        return CommandOutput(code, "", error)

    return HostAccess(root=str(tmp_path), run=run, which=lambda _tool: None)


def test_event_at_a_pci_address_belongs_to_the_device_there(tmp_path):
    result = measure_host(build_host(tmp_path))
    found = [(event.part_kind, event.position) for event in read_kernel_events(result.raw)]
    assert found == [("gpu", "0000:01:00.0"), ("drive", "nvme3n1"), ("nic", "0000:03:00.0")]


def test_kernel_log_that_a_container_may_not_read_is_not_an_error(tmp_path):
    error = "dmesg: read kernel buffer failed: Operation not permitted"
    assert measure_host(build_host(tmp_path, "", 1, error)).status == "not_run"


def test_poisoned_gpu_memory_is_the_gpus_fault_not_the_dimms():
    lines = ["amdgpu 0000:dd:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"]
    records = [
        {"type": "start", "attempt": "a"},
        {"type": "check", "name": "gpu_xid", "status": "ran", "raw": {"lines": lines, "count": 1}},
        {"type": "end"},
    ]
    report = burnin.judge_attempt(records, "gpu_server", "quick")
    [fault] = burnin.observe_parts(records, "gpu_server", report).faults
    assert (fault.fault, fault.part_kind, fault.position) == ("kernel.amdgpu_ras", "gpu", "0000:dd:00.0")
    assert choose_ladder(fault.fault).steps == ("reset", "reboot", "reseat", "rma")


def test_new_agent_must_read_the_kernel_log_and_older_records_are_judged_as_before(records_of):
    def judge(version, change=()):
        records = records_of({"base": "compute_blade"})
        next(record for record in records if record["type"] == "start").update(agent_version=version)
        records[-1:-1] = change
        return burnin.judge_attempt(records, "compute_blade", "quick", is_configured=True)

    raw = group_hardware_errors("[1.1] nvme nvme0: controller is down; will reset: CSTS=0xffffffff")
    check = {"type": "check", "name": "gpu_xid", "status": "ran", "raw": raw}
    assert (judge("1.0").verdict, judge("1.1").verdict) == ("healthy", "incomplete")
    assert judge("1.1", [{**check, "raw": group_hardware_errors("")}]).verdict == "healthy"
    assert judge("1.1", [check]).verdict == "faulty"


SITE = """\
rules:
  - id: fan_board
    words: ["acme-fan:"]
    pattern: 'acme-fan: (?P<at>fan\\d{1,2}) stalled'
    part: power
    outcome: review
    steps: [inspect, replace]
    meaning: a fan of the chassis does not turn
    source: "Ada, ticket 4711"
    date: 2026-11-20
    example: "acme-fan: fan3 stalled"
"""


def test_rule_of_the_site_reaches_judge_and_agent(tmp_path):
    rules = parse_kernel_rules(SITE, "burn-in-kernel-log.yaml")
    [event] = events_of("[9.1] acme-fan: fan3 stalled", rules)
    assert (event.code, event.outcome, event.position) == ("kernel.fan_board", "review", "fan3")
    assert events_of("[9.1] acme-fan: fan3 stalled") == []
    agent = burnin.build_agent_zipapp(tmp_path / "agent.pyz", rules)
    code = (
        "from burnin_agent.agent.kernel_log import *; print(group_hardware_errors('acme-fan: fan3 stalled'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(agent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "fan3 stalled" in done.stdout
    records = [
        {"type": "start", "attempt": "a"},
        {
            "type": "check",
            "name": "gpu_xid",
            "status": "ran",
            "raw": group_hardware_errors(event.text, list_agent_rules(rules)),
        },
        {"type": "end"},
    ]
    report = burnin.judge_attempt(records, "compute_blade", "quick", kernel_rules=rules)
    reason = next(check.reason for check in report.checks if check.name == "gpu_xid")
    assert reason == "fan_board on fan3: a fan of the chassis does not turn: look at it, then replace"


def test_rule_of_the_site_replaces_the_shipped_one_of_its_id():
    text = SITE.replace("fan_board", "undervoltage").replace("outcome: review", "outcome: record")
    rules = parse_kernel_rules(text, "f")
    assert events_of("[1.1] hwmon hwmon1: Undervoltage detected!", rules) == []


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("outcome: review", "outcome: deadly", "rules.0.outcome"),
        ("outcome: review", "outcome: xid", "only the shipped rule decides XIDs"),
        ("[inspect, replace]", "[inspect, pray]", "'pray' is not a step; use correct"),
        ("stalled'", "stalled.*'", "a repeat without a bound"),
        ("fan3 stalled", "fan3 turns", "the example must contain one of the words and match the pattern"),
        ('    example: "acme-fan: fan3 stalled"\n', "", "a rule must have an example"),
        ("part: power", "part: soul", "rules.0.part"),
        ("id: fan_board", "id: Fan Board", "rules.0.id"),
        ("    steps", "    step", "rules.0"),
        ("rules:", "rule:", "rule"),
    ],
)
def test_mistake_in_a_sites_file_is_one_line(before, after, problem):
    assert before in SITE
    with pytest.raises(InputError) as raised:
        parse_kernel_rules(SITE.replace(before, after), "burn-in-kernel-log.yaml")
    assert problem in str(raised.value)
    assert "burn-in-kernel-log.yaml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_rules_of_one_id_are_refused():
    with pytest.raises(InputError, match="two rules have the id fan_board"):
        parse_kernel_rules(SITE + SITE.partition("\n")[2], "f")
