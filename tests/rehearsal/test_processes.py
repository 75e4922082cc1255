"""Find the processes of a rehearsal, and stop only those."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from gpufleet.rehearsal import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def start_process(tmp_path):
    """Return a function that starts `sleep` under another program's name with this GPUFLEET_HOME."""
    running = []

    def run(name, home):
        program = tmp_path / name
        if not program.exists():
            program.symlink_to("/bin/sleep")
        running.append(subprocess.Popen([str(program), "60"], env={**os.environ, "GPUFLEET_HOME": str(home)}))
        wait_for_exec(running[-1].pid, name)
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait()


def wait_for_exec(pid, name):
    """Wait until the new process is the program: until then it still looks like Python."""
    deadline = time.monotonic() + 60
    while name.encode() not in open(f"/proc/{pid}/cmdline", "rb").read():  # noqa: SIM115, PTH123 - one-shot read
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_only_processes_of_this_rehearsal_are_found(start_process, tmp_path):
    expected = start_process("pulumi-resource-aws", tmp_path / "a")
    start_process("pulumi-resource-aws", tmp_path / "b")
    start_process("bash-of-the-user", tmp_path / "a")
    assert processes.find_rehearsal_processes(tmp_path / "a") == [expected.pid]


def test_only_own_processes_are_stopped(start_process, tmp_path):
    own_process, other = (
        start_process("pulumi-language-python", tmp_path / "a"),
        start_process("pulumi", tmp_path / "b"),
    )
    # A thread reaps the child: until then the ended process is a zombie and still counts.
    assert stop_and_reap(tmp_path / "a", own_process) == 1
    assert own_process.returncode is not None
    assert other.poll() is None


def stop_and_reap(home, process):
    import threading

    reaper = threading.Thread(target=process.wait)
    reaper.start()
    stopped = processes.stop_rehearsal_processes(home)
    reaper.join(10)
    return stopped


def test_helper_without_its_engine_is_an_orphan(start_process, tmp_path):
    orphan = start_process("pulumi-language-python", tmp_path / "a")
    engine = start_process("pulumi", tmp_path / "a")
    assert processes.find_orphaned_processes(tmp_path / "a") == [orphan.pid]
    assert engine.pid in processes.find_rehearsal_processes(tmp_path / "a")


@pytest.mark.parametrize(
    "wrapper", [["timeout", "60"], ["setsid", "--fork", "--wait"], ["sh", "-c", '"$0" 60; :']]
)
def test_engine_of_another_terminal_is_no_orphan_whatever_started_it(tmp_path, wrapper):
    (tmp_path / "pulumi").symlink_to("/bin/sleep")
    command = [*wrapper, tmp_path / "pulumi", "60"]
    with subprocess.Popen(command, env={**os.environ, "GPUFLEET_HOME": str(tmp_path)}) as process:
        try:
            deadline = time.monotonic() + 60
            while not (engines := processes.find_rehearsal_processes(tmp_path)):
                assert time.monotonic() < deadline
            assert processes.find_orphaned_processes(tmp_path) == []
            assert process.pid not in engines
        finally:
            for engine in processes.find_rehearsal_processes(tmp_path):
                os.kill(engine, signal.SIGKILL)


def test_without_proc_no_processes_are_found(tmp_path):
    assert processes.find_rehearsal_processes(tmp_path, proc_folder=tmp_path / "none") == []


def test_stopping_without_processes_returns_0(tmp_path):
    assert processes.stop_rehearsal_processes(tmp_path) == 0


def test_ansible_run_is_found_but_is_not_an_orphan(start_process, tmp_path):
    run = start_process("ansible-playbook", tmp_path / "a")
    assert processes.find_rehearsal_processes(tmp_path / "a") == [run.pid]
    assert processes.find_orphaned_processes(tmp_path / "a") == []


def test_ssh_master_is_found_by_its_socket(tmp_path):
    title = f"ssh: {processes.ssh_control_folder(tmp_path)}/0a1b2c [mux]"
    master = subprocess.Popen([title, "60"], executable="/bin/sleep", env={})
    try:
        wait_for_exec(master.pid, "[mux]")
        assert processes.find_rehearsal_processes(tmp_path) == [master.pid]
        assert processes.find_rehearsal_processes(tmp_path / "other") == []
    finally:
        master.kill()
        master.wait()


def test_stopping_a_rehearsal_does_not_stop_its_caller(tmp_path, clean_env):
    env = clean_env | {"GPUFLEET_HOME": str(tmp_path)}
    code = (
        "from gpufleet.rehearsal import processes as p; import pathlib; "
        "print(p.stop_rehearsal_processes(pathlib.Path.cwd()))"
    )
    command_line = ["bash", "-c", f'python -c "{code}" gpufleet; true']
    result = subprocess.run(command_line, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "0"
