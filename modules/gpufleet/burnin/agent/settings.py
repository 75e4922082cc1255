"""The agent's parameters: their types and ranges. What is not listed here is refused before anything runs."""

from __future__ import annotations

from typing import Any, NamedTuple

DAY_SECONDS = 86_400
TEXT_CHARACTERS = 4096
BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class SettingError(ValueError):
    """A parameter that does not exist, or a value that it cannot have."""


class Setting(NamedTuple):
    """A parameter's type and, for numbers, its range; for texts the words that a comma-separated list may have."""

    kind: type
    low: float = 0
    high: float = 0
    words: tuple[str, ...] = ()


SECONDS = Setting(float, 0, DAY_SECONDS)
MIB = Setting(int, 0, 1 << 24)
COUNT = Setting(int, 0, 100_000)
PORT = Setting(int, 0, 65_535)
TEXT = Setting(str)
FLAG = Setting(bool)

FABRICS = ("efa", "infiniband", "roce", "gpudirect_tcpx", "gpudirect_tcpxo", "gpudirect_rdma")

PARAMETERS: dict[str, Setting] = {
    "rehearsal": FLAG,
    "ignore_busy": FLAG,
    "rounds": Setting(int, 1, 10_000),
    "budget_seconds": Setting(float, 0, 30 * DAY_SECONDS),
    "expect_cores": COUNT,
    "expect_memory_gib": Setting(float, 0, 1 << 20),
    "expect_nvme": COUNT,
    "expect_gpus": COUNT,
    "expect_amd_gpus": COUNT,
    "expect_gpu_models": TEXT,
    "expect_drive_gib": Setting(float, 0, 1 << 30),
    "expect_drives": COUNT,
    "expect_interfaces": COUNT,
    "expect_mtu": COUNT,
    "expect_fabric": Setting(str, words=FABRICS),
    "expect_fabric_adapters": COUNT,
    "expect_fabric_devices": TEXT,
    "expect_fabric_gbit_per_s": Setting(float, 0, 1 << 30),
    "cpu_seconds": SECONDS,
    "stress_ng_seconds": SECONDS,
    "memory_mib": MIB,
    "memory_seconds": SECONDS,
    "storage_mib": MIB,
    "scratch": TEXT,
    "fio_seconds": SECONDS,
    "nccl_mib": MIB,
    "nccl_folder": TEXT,
    "network_seconds": SECONDS,
    "peer": TEXT,
    "peer_port": PORT,
    "iperf3_port": PORT,
    "gpu_seconds": SECONDS,
    "gpu_memory_seconds": SECONDS,
    "gpu_copy_seconds": SECONDS,
    "gpu_size": Setting(int, 256, 65_536),
    "gpu_memory_share": Setting(float, 0.01, 0.99),
    "gpu_copy_mib": Setting(int, 1, 65_536),
    "gpu_chunk_mib": Setting(int, 1, 1 << 20),
    "gpu_kernels": Setting(str, words=("all",)),
    "gpu_cublas": FLAG,
    "gpu_flip_bit": FLAG,
    "gpu_library": TEXT,
    "card_seconds": SECONDS,
    "card_size": Setting(int, 16, 65_536),
    "card_memory_share": Setting(float, 0.01, 0.99),
    "card_chunk_mib": Setting(int, 1, 1 << 20),
    "card_copy_mib": Setting(int, 1, 65_536),
    "hip_library": TEXT,
    "vulkan_devices": Setting(str, words=("nvidia", "cpu")),
    "vulkan_library": TEXT,
    "controller_time": Setting(float, 0, 1e11),
    "sysfs": TEXT,
    "serial_file": TEXT,
}


def parse_setting(name: str, text: str) -> Any:
    """Return a parameter's value; raise SettingError, in one line, for one that it cannot have."""
    setting = PARAMETERS.get(name)
    if setting is None:
        import difflib  # here: the agent's start is measured

        close = difflib.get_close_matches(name, PARAMETERS, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"see {', '.join(sorted(PARAMETERS))}"
        raise SettingError(f"{name!r} is not a parameter; {remedy}")
    if setting.kind is str:
        if len(text) > TEXT_CHARACTERS or not text.isprintable():
            raise SettingError(
                f"{name} must be printable text of at most {TEXT_CHARACTERS} characters, got {text[:60]!r}"
            )
        unknown = [
            word for word in text.split(",") if setting.words and word.strip() not in ("", *setting.words)
        ]
        if unknown:
            raise SettingError(f"{name} must be of {', '.join(setting.words)}, got {text[:60]!r}")
        return text
    if setting.kind is bool:
        if text.strip().lower() not in BOOLEANS:
            raise SettingError(f"{name} must be true or false, got {text[:60]!r}")
        return BOOLEANS[text.strip().lower()]
    try:
        number = setting.kind(text)
    except (ValueError, OverflowError):
        # Ansible passes 4.0 where a template computed a whole number.
        number = parse_whole_number(text) if setting.kind is int else None
    if number is None or not setting.low <= number <= setting.high:
        noun = "a whole number" if setting.kind is int else "a number"
        raise SettingError(
            f"{name} must be {noun} from {setting.low:g} to {setting.high:g}, got {text[:60]!r}"
        )
    return number


def parse_whole_number(text: str) -> int | None:
    """Return the integer that a text like 4.0 stands for, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def parse_settings(pairs: dict[str, str]) -> dict[str, Any]:
    """Return all parameters as values of their types."""
    return {name: parse_setting(name, text) for name, text in pairs.items()}
