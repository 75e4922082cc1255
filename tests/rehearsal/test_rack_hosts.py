"""Status of hosts: records, SSH checks and processes."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import replace

import pytest

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.rack import cgroups, host_processes, hosts, inotify, shell

RECORD = hosts.HostRecord("r/1", "blade01", "gf-00000-1-1", "127.0.0.1", "amd64", "image", ("disk_full",))


@pytest.fixture
def server(monkeypatch):
    """Return a function that starts a loopback server with this greeting on the port that is checked."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(hosts, "SSH_PORT", listening.getsockname()[1])

        def greet(text):
            def serve():
                connection, _ = listening.accept()
                with connection:
                    connection.sendall(text)

            threading.Thread(target=serve, daemon=True).start()

        yield greet


@pytest.mark.parametrize(
    ("greeting", "answers"), [(b"SSH-2.0-OpenSSH_9.2\r\n", True), (b"HTTP/1.1", False), (b"", False)]
)
def test_only_an_ssh_greeting_counts_as_an_answer(server, greeting, answers):
    server(greeting)
    assert hosts.check_ssh_servers(["127.0.0.1"]) == {"127.0.0.1": answers}


def test_server_without_greeting_does_not_count(server):
    assert hosts.check_ssh_servers(["127.0.0.1"], timeout_s=0.2) == {"127.0.0.1": False}


def test_closed_port_does_not_count(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        monkeypatch.setattr(hosts, "SSH_PORT", closed.getsockname()[1])
    assert hosts.check_ssh_servers(["127.0.0.1"]) == {"127.0.0.1": False}


def test_records_are_read_in_order_of_slot(tmp_path):
    for slot in (10, 2):
        hosts.write_host_record(tmp_path / f"r-{slot}", replace(RECORD, place=f"r/{slot}"))
    assert [r.place for r in hosts.read_host_records(tmp_path)] == ["r/2", "r/10"]
    assert hosts.read_host_record(tmp_path / "r-2") == replace(RECORD, place="r/2")
    assert hosts.read_host_record(tmp_path / "r-3") is None


@pytest.mark.parametrize(("process_ids", "running"), [({RECORD.label: [7]}, True), ({}, False)])
def test_host_is_running_if_its_namespace_has_processes(monkeypatch, process_ids, running):
    monkeypatch.setattr(hosts, "check_ssh_servers", lambda addresses: dict.fromkeys(addresses, False))
    monkeypatch.setattr(
        host_processes, "find_host_processes", lambda labels: process_ids if list(labels) else None
    )
    monkeypatch.setattr(host_processes, "find_init_pid", lambda pids: next(iter(pids), None))
    status = hosts.collect_recorded_host_statuses([RECORD])[0]
    assert (status.running, status.pid) == (running, 7 if running else None)


def test_unknown_fields_of_a_record_are_ignored(tmp_path):
    hosts.write_host_record(tmp_path / "r-1", RECORD)
    file = tmp_path / "r-1.json"
    file.write_text(file.read_text().replace("{", '{"pid": 7,', 1))
    assert hosts.read_host_record(tmp_path / "r-1") == RECORD


def test_ordinary_process_is_not_an_init():
    assert host_processes.find_init_pid([os.getpid(), 0]) is None


def test_unknown_namespaces_have_no_processes():
    assert host_processes.find_host_processes(["gf-none-9-9"]) == {}
    assert host_processes.stop_hosts(["gf-none-9-9"], terminate_timeout_s=0, kill_timeout_s=0) == []


def test_program_failures_are_one_line():
    with pytest.raises(EnvironmentFault, match="ls /nowhere/at/all failed: ls: cannot access"):
        shell.run_command(["ls", "/nowhere/at/all"])
    with pytest.raises(EnvironmentFault, match="gf-no-such-program is not installed"):
        shell.run_command(["gf-no-such-program"])
    with pytest.raises(EnvironmentFault, match="did not finish within 0 s"):
        shell.run_command(["sleep", "5"], timeout_s=0.1)


def test_second_concurrent_run_waits_and_reports_it(tmp_path):
    messages, entered = [], threading.Event()

    def second():
        with shell.exclusive_lock(tmp_path / "lock", messages.append, "uses it"):
            entered.set()

    with shell.exclusive_lock(tmp_path / "lock", messages.append, "uses it"):
        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(0.2)
    thread.join(5)
    assert entered.is_set()
    assert messages == ["waiting for another run that uses it"]


def test_cgroups_are_removed_recursively(monkeypatch, tmp_path):
    monkeypatch.setattr(cgroups, "TREES", (tmp_path / "systemd", tmp_path / "absent"))
    (tmp_path / "systemd/gf-1/gf-1-1-1/payload/system.slice").mkdir(parents=True)
    (tmp_path / "systemd/other").mkdir()
    cgroups.remove_cgroup("gf-1")
    assert [path.name for path in (tmp_path / "systemd").iterdir()] == ["other"]


@pytest.mark.parametrize(("allowed", "after"), [("128", "296"), ("1024", "1024")])
def test_inotify_limit_is_raised_only_if_too_low(monkeypatch, tmp_path, allowed, after):
    setting, messages = tmp_path / "max_user_instances", []
    setting.write_text(f"{allowed}\n")
    monkeypatch.setattr(inotify, "INSTANCES", setting)
    inotify.raise_inotify_limit(21, messages.append)
    assert setting.read_text().strip() == after
    assert len(messages) == (allowed != after)
