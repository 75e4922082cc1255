"""Test the built agent on this machine: complete runs, kills and resumed runs."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from gpufleet import burnin
from gpufleet.burnin.agent import journal
from gpufleet.burnin.agent.cuda_kernels import GENERATIONS
from gpufleet.burnin.agent.kernel_source import CARD_KERNELS
from gpufleet.burnin.build import read_agent_files

FAST = {
    # A gateway may drop what is sent to it; loopback always answers.
    "peer": "127.0.0.1",
    "rehearsal": "1",
    "cpu_seconds": "0.1",
    "memory_mib": "32",
    "memory_seconds": "0.05",
    "storage_mib": "4",
}
STDLIB = sys.stdlib_module_names


def command(agent, attempt, out=None, **params):
    """Return the agent's command line."""
    options = [argument for key, value in {**FAST, **params}.items() for argument in ("-p", f"{key}={value}")]
    return [
        sys.executable,
        str(agent),
        "run",
        "--attempt",
        attempt,
        *(["--out", str(out)] if out else []),
        *options,
    ]


def lines(text):
    """Return records; every line must be one."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def complete_run(agent):
    """Run every check once on this machine."""
    result = subprocess.run(command(agent, "whole"), capture_output=True, text=True, timeout=120, check=True)
    return lines(result.stdout)


def checks_by_name(records):
    return {record["name"]: record for record in records if record["type"] == "check"}


def test_run_has_start_end_and_every_check(complete_run):
    assert (complete_run[0]["type"], complete_run[0]["attempt"], complete_run[-1]["type"]) == (
        "start",
        "whole",
        "end",
    )
    assert set(burnin.list_required_checks("compute_blade", "quick")) - set(checks_by_name(complete_run)) == {
        "configuration"
    }


@pytest.mark.parametrize("name", ["cpu", "memory", "storage", "network"])
def test_checks_measure_this_machine(complete_run, name):
    record = checks_by_name(complete_run)[name]
    assert record["status"] == "ran", record["reason"]
    assert record["measured"] > 0
    assert record["unit"]


def test_computation_checks_pass_on_this_machine(complete_run):
    checks = checks_by_name(complete_run)
    assert checks["cpu"]["raw"]["wrong"] == 0
    assert checks["cpu"]["raw"]["rounds"] >= os.cpu_count()
    assert set(checks["memory"]["raw"]["wrong_mib"].values()) == {0}
    assert checks["storage"]["raw"]["wrong_mib"] == 0


@pytest.mark.skipif(shutil.which("vcgencmd") is not None, reason="this machine is a Raspberry Pi")
def test_check_with_a_missing_tool_is_not_run_and_says_why(complete_run):
    record = checks_by_name(complete_run)["pi_throttled"]
    assert (record["status"], record["reason"]) == ("not_run", "vcgencmd is not installed")


def test_output_of_a_run_fits_into_one_ansible_result(complete_run):
    assert len(json.dumps(complete_run)) < 20_000


def test_output_of_a_run_can_be_judged(complete_run):
    report = burnin.judge_attempt(complete_run, "cloud_vm", "quick", rehearsal=True, is_configured=True)
    assert {check.name for check in report.checks} >= {"cpu", "memory", "storage", "network", "configuration"}
    refused = burnin.judge_attempt(complete_run, "cloud_vm", "quick", is_configured=True)
    assert refused.verdict == "incomplete"


def test_resumed_run_repeats_no_finished_check(agent, tmp_path):
    out = tmp_path / "record.jsonl"
    argv = command(agent, "killed", out, cpu_seconds="0.1", network_seconds="20")
    first = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    wait_for(out, '"begin", "name": "network"')
    children = list_descendants(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = checks_by_name(journal.parse_journal_records(out.read_text()))
    wait_until(lambda: not any(is_alive(pid) for pid in children))
    out.write_text(out.read_text() + '{"type": "check", "na')
    resumed = subprocess.run(
        command(agent, "killed", out), capture_output=True, text=True, timeout=60, check=True
    )
    after = lines(resumed.stdout)
    assert {"versions", "clock", "hardware", "cpu", "memory", "storage"} <= set(before)
    assert "network" not in before
    assert {name: checks_by_name(after)[name] for name in before} == before
    assert after[-1]["type"] == "end"
    assert len([record for record in after if record["type"] == "check"]) == len(checks_by_name(after))
    assert [record for record in lines(out.read_text()) if record["type"] != "begin"] == [
        record for record in after if record["type"] != "begin"
    ]


def test_finished_attempt_is_replayed_without_running(agent, tmp_path):
    out = tmp_path / "record.jsonl"
    argv = [*command(agent, "done", out), "--only", "pi_throttled"]
    runs = [subprocess.run(argv, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert runs[0] == runs[1]


def test_new_attempt_starts_from_the_first_check(agent, tmp_path):
    out = tmp_path / "record.jsonl"
    for attempt in ("one", "two"):
        subprocess.run([*command(agent, attempt, out), "--only", "blade"], capture_output=True, check=True)
    assert [record.get("attempt") for record in lines(out.read_text()) if record["type"] == "start"] == [
        "two"
    ]


def test_check_that_crashes_the_host_is_not_retried_forever(agent, tmp_path):
    out = tmp_path / "record.jsonl"
    begin = {"type": "begin", "name": "cpu"}
    out.write_text("\n".join(json.dumps(r) for r in ({"type": "start", "attempt": "a"}, begin, begin)) + "\n")
    argv = [*command(agent, "a", out), "--only", "cpu"]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    record = checks_by_name(lines(result.stdout))["cpu"]
    assert (record["status"], "begun 2 times" in record["reason"]) == ("error", True)


def test_second_agent_cannot_write_the_same_record(agent, tmp_path):
    out = tmp_path / "record.jsonl"
    first = subprocess.Popen(command(agent, "x", out, network_seconds="20"), stdout=subprocess.DEVNULL)
    wait_for(out, '"start"')
    second = subprocess.run(command(agent, "x", out), capture_output=True, text=True, check=False)
    first.kill()
    first.wait()
    assert second.returncode == 4
    assert "another agent" in second.stderr


@pytest.mark.parametrize("message", [["--profile", "eternal"], ["--only", "magic"], ["-p", "novalue"]])
def test_wrong_arguments_are_refused(agent, message):
    argv = [sys.executable, str(agent), "run", "--attempt", "a", *message]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 2


def test_agent_build_is_reproducible(agent, tmp_path):
    assert burnin.build_agent_zipapp(tmp_path / "again.pyz").read_bytes() == agent.read_bytes()
    assert all(item.date_time == (1980, 1, 1, 0, 0, 0) for item in zipfile.ZipFile(agent).infolist())


def test_agent_has_every_kernel_that_it_loads_and_no_source():
    names = {name.partition("kernels/")[2] for name in read_agent_files() if "kernels/" in name}
    matmul = {f"matmul_{kernel.target}.ptx" for kernels in GENERATIONS.values() for kernel in kernels}
    assert names == {"basic.ptx", "card.hip", *matmul, *(f"{name}.spv" for name in CARD_KERNELS)}


@pytest.mark.parametrize("name", sorted(name for name in read_agent_files() if name.endswith(".py")))
def test_agent_uses_only_python_3_9_and_the_standard_library(name):
    tree = ast.parse(read_agent_files()[name], feature_version=(3, 9))
    absolute = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0]
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    tops = {module.split(".")[0] for module in modules | {node.module for node in absolute}}
    assert tops - {"burnin_agent"} <= STDLIB


@pytest.mark.skipif(shutil.which("python3.9") is None, reason="no python3.9 here")
def test_agent_runs_on_python_3_9(agent):
    argv = ["python3.9", *command(agent, "old")[1:], "--only", "cpu", "--only", "memory"]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if "command not found" in result.stderr:
        pytest.skip("python3.9 is a version manager's empty shim")
    assert {record["status"] for record in checks_by_name(lines(result.stdout)).values()} == {"ran"}


def wait_for(path, text, seconds=120.0):
    """Wait until a file holds a text."""
    wait_until(lambda: path.exists() and text in path.read_text(), seconds)


def wait_until(true, seconds=120.0):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def list_descendants(pid):
    """Return the processes below one."""
    records_found = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in records_found.splitlines()]
    below = [child for child, parent in pairs if parent == pid]
    return below + [deeper for child in below for deeper in list_descendants(child)]


def is_alive(pid):
    """Return True if a process runs; a zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def truncated_record(tmp_path):
    """Give an attempt's record of three lines, the last one torn."""
    path = tmp_path / "attempt.jsonl"
    complete_record = ['{"type": "start", "attempt": "a1"}', '{"type": "check", "name": "cpu"}']
    path.write_text("\n".join([*complete_record, '{"type": "che']))
    return path


def is_attempt(name):
    """Return a condition on the records of an attempt."""
    return lambda records: records[0].get("attempt") == name


def test_kill_while_an_attempt_is_resumed_loses_no_record(truncated_record, monkeypatch):
    def die(_journal):
        raise KeyboardInterrupt

    monkeypatch.setattr(journal.AttemptJournal, "_sync", die)
    with pytest.raises(KeyboardInterrupt):
        journal.AttemptJournal(sys.stdout, str(truncated_record)).resume_attempt(is_attempt("a1"))
    assert [record["type"] for record in journal.parse_journal_records(truncated_record.read_text())] == [
        "start",
        "check",
    ]


def test_undecodable_bytes_invalidate_only_their_line(truncated_record):
    truncated_record.write_bytes(
        truncated_record.read_bytes() + b"\xff\xfe\n" + b'{"type": "check", "name": "memory"}\n'
    )
    open_journal = journal.AttemptJournal(sys.stdout, str(truncated_record))
    assert [record.get("name") for record in open_journal.resume_attempt(is_attempt("a1"))] == [
        None,
        "cpu",
        "memory",
    ]
    open_journal.close_file()


def test_new_attempt_starts_with_an_empty_record(truncated_record):
    open_journal = journal.AttemptJournal(sys.stdout, str(truncated_record))
    assert open_journal.resume_attempt(is_attempt("a2")) == []
    open_journal.close_file()
    assert truncated_record.read_text() == ""


def test_program_can_drive_the_agent_with_another_host(agent):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from burnin_agent import host, main\n"
        "print(host.HostAccess.resolve_path.__name__, main.main.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, agent], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["resolve_path", "main"]
