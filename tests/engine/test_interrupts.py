"""Test that the same command resumes after a killed engine, and that nothing remains."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from gpufleet import engine
from gpufleet.rehearsal import Rehearsal, backend, processes

pytestmark = pytest.mark.engine


def kill_pulumi_up(shell, at_least):
    """Start `pulumi up`, kill it once the stack has so many resources; return how many it had then."""
    up = subprocess.Popen(
        ["pulumi", "up", "-s", shell.rehearsal.stack, "--yes", "--skip-preview"],
        cwd=shell.root, env=shell.rehearsal.build_full_environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    locks = shell.rehearsal.backend / ".pulumi" / "locks"
    while time.monotonic() < deadline and up.poll() is None:
        if (
            list(locks.rglob("*.json"))
            and backend.count_resources_and_pending(shell.rehearsal)[0] >= at_least
        ):
            break
        time.sleep(0.01)
    up.kill()
    assert up.wait() == -signal.SIGKILL, "it ended before it could be killed"
    return backend.count_resources_and_pending(shell.rehearsal)[0]


def test_pulumi_up_resumes_after_two_kills(build_stack):
    shell = build_stack("dev")
    complete = {resource.urn for resource in shell.state()}
    shell.run("pulumi destroy -s dev --yes --skip-preview")
    for at_least in (0, 5):
        assert kill_pulumi_up(shell, at_least) < len(complete)
    shell.up()
    assert {resource.urn for resource in shell.state()} == complete
    assert {step.op for step in shell.preview()} == {"same"}
    # The engine writes these in place: a kill leaves an empty one, and then it refuses the whole stack.
    assert not list(shell.rehearsal.backend.rglob("*.attrs"))


def test_next_up_removes_files_of_a_killed_run(build_stack):
    shell = build_stack("dev")
    state = backend.stack_state_file(shell.rehearsal)
    document = json.loads(state.read_text())
    latest = document["checkpoint"]["latest"]
    latest["pending_operations"] = [{"resource": latest["resources"][-1], "type": "updating"}]
    state.write_text(json.dumps(document))
    output = []
    shell.rehearsal.set_up(output.append)
    assert backend.count_resources_and_pending(shell.rehearsal)[1] == 0
    assert any("clearing 1 pending" in line for line in output)


@pytest.fixture
def rehearsal_without_salt(engine_project, tmp_path):
    """Return a rehearsal with a killed `stack init`: its stack has no salt."""
    rehearsal = Rehearsal(engine_project, "dev")
    rehearsal.home = tmp_path / "home"
    rehearsal.backend, rehearsal.pulumi_home = rehearsal.home / "backend", rehearsal.home / "pulumi"
    state = backend.stack_state_file(rehearsal)
    state.parent.mkdir(parents=True)
    state.write_text('{"version":0,"checkpoint":{"stack":"organization/gpufleet/dev"}}')
    return rehearsal


def test_killed_stack_init_is_repeated(rehearsal_without_salt):
    assert backend.ensure_stack(rehearsal_without_salt, engine.find_pulumi_engine()).startswith("v1:")


def test_running_stack_init_without_its_caller_is_stopped_first(rehearsal_without_salt, tmp_path):
    (tmp_path / "pulumi").symlink_to("/bin/sleep")  # a fake engine: only its name and its mark matter
    env = {"GPUFLEET_HOME": str(rehearsal_without_salt.home)}
    with subprocess.Popen([tmp_path / "pulumi", "60"], env=env) as stray:
        # Popen returns before the kernel has laid out the new program's command line and environment.
        wait_until(lambda: stray.pid in processes.find_rehearsal_processes(rehearsal_without_salt.home))
        backend.ensure_stack(rehearsal_without_salt, engine.find_pulumi_engine())
        assert stray.wait(10) == -signal.SIGTERM


def test_removing_the_stack_keeps_its_settings(build_stack):
    shell = build_stack("poc")
    shell.run("pulumi stack rm poc --yes --force")
    assert shell.settings.is_file()
    shell.rehearsal.set_up(lambda _line: None)
    shell.up()


def test_processes_of_a_killed_engine_are_stopped(build_stack):
    shell = build_stack("dev")
    shell.run("pulumi destroy -s dev --yes --skip-preview")
    kill_pulumi_up(shell, 0)
    shell.rehearsal.set_up(lambda _line: None)
    assert processes.find_rehearsal_processes(shell.rehearsal.home) == []
    shell.up()


def test_lock_of_a_running_engine_is_kept(other_program):
    shell = other_program("import time\n\ntime.sleep(120)\n")
    first = subprocess.Popen(
        ["pulumi", "up", "-s", "poc", "--yes", "--skip-preview"],
        cwd=shell.root, env=shell.rehearsal.build_full_environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: list((shell.rehearsal.backend / ".pulumi" / "locks").rglob("*.json")))
        output = shell.run("pulumi up -s poc --yes --skip-preview", fails=True).stderr
    finally:
        first.kill()
        first.wait()
    assert "the stack is currently locked by 1 lock" in output


def wait_until(is_present):
    deadline = time.monotonic() + 60
    while not is_present():
        assert time.monotonic() < deadline
        time.sleep(0.02)
