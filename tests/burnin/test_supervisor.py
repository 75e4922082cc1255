"""Test that every process started by the agent stops with it, whichever process is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpufleet.burnin.agent import supervisor

HANG_SECONDS = 90
FAST = {"rehearsal": "1", "cpu_seconds": "0.1", "storage_mib": "4", "memory_mib": "32"}
TOOLS = {
    "stress-ng": ("cpu", {"stress_ng_seconds": "300"}),
    "fio": ("storage", {"fio_seconds": "300"}),
    "iperf3": ("network", {"network_seconds": "300"}),
}
PROGRAM = Path(supervisor.__file__)


def wait_until(condition, what):
    deadline = time.monotonic() + HANG_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)
    return value


def is_alive(pid, started):
    return supervisor.read_process_start_time(pid) == started


def start_times_by_descendant(pid):
    """Return the start times of the processes below one; one that ends meanwhile has none and is no process."""
    times = {
        process.pid: supervisor.read_process_start_time(process.pid)
        for process in supervisor.list_live_descendants(pid)
    }
    return {process: started for process, started in times.items() if started}


def find_marked_processes(mark):
    """Return the processes that carry a mark in their environment."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes() and supervisor.read_process_start_time(
                int(folder.name)
            ):
                processes.append(int(folder.name))
        except OSError:
            continue
    return processes


def have_all_stopped(processes, mark):
    return not any(is_alive(*process) for process in processes.items()) and not find_marked_processes(mark)


@pytest.fixture
def iperf3_port():
    """Run the iperf3 server that a network check sends to."""
    server = subprocess.Popen(["iperf3", "-s", "-B", "127.0.0.1", "-p", "5291"], stdout=subprocess.DEVNULL)
    yield "5291"
    server.kill()
    server.wait()


@pytest.fixture
def start_agent(agent, tmp_path, request):
    """Start the agent on one check; return it with everything below it once the tool runs."""
    started = []

    def begin(tool):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
        check, params = TOOLS[tool]
        if tool == "iperf3":
            params = {**params, "iperf3_port": request.getfixturevalue("iperf3_port"), "peer": "127.0.0.1"}
        argv = [sys.executable, str(agent), "run", "--attempt", tool, "--only", check]
        argv += [
            argument for key, value in {**FAST, **params}.items() for argument in ("-p", f"{key}={value}")
        ]
        mark = f"GPUFLEET_TEST_MARK={os.getpid()}-{tmp_path.name}"
        env = dict(os.environ, **dict([mark.split("=")]))
        process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(process)

        def tools():
            return [
                descendant
                for descendant in supervisor.list_live_descendants(process.pid)
                if descendant.name.startswith(tool)
            ]

        wait_until(lambda: len(tools()) >= (2 if tool == "stress-ng" else 1), tool)
        return process, mark.encode()

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("tool", sorted(TOOLS))
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_to_the_agent_stops_its_tools(start_agent, tool, number):
    process, mark = start_agent(tool)
    processes = start_times_by_descendant(process.pid)
    process.send_signal(number)
    code = process.wait(HANG_SECONDS)
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: have_all_stopped(processes, mark), "the tools to end")


@pytest.mark.parametrize("tool", ["fio", "stress-ng"])
@pytest.mark.parametrize("place", ["keeper", "work", "check", "tool"])
def test_kill_of_any_process_in_the_chain_leaves_no_process(start_agent, tool, place):
    process, mark = start_agent(tool)
    descendants = supervisor.list_live_descendants(process.pid)
    known = start_times_by_descendant(process.pid)
    line = [next(descendant for descendant in descendants if descendant.name.startswith(tool))]
    parents = {descendant.pid: descendant for descendant in descendants}
    while line[0].parent in parents:
        line.insert(0, parents[line[0].parent])
    keeper, work, check = line[:3]
    victim = {"keeper": keeper, "work": work, "check": check, "tool": line[-1]}[place]
    os.kill(victim.pid, signal.SIGKILL)
    process.wait(HANG_SECONDS)
    wait_until(lambda: have_all_stopped(known, mark), "the tools to end")


def read_command_line(pid):
    """Return a process's command line, nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("tool", ["fio", "stress-ng"])
def test_kill_of_all_agent_processes_leaves_no_tool_running(start_agent, tool):
    process, mark = start_agent(tool)
    known = start_times_by_descendant(process.pid)
    agent_process_ids = [pid for pid in known if b"agent.pyz" in read_command_line(pid)]
    for pid in [process.pid, *agent_process_ids]:
        supervisor.send_signal(pid, signal.SIGKILL)  # the death of one may have ended the next already
    wait_until(lambda: have_all_stopped(known, mark), "the tools to end")


def test_processes_in_another_session_are_stopped_too(tmp_path):
    script = tmp_path / "deep.sh"
    script.write_text(f"setsid sh -c 'sleep 600 & echo $! > {tmp_path}/pid; wait' & wait\n")
    process = subprocess.Popen([sys.executable, str(PROGRAM), "--", "sh", str(script)])
    pid = int(wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the pid"))
    started = supervisor.read_process_start_time(pid)
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(pid, started), "the sleeper to end")


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("true", 0), ("kill -9 $$", 137)])
def test_exit_code_of_the_command_is_returned(script, code):
    result = subprocess.run([sys.executable, str(PROGRAM), "--", "sh", "-c", script], check=False)
    assert result.returncode == code


def test_command_can_finish_within_the_grace_period(tmp_path):
    script = (
        f"trap 'echo tidy > {tmp_path}/said; exit 3' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done"
    )
    process = subprocess.Popen([sys.executable, str(PROGRAM), "--grace", "60", "--", "sh", "-c", script])
    wait_until((tmp_path / "up").exists, "the trap")
    process.terminate()
    assert process.wait(HANG_SECONDS) == 143
    assert (tmp_path / "said").read_text() == "tidy\n"


def test_running_package_manager_is_not_stopped(tmp_path):
    manager = tmp_path / "dpkg"
    shutil.copy(shutil.which("sleep"), manager)
    script = f"{manager} 600 & sleep 601 & echo $! > {tmp_path}/other; wait"
    process = subprocess.Popen([sys.executable, str(PROGRAM), "--", "sh", "-c", script])

    def named():
        return [
            descendant
            for descendant in supervisor.list_live_descendants(process.pid)
            if descendant.name == "dpkg"
        ]

    dpkg = wait_until(named, "the package manager")[0]
    other = int(wait_until(lambda: (tmp_path / "other").exists() and (tmp_path / "other").read_text(), "pid"))
    process.terminate()
    process.wait(HANG_SECONDS)
    try:
        assert supervisor.read_process_start_time(dpkg.pid)
        assert not supervisor.read_process_start_time(other)
    finally:
        os.kill(dpkg.pid, signal.SIGKILL)


def test_attached_agent_stops_with_its_caller(agent, tmp_path):
    argv = [sys.executable, str(agent), "run", "--attached", "--attempt", "a", "--only", "cpu"]
    argv += ["-p", "cpu_seconds=300", "-p", "rehearsal=1"]
    script = f"import subprocess; p = subprocess.Popen({argv!r}); print(p.pid, flush=True); p.wait()"
    caller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    front = int(caller.stdout.readline())
    every = wait_until(
        lambda: len(processes := start_times_by_descendant(front)) >= 3 and processes, "the check"
    )
    caller.kill()
    caller.wait()
    wait_until(lambda: not any(is_alive(*process) for process in every.items()), "the agent to end")


def test_process_that_ends_while_the_tree_is_read_is_no_part_of_it(monkeypatch):
    ended = subprocess.Popen(["true"])
    ended.wait()
    rows = [supervisor.ProcessTableRow(pid, 1, "x", zombie=False) for pid in (ended.pid, os.getpid())]
    monkeypatch.setattr(supervisor, "list_live_descendants", lambda _pid: rows)
    assert list(start_times_by_descendant(1)) == [os.getpid()]


def test_ended_caller_is_noticed_while_orphans_keep_the_keeper_busy():
    # Every orphan that ends wakes the keeper, more often than it looks for its caller.
    orphans = "while :; do (sleep 0.1 &); sleep 0.1; done"
    program = (
        "import os, sys; from gpufleet.burnin.agent.supervisor import *\n"
        f"work = lambda: os.execvp('sh', ['sh', '-c', {orphans!r}])\n"
        "sys.exit(run_supervised(work, SupervisionPolicy(is_orphaned=lambda: True)))"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        assert process.wait(HANG_SECONDS) == 128 + signal.SIGHUP
    finally:
        process.terminate()
        process.wait()


def test_agent_stops_if_its_session_ended_before_the_start(agent):
    session = subprocess.Popen(["true"])
    session.wait()
    argv = [sys.executable, str(agent), "run", "--attached", "--session", str(session.pid), "--attempt", "a"]
    result = subprocess.run(
        [*argv, "--only", "cpu", "-p", "cpu_seconds=300", "-p", "rehearsal=1"], timeout=120, check=False
    )
    assert result.returncode == 128 + signal.SIGHUP


def test_detached_agent_continues(agent, tmp_path):
    """Test that a person's `nohup agent.pyz run &` survives the shell that started it."""
    out = tmp_path / "record.jsonl"
    command = (
        f"nohup {sys.executable} {agent} run --attempt a --only pi_throttled --out {out} >/dev/null 2>&1 &"
    )
    subprocess.run(["sh", "-c", command], check=True)
    wait_until(lambda: out.exists() and '"end"' in out.read_text(), "the end of the attempt")
    assert json.loads(out.read_text().splitlines()[-1])["type"] == "end"
