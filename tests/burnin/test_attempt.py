"""Test one attempt of the agent: settings, the node's lock, busy nodes, rounds and what outlives a crash."""

from __future__ import annotations

import ast
import fcntl
import importlib
import io
import json
import os
import subprocess
import sys
import time

import pytest

from gpufleet.burnin.agent import attempt, busy, crash_memory, profiles, settings
from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess, RawCheckResult
from gpufleet.burnin.agent.journal import AttemptJournal, JournalLockedError
from gpufleet.burnin.agent.main import main
from gpufleet.burnin.agent.node_lock import NodeLock, NodeLockedError
from gpufleet.burnin.build import read_agent_files

PARAMETER_READERS = {"get_parameter"}


def list_parameter_names(source):
    """Return the names of the parameters that a module reads."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in PARAMETER_READERS
        if isinstance(call.args[0], ast.Constant)
    }


def test_every_parameter_that_a_check_reads_can_be_set():
    sources = [source for name, source in read_agent_files().items() if name.endswith(".py")]
    names = set().union(*map(list_parameter_names, sources))
    assert names <= set(settings.PARAMETERS)
    assert {key for profile in profiles.PROFILES.values() for key in profile} <= set(settings.PARAMETERS)


def test_every_check_of_the_agent_can_be_measured():
    for name in profiles.CHECKS:
        module = importlib.import_module(f"gpufleet.burnin.checks.{name}.measure")
        assert callable(module.measure_host), name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cpu_seconds", "2.5", 2.5),
        ("storage_mib", "4.0", 4),
        ("rehearsal", "True", True),
        ("gpu_cublas", "0", False),
        ("peer", "10.0.0.1", "10.0.0.1"),
    ],
)
def test_setting_has_its_type(name, text, value):
    parsed = settings.parse_setting(name, text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("cpu_second=5", "'cpu_second' is not a parameter; did you mean cpu_seconds?"),
        ("xyzzy=5", "'xyzzy' is not a parameter; see budget_seconds, "),
        ("cpu_seconds=long", "cpu_seconds must be a number from 0 to 86400, got 'long'"),
        ("cpu_seconds=nan", "must be a number"),
        ("cpu_seconds=1e9", "must be a number from 0"),
        ("storage_mib=-1", "must be a whole number from 0"),
        ("storage_mib=1.5", "must be a whole number"),
        ("gpu_memory_share=2", "from 0.01 to 0.99"),
        ("rehearsal=maybe", "must be true or false"),
        ("peer=\x1b[31m", "must be printable text"),
        ("peer_port=99999", "from 0 to 65535"),
        ("expect_fabric=eva", "expect_fabric must be of efa, infiniband"),
        ("vulkan_devices=nvidia,amd", "vulkan_devices must be of nvidia, cpu"),
        ("novalue", "is not KEY=VALUE"),
    ],
)
def test_wrong_setting_is_one_line(capsys, option, message):
    try:
        code = main(["run", "--attempt", "a", "-p", option])
    except SystemExit as exit_:
        code = exit_.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(
    "arguments", [["run", "--attempt", "\x1b[2J"], ["run", "--attempt", ""], ["serve", "--port", "99999"]]
)
def test_wrong_attempt_or_port_is_one_line(capsys, arguments):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert (exit_.value.code, capsys.readouterr().err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--attempt", "a", "\x1b]0;owned\x07"],
        ["run", "--attempt", "a", "--only", "\x1b[2J"],
        ["run", "--attempt", "a", "--only", "blade", "--out", "/no/\x1b[31m/\x9b31m"],
        ["run", "--attempt", "a", "--only", "blade", "--lock", "/no/\x1b[31m"],
    ],
)
def test_escape_sequences_reach_no_terminal(agent, arguments):
    result = subprocess.run([sys.executable, agent, *arguments], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.strip().isprintable()
    assert result.stdout == ""


def test_second_agent_with_another_record_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("gpufleet.burnin.agent.node_lock.LOCK_SECONDS", 0.0)
    lock = NodeLock(str(tmp_path / "lock"))
    argv = ["run", "--attempt", "b", "--only", "blade", "--out", str(tmp_path / "b")]
    assert main([*argv, "--lock", str(tmp_path / "lock")]) == 4
    lock.close()
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"agent: another agent measures this node (process {os.getpid()})\n")
    assert not (tmp_path / "b").exists()


def test_lock_follows_no_link(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        NodeLock(str(tmp_path / "lock"))
    assert (tmp_path / "victim").read_text() == "precious"


def test_lock_of_another_user_is_respected(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.write_text("1\n")
    path.chmod(0o444)
    monkeypatch.setattr("gpufleet.burnin.agent.node_lock.LOCK_SECONDS", 0.0)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(NodeLockedError):
            NodeLock(str(path))


class FakeChecks:
    """Checks by name; each records that it ran and takes its time."""

    def __init__(self, monkeypatch, **seconds):
        self.ran = []
        self.seconds = seconds
        specs = {name: profiles.CheckSpec(name, 1.0) for name in seconds}
        monkeypatch.setattr(attempt, "CHECKS", specs)
        monkeypatch.setattr(attempt, "run_check", self.run)
        monkeypatch.setattr(attempt, "find_busy_reason", lambda _host: "")
        self.now = 0.0
        monkeypatch.setattr(attempt.time, "monotonic", lambda: self.now)

    def run(self, name, _host):
        self.ran.append(name)
        self.now += self.seconds[name]
        return RawCheckResult("ran")


def run_attempt(path, memory=None, *, name="a", resume=False, **params):
    """Run an attempt in this process; return its records."""
    stream = io.StringIO()
    host = HostAccess(params={"rehearsal": False, **params})
    journal = AttemptJournal(stream, str(path))
    names = list(attempt.CHECKS)
    memory = memory or crash_memory.CrashMemory(None)
    attempt.Attempt(name, "soak", names, host, journal, memory).run(continues_any=resume)
    journal.close_file()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_rounds_end_with_the_budget(monkeypatch, tmp_path):
    checks = FakeChecks(monkeypatch, cpu=10.0, memory=5.0)
    records = run_attempt(tmp_path / "r", rounds=100, budget_seconds=50.0)
    assert checks.ran == ["cpu", "memory"] * 3
    assert [r["round"] for r in records if r["type"] == "check"] == [1, 1, 2, 2, 3, 3]
    assert records[-1]["ran"] == 6


def test_first_round_is_run_whatever_the_budget(monkeypatch, tmp_path):
    checks = FakeChecks(monkeypatch, cpu=100.0)
    run_attempt(tmp_path / "r", rounds=2, budget_seconds=1.0)
    assert checks.ran == ["cpu"]


def cut_record(path, count):
    """Keep the first lines of a record, as a kill leaves it."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))


@pytest.mark.parametrize(("name", "resume"), [("a", False), ("b", True)])
def test_soak_is_resumed_where_it_was(monkeypatch, tmp_path, name, resume):
    checks = FakeChecks(monkeypatch, cpu=10.0, memory=5.0)
    run_attempt(tmp_path / "r", rounds=3)
    cut_record(tmp_path / "r", 8)  # killed while cpu of the second round ran
    checks.ran.clear()
    records = run_attempt(tmp_path / "r", name=name, resume=resume, rounds=3)
    assert checks.ran == ["memory", "cpu", "memory"]
    assert [r["name"] for r in records if r["type"] == "check"] == ["cpu", "memory"] * 3
    assert records[0]["attempt"] == "a"


def test_result_whose_line_a_kill_cut_short_by_its_end_is_measured_again(monkeypatch, tmp_path):
    checks = FakeChecks(monkeypatch, cpu=10.0)
    run_attempt(tmp_path / "r", rounds=2)
    cut_record(tmp_path / "r", 3)
    (tmp_path / "r").write_text((tmp_path / "r").read_text().rstrip("\n"))
    checks.ran.clear()
    records = run_attempt(tmp_path / "r", resume=True, rounds=2)
    assert checks.ran == ["cpu"] * 2
    assert [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()] == records


def test_time_of_the_controller_is_used_only_while_it_is_fresh(monkeypatch, tmp_path):
    checks = FakeChecks(monkeypatch, clock=1.0, cpu=100.0)
    times = []

    def run_check(name, host):
        times.append("controller_time" in host.params)
        return checks.run(name, host)

    monkeypatch.setattr(attempt, "run_check", run_check)
    run_attempt(tmp_path / "r", rounds=2, controller_time=5.0)
    assert times == [True, True, False, False]
    cut_record(tmp_path / "r", 3)
    assert (
        run_attempt(tmp_path / "r", name="b", resume=True, rounds=2, controller_time=9.0)[0]["attempt"] == "a"
    )


def test_attempt_on_a_changed_machine_starts_over(monkeypatch, tmp_path):
    checks = FakeChecks(monkeypatch, cpu=10.0)
    run_attempt(tmp_path / "r", rounds=3)
    cut_record(tmp_path / "r", 3)
    text = (tmp_path / "r").read_text()
    hardware = json.loads(text.splitlines()[0])["host"]["hardware"]
    (tmp_path / "r").write_text(text.replace(hardware, "another"))
    checks.ran.clear()
    assert run_attempt(tmp_path / "r", name="b", resume=True, rounds=3)[0]["attempt"] == "b"
    assert checks.ran == ["cpu"] * 3


def test_finished_attempt_that_nobody_collected_is_reported(monkeypatch, tmp_path):
    checks = FakeChecks(monkeypatch, cpu=10.0)
    records = run_attempt(tmp_path / "r", rounds=2)
    assert run_attempt(tmp_path / "r", name="b", resume=True, rounds=2) == records
    assert checks.ran == ["cpu"] * 2


@pytest.mark.parametrize("started_at", ["2020-01-01T00:00:00Z", "yesterday", None])
def test_old_attempt_is_not_resumed(monkeypatch, tmp_path, started_at):
    checks = FakeChecks(monkeypatch, cpu=10.0)
    run_attempt(tmp_path / "r", rounds=2)
    start, *rest = (tmp_path / "r").read_text().splitlines(keepends=True)
    changed = json.dumps({**json.loads(start), "started_at": started_at}) + "\n"
    (tmp_path / "r").write_text("".join([changed, *rest[:2]]))
    run_attempt(tmp_path / "r", name="b", resume=True, rounds=2)
    assert checks.ran == ["cpu"] * 4


def crash_node(memory, monkeypatch, boot, check="cpu"):
    """Go down during a check, and boot again: the agent cannot write anything more."""
    memory.note_start("a", check)
    monkeypatch.setattr(crash_memory, "read_boot_id", lambda: boot)


def test_crash_under_load_is_remembered_until_an_attempt_ends(monkeypatch, tmp_path):
    FakeChecks(monkeypatch, cpu=1.0)
    crash_node(crash_memory.CrashMemory(tmp_path), monkeypatch, "boot-2")
    memory = crash_memory.CrashMemory(tmp_path)
    assert memory.open() == ""
    crash_node(memory, monkeypatch, "boot-3", "gpu_compute")
    memory = crash_memory.CrashMemory(tmp_path)
    memory.open()
    crash = next(r for r in run_attempt(tmp_path / "r", memory) if r.get("name") == "crash")
    assert (crash["measured"], [c["check"] for c in crash["raw"]["crashes"]]) == (2, ["cpu", "gpu_compute"])
    assert crash["reason"].startswith("the node went down during gpu_compute (")
    memory = crash_memory.CrashMemory(tmp_path)
    memory.open()
    assert memory.crashes == []


def test_kill_of_the_agent_is_no_crash_of_the_node(monkeypatch, tmp_path):
    crash_memory.CrashMemory(tmp_path).note_start("a", "cpu")
    memory = crash_memory.CrashMemory(tmp_path)
    memory.open()
    assert memory.crashes == []
    memory.note_end()
    monkeypatch.setattr(crash_memory, "read_boot_id", lambda: "boot-2")
    memory = crash_memory.CrashMemory(tmp_path)
    memory.open()
    assert memory.crashes == []


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '"x"', "null"])
def test_damaged_memory_is_no_crash(monkeypatch, tmp_path, text):
    (tmp_path / crash_memory.RUNNING).write_text(text)
    (tmp_path / crash_memory.CRASHES).write_text(text)
    memory = crash_memory.CrashMemory(tmp_path)
    assert (memory.open(), memory.crashes) == ("", [])


def test_node_without_a_writable_disk_is_measured_without_memory(monkeypatch, tmp_path):
    FakeChecks(monkeypatch, cpu=1.0)
    (tmp_path / "file").write_text("")
    memory = crash_memory.CrashMemory(tmp_path / "file" / "state")
    assert "NotADirectoryError" in memory.open()
    assert run_attempt(tmp_path / "r", memory)[-1]["ran"] == 1


def test_agent_ended_by_a_signal_leaves_no_mark_of_a_crash(agent, tmp_path):
    argv = [sys.executable, agent, "run", "--attempt", "a", "--only", "cpu", "--state", tmp_path / "state"]
    process = subprocess.Popen([*argv, "-p", "rehearsal=1", "-p", "cpu_seconds=600"], stdout=subprocess.PIPE)
    running = tmp_path / "state" / crash_memory.RUNNING
    while not running.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.stdout.read()
    process.wait()
    while running.exists():  # the keeper removes it when everything has ended
        time.sleep(0.02)
    assert not (tmp_path / "state" / crash_memory.CRASHES).exists()


def test_full_disk_ends_the_record_but_not_the_attempt(capsys):
    journal = AttemptJournal(io.StringIO(), None)
    journal.file = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115, PTH123 - the journal closes it
    journal.append_record({"type": "begin"})
    journal.append_record({"type": "end"})
    assert len(journal.stream.getvalue().splitlines()) == 2
    assert capsys.readouterr().err == "agent: the record cannot be kept: No space left on device\n"


@pytest.fixture
def make_host(tmp_path):
    """Give a function that makes a host with files and nvidia-smi's list of compute processes."""

    def make(files=None, gpu_processes="", **params):
        for name, text in {"/proc/stat": "cpu 1 0 1 100 0 0 0 0 0 0\n", **(files or {})}.items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return HostAccess(
            params=params,
            root=str(tmp_path),
            run=lambda _argv, _timeout, _consume=None: CommandOutput(0, gpu_processes, ""),
            which=lambda tool: tool,
        )

    return make


def test_node_with_gpu_processes_is_busy(make_host):
    host = make_host({busy.NVIDIA_DRIVER: "580"}, "4711\n4712\n", rehearsal=True)
    assert busy.find_busy_reason(host) == "processes compute on a GPU: 4711, 4712"
    assert busy.find_busy_reason(make_host({busy.NVIDIA_DRIVER: "580"}, "4711\n", ignore_busy=True)) == ""


def test_node_with_amd_compute_processes_is_busy(make_host):
    host = make_host({f"{busy.KFD_PROCESSES}/99/pasid": "1"}, rehearsal=True)
    assert busy.find_busy_reason(host) == "processes compute on a GPU: 99"


def test_node_whose_processor_works_is_busy(make_host, monkeypatch):
    times = iter([[100, 0, 0, 100, 0], [190, 0, 0, 110, 0]])
    monkeypatch.setattr(busy, "read_processor_times", lambda _host: next(times))
    monkeypatch.setattr(busy.os, "getloadavg", lambda: (512.0, 0, 0))
    monkeypatch.setattr(busy.time, "sleep", lambda _seconds: None)
    assert busy.find_busy_reason(make_host()).startswith(
        "other processes use 90% of the processor (load 512.0"
    )


def test_load_average_of_the_minute_before_is_not_a_busy_node(make_host, monkeypatch):
    times = iter([[100, 0, 0, 100, 0], [101, 0, 0, 199, 0]])
    monkeypatch.setattr(busy, "read_processor_times", lambda _host: next(times))
    monkeypatch.setattr(busy.os, "getloadavg", lambda: (512.0, 0, 0))
    monkeypatch.setattr(busy.time, "sleep", lambda _seconds: None)
    assert busy.find_busy_reason(make_host()) == ""


def test_slurm_step_makes_a_node_busy_and_its_scope_does_not(make_host, monkeypatch):
    class Step:
        pid, name = 321, "slurmstepd"

    monkeypatch.setattr(busy, "read_process_table", lambda: [Step])
    assert busy.find_busy_reason(make_host(rehearsal=True)) == "Slurm runs a job step: process 321"
    host = make_host({"/proc/321/cmdline": "/usr/sbin/slurmstepd\0infinity\0"}, rehearsal=True)
    assert busy.find_busy_reason(host) == ""


def test_busy_node_is_not_measured_and_can_be_resumed(monkeypatch, tmp_path):
    checks = FakeChecks(monkeypatch, cpu=1.0, memory=1.0)
    monkeypatch.setattr(attempt, "find_busy_reason", lambda _host: "a job")
    records = run_attempt(tmp_path / "r")
    assert checks.ran == []
    assert {(r["status"], r["reason"]) for r in records if r["type"] == "check"} == {
        ("not_run", "the node is busy: a job")
    }
    assert records[-1]["busy"] == "a job"
    monkeypatch.setattr(attempt, "find_busy_reason", lambda _host: "")
    assert run_attempt(tmp_path / "r")[-1]["ran"] == 2


def test_record_in_use_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gpufleet.burnin.agent.journal.LOCK_SECONDS", 0.0)
    journal = AttemptJournal(io.StringIO(), str(tmp_path / "r"))
    with pytest.raises(JournalLockedError):
        AttemptJournal(io.StringIO(), str(tmp_path / "r"))
    journal.close_file()
