"""Test what the load tools say when they are killed, out of memory or room, or without their peer: no pass, no fault.

The tools run for real where they are installed; `events.yaml` has what they printed when this was written.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml

from gpufleet.burnin.agent import fio
from gpufleet.burnin.agent.host import CommandOutput, HostAccess
from gpufleet.burnin.agent.stress_ng import run_stress_ng
from gpufleet.burnin.checks.network import measure as network
from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.stress_ng import read_run_seconds
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

EVENTS = yaml.safe_load(
    (Path(__file__).parents[1] / "cases/burnin/recorded/load_tools/events.yaml").read_text()
)
STRESS_NG = [event for event in EVENTS if event["tool"] == "stress-ng"]
CPU = {
    "cores_online": 2, "cores_usable": 2, "rounds": 20, "wrong": 0, "workers_lost": [], "hash_mb_per_s": 900.0,
}  # fmt: skip
STORAGE = {
    "root": {"read_only": False, "free_share": 0.5, "free_gib": 40.0, "inodes_free_share": 0.9},
    "scratch": {"type": "ext4"}, "write_mb_per_s": 900.0, "wrong_mib": 0,
}  # fmt: skip


def judge_stress_ng(facts):
    record = {"name": "cpu", "status": "ran", "raw": {**CPU, "stress_ng": facts}}
    return judge_check(record, select_thresholds("gpu_server"), "", rehearsal=False)


def judge_fio(facts):
    record = {"name": "storage", "status": "ran", "raw": {**STORAGE, "fio": facts}}
    return judge_check(record, select_thresholds("gpu_server"), "", rehearsal=False)


def replay_stress_ng(event, tmp_path):
    """Return the agent's record of a run that printed what an event has."""
    vmstat = tmp_path / "proc/vmstat"
    vmstat.parent.mkdir(exist_ok=True)
    vmstat.write_text("pgfault 7\noom_kill 5\n")

    def run(argv, timeout):
        vmstat.write_text(f"pgfault 7\noom_kill {5 + event.get('oom_kills', 0)}\n")
        return CommandOutput(event["code"], "", event["output"])

    seconds = event.get("seconds", 2)
    host = HostAccess({"stress_ng_seconds": seconds}, str(tmp_path), run, lambda tool: tool)
    return run_stress_ng(host, "--cpu", "0")


@pytest.mark.parametrize("event", STRESS_NG, ids=lambda event: event["event"])
def test_recorded_output_of_stress_ng_is_judged(event, tmp_path):
    result = judge_stress_ng(replay_stress_ng(event, tmp_path))
    assert (result.outcome, event["reason"] in result.reason) == (event["outcome"], True), result


def test_wrong_answer_beside_killed_workers_is_a_wrong_answer(tmp_path):
    killed = next(event for event in STRESS_NG if event["event"] == "worker killed by SIGKILL")
    line = "stress-ng: fail:  [7] cpu: fft failed, sum of differences 1.2e+3\n"
    facts = replay_stress_ng({**killed, "output": line + killed["output"]}, tmp_path)
    assert judge_stress_ng(facts).outcome == "fail"


def test_older_records_without_signals_are_judged():
    text = "stress-ng: fail:  [7] vm: detected 1 bit errors"
    assert judge_stress_ng({"ran": True, "code": 2, "text": text}).outcome == "fail"
    text = "stress-ng: fail:  [7] cpu instance 0 corrupted bogo-ops counter, 9 vs 0"
    result = judge_stress_ng({"ran": True, "code": 2, "text": text})
    assert (result.outcome, "was killed" in result.reason) == ("not_run", True)
    assert judge_stress_ng({"ran": True, "code": 2, "text": ""}).outcome == "fail"
    assert judge_stress_ng({"ran": True, "code": 2, "text": "", "failures": []}).outcome == "not_run"


def test_failed_system_call_of_a_stressor_is_no_wrong_answer():
    text = "stress-ng: fail:  [7] cpu: mmap failed, errno=12 (Cannot allocate memory)"
    assert judge_stress_ng({"ran": True, "code": 2, "text": text}).outcome == "not_run"


def test_record_stays_small_however_often_workers_die(tmp_path):
    lines = ["stress-ng: debug: [7] vm: child died: signal 9 'SIGKILL' (instance 0)"] * 5000
    lines += ["stress-ng: fail:  [7] vm: detected 4 bit errors " + "x" * 500] * 5000
    event = {"event": "many", "code": 2, "output": "\n".join(lines)}
    facts = replay_stress_ng(event, tmp_path)
    assert len(str(facts)) < 5000
    assert facts["child_signals"] == [9]
    assert judge_stress_ng(facts).outcome == "fail"


def find_children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(pid) for pid in text.split()]


def kill_when_running(number, depth):
    """Return a function that runs a tool and sends a signal to its process, or to a child ``depth`` below it."""

    def run(argv, timeout):
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            deadline, target = time.monotonic() + 10, process.pid
            for _ in range(depth):
                while not (children := find_children(target)) and time.monotonic() < deadline:
                    time.sleep(0.01)
                target = children[0]
            time.sleep(0.7)
            os.kill(target, number)
            out, err = process.communicate(timeout=timeout)
            return CommandOutput(process.returncode, out, err)

    return run


@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="stress-ng is not installed")
@pytest.mark.parametrize(
    ("stressors", "number", "depth"),
    [
        (("--cpu", "1"), signal.SIGKILL, 1),
        (("--cpu", "1"), signal.SIGTERM, 1),
        (("--cpu", "1"), signal.SIGTERM, 0),
        (("--vm", "1", "--vm-bytes", "16m"), signal.SIGKILL, 2),
    ],
    ids=["worker-kill", "worker-term", "all-term", "memory-kill"],
)
def test_stress_ng_that_is_killed_is_never_a_pass_nor_a_fault(stressors, number, depth):
    host = HostAccess(params={"stress_ng_seconds": 2}, run=kill_when_running(number, depth))
    facts = run_stress_ng(host, *stressors)
    result = judge_stress_ng(facts)
    assert result.outcome == "not_run", (facts, result)


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_fio_that_is_killed_is_never_a_pass_nor_a_fault(tmp_path, number):
    host = HostAccess(params={"fio_seconds": 3.0}, run=kill_when_running(number, 0))
    facts = fio.run_fio(host, str(tmp_path))
    result = judge_fio(facts)
    assert result.outcome == "not_run", (facts, result)
    assert list(tmp_path.iterdir()) == []


def test_fio_without_room_is_not_a_failing_drive():
    result = judge_fio(
        {"ran": True, "code": 1, "error_code": 28, "read_ios": 0, "error": "No space left on device"}
    )
    assert (result.outcome, "no room" in result.reason) == ("not_run", True)


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_iperf3_whose_server_ends_measured_nothing(number):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    argv = ["iperf3", "-s", "-B", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        time.sleep(0.3)
        timer = threading.Timer(1.2, lambda: os.kill(server.pid, number))
        timer.start()
        facts = network.run_iperf3(HostAccess(), "127.0.0.1", port, 3.0)
        timer.join()
    assert facts.keys() == {"method", "error"}, facts
    metrics = extract_check_metrics("network", {"throughput": facts}).metrics
    assert "throughput_mbit" not in metrics


def test_iperf3_report_with_an_error_and_a_rate_of_zero_is_an_error():
    report = '{"end": {"sum_received": {"bits_per_second": 0}}, "error": "the server has terminated"}'
    host = HostAccess(run=lambda argv, timeout: CommandOutput(0, report, ""), which=lambda tool: tool)
    assert network.run_iperf3(host, "192.0.2.7", 5201, 1.0)["error"] == "the server has terminated"


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("successful run completed in 2.01s", 2.01),
        ("successful run completed in 301.02s (5 mins, 1.02 secs)", 301.02),
        ("successful run completed in 5 mins, 1.02 secs", 301.02),
        ("successful run completed in 1 hour, 0 mins, 0.50 secs", 3600.5),
        ("successful run completed in 1.2.3.4s", None),
        ("nothing", None),
    ],
)
def test_duration_of_a_run_of_stress_ng(line, seconds):
    assert read_run_seconds(f"stress-ng: info:  [7] {line}\n") == (
        None if seconds is None else pytest.approx(seconds)
    )
