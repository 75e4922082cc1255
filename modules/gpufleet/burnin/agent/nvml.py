"""NVML through ctypes: what a GPU says of its link, clocks, power, heat and errors while load runs."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Sequence  # noqa: UP035 - Python 3.9 runs this

from .clibrary import Library, LibraryError, find_library, parse_prototypes
from .sensor_series import COLUMNS

NAMES = ("libnvidia-ml.so.1", "libnvidia-ml.so")
TYPES: dict[str, Any] = {
    "nvmlDevice_t": ctypes.c_void_p,
    **dict.fromkeys(
        (
            "nvmlClockType_t",
            "nvmlTemperatureSensors_t",
            "nvmlTemperatureThresholds_t",
            "nvmlMemoryErrorType_t",
            "nvmlEccCounterType_t",
            "nvmlEnableState_t",
        ),
        ctypes.c_int,
    ),
}
# As in nvml.h, without the parameters' names; tests/burnin/test_gpu_api.py compares each with the header.
PROTOTYPES = """
nvmlInit_v2(void)
nvmlSystemGetDriverVersion(char *, unsigned int)
nvmlDeviceGetCount_v2(unsigned int *)
nvmlDeviceGetHandleByPciBusId_v2(const char *, nvmlDevice_t *)
nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *)
nvmlDeviceGetMigMode(nvmlDevice_t, unsigned int *, unsigned int *)
nvmlDeviceGetClockInfo(nvmlDevice_t, nvmlClockType_t, unsigned int *)
nvmlDeviceGetMaxClockInfo(nvmlDevice_t, nvmlClockType_t, unsigned int *)
nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned int *)
nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t, unsigned int *)
nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t, unsigned int *)
nvmlDeviceGetTemperature(nvmlDevice_t, nvmlTemperatureSensors_t, unsigned int *)
nvmlDeviceGetTemperatureThreshold(nvmlDevice_t, nvmlTemperatureThresholds_t, unsigned int *)
nvmlDeviceGetMarginTemperature(nvmlDevice_t, nvmlMarginTemperature_t *)
nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t, unsigned long long *)
nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t, unsigned int *)
nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t, unsigned int *)
nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t, unsigned int *)
nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t, unsigned int *)
nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t, unsigned int *)
nvmlDeviceGetPcieReplayCounter(nvmlDevice_t, unsigned int *)
nvmlDeviceGetTotalEccErrors(nvmlDevice_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t, unsigned long long *)
nvmlDeviceGetRemappedRows(nvmlDevice_t, unsigned int *, unsigned int *, unsigned int *, unsigned int *)
nvmlDeviceGetNvLinkState(nvmlDevice_t, unsigned int, nvmlEnableState_t *)
nvmlDeviceGetFieldValues(nvmlDevice_t, int, nvmlFieldValue_t *)
"""
# Values in nvml.h, compared by the same test.
CONSTANTS = {
    "NVML_CLOCK_SM": 1,
    "NVML_CLOCK_MEM": 2,
    "NVML_TEMPERATURE_GPU": 0,
    "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN": 1,
    "NVML_MEMORY_ERROR_TYPE_CORRECTED": 0,
    "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
    "NVML_VOLATILE_ECC": 0,
    "NVML_NVLINK_MAX_LINKS": 18,
    "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": 38,
    "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": 45,
    "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 52,
    "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": 59,
    "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS": 215,
    "NVML_FI_DEV_MEMORY_TEMP": 82,
    "NVML_FI_DEV_POWER_INSTANT": 186,
    "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": 230,
    "NVML_ERROR_INSUFFICIENT_SIZE": 7,
}


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t; every value kind of NVML lies in the union's first bytes."""

    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    ]


class MarginTemperature(ctypes.Structure):
    """nvmlMarginTemperature_v1_t."""

    _fields_ = [("version", ctypes.c_uint), ("celsius", ctypes.c_int)]


class Nvml(Library):
    """The loaded and initialised library."""

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        super().__init__(find_library(names), parse_prototypes(PROTOTYPES, TYPES))
        self.call("nvmlInit_v2")


def add_known_numbers(numbers: Sequence[int | None]) -> int | None:
    """Return the sum of numbers, or None if none is known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


class GpuSensors:
    """One GPU's readings; each is None where this card or driver does not have it."""

    def __init__(self, nvml: Nvml, bus_id: str) -> None:
        self.nvml, self.handle = nvml, ctypes.c_void_p()
        nvml.call("nvmlDeviceGetHandleByPciBusId_v2", bus_id.encode(), ctypes.addressof(self.handle))

    def read_value(self, function: str, *arguments: int, kind: Any = ctypes.c_uint) -> int | None:
        """Return one number, or None where NVML gives an error."""
        value = kind()
        code = self.nvml.try_call(function, self.handle, *arguments, ctypes.addressof(value))
        return int(value.value) if code == 0 else None

    def read_field(self, name: str, scope: int = 0) -> int | None:
        """Return one of the fields that have no function of their own; ``scope`` is the link of a field of NVLink 5."""
        field = FieldValue(field=CONSTANTS[name], scope=scope)
        code = self.nvml.try_call("nvmlDeviceGetFieldValues", self.handle, 1, ctypes.addressof(field))
        return int(field.value & 0xFFFFFFFF) if code == 0 and field.code == 0 else None

    def read_margin(self) -> int | None:
        """Return the degrees below the temperature at which the GPU slows down."""
        margin = MarginTemperature(version=ctypes.sizeof(MarginTemperature) | 1 << 24)
        code = self.nvml.try_call("nvmlDeviceGetMarginTemperature", self.handle, ctypes.addressof(margin))
        return int(margin.celsius) if code == 0 else None

    def count_processes(self) -> int | None:
        """Return how many processes compute on this GPU."""
        count = ctypes.c_uint(0)
        code = self.nvml.try_call(
            "nvmlDeviceGetComputeRunningProcesses_v3", self.handle, ctypes.addressof(count), None
        )
        return int(count.value) if code in (0, CONSTANTS["NVML_ERROR_INSUFFICIENT_SIZE"]) else None

    def read_mig_mode(self) -> int | None:
        """Return 1 where MIG is on, with instances or without; None where the GPU has no such mode."""
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        code = self.nvml.try_call(
            "nvmlDeviceGetMigMode", self.handle, ctypes.addressof(current), ctypes.addressof(pending)
        )
        return int(current.value) if code == 0 else None

    def read_errors(self) -> dict[str, int | None]:
        """Return error counters, and two states (remap_pending, recovery_action): a change under load is a finding."""
        remaps = [ctypes.c_uint() for _ in range(4)]
        code = self.nvml.try_call(
            "nvmlDeviceGetRemappedRows", self.handle, *(ctypes.addressof(number) for number in remaps)
        )
        counts = [int(number.value) if code == 0 else None for number in remaps]
        names = ("remapped_correctable", "remapped_uncorrectable", "remap_pending", "remap_failed")
        volatile = CONSTANTS["NVML_VOLATILE_ECC"]

        def read_ecc(kind: str) -> int | None:
            number = CONSTANTS[f"NVML_MEMORY_ERROR_TYPE_{kind}"]
            return self.read_value("nvmlDeviceGetTotalEccErrors", number, volatile, kind=ctypes.c_ulonglong)

        return {
            **{name: counts[place] for place, name in enumerate(names)},
            "ecc_corrected": read_ecc("CORRECTED"),
            "ecc_uncorrected": read_ecc("UNCORRECTED"),
            "pcie_replays": self.read_value("nvmlDeviceGetPcieReplayCounter"),
            "recovery_action": self.read_field("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"),
            **self.read_link_errors(),
        }

    def list_active_links(self) -> list[int] | None:
        """Return the NVLinks that are up, or None where the GPU has none or the driver does not tell."""
        states = [
            self.read_value("nvmlDeviceGetNvLinkState", link)
            for link in range(CONSTANTS["NVML_NVLINK_MAX_LINKS"])
        ]
        known = [state for state in states if state is not None]
        return [link for link, state in enumerate(states) if state] if known else None

    def read_link_errors(self) -> dict[str, int | None]:
        """Return the active NVLinks and what their error counters say: totals up to NVLink 4, each link's from 5 on."""
        links = self.list_active_links()
        if not links:
            return {"nvlinks_active": None if links is None else 0}
        crc = [
            self.read_field(f"NVML_FI_DEV_NVLINK_CRC_{unit}_ERROR_COUNT_TOTAL") for unit in ("FLIT", "DATA")
        ]
        recoveries = self.read_field("NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL")
        if recoveries is None:
            events = [
                self.read_field("NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", link) for link in links
            ]
            recoveries = add_known_numbers(events)
        return {
            "nvlinks_active": len(links),
            "nvlink_replays": self.read_field("NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
            "nvlink_recoveries": recoveries,
            "nvlink_crc_errors": add_known_numbers(crc),
        }

    def read_limits(self) -> dict[str, int | None]:
        """Return what the card can do at most: readings under load are judged against it."""
        return {
            "max_sm_mhz": self.read_value("nvmlDeviceGetMaxClockInfo", CONSTANTS["NVML_CLOCK_SM"]),
            "max_memory_mhz": self.read_value("nvmlDeviceGetMaxClockInfo", CONSTANTS["NVML_CLOCK_MEM"]),
            "power_limit_mw": self.read_value("nvmlDeviceGetEnforcedPowerLimit"),
            "default_power_limit_mw": self.read_value("nvmlDeviceGetPowerManagementDefaultLimit"),
            "slowdown_c": self.read_value(
                "nvmlDeviceGetTemperatureThreshold", CONSTANTS["NVML_TEMPERATURE_THRESHOLD_SLOWDOWN"]
            ),
            "max_link_generation": self.read_value("nvmlDeviceGetMaxPcieLinkGeneration"),
            "card_link_generation": self.read_value("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
            "max_link_lanes": self.read_value("nvmlDeviceGetMaxPcieLinkWidth"),
        }

    def read_sample(self) -> list[int | None]:
        """Return one reading of every column of a series."""
        return [READERS[column](self) for column in COLUMNS]


READERS: dict[str, Callable[[GpuSensors], int | None]] = {
    "sm_mhz": lambda gpu: gpu.read_value("nvmlDeviceGetClockInfo", CONSTANTS["NVML_CLOCK_SM"]),
    "memory_mhz": lambda gpu: gpu.read_value("nvmlDeviceGetClockInfo", CONSTANTS["NVML_CLOCK_MEM"]),
    "power_mw": lambda gpu: gpu.read_value("nvmlDeviceGetPowerUsage"),
    "instant_power_mw": lambda gpu: gpu.read_field("NVML_FI_DEV_POWER_INSTANT"),
    "celsius": lambda gpu: gpu.read_value("nvmlDeviceGetTemperature", CONSTANTS["NVML_TEMPERATURE_GPU"]),
    "memory_celsius": lambda gpu: gpu.read_field("NVML_FI_DEV_MEMORY_TEMP"),
    "margin_c": GpuSensors.read_margin,
    "event_reasons": lambda gpu: gpu.read_value(
        "nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong
    ),
    "link_generation": lambda gpu: gpu.read_value("nvmlDeviceGetCurrPcieLinkGeneration"),
    "link_lanes": lambda gpu: gpu.read_value("nvmlDeviceGetCurrPcieLinkWidth"),
}


def open_sensors(bus_id: str) -> tuple[GpuSensors | None, str]:
    """Return a GPU's sensors, or None with the reason."""
    try:
        return GpuSensors(Nvml(), bus_id), ""
    except LibraryError as error:
        return None, f"NVML: {error}"
