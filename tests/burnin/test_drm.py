"""A card's users, sensors and link as the kernel's files have them: a tree of such files, laid out like amdgpu's."""

import os

import pytest

from gpufleet.burnin.agent import drm
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.agent.sensor_series import COLUMNS

BUS = "0000:03:00.0"
USAGE = (
    "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t{bus}\ndrm-client-id:\t8\ndrm-memory-vram:\t{kib} KiB\n{engine}"
)
ENGINE = "drm-engine-gfx:\t{} ns\ndrm-engine-compute:\t50 ns\n"


class Tree:
    """A root folder with files of /proc and /sys."""

    def __init__(self, root):
        self.root = root
        self.host = HostAccess(root=str(root))

    def write(self, path, content):
        """Write one file."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{content}\n")

    def add_client(self, pid=4321, kib=1024, busy_ns=100, bus=BUS, device="/dev/dri/renderD128"):
        """Let a process have the card open, as Linux shows it."""
        folder = self.root / f"proc/{pid}/fd"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "7").is_symlink():
            (folder / "7").symlink_to(device)
        self.write(f"/proc/{pid}/fdinfo/7", USAGE.format(bus=bus, kib=kib, engine=ENGINE.format(busy_ns)))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_a_card_without_users_is_free(tree):
    assert drm.explain_use(tree.host, BUS, 0) == ""


def test_a_process_that_keeps_the_engines_busy_is_a_user(tree, monkeypatch):
    tree.add_client()
    monkeypatch.setattr(drm.time, "sleep", lambda _seconds: tree.add_client(busy_ns=400_000_000))
    assert drm.explain_use(tree.host, BUS, 0.5) == "process 4321 uses the GPU"


def test_a_loaded_model_is_a_user_also_when_it_rests(tree):
    tree.add_client(kib=8 << 20)
    assert drm.explain_use(tree.host, BUS, 0) == "process 4321 holds 8192 MiB of the GPU's memory"


@pytest.mark.parametrize(
    "client",
    [
        {"kib": 100 << 10},  # a display server that rests
        {"kib": 8 << 20, "bus": "0000:04:00.0"},
        {"kib": 8 << 20, "device": "/dev/null"},
        {"kib": 8 << 20, "pid": os.getpid()},
    ],
)
def test_other_cards_idle_displays_and_the_agent_are_no_users(tree, client):
    tree.add_client(**client)
    assert drm.explain_use(tree.host, BUS, 0) == ""


def test_a_rocm_process_with_memory_is_a_user(tree):
    tree.write("/sys/class/kfd/kfd/proc/77/pasid", "32770")
    tree.write("/sys/class/kfd/kfd/proc/77/vram_51140", "0")
    assert drm.explain_use(tree.host, BUS, 0) == ""
    tree.write("/sys/class/kfd/kfd/proc/77/vram_51140", "4096")
    assert drm.explain_use(tree.host, BUS, 0) == "process 77 uses ROCm"


def test_a_card_that_is_busy_for_an_invisible_process_is_not_touched(tree):
    tree.write(f"/sys/bus/pci/devices/{BUS}/gpu_busy_percent", "97")
    assert drm.explain_use(tree.host, BUS, 0) == "the GPU is 97 % busy"
    tree.write(f"/sys/bus/pci/devices/{BUS}/gpu_busy_percent", "3")
    assert drm.explain_use(tree.host, BUS, 0) == ""


@pytest.mark.parametrize(
    "text", ["", "drm-memory-vram: many KiB\ndrm-engine-gfx: x ns\ndrm-engine-dec:\t ns\n:"]
)
def test_garbage_in_fdinfo_is_no_use(text):
    usage = drm.parse_usage(text)
    assert (drm.count_bytes(usage), drm.count_busy_ns(usage)) == (0, 0)


@pytest.fixture
def card(tree):
    """Lay out a card below its own switch (two ports of AMD's) and the root port of a Pi 5, as sysfs does."""
    port = "/sys/devices/pci0001:00/0001:00:00.0"
    switch = f"{port}/0001:01:00.0"
    inner = f"{switch}/0001:02:00.0"
    place = f"{inner}/{BUS}"
    for folder, vendor, kind, lanes, speed in (
        (port, "0x14e4", "0x060400", "1", "8.0 GT/s PCIe"),
        (switch, "0x1002", "0x060400", "16", "16.0 GT/s PCIe"),
        (inner, "0x1002", "0x060400", "16", "16.0 GT/s PCIe"),
        (place, "0x1002", "0x030000", "16", "16.0 GT/s PCIe"),
    ):
        tree.write(f"{folder}/vendor", vendor)
        tree.write(f"{folder}/class", kind)
        tree.write(f"{folder}/max_link_width", lanes)
        tree.write(f"{folder}/max_link_speed", speed)
        tree.write(f"{folder}/current_link_width", "1" if folder in (port, switch) else "16")
        tree.write(f"{folder}/current_link_speed", "8.0 GT/s PCIe" if folder in (port, switch) else speed)
    for name, value in {
        "temp1_label": "edge", "temp1_input": "61000", "temp1_crit": "100000",
        "temp2_label": "junction", "temp2_input": "95000", "temp2_crit": "110000",
        "temp3_label": "mem", "temp3_input": "70000", "temp3_crit": "105000",
        "power1_average": "85000000", "freq1_input": "2044000000", "freq2_input": "875000000",
    }.items():  # fmt: skip
        tree.write(f"{place}/hwmon/hwmon3/{name}", value)
    tree.write(f"{place}/ras/umc_err_count", "ue: 1\nce: 7")
    tree.write(f"{place}/ras/aca_gfx", "ue: 2\nce: 0")
    devices = tree.root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / BUS).symlink_to(tree.root / place.lstrip("/"))
    return tree


def test_sensors_are_read_in_their_units(card):
    sample = dict(zip(COLUMNS, drm.CardSensors(card.host, BUS).read_sample(), strict=True))
    assert sample == {
        "sm_mhz": 2044, "memory_mhz": 875, "power_mw": 85000, "instant_power_mw": None, "celsius": 61,
        "memory_celsius": 70, "margin_c": 15, "event_reasons": None, "link_generation": 3, "link_lanes": 1,
    }  # fmt: skip


def test_the_link_is_the_one_of_the_slot_and_not_the_one_inside_the_card(card):
    slot = drm.CardSensors(card.host, BUS).describe_slot()
    assert (slot["card"]["max_link_width"], slot["card"]["current_link_width"]) == ("16", "1")
    assert (slot["port"]["max_link_width"], slot["port"]["max_link_speed"]) == ("1", "8.0 GT/s PCIe")


def test_ras_counters_are_added_up(card):
    assert drm.CardSensors(card.host, BUS).read_errors() == {"ecc_uncorrected": 3, "ecc_corrected": 7}


def test_a_card_without_sensors_has_none(tree):
    tree.write(f"/sys/bus/pci/devices/{BUS}/vendor", "0x8086")
    sensors = drm.CardSensors(tree.host, BUS)
    assert set(sensors.read_sample()) == {None}
    assert sensors.read_errors() == {"ecc_uncorrected": None, "ecc_corrected": None}
