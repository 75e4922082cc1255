"""Temperature, clock, fans and a Raspberry Pi's flags while the CPU is under load, as a time series."""

from __future__ import annotations

import re
import time
from typing import Any

from .host import HostAccess
from .identity import is_raspberry_pi

# Twice a second at first; a long series keeps every second sample and doubles its interval.
INTERVAL_SECONDS = 0.5
MAX_SAMPLES = 120
COLUMNS = ("seconds", "celsius", "mhz", "throttled", "undervoltage")
COMMAND_SECONDS = 5.0
# Kernel drivers (hwmon names) of CPU temperature, and thermal zones of systems without one.
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
CPU_ZONES = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc-thermal", "soc_thermal")
# Fans that a board driver controls by itself, so that 0 rpm under power is a stalled fan: a Pi 5's, by its driver.
JUDGED_FANS = ("pwmfan",)


class LoadSensors:
    """The sensor files of one host, found once, read often."""

    def __init__(self, host: HostAccess) -> None:
        self.host = host
        self.temperature_files = self.find_temperature_files()
        self.clock_files = [
            f"/sys/devices/system/cpu/cpufreq/{policy}/scaling_cur_freq"
            for policy in host.list_folder("/sys/devices/system/cpu/cpufreq")
        ]
        self.voltage_alarm = next((f"{base}/in0_lcrit_alarm" for base in self.find_hwmon("rpi_volt")), "")
        # A fake tool's flags are read by its own check; here they would pass for a series.
        has_tool = host.which("vcgencmd") is not None and not host.is_fake_tool("vcgencmd")
        self.reads_flags = has_tool and is_raspberry_pi(host)

    @property
    def has_any(self) -> bool:
        """True if there is something to sample."""
        return bool(self.temperature_files or self.clock_files or self.voltage_alarm or self.reads_flags)

    def find_hwmon(self, *names: str) -> list[str]:
        """Return the hwmon folders of drivers."""
        base = "/sys/class/hwmon"
        folders = [f"{base}/{entry}" for entry in self.host.list_folder(base)]
        return [folder for folder in folders if self.host.read_text_file(f"{folder}/name") in names]

    def find_temperature_files(self) -> list[str]:
        """Return the CPU's temperature sensors: hwmon's, else thermal zones."""
        files = [
            f"{folder}/{entry}"
            for folder in self.find_hwmon(*CPU_SENSORS)
            for entry in self.host.list_folder(folder)
            if re.fullmatch(r"temp\d+_input", entry)
        ]
        zones = (f"/sys/class/thermal/{entry}" for entry in self.host.list_folder("/sys/class/thermal"))
        return files or [
            f"{zone}/temp" for zone in zones if self.host.read_text_file(f"{zone}/type") in CPU_ZONES
        ]

    def read_numbers(self, files: list[str], unit: float) -> list[float]:
        """Return what files hold, in another unit; a sensor that does not answer is left out."""
        values = (self.host.read_integer_file(file) for file in files)
        return [value / unit for value in values if value is not None]

    def read_sample(self) -> list[Any]:
        """Return the hottest sensor, the slowest core's clock, the firmware's flags and the voltage alarm."""
        celsius = self.read_numbers(self.temperature_files, 1000)
        mhz = self.read_numbers(self.clock_files, 1000)
        flags = None
        if self.reads_flags:
            match = re.search(
                r"0x([0-9a-fA-F]{1,8})", self.host.run(["vcgencmd", "get_throttled"], COMMAND_SECONDS).out
            )
            flags = int(match[1], 16) if match else None
        alarm = self.host.read_integer_file(self.voltage_alarm) if self.voltage_alarm else None
        return [max(celsius, default=None), min(mhz, default=None), flags, alarm]

    def read_fans(self) -> list[dict[str, Any]]:
        """Return the board's own fans: power (0 to 255) and revolutions, where they are counted."""
        return [
            {
                "name": self.host.read_text_file(f"{folder}/name"),
                "pwm": self.host.read_integer_file(f"{folder}/pwm1"),
                "rpm": self.host.read_integer_file(f"{folder}/fan1_input"),
            }
            for folder in self.find_hwmon(*JUDGED_FANS, "rpipoefan")
        ]


def record_load_series(host: HostAccess, seconds: float) -> dict[str, Any]:
    """Sample the sensors for a time; extremes count every sample, also those that are thinned out."""
    sensors, samples, interval = LoadSensors(host), [], INTERVAL_SECONDS
    extremes: dict[str, Any] = {}
    if not sensors.has_any:
        return {"reason": "this host has no sensor of its CPU", "fans": sensors.read_fans()}
    started = time.monotonic()
    flags = alarms = 0
    while True:
        elapsed = time.monotonic() - started
        celsius, mhz, throttled, alarm = sensors.read_sample()
        samples.append([round(elapsed, 1), celsius, mhz, throttled, alarm])
        if celsius is not None:
            extremes["celsius_max"] = max(celsius, extremes.get("celsius_max", celsius))
        if mhz is not None:
            extremes["mhz_min"] = min(mhz, extremes.get("mhz_min", mhz))
        flags, alarms = flags | (throttled or 0), alarms + (alarm or 0)
        if len(samples) >= MAX_SAMPLES:
            samples, interval = samples[::2], interval * 2
        if elapsed + interval >= seconds:
            break
        time.sleep(interval)
    if sensors.reads_flags:
        extremes["throttled_any"] = flags
    if sensors.voltage_alarm:
        extremes["undervoltage_samples"] = alarms
    return {"columns": list(COLUMNS), "samples": samples, **extremes, "fans": sensors.read_fans()}
