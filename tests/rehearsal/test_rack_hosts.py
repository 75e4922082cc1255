"""Knowing how hosts are: records, who answers SSH, which process is meant."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import replace

import pytest

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.rack import cgroups, hosts, limits, processes, shell

RECORD = hosts.Record("r/1", "blade01", "gf-00000-1-1", "127.0.0.1", "amd64", "image", ("disk_full",))


@pytest.fixture
def server(monkeypatch):
    """Give a server on the loopback that greets with what the test sets, on the port that is asked."""
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
def test_only_an_ssh_greeting_counts(server, greeting, answers):
    server(greeting)
    assert hosts.ssh_answers(["127.0.0.1"]) == {"127.0.0.1": answers}


def test_a_silent_server_does_not_count(server):
    assert hosts.ssh_answers(["127.0.0.1"], limit_s=0.2) == {"127.0.0.1": False}


def test_a_closed_port_does_not_count(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        monkeypatch.setattr(hosts, "SSH_PORT", gone.getsockname()[1])
    assert hosts.ssh_answers(["127.0.0.1"]) == {"127.0.0.1": False}


def test_records_are_read_as_written_in_order_of_slot(tmp_path):
    for slot in (10, 2):
        hosts.write_record(tmp_path / f"r-{slot}", replace(RECORD, place=f"r/{slot}"))
    assert [r.place for r in hosts.read_records(tmp_path)] == ["r/2", "r/10"]
    assert hosts.read_record(tmp_path / "r-2") == replace(RECORD, place="r/2")
    assert hosts.read_record(tmp_path / "r-3") is None


@pytest.mark.parametrize(("inside", "running"), [({RECORD.label: [7]}, True), ({}, False)])
def test_whether_a_host_runs_is_asked_of_the_kernel(monkeypatch, inside, running):
    monkeypatch.setattr(hosts, "ssh_answers", lambda addresses: dict.fromkeys(addresses, False))
    monkeypatch.setattr(processes, "inside", lambda labels: inside if list(labels) else None)
    monkeypatch.setattr(processes, "leader", lambda pids: next(iter(pids), None))
    status = hosts.statuses([RECORD])[0]
    assert (status.running, status.pid) == (running, 7 if running else None)


def test_a_record_with_more_in_it_than_is_known_today_is_read(tmp_path):
    hosts.write_record(tmp_path / "r-1", RECORD)
    file = tmp_path / "r-1.json"
    file.write_text(file.read_text().replace("{", '{"pid": 7,', 1))
    assert hosts.read_record(tmp_path / "r-1") == RECORD


def test_an_ordinary_process_is_no_hosts_first():
    assert processes.leader([os.getpid(), 0]) is None


def test_unknown_namespaces_hold_nothing():
    assert processes.inside(["gf-none-9-9"]) == {}
    assert processes.end(["gf-none-9-9"], polite_s=0, forceful_s=0) == []


def test_failures_of_programs_become_one_line():
    with pytest.raises(EnvironmentFault, match="ls /nowhere/at/all failed: ls: cannot access"):
        shell.run(["ls", "/nowhere/at/all"])
    with pytest.raises(EnvironmentFault, match="gf-no-such-program is not installed"):
        shell.run(["gf-no-such-program"])
    with pytest.raises(EnvironmentFault, match="did not end in 0 s"):
        shell.run(["sleep", "5"], limit_s=0.1)


def test_the_second_run_waits_and_says_so(tmp_path):
    said, entered = [], threading.Event()

    def second():
        with shell.alone(tmp_path / "lock", said.append, "holds it"):
            entered.set()

    with shell.alone(tmp_path / "lock", said.append, "holds it"):
        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(0.2)
    thread.join(5)
    assert entered.is_set()
    assert said == ["waiting for another run that holds it"]


def test_cgroups_are_removed_with_all_below(monkeypatch, tmp_path):
    monkeypatch.setattr(cgroups, "TREES", (tmp_path / "systemd", tmp_path / "absent"))
    (tmp_path / "systemd/gf-1/gf-1-1-1/payload/system.slice").mkdir(parents=True)
    (tmp_path / "systemd/other").mkdir()
    cgroups.remove("gf-1")
    assert [path.name for path in (tmp_path / "systemd").iterdir()] == ["other"]


@pytest.mark.parametrize(("allowed", "after"), [("128", "296"), ("1024", "1024")])
def test_the_kernels_limit_is_raised_only_when_too_low(monkeypatch, tmp_path, allowed, after):
    setting, said = tmp_path / "max_user_instances", []
    setting.write_text(f"{allowed}\n")
    monkeypatch.setattr(limits, "INSTANCES", setting)
    limits.ensure_room(21, said.append)
    assert setting.read_text().strip() == after
    assert len(said) == (allowed != after)
