"""Simulated burn-in records: healthy nodes with noise, and kinds of degradation at stated sizes.

Nothing here is a measurement: it tests the judge, not hardware. Records are recorded runs (tests/cases/burnin), whose
numbers are drawn anew from a fixed seed. The noise:

- tensor rate: Student's t with 4 degrees of freedom, scale 1.5 %, at most 11 %. Sinha et al. (Not All GPUs Are Created
  Equal, SC 2022, arXiv 2208.11035) found 8 % average and at most 22 % variation between equal GPUs of five clusters.
- GPU memory rates: scale 0.3 %, at most 5 %: our two H100 differed by 0.5 % (docs/burn-in.md).
- copies with the host: anywhere in the range that we measured in VMs, 48.2 to 55.4 GB/s.
- temperatures, blades' rates, round trips, corrected errors and applications' XIDs: our assumptions.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parent / "cases/burnin"
CLASSES = {"blade": 150, "h100_vm": 150, "h200_vm": 100, "h100_server": 100}
KINDS = {"blade": "compute_blade", "h100_vm": "cloud_vm", "h200_vm": "cloud_vm", "h100_server": "gpu_server"}
TENSOR = {"h100": (695.8, 710.8), "h200": (674.1, 690.4)}
HOST_COPY = (48.2, 55.4)
GPUS_OF_A_SERVER = 8
APPLICATION_XID = "NVRM: Xid (PCI:0000:18:00): 13, pid=4242, name=python3, Graphics Exception"
CORRECTED_AER = "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0"
CORRECTED_MEMORY = "EDAC skx MC2: 1 CE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)"
# What healthy blades print when they start.
LINK_DOWN = "bcmgenet fd580000.ethernet eth0: Link is Down"
NO_CARD = "mmc1: error -110 whilst initialising SDIO card"

Records = list[dict[str, Any]]


def read_base(kind: str) -> Records:
    return json.loads((CASES / f"bases/{kind}.json").read_text())["records"]


def read_run(part: str) -> Records:
    lines = (CASES / f"recorded/gpu/{part}-quick.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def build_server_records() -> Records:
    """Return a healthy server with eight H100: the recorded GPU under eight addresses."""
    xml = (CASES / "outputs/nvidia-smi-h100-healthy.xml").read_text()
    gpu = re.search(r"<gpu id.*?</gpu>", xml, re.DOTALL)[0]
    buses = [f"0000:{0x18 + 16 * place:02x}:00.0" for place in range(GPUS_OF_A_SERVER)]
    gpus = "".join(gpu.replace("00000000:18:00.0", f"0000{bus}") for bus in buses)
    report = re.sub(r"<gpu id.*</gpu>", lambda _: gpus, xml, flags=re.DOTALL)
    report = report.replace("<attached_gpus>2<", f"<attached_gpus>{GPUS_OF_A_SERVER}<")
    records = read_base("gpu_server")
    for record in records:
        raw = record.get("raw", {})
        if "on_bus" in raw:
            raw |= {"on_bus": buses, "expect_gpus": GPUS_OF_A_SERVER}
        if "devices" in raw:
            raw["devices"] = [{**raw["devices"][0], "bus_id": bus} for bus in buses]
            for device in raw["devices"]:
                if "slot" in device:
                    device["slot"]["port"] = device["slot"]["card"]
        if record.get("name") == "gpu_nvidia":
            raw["xml"] = {"text": report}
    return records


def build_templates() -> dict[str, str]:
    """Return the records of one node of each class, as text that is cheap to copy."""
    templates = {"blade": read_base("compute_blade"), "h100_server": build_server_records()}
    for part in ("h100", "h200"):
        hosts = [record for record in read_base("cloud_vm") if not record.get("name", "").startswith("gpu_")]
        gpus = [record for record in read_run(part) if record.get("name", "").startswith("gpu_")]
        templates[f"{part}_vm"] = [*hosts[:-1], *gpus, hosts[-1]]
    return {name: json.dumps(records) for name, records in templates.items()}


TEMPLATES = build_templates()


def find(records: Records, name: str) -> dict[str, Any]:
    """Return a check's raw record."""
    return next(record["raw"] for record in records if record.get("name") == name)


def draw_share(generator: random.Random, scale: float, most: float) -> float:
    """Return 1 with noise of Student's t, 4 degrees of freedom, cut off at ``most``."""
    chi_square = sum(generator.gauss(0, 1) ** 2 for _ in range(4))
    return 1 + max(-most, min(most, scale * generator.gauss(0, 1) / math.sqrt(chi_square / 4)))


def simulate_healthy_node(node_class: str, generator: random.Random) -> Records:
    """Return the records of a healthy node."""
    records: Records = json.loads(TEMPLATES[node_class])
    next(record for record in records if record["type"] == "start").update(agent_version="1.1")
    if node_class == "blade":
        add_blade_noise(records, generator)
    else:
        add_gpu_noise(records, node_class.partition("_")[0], generator)
    trip = find(records, "network")["round_trip"]
    trip["median_ms"] = round(0.31 * math.exp(generator.gauss(0, 0.3)), 3)
    trip["lost"] = int(generator.random() < 0.005)
    return records


def add_blade_noise(records: Records, generator: random.Random) -> None:
    memory, storage, cpu = (find(records, name) for name in ("memory", "storage", "cpu"))
    memory["copy_mb_per_s"] = round(2800 * draw_share(generator, 0.015, 0.10), 1)
    storage["write_mb_per_s"] = round(324 * draw_share(generator, 0.05, 0.25), 1)
    cpu["hash_mb_per_s"] = round(160 * draw_share(generator, 0.01, 0.05), 1)
    own = random.Random(memory["copy_mb_per_s"])  # the other numbers stay as they were without a kernel log
    lines = [LINK_DOWN] * own.randrange(3) + [NO_CARD] * own.randrange(2)
    groups = [{"line": line, "count": lines.count(line)} for line in dict.fromkeys(lines)]
    log = {"groups": groups, "count": len(lines), "dropped_groups": 0, "pci": {}}
    records.insert(-1, {"type": "check", "name": "gpu_xid", "status": "ran", "reason": "", "raw": log})
    celsius = generator.gauss(58, 6)
    find(records, "pi_temperature")["text"] = f"temp={celsius:.1f}'C\n"


def add_gpu_noise(records: Records, part: str, generator: random.Random) -> None:
    compute, memory, copy = (find(records, name) for name in ("gpu_compute", "gpu_memory", "gpu_copy"))
    for device in compute["devices"]:
        for product in device["matmul"]:
            product["tflops"] = round(sum(TENSOR[part]) / 2 * draw_share(generator, 0.015, 0.11), 1)
    for device in memory["devices"]:
        share = draw_share(generator, 0.003, 0.05)
        for name in ("read", "write", "copy"):
            device[f"{name}_gb_per_s"] = round(device[f"{name}_gb_per_s"] * share, 1)
    for device in copy["devices"]:
        for name in ("to_device", "to_host"):
            device[f"{name}_gb_per_s"] = round(generator.uniform(*HOST_COPY), 2)
    for raw in (compute, memory, copy):
        for device in raw["devices"]:
            corrected = generator.randrange(1, 500) if generator.random() < 0.1 else 0
            for when in ("before", "after"):
                device[f"errors_{when}"] |= {
                    "ecc_corrected": corrected,
                    "pcie_replays": generator.randrange(3),
                }
            margin = max(3.0, generator.gauss(18, 4))
            device["series"]["extremes"]["margin_c"] = [round(margin), 48]
    lines = [CORRECTED_AER] * generator.randrange(1, 40) if generator.random() < 0.05 else []
    lines += [APPLICATION_XID] if generator.random() < 0.02 else []
    lines += [CORRECTED_MEMORY] * random.Random(memory["devices"][0]["copy_gb_per_s"]).randrange(2)
    log = find(records, "gpu_xid")
    log.clear()
    log |= {"groups": [{"line": line, "count": lines.count(line)} for line in dict.fromkeys(lines)]}
    log |= {"count": len(lines), "dropped_groups": 0}


def simulate_fleet(seed: int) -> list[tuple[str, str, Records]]:
    """Return name, class and records of every node of a healthy fleet."""
    generator = random.Random(seed)
    return [
        (f"{node_class}-{number:03}", node_class, simulate_healthy_node(node_class, generator))
        for node_class, count in CLASSES.items()
        for number in range(count)
    ]


def scale_devices(
    check: str, names: tuple[str, ...], share: float, *, all_devices: bool = False
) -> Degradation:
    """Return the degradation that scales rates of the last GPU, or of all."""

    def degrade(records: Records) -> None:
        for device in find(records, check)["devices"][0 if all_devices else -1 :]:
            for target in device["matmul"] if names == ("tflops",) else [device]:
                for name in names:
                    target[name] *= share

    return degrade


def set_device(check: str, change: Callable[[dict[str, Any]], object]) -> Degradation:
    """Return the degradation that changes the last GPU's record of one check."""
    return lambda records: change(find(records, check)["devices"][-1])


def scale_host(check: str, name: str, share: float) -> Degradation:
    """Return the degradation that scales a number of the host."""

    def degrade(records: Records) -> None:
        find(records, check)[name] *= share

    return degrade


def set_host(check: str, change: Callable[[dict[str, Any]], object]) -> Degradation:
    """Return the degradation that changes the record of one check."""
    return lambda records: change(find(records, check))


def set_error(check: str, name: str, value: int) -> Degradation:
    """Return the degradation that sets an error counter of the last GPU after the load."""
    return set_device(check, lambda device: device["errors_after"].update({name: value}))


def drop_gpu(records: Records) -> None:
    """Let one GPU fall off the bus: neither CUDA nor the driver shows it."""
    for record in records:
        raw = record.get("raw", {})
        if "devices" in raw and "on_bus" in raw:
            raw["devices"] = raw["devices"][:-1]
        if record.get("name") == "gpu_nvidia":
            text = raw["xml"]["text"]
            raw["xml"]["text"] = text[: text.rindex("<gpu id")] + text[text.rindex("</gpu>") + 6 :]


def heat_blade(degrees: float) -> Degradation:
    """Return the degradation that heats the SoC."""

    def degrade(records: Records) -> None:
        raw = find(records, "pi_temperature")
        celsius = float(raw["text"].strip().removeprefix("temp=").removesuffix("'C"))
        raw["text"] = f"temp={celsius + degrees:.1f}'C\n"

    return degrade


def add_kernel_line(line: str, storm: int) -> Degradation:
    """Return the degradation that logs one line within a storm of an application's XIDs."""
    groups = [{"line": APPLICATION_XID, "count": storm}, {"line": line, "count": 1}]
    return set_host("gpu_xid", lambda raw: raw.update(groups=groups, count=storm + 1))


Degradation = Callable[[Records], object]
GPU_RATES = ("read_gb_per_s", "write_gb_per_s", "copy_gb_per_s")
HOST_RATES = ("to_device_gb_per_s", "to_host_gb_per_s")
# What is degraded, by how much, on which class of node.
DEGRADATIONS: list[tuple[str, str, str, Degradation]] = [
    ("tensor cores slow", "-5 %", "h100_vm", scale_devices("gpu_compute", ("tflops",), 0.95)),
    ("tensor cores slow", "-10 %", "h100_vm", scale_devices("gpu_compute", ("tflops",), 0.90)),
    ("tensor cores slow", "-20 %", "h100_vm", scale_devices("gpu_compute", ("tflops",), 0.80)),
    ("tensor cores of one GPU of eight slow", "-20 %", "h100_server", scale_devices("gpu_compute", ("tflops",), 0.80)),
    ("GPU memory slow", "-5 %", "h200_vm", scale_devices("gpu_memory", GPU_RATES, 0.95)),
    ("GPU memory slow", "-10 %", "h200_vm", scale_devices("gpu_memory", GPU_RATES, 0.90)),
    ("GPU memory slow", "-20 %", "h200_vm", scale_devices("gpu_memory", GPU_RATES, 0.80)),
    ("copies with the host slow", "-20 %", "h100_vm", scale_devices("gpu_copy", HOST_RATES, 0.80)),
    ("copies with the host slow", "-40 %", "h100_vm", scale_devices("gpu_copy", HOST_RATES, 0.60)),
    (
        "PCIe link of one GPU of eight narrow under load", "8 of 16 lanes", "h100_server",
        set_device("gpu_copy", lambda device: device["series"]["extremes"].update(link_lanes=[8, 8])),
    ),
    (
        "PCIe link of one GPU of eight slow under load", "Gen4 of Gen5", "h100_server",
        set_device("gpu_copy", lambda device: device["series"]["extremes"].update(link_generation=[4, 4])),
    ),
    ("GPU off the bus", "1 of 8", "h100_server", drop_gpu),
    (
        "GPU memory reads back wrong", "1 vector of 1 of 8", "h100_server",
        set_device("gpu_memory", lambda device: device["wrong_vectors"].update({"55": 1})),
    ),
    (
        "product has a wrong bit", "1 vector of 1 of 8", "h100_server",
        set_device("gpu_compute", lambda device: device["matmul"][0].update(wrong_vectors=1)),
    ),
    ("uncorrected ECC error under load", "1 of 1 of 8", "h100_server", set_error("gpu_compute", "ecc_uncorrected", 1)),
    ("row remap waits for a reset", "1 of 8 GPUs", "h100_server", set_error("gpu_memory", "remap_pending", 1)),
    (
        "hardware slows a GPU down under load", "1 of 8", "h100_server",
        set_device("gpu_compute", lambda device: device["series"].update(event_reasons_seen=0x48)),
    ),
    (
        "fatal XID in a storm of harmless ones", "1 of 5,001 lines", "h100_vm",
        add_kernel_line("NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.", 5000),
    ),
    ("blade's memory slow", "-10 %", "blade", scale_host("memory", "copy_mb_per_s", 0.90)),
    ("blade's memory slow", "-30 %", "blade", scale_host("memory", "copy_mb_per_s", 0.70)),
    ("blade's drive writes slowly", "-30 %", "blade", scale_host("storage", "write_mb_per_s", 0.70)),
    ("blade's drive writes slowly", "-60 %", "blade", scale_host("storage", "write_mb_per_s", 0.40)),
    (
        "blade's drive link slow", "Gen1 of Gen2", "blade",
        set_host("nvme_link", lambda raw: raw["devices"][0].update(current_link_speed="2.5 GT/s PCIe")),
    ),
    ("blade hot", "+10 °C", "blade", heat_blade(10)),
    ("blade hot", "+25 °C", "blade", heat_blade(25)),
    (
        "blade under-voltage", "since boot", "blade",
        set_host("pi_throttled", lambda raw: raw.update(text="throttled=0x50000")),
    ),
    (
        "blade's link slow", "100 of 1,000 Mbit/s", "blade",
        set_host("network", lambda raw: raw["link"].update(speed_mbit=100)),
    ),
    ("round trips lost", "2 of 10", "blade", set_host("network", lambda raw: raw["round_trip"].update(lost=2))),
    ("memory bit wrong", "1 MiB of 512", "blade", set_host("memory", lambda raw: raw["wrong_mib"].update({"55": 1}))),
]  # fmt: skip
