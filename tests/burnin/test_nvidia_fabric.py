"""Test fabric, NVLink, replays, corrected errors and messages of NVIDIA GPUs by the cases that operators reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.gpu_nvidia import measure
from gpufleet.burnin.checks.gpu_nvidia.message import load_message_rules
from gpufleet.burnin.checks.gpu_nvidia.nvlink import load_nvlink_cards, parse_nvlink_status
from gpufleet.burnin.checks.gpu_nvidia.read import decompress_text
from gpufleet.burnin.evidence import NOT_APPLICABLE
from gpufleet.burnin.gpu_readings import LOAD_READERS, read_devices
from gpufleet.burnin.part import observe_parts
from gpufleet.burnin.pcie_generation import count_replays_allowed_per_minute
from gpufleet.burnin.repair_step import choose_ladder
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_attempt, judge_check

H100 = (Path(__file__).parents[1] / "cases/burnin/recorded/smi/h100-idle-v13.xml").read_text()
MODEL, BUS, UUID = (
    re.search(f"<{name}>([^<]*)<", H100)[1] for name in ("product_name", "pci_bus_id", "uuid")
)
COMPLETED = {"state": "Completed", "status": "Success"}
IN_PROGRESS = {"state": "In Progress", "status": "N/A"}
CLUSTER = "dc6e40c4-d722-4357-9ba6-5291dd461278"
TABLE = "+-----+\n| NVIDIA-SMI 580.95.05 |\n|   0  NVIDIA H100 80GB HBM3          On  |\n+-----+\n"
ALL_INACTIVE = "NVML: Unable to retrieve NVLink information as all links are inActive\n"


def build_report(changes, model=MODEL):
    """Return a report of one GPU for each mapping of fields to texts."""
    element = original = re.search(r"<gpu id.*</gpu>", H100, re.DOTALL)[0]
    if model != MODEL:
        element = re.sub("<pci_device_id>[^<]*<", "<pci_device_id>N/A<", element)
    gpus = []
    for place, fields in enumerate(changes):
        gpu = element.replace(BUS, f"00000000:{0x18 + place:02X}:00.0").replace(UUID, f"GPU-{place:08x}")
        gpu = gpu.replace(MODEL, model)
        for name, text in fields.items():
            head, mark, tail = gpu.partition("<fabric>") if name in FABRIC_FIELDS else ("", "", gpu)
            tail, count = re.subn(f"<{name}>[^<]*</{name}>", f"<{name}>{text}</{name}>", tail, count=1)
            assert count == 1, name
            gpu = head + mark + tail
        gpus.append(gpu)
    report = H100.replace(original, "".join(gpus))
    return re.sub(r"<attached_gpus>\d+<", f"<attached_gpus>{len(gpus)}<", report)


FABRIC_FIELDS = {"state", "status", "cliqueId", "clusterUuid", "summary", "bandwidth", "route_unhealthy"}


def show_links(counts, model=MODEL, total=18, rate="26.562 GB/s"):
    """Return what `nvidia-smi nvlink -s` prints of GPUs with so many active links."""
    lines = []
    for place, active in enumerate(counts):
        lines.append(f"GPU {place}: {model} (UUID: GPU-{place:08x})\n")
        links = [rate] * active + ["<inactive>"] * (total - active)
        lines += (
            [f"\t Link {link}: {text}\n" for link, text in enumerate(links)] if active else [ALL_INACTIVE]
        )
    return "".join(lines)


def judge(changes, *, model=MODEL, expected=None, **raw):
    record = {"xml": {"text": build_report(changes, model)}, "uptime_s": 86_400.0, **raw}
    return judge_raw({**record, **(expected or {})})


def judge_raw(raw):
    check = {"name": "gpu_nvidia", "status": "ran", "raw": raw}
    return judge_check(check, select_thresholds("gpu_server"), "", False)


@pytest.mark.parametrize(
    ("model", "fabric", "outcome", "reason"),
    [
        # NVIDIA/NVSentinel #883: the fabric manager had died.
        (MODEL, IN_PROGRESS, "fail", "all 2 GPUs: state In Progress; look at nvidia-fabricmanager.service"),
        # NVIDIA/NVSentinel #1382: the state before it began.
        ("NVIDIA B200", {"state": "Not Started", "status": "N/A"}, "fail", "state Not Started"),
        # Azure/azhpc-images #506
        (
            "NVIDIA GB200",
            {"state": "Completed", "status": "Insufficient Resources", "cliqueId": "0"},
            "fail",
            "status Insufficient Resources",
        ),
        # kubernetes-sigs/dra-driver-nvidia-gpu #626
        (
            "NVIDIA GB200",
            {**COMPLETED, "clusterUuid": CLUSTER, "summary": "Unhealthy", "bandwidth": "Full"},
            "fail",
            "summary Unhealthy; look at the fabric manager of the NVLink switch trays, and nvidia-imex",
        ),
        (
            MODEL,
            {**COMPLETED, "summary": "Limited Capacity", "bandwidth": "Degraded"},
            "warn",
            "bandwidth Degraded",
        ),
        (MODEL, {**COMPLETED, "route_unhealthy": "True"}, "fail", "route_unhealthy True"),
        # leptonai/gpud #1108: four GPUs of a rack without a state; #1106: one that is well.
        ("NVIDIA GB200", {}, "warn", "look at the NVLink switch trays"),
        ("NVIDIA GB200", {**COMPLETED, "cliqueId": "4026", "clusterUuid": CLUSTER}, "pass", ""),
        ("NVIDIA GB200", COMPLETED, "warn", "belongs to no NVLink domain"),
        # An HGX board has neither clique nor domain.
        (MODEL, {**COMPLETED, "cliqueId": "0", "summary": "Healthy", "bandwidth": "Full"}, "pass", ""),
        # leptonai/gpud #1147 and #1206: no NVSwitch.
        ("NVIDIA H100 PCIe", {}, "pass", ""),
        ("NVIDIA GH200 480GB", {}, "pass", ""),
        ("NVIDIA H100 PCIe", {"state": "Not Supported", "status": "Not Supported"}, "pass", ""),
        # What nobody knows is neither healthy nor a fault.
        (MODEL, {"state": "ERR!", "status": "ERR!"}, "not_run", "state is 'ERR!'"),
    ],
)
def test_fabric_is_judged_as_operators_do(model, fabric, outcome, reason):
    result = judge([fabric, fabric], model=model)
    assert (result.outcome, reason in result.reason) == (outcome, True), result.reason


def test_declared_shared_nvswitch_leaves_the_fabric_to_its_owner():
    # NVIDIA/gpu-driver-container #909: all GPUs are In Progress until a partition is activated.
    raw = {"nvlink": {"text": show_links([0, 0])}}
    assert judge([IN_PROGRESS] * 2, **raw).outcome == "fail"
    assert judge([IN_PROGRESS] * 2, expected={"expect_nvswitch": "shared"}, **raw).outcome == "pass"


def test_node_cannot_declare_its_nvswitch_shared():
    raw = {"xml": {"text": build_report([IN_PROGRESS] * 2)}, "expect_nvswitch": "shared"}
    records = [{"type": "check", "name": "gpu_nvidia", "status": "ran", "raw": raw}]
    assert judge_attempt(records, "gpu_server", "quick").verdict == "faulty"
    expected = {"expect_nvswitch": "shared"}
    assert judge_attempt(records, "gpu_server", "quick", expected=expected).verdict == "incomplete"


def test_gpu_in_another_domain_than_its_neighbours_is_a_fault():
    # NVIDIA/cloud-native-docs #162: all GPUs of a node have the same cluster UUID.
    fabric = {**COMPLETED, "clusterUuid": CLUSTER}
    result = judge([fabric, fabric, {**fabric, "clusterUuid": CLUSTER[::-1]}], model="NVIDIA GB200")
    assert result.outcome == "fail"
    assert "00000000:1A:00.0: clusterUuid differs" in result.reason


@pytest.mark.parametrize(
    ("model", "counts", "total", "declared", "outcome"),
    [
        # leptonai/gpud #1085: one of eight has none.
        ("NVIDIA B200", [18, 18, 0, 18, 18, 18, 18, 18], 18, 0, "fail"),
        # NVIDIA/open-gpu-kernel-modules #1150
        (MODEL, [18, 17], 18, 0, "fail"),
        (MODEL, [18, 18], 18, 0, "pass"),
        # Azure/azhpc-diagnostics #73: four of six on one of several V100.
        ("Tesla V100-SXM2-32GB", [6, 6, 6, 4], 6, 0, "warn"),
        ("Tesla V100-SXM2-32GB", [6, 6, 6, 0], 6, 0, "warn"),
        # Azure/azurehpc-health-checks #162: 12 of 18 by design.
        ("NVIDIA H100 NVL", [12, 12], 18, 0, "pass"),
        ("NVIDIA H100 NVL", [12, 12], 18, 12, "pass"),
        # Azure/azhpc-images #443: links that only the declaration knows.
        ("NVIDIA H100 NVL", [0, 0], 18, 12, "fail"),
        ("NVIDIA H100 NVL", [0, 0], 18, 0, "pass"),
        # NVIDIA/NVSentinel #1481: one card without a bridge.
        ("NVIDIA A100 80GB PCIe", [0], 12, 0, "pass"),
        # One GPU in a virtual machine has nothing to link to.
        (MODEL, [0], 18, 0, "pass"),
        # NVIDIA/nccl-tests #260: guests without the host's NVSwitches.
        (MODEL, [0, 0], 18, 0, "warn"),
        # Two of three cards have a bridge.
        ("NVIDIA RTX A6000", [4, 4, 0], 4, 0, "pass"),
        # Four GPUs of a board without NVSwitches: NVIDIA/nccl #1617.
        (MODEL, [18] * 4, 18, 0, "pass"),
    ],
)
def test_links_are_judged_by_model_declaration_and_neighbours(model, counts, total, declared, outcome):
    rate = "53.125 GB/s" if "B200" in model else "26.562 GB/s"
    status = show_links(counts, model, total, rate)
    result = judge([{} for _ in counts], model=model, nvlink={"text": status}, expect_nvlinks=declared)
    assert result.outcome == outcome, result.reason


@pytest.mark.parametrize(("device", "outcome"), [("232910DE", "fail"), ("223010DE", "pass")])
def test_board_with_switches_gives_all_its_gpus_the_same_links(device, outcome):
    # H20 has NVSwitches, RTX A6000 has bridges, by the table of cards.
    status = show_links([16, 16, 0, 0])
    assert (
        judge([{"pci_device_id": device}] * 4, model="NVIDIA X", nvlink={"text": status}).outcome == outcome
    )


def test_slow_link_is_a_warning():
    status = show_links([18, 18]).replace("26.562", "13.281", 1)
    result = judge([{}, {}], nvlink={"text": status})
    assert (result.outcome, "slower" in result.reason) == ("warn", True)


def test_links_of_a_gpu_in_mig_mode_are_not_judged():
    assert judge([{}, {"current_mig": "Enabled"}], nvlink={"text": show_links([18, 0])}).outcome == "pass"


def test_text_that_is_no_status_of_links_says_nothing():
    for text in (
        "",
        "Link 0: 26.562 GB/s\n",
        "GPU 0: x (UUID: GPU-0)\nDevice does not have or support Nvlink\n",
    ):
        assert not any(gpu.is_known for gpu in parse_nvlink_status(text))
    assert len(parse_nvlink_status("GPU 0: x (UUID: GPU-0)\n" * 100_000)) <= 4096


def test_replays_are_allowed_as_dcgm_does():
    # NVIDIA/DCGM #184: eight a minute, as for Gen3, made violations of healthy Gen5 links.
    assert count_replays_allowed_per_minute(5, 16) == pytest.approx(30.72)
    assert count_replays_allowed_per_minute(3, 16) == pytest.approx(7.68)


@pytest.mark.parametrize(
    ("replays", "hours", "outcome"),
    [
        (25 * 60, 1, "pass"),
        (40 * 60, 1, "warn"),
        (81_223, 1, "warn"),
        (81_223, 24 * 365, "warn"),
        (9_000, 24 * 365, "pass"),
    ],
)
def test_replays_count_by_rate_and_among_neighbours(replays, hours, outcome):
    result = judge([{"replay_counter": str(replays)}, {}, {}], uptime_s=3600.0 * hours)
    assert result.outcome == outcome, result.reason


@pytest.mark.parametrize(
    ("counter", "gained", "seconds", "metric", "value"),
    [
        ("pcie_replays", 31, 10, "pcie_replay_excess", 31 / 30.72),
        ("pcie_replays", 150, 300, "pcie_replay_excess", 150 / 5 / 30.72),
        ("nvlink_crc_errors", 1500, 10, "nvlink_crc_per_s", 150.0),
        ("nvlink_recoveries", 1, 10, "nvlink_recoveries", 1.0),
        ("ecc_corrected", 12, 10, "ecc_corrected_gained", 12.0),
        ("nvlinks_active", -2, 10, "nvlinks_lost", 2.0),
    ],
)
def test_gains_under_load_count_by_time(counter, gained, seconds, metric, value):
    series = {"extremes": {"link_generation": [1, 5], "link_lanes": [16, 16]}, "samples": [[0.1], [seconds]]}
    device = {"errors_before": {counter: 18}, "errors_after": {counter: 18 + gained}, "series": series}
    readings = read_devices({"devices": [device, {**device, "errors_after": {counter: 18}}]}, LOAD_READERS)
    assert readings[metric] == pytest.approx(value)
    older = read_devices(
        {"devices": [{"errors_before": {}, "errors_after": {}, "series": series}]}, LOAD_READERS
    )
    assert readings[metric] is not older[metric] is NOT_APPLICABLE


@pytest.mark.parametrize(
    ("name", "count", "outcome"),
    [
        ("sram_correctable", 12_408, "warn"),
        ("sram_correctable", 10_000, "pass"),
        ("dram_correctable", 10_000_001, "warn"),
        ("dram_correctable", 34, "pass"),
    ],
)
def test_corrected_errors_count_above_the_bounds_of_aznhc(name, count, outcome):
    # Azure/azurehpc #649 and #752: both the volatile and the aggregate counter.
    xml = build_report([{}, {}])
    for section in ("volatile", "aggregate"):
        head, mark, tail = xml.partition(f"<{section}>")
        changed = head + mark + re.sub(f"<{name}>[^<]*<", f"<{name}>{count}<", tail, count=1)
        assert judge_raw({"xml": {"text": changed}}).outcome == outcome


def test_corrected_errors_of_old_drivers_are_read():
    # The recorded K80 counts 34 in the memory of one GPU: drivers before 450 name the memory by its place.
    old = (Path(__file__).parents[1] / "cases/burnin/recorded/smi/pai-out-of-order.xml").read_text()
    for name, metric in (("device_memory", "dram"), ("l2_cache", "sram")):
        xml = re.sub(f"<{name}>0<", f"<{name}>10000001<", old, count=1)
        result = judge_raw({"xml": {"text": xml}})
        words = {"dram": "errors of its memory", "sram": "errors of its caches and registers"}
        assert (result.outcome, words[metric] in result.reason) == ("warn", True)


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        # gpuopenanalytics/pynvml #51; both fields are deprecated from 570 on.
        ({"reset_required": "Yes"}, "fail"),
        ({"drain_and_reset_recommended": "Yes"}, "fail"),
        ({"reset_required": "No"}, "pass"),
        ({"reset_required": "N/A"}, "pass"),
        ({"reset_required": "Requested functionality has been deprecated"}, "pass"),
    ],
)
def test_reset_fields_of_older_branches_are_read(fields, outcome):
    names = ("reset_required", "drain_and_reset_recommended")
    status = "".join(f"<{name}>{fields.get(name, 'No')}</{name}>" for name in names)
    xml = re.sub(
        r"<gpu_recovery_action>[^<]*</gpu_recovery_action>",
        f"<gpu_reset_status>{status}</gpu_reset_status>",
        build_report([{}]),
    )
    result = judge_raw({"xml": {"text": xml}})
    assert (result.outcome, "a GPU requires a reset" in result.reason) == (outcome, outcome == "fail")


ERROR = "Unknown Error"


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        # NVIDIA/gpu-operator #559, NVIDIA/dcgm-exporter #319: one of several GPUs answers with errors only
        (dict.fromkeys(("product_brand", "current_ecc", "gpu_temp", "performance_state"), ERROR), "fail"),
        (dict.fromkeys(("product_brand", "current_mig", "gpu_temp", "gpu_util"), "[ERR!]"), "fail"),
        # papampi/nvOC_by_fullzero_Community_Release #19: a card that works, whose fan and power have no sensor
        (dict.fromkeys(("fan_speed", "average_power_draw", "instant_power_draw"), ERROR), "pass"),
    ],
)
def test_gpu_that_answers_with_errors_requires_a_reset(fields, outcome):
    result = judge_raw({"xml": {"text": build_report([{}, fields])}})
    assert result.outcome == outcome, result.reason
    assert ("a GPU requires a reset (1 GPUs): 00000000:19:00.0: 4 values" in result.reason) == (
        outcome == "fail"
    )


@pytest.mark.parametrize("name", ["NVIDIA GB10", "NVIDIA Thor"])
def test_gpu_with_unified_memory_has_no_counters(name):
    # NVIDIA/gpu-operator #1794, vllm-project/vllm #34470
    xml = re.sub(r"<pci_device_id>[^<]*<", "<pci_device_id>N/A<", build_report([{}], name))
    for section in ("ecc_mode", "ecc_errors", "remapped_rows", "fb_memory_usage"):
        pattern = rf"(<{section}>)(.*?)(</{section}>)"
        xml = re.sub(
            pattern, lambda match: re.sub(r">[^<\s][^<]*<", ">N/A<", match[0]), xml, count=1, flags=re.DOTALL
        )
    assert judge_raw({"xml": {"text": xml}}).outcome == "pass"
    assert judge_raw({"xml": {"text": xml.replace(name, MODEL)}}).outcome == "not_run"


def test_table_of_cards_knows_unified_memory_whatever_the_name():
    xml = build_report([{"current_ecc": "N/A", "pci_device_id": "2E1210DE"}], "NVIDIA Graphics Device")
    assert judge_raw({"xml": {"text": xml}}).outcome == "pass"


@pytest.mark.parametrize(
    ("message", "code", "outcome", "fault", "step"),
    [
        # NVIDIA/open-gpu-kernel-modules #1151
        (
            "Unable to determine the device handle for GPU7: 0000:DB:00.0: GPU is lost.  Reboot the system to recover",
            15, "fail", "gpu_nvidia.gpus_lost gpu 0000:db:00.0", "reboot",
        ),
        # pdbear/syno_nvidia_gpu_driver #22: without a space before the address.
        (
            "Unable to determine the device handle for GPU0000:07:00.0: Unknown Error",
            255, "fail", "gpu_nvidia.gpus_lost gpu 0000:07:00.0", "reboot",
        ),
        # NVIDIA/dcgm-exporter #604: an address that is none.
        (
            "Unable to determine the device handle for GPU 000:BA:80.0: Unknown Error",
            255, "fail", "gpu_nvidia.gpus_lost board ", "reboot",
        ),
        # leptonai/gpud #1133
        (
            "Unable to determine the device handle for GPU 0000:5D:00.0: GPU requires reset",
            16, "fail", "gpu_nvidia.reset_required gpu 0000:5d:00.0", "reset",
        ),
        # NVIDIA/open-gpu-kernel-modules #789
        ("No devices were found", 6, "fail", "gpu_nvidia.gpus_missing board ", "reboot"),
        # rocker-org/ml #28: no part is at fault.
        ("Failed to initialize NVML: Driver/library version mismatch", 18, "not_run", "", "reboot the node"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest",
            9, "not_run", "", "modprobe nvidia",
        ),
        # NVIDIA/open-gpu-kernel-modules #246
        (
            "Unable to determine the device handle for gpu 0000:01:00.0: Not Found",
            6, "fail", "gpu_nvidia.gpus_lost gpu 0000:01:00.0", "reboot",
        ),
        # NVIDIA/nvidia-docker #1730
        ("Failed to initialize NVML: Unknown Error", 255, "not_run", "", "start the container again"),
        ("Unable to determine the device handle for GPU 0000:01:00.0: Insufficient Permissions", 4, "not_run", "", "4"),
    ],
)  # fmt: skip
def test_words_in_place_of_a_report(message, code, outcome, fault, step):
    host = HostAccess(
        run=lambda argv, seconds: CommandOutput(code, message + "\n", ""), which=lambda tool: tool
    )
    raw = {**measure.measure_host(host).raw, "on_bus": ["0000:db:00.0"]}
    records = [{"type": "check", "name": "gpu_nvidia", "status": "ran", "raw": raw}]
    report = judge_attempt(records, "gpu_server", "quick")
    check = next(check for check in report.checks if check.name == "gpu_nvidia")
    assert check.outcome == outcome, check.reason
    assert message[:60] in check.reason
    found = observe_parts(records, "gpu_server", report).faults
    assert [f"{each.fault} {each.part_kind} {each.position}" for each in found] == ([fault] if fault else [])
    assert choose_ladder(found[0].fault).steps[0] == step if fault else step in check.reason


def test_node_without_gpus_misses_none():
    raw = {"message": "No devices were found", "code": 6, "on_bus": [], "expect_gpus": 0}
    assert judge_raw(raw).outcome == "not_run"
    assert judge_raw({**raw, "expect_gpus": 8}).outcome == "fail"


def test_lost_gpu_counts_beside_the_report_of_the_others():
    raw = {
        "xml": {"text": build_report([{}, {}])},
        "on_bus": [f"0000:{slot:02x}:00.0" for slot in (0x18, 0x19, 0xDB)],
    }
    raw["message"] = "Unable to determine the device handle for GPU 0000:DB:00.0: GPU is lost."
    records = [{"type": "check", "name": "gpu_nvidia", "status": "ran", "raw": raw}]
    report = judge_attempt(records, "gpu_server", "quick")
    found = {(each.fault, each.position) for each in observe_parts(records, "gpu_server", report).faults}
    assert ("gpu_nvidia.gpus_lost", "0000:db:00.0") in found
    assert not {position for _, position in found} & {"0000:18:00.0", "0000:19:00.0"}


@pytest.mark.parametrize("where", ["report", "table", "both"])
def test_warning_beside_a_report_is_kept_with_it(where):
    # NVIDIA/gpu-operator #20 and #285: code 14, and the GPU works on. microsoft/pai #3756: only without options.
    warning = f"WARNING: infoROM is corrupted at gpu {BUS.removeprefix('0000')}\n"
    in_report, in_table = where != "table", where != "report"
    outputs = {
        ("-q", "-x"): CommandOutput(14, H100 + warning, "") if in_report else CommandOutput(0, H100, ""),
        ("nvlink", "-s"): CommandOutput(0, show_links([0]), ""),
        (): CommandOutput(14, TABLE + warning, "") if in_table else CommandOutput(0, TABLE, ""),
    }
    host = HostAccess(run=lambda argv, seconds: outputs[tuple(argv[1:])], which=lambda tool: tool)
    raw = measure.measure_host(host).raw
    assert raw["nvlink"]["text"].startswith("GPU 0")
    assert raw["message"] == warning.strip()
    result = judge_raw({**raw, "on_bus": []})
    assert (result.outcome, "infoROM is corrupted" in result.reason) == ("warn", True)


def test_table_without_a_warning_adds_nothing():
    outputs = {"nvidia-smi -q -x": H100, "nvidia-smi": TABLE}
    host = HostAccess(
        run=lambda argv, seconds: CommandOutput(0, outputs.get(" ".join(argv), ""), ""),
        which=lambda tool: tool,
    )
    assert "message" not in measure.measure_host(host).raw


def test_registration_soon_after_a_boot_gets_time(monkeypatch, tmp_path):
    (tmp_path / "proc").mkdir()
    texts = [build_report([IN_PROGRESS]), build_report([IN_PROGRESS]), build_report([COMPLETED])]
    pauses = []
    monkeypatch.setattr(measure.time, "sleep", pauses.append)
    for uptime, count in (("90.5 1", 2), ("7200.0 1", 0)):
        left = list(texts)
        (tmp_path / "proc/uptime").write_text(uptime)
        host = HostAccess(
            root=str(tmp_path),
            run=lambda argv, seconds, left=left: CommandOutput(0, left.pop(0) if "-q" in argv else "", ""),
            which=lambda tool: tool,
        )
        pauses.clear()
        text = decompress_text(measure.measure_host(host).raw["xml"])
        assert ("<state>Completed<" in text) == bool(count)
        assert len(pauses) == count


def test_fault_of_all_belongs_to_no_gpu():
    def observe(fabrics):
        raw = {"xml": {"text": build_report(fabrics)}}
        records = [{"type": "check", "name": "gpu_nvidia", "status": "ran", "raw": raw}]
        report = judge_attempt(records, "gpu_server", "quick")
        return [
            (each.part_kind, each.position) for each in observe_parts(records, "gpu_server", report).faults
        ]

    assert observe([IN_PROGRESS] * 3) == [("board", "")]
    assert observe([COMPLETED, IN_PROGRESS, COMPLETED]) == [("gpu", "0000:19:00.0")]


def test_every_row_of_the_tables_has_a_source():
    assert all(rule.source and rule.meaning for _, rule in load_message_rules())
    assert all(card.source and card.links and card.gb_per_s for card in load_nvlink_cards().values())
