"""Test that an interrupted run stops all processes that it started, with real ansible-runner runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpufleet import paths
from gpufleet.remote.run_record import RunRecord, write_run_record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
HANG_SECONDS = 120
SECRET = "hunter2-in-a-variable"
PLAYBOOK = """
- name: Wait
  hosts: all
  gather_facts: false
  tasks:
    - name: Sleep in a session of its own
      ansible.builtin.shell: setsid sh -c 'touch {{ flag }}.{{ inventory_hostname }}; sleep 600'
      changed_when: true
"""
RUN = """
import sys
from pathlib import Path
from gpufleet.remote.plan import plan_playbook_run
from gpufleet.remote.run import run_playbook
root = Path(sys.argv[1])
extra_vars = {"flag": str(root / "flag"), "secret": sys.stdin.read()}
done = run_playbook(plan_playbook_run(root, "wait", "all"), extra_vars=extra_vars)
sys.exit(done.exit_code)
"""


def find_marked_processes(mark):
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            alive = (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
            if alive and mark in (folder / "environ").read_bytes():
                processes[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:
            continue
    return processes


def wait_until(condition, what):
    deadline = time.monotonic() + HANG_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.05)
    return value


@pytest.fixture
def project(tmp_path):
    """Give a project with two hosts that are this machine."""
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/wait.yml").write_text(PLAYBOOK)
    (tmp_path / "playbooks/ansible.cfg").write_text("[defaults]\nlocalhost_warning = False\n")
    (tmp_path / "inventory").mkdir()
    local = (
        "[all:vars]\nansible_connection=local\nansible_python_interpreter='{{ ansible_playbook_python }}'\n"
    )
    (tmp_path / "inventory/hosts.ini").write_text(f"[pair]\na1\na2\n{local}")
    return tmp_path


@pytest.fixture
def started_run(project):
    """Start the run; return it when both hosts are in their task, with the mark that its processes carry."""
    mark = f"GPUFLEET_TEST_MARK={os.getpid()}-{project.name}"
    (project / "tmp").mkdir()
    places = {"GPUFLEET_HOME": str(project / "home"), "TMPDIR": str(project / "tmp")}
    env = dict(os.environ, **places, **dict([mark.split("=")]))
    arguments = [sys.executable, "-c", RUN, str(project)]
    process = subprocess.Popen(
        arguments, env=env, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    process.stdin.write(SECRET)
    process.stdin.close()
    wait_until(lambda: all((project / f"flag.a{n}").exists() for n in (1, 2)), "the tasks")
    yield process, mark.encode()
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_signal_stops_workers_and_tasks(started_run, number, code):
    process, mark = started_run
    assert len(find_marked_processes(mark)) > 4
    process.send_signal(number)
    assert process.wait(HANG_SECONDS) == code
    if number != signal.SIGKILL:
        assert find_marked_processes(mark) == {}
    wait_until(lambda: not find_marked_processes(mark), "the tree to end")


@pytest.mark.parametrize("name", ["supervisor.py", "ansible-playbook"])
def test_kill_of_an_intermediate_process_stops_the_others(started_run, project, name):
    process, mark = started_run
    places = [pid for pid, arguments in find_marked_processes(mark).items() if name.encode() in arguments]
    os.kill(min(places), signal.SIGKILL)
    assert process.wait(HANG_SECONDS) == 3
    wait_until(lambda: not find_marked_processes(mark), "the tree to end")
    assert not list((project / "tmp").iterdir()), "the killed modules' payloads"


def test_killed_run_leaves_no_variables_file(started_run):
    process, mark = started_run
    processes = find_marked_processes(mark)
    assert not any(SECRET.encode() in arguments for arguments in processes.values())
    folders = {
        argument
        for arguments in processes.values()
        for argument in arguments.decode(errors="replace").split("\0")
        if argument.startswith("@") and argument.endswith("vars.json")
    }
    file = Path(folders.pop()[1:])
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    process.kill()
    process.wait()
    wait_until(lambda: not file.parent.exists(), "the variables to go")


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_run_folders_and_records_are_private(tmp_path, mask):
    before = os.umask(mask)
    try:
        folder = tmp_path / "state" / "artifacts" / "r1"
        write_run_record(folder, RunRecord("site", "all", "auto", False, (), ("a",)))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder.parent.parent, folder.parent, folder)}
    assert modes == {"state": 0o700, "artifacts": 0o700, "r1": 0o700}
    assert (folder / "run.json").stat().st_mode & 0o777 == 0o600


def test_state_folder_readable_by_others_is_made_private(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o755)
    assert paths.ensure_state_home(tmp_path).stat().st_mode & 0o777 == 0o700
