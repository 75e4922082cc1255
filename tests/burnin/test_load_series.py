"""Test the time series under CPU load on simulated hosts: sensors, a Raspberry Pi's flags, and fans."""

from __future__ import annotations

import pytest

from gpufleet.burnin.agent import load_series
from gpufleet.burnin.agent.host import CommandOutput, HostAccess
from gpufleet.burnin.checks.cpu import measure as cpu
from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

PI = {
    "/proc/device-tree/model": "Raspberry Pi 5 Model B\x00",
    "/sys/class/hwmon/hwmon0/name": "cpu_thermal\n",
    "/sys/class/hwmon/hwmon0/temp1_input": "62000\n",
    "/sys/class/hwmon/hwmon1/name": "rpi_volt\n",
    "/sys/class/hwmon/hwmon1/in0_lcrit_alarm": "0\n",
    "/sys/class/hwmon/hwmon2/name": "pwmfan\n",
    "/sys/class/hwmon/hwmon2/pwm1": "125\n",
    "/sys/class/hwmon/hwmon2/fan1_input": "2900\n",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "2400000\n",
}


@pytest.fixture
def make_host(tmp_path):
    """Give a function that lays out a host with a firmware tool."""

    def make(files, flags=None):
        for name, text in files.items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        answers = iter(flags or [])

        def run(argv, _timeout):
            assert argv == ["vcgencmd", "get_throttled"]
            return CommandOutput(0, f"throttled={next(answers, '0x0')}\n", "")

        return HostAccess(root=str(tmp_path), run=run, which=lambda tool: tool if flags else None)

    return make


def judge(series, kind="pi_gpu_bench"):
    raw = {
        "cores_online": 4,
        "cores_usable": 4,
        "rounds": 40,
        "wrong": 0,
        "workers_lost": [],
        "under_load": series,
    }
    record = {"name": "cpu", "status": "ran", "raw": raw}
    return judge_check(record, select_thresholds(kind), "", False)


def test_sensors_of_a_pi_are_sampled(make_host):
    series = load_series.record_load_series(make_host(PI, ["0x0", "0x50005"]), 0.7)
    assert series["columns"] == ["seconds", "celsius", "mhz", "throttled", "undervoltage"]
    assert [sample[1:] for sample in series["samples"]] == [[62.0, 2400.0, 0, 0], [62.0, 2400.0, 0x50005, 0]]
    assert (series["celsius_max"], series["mhz_min"], series["throttled_any"]) == (62.0, 2400.0, 0x50005)
    assert series["fans"] == [{"name": "pwmfan", "pwm": 125, "rpm": 2900}]
    assert judge(series).outcome == "warn"


@pytest.mark.parametrize(
    ("change", "outcome", "reason"),
    [
        ({}, "pass", ""),
        ({"/sys/class/hwmon/hwmon0/temp1_input": "85000\n"}, "fail", "reaches its temperature limit"),
        ({"/sys/class/hwmon/hwmon0/temp1_input": "80000\n"}, "warn", "hot enough"),
        ({"/sys/class/hwmon/hwmon1/in0_lcrit_alarm": "1\n"}, "warn", "under-voltage under load"),
        ({"/sys/class/hwmon/hwmon2/fan1_input": "0\n"}, "warn", "does not turn"),
        ({"/sys/class/hwmon/hwmon2/pwm1": "0\n", "/sys/class/hwmon/hwmon2/fan1_input": "0\n"}, "pass", ""),
        ({"/sys/class/hwmon/hwmon0/temp1_input": "broken\n"}, "pass", ""),
    ],
)
def test_series_of_a_pi_is_judged(make_host, change, outcome, reason):
    result = judge(load_series.record_load_series(make_host({**PI, **change}, ["0x0"]), 0.0))
    assert result.outcome == outcome
    assert reason in result.reason


def test_throttling_since_boot_is_not_one_under_load(make_host):
    assert judge(load_series.record_load_series(make_host(PI, ["0xe0000"]), 0.0)).outcome == "pass"


def test_a_server_is_recorded_and_its_heat_not_judged(make_host):
    files = {"/sys/class/hwmon/hwmon0/name": "coretemp\n", "/sys/class/hwmon/hwmon0/temp1_input": "99000\n"}
    series = load_series.record_load_series(make_host(files), 0.0)
    assert (series["celsius_max"], "throttled_any" in series) == (99.0, False)
    assert judge(series, "gpu_server").outcome == "pass"


def test_thermal_zone_is_read_without_a_sensor_driver(make_host):
    base = "/sys/class/thermal/thermal_zone0"
    series = load_series.record_load_series(
        make_host({f"{base}/type": "cpu-thermal\n", f"{base}/temp": "51250\n"}), 0.0
    )
    assert series["celsius_max"] == 51.25


def test_host_without_sensors_has_no_series(make_host):
    assert load_series.record_load_series(make_host({}), 9.0) == {
        "reason": "this host has no sensor of its CPU",
        "fans": [],
    }


def test_long_series_is_thinned_and_keeps_its_extremes(make_host, monkeypatch):
    monkeypatch.setattr(load_series.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(load_series, "MAX_SAMPLES", 8)
    clock = iter(range(10_000))
    monkeypatch.setattr(load_series.time, "monotonic", lambda: next(clock) * 0.5)
    series = load_series.record_load_series(make_host(PI, ["0x0"] * 3 + ["0x1"]), 40.0)
    assert len(series["samples"]) <= 8
    assert series["throttled_any"] == 1


def test_cpu_check_keeps_its_series(make_host):
    host = make_host(PI, ["0x0"])
    raw = cpu.measure_host(
        HostAccess(params={"cpu_seconds": 0.0}, root=host.root, run=host.run, which=host.which)
    ).raw
    assert raw["workers_lost"] == []
    assert extract_check_metrics("cpu", raw).metrics["load_celsius"] == 62.0


@pytest.mark.parametrize(
    "series", [None, [], {"celsius_max": "hot"}, {"throttled_any": -1}, {"fans": [5, {"pwm": True}]}]
)
def test_invalid_series_breaks_nothing(series):
    assert judge(series).outcome == "pass"
