"""Test the agent with tools that hang, flood, hide or leave processes behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpufleet.burnin.agent import command, spill, supervisor, workers
from hung_filesystem import mount_hung_filesystem

MEMORY_KIB = 40 << 10
FLOOD_BYTES = 300 << 20
# A process of its own: a child starts with the size of what forked it.
PEAK_MEMORY = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


@pytest.fixture
def make_tool(tmp_path, monkeypatch):
    """Give a function that puts a shell script on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def make(name, script):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
        return name

    return make


def in_own_process(job):
    """Run a job as the agent runs a check; return its answer."""
    return workers.run_job_with_deadline(job, 60)["value"]


def run_tool(name, timeout=30, **options):
    """Run a tool as a check does; return its code, its output, its error text and the bytes that it printed."""
    return in_own_process(lambda: list(vars(command.run_command([name], timeout, **options)).values()))


def is_running(pid_file):
    return bool(supervisor.read_process_start_time(int(Path(pid_file).read_text())))


def test_flood_of_output_stays_within_the_memory_bound(agent, make_tool):
    make_tool("vcgencmd", f"head -c {FLOOD_BYTES} /dev/zero | tr '\\0' x")
    argv = [sys.executable, "-c", PEAK_MEMORY, str(agent), "run", "--attempt", "a", "--only", "pi_throttled"]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    *_, check, end = (json.loads(line) for line in result.stdout.splitlines())
    assert (check["status"], end["type"]) == ("ran", "end")
    assert int(result.stderr) < MEMORY_KIB


def test_output_is_cut_while_it_is_read(make_tool):
    make_tool("flood", "head -c 3000000 /dev/zero | tr '\\0' x; echo oops >&2")
    code, out, err, size = run_tool("flood")
    assert (code, len(out), err, size) == (0, command.MAX_OUTPUT_BYTES, "oops\n", 3_000_005)


def test_endless_output_ends_with_the_time_limit(make_tool):
    make_tool("endless", "exec yes")
    code, out, err, _ = run_tool("endless", 5)
    assert (code, out[:4], err) == (command.TIMED_OUT, "y\ny\n", "no answer within 5 s")


@pytest.mark.parametrize("hiding", ["setsid", "double_fork", "ignore_term", "stopped"])
def test_what_a_tool_leaves_behind_is_killed_after_it(make_tool, tmp_path, hiding):
    pid_file = tmp_path / "pid"
    sleeper = f"echo $$ > {pid_file}; exec sleep 600"
    script = {
        "setsid": f"setsid sh -c '{sleeper}' >/dev/null 2>&1 &",
        "double_fork": f"(setsid sh -c '(setsid sh -c \"{sleeper}\" &) &' &)",
        "ignore_term": f"(trap '' TERM HUP INT; echo $BASHPID; {sleeper}) >/dev/null 2>&1 &",
        "stopped": f"sh -c 'echo $$ > {pid_file}; kill -STOP $$' >/dev/null 2>&1 &",
    }[hiding]
    if hiding == "ignore_term":
        script = (
            f"setsid sh -c \"trap '' TERM HUP INT; echo \\$\\$ > {pid_file}; while :; do sleep 1; done\" &"
        )
    make_tool("leaver", f"{script}\nwhile [ ! -s {pid_file} ]; do sleep 0.02; done; echo done")
    code, out, _, _ = run_tool("leaver")
    assert (code, out) == (0, "done\n")
    assert not is_running(pid_file)


def test_process_in_the_background_does_not_hold_up_its_tool(make_tool):
    make_tool("daemonizer", "sleep 600 & echo started")
    started = time.monotonic()
    assert run_tool("daemonizer", 300)[:2] == [0, "started\n"]
    assert time.monotonic() - started < 200


def test_tool_that_closed_its_output_is_still_stopped_in_time(make_tool):
    make_tool("mute", "exec >&- 2>&-; sleep 600")
    assert run_tool("mute", 0.5)[0] == command.TIMED_OUT


def test_tool_reads_the_end_of_its_input_at_once(make_tool):
    make_tool("asker", "cat; echo answered")
    assert run_tool("asker")[:2] == [0, "answered\n"]


def test_tool_that_cannot_be_started_has_a_reason(tmp_path):
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    assert command.run_command([str(tmp_path / "text")], 5).code == command.NOT_STARTED
    assert command.run_command(["no-such-tool"], 5).code == command.NOT_STARTED
    assert command.run_command(["a\0b"], 5).code == command.NOT_STARTED


@pytest.fixture
def hung_folder(tmp_path):
    """Give a folder whose file system never answers."""
    folder = tmp_path / "hung"
    folder.mkdir()
    with mount_hung_filesystem(folder) as reason:
        if reason:
            pytest.skip(reason)
        yield folder


def test_tool_that_waits_for_a_device_holds_up_nothing(hung_folder, monkeypatch):
    monkeypatch.setattr(command, "STOP_SECONDS", 0.2)
    output = command.run_command(["stat", str(hung_folder / "file")], 5)
    assert output.code == command.TIMED_OUT
    assert "cannot be stopped: it waits for a device" in output.err


def test_check_that_waits_for_a_device_holds_up_nothing(hung_folder, monkeypatch):
    monkeypatch.setattr(workers, "STOP_SECONDS", 0.2)
    answer = workers.run_job_with_deadline(lambda: (hung_folder / "file").stat().st_size, 5)
    assert "exceeded its time limit" in answer["error"]
    assert "cannot be stopped: it waits for a device" in answer["error"]


def test_agent_ends_although_a_tool_waits_for_a_device(agent, hung_folder, make_tool, tmp_path):
    make_tool("vcgencmd", f"stat {hung_folder}/file")
    argv = [sys.executable, str(agent), "run", "--attempt", "a", "--only", "pi_throttled", "--only", "blade"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.terminate()
    # The readers of its output see the end, although the tool and the check cannot be killed.
    process.stdout.read()
    assert process.wait() == 128 + 15


def test_spilled_output_is_whole_and_named_by_boot_and_attempt(make_tool, tmp_path):
    make_tool("printer", "seq 1 200000; echo warning >&2")
    folder = spill.OutputSpill(tmp_path / "state", "a/1")
    folder.prepare()
    run_tool("printer", spill=folder)
    (file,) = folder.folder.iterdir()
    text = subprocess.run(["gzip", "-dc", file], capture_output=True, text=True, check=True).stdout
    assert {"1", "200000", "warning"} <= set(text.split())
    assert file.parts[-3:-1] == (spill.read_boot_id(), "a_1")
    assert file.name.endswith("-printer.gz")


def test_spill_of_a_flood_stops_at_its_bound(make_tool, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "MAX_FILE_BYTES", 1 << 16)
    make_tool("flood", "head -c 4000000 /dev/urandom")
    folder = spill.OutputSpill(tmp_path, "a")
    folder.prepare()
    assert run_tool("flood", spill=folder)[3] == 4_000_000
    (file,) = folder.folder.iterdir()
    assert file.stat().st_size < 1 << 18


def test_spill_into_a_full_disk_disturbs_no_tool(make_tool, tmp_path):
    make_tool("printer", "echo fine")
    (tmp_path / "raw").write_text("in the way")
    folder = spill.OutputSpill(tmp_path, "a")
    folder.prepare()
    assert run_tool("printer", spill=folder)[:2] == [0, "fine\n"]


def test_oldest_spilled_outputs_are_removed_first(tmp_path):
    for at in range(4):
        path = tmp_path / f"boot{at}" / "a" / f"{at}.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(100))
        os.utime(path, (at, at))
    spill.limit_folder(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.rglob("*.gz")) == ["2.gz", "3.gz"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boot2", "boot3"]
