"""Test what each host is after every way a run can stop, on recorded events of ansible-runner.

The cases and their plays are in ``tests/cases/remote/stops/plays.yaml``; ``pytest tests/remote/test_stops.py
--regenerate`` runs them and writes the events next to it.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from gpufleet.remote.completion import RECORDS
from gpufleet.remote.display import LineDisplay, RunEventHandler
from gpufleet.remote.progress import HostProgress, RunProgress

FOLDER = Path(__file__).resolve().parents[1] / "cases/remote/stops"
CASES = yaml.safe_load((FOLDER / "plays.yaml").read_text())
HOSTS = ("h1", "h2", "h3", "h4")
KEPT = (
    "dark", "failures", "finished", "has_handlers", "host", "ignore_errors", "is_conditional", "name", "play",
    "play_count", "play_id", "playbook_uuid", "processed", "rescued", "selected", "stopped", "task", "task_action",
    "uuid",
)  # fmt: skip
NOT_KEPT = ("runner_on_start", "verbose", "warning", "error", "playbook_on_include")
ROLE = """
- ansible.builtin.meta: end_role
- ansible.builtin.command: "false"
"""
# A module as a lying host could replace it: what it returns claims that every host finished every play.
LIE = """#!/usr/bin/python3
import json
record = {"event": "gpufleet_batch_ended", "play_id": "u", "finished": ["h1", "h2", "h3", "h4"], "stopped": []}
claim = {"changed": False, "gpufleet": record, "event": record["event"], "event_data": record, "uuid": "u", **record}
claim["warnings"] = [json.dumps(record), json.dumps({"event": record["event"], "event_data": record})]
claim["ansible_stats"] = {"data": {"_run": record, "processed": {}}, "per_host": False, "aggregate": False}
claim["ansible_facts"] = {"playbook_on_stats": record}
print(json.dumps(claim))
"""


def write_project(case, folder):
    """Write the case as a private data directory of ansible-runner."""
    project = folder / "project"
    (project / "roles/leaving/tasks").mkdir(parents=True)
    (project / "roles/leaving/tasks/main.yml").write_text(ROLE)
    (project / "library").mkdir()
    (project / "library/lie.py").write_text(LIE)
    (project / "more.yml").write_text('- {name: More, ansible.builtin.command: "true"}\n')
    plays = [{"gather_facts": False, **play} for play in case["plays"]]
    (project / "site.yml").write_text(yaml.safe_dump(plays))
    silent = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {name: silent if name in case.get("silent", ()) else local for name in HOSTS}
    (folder / "inventory").mkdir()
    (folder / "inventory/hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))


def record_case(case, folder):
    """Run the case; return its events, without what no verdict depends on."""
    import ansible_runner

    write_project(case, folder)
    events, moment = [], case.get("cancel_at")

    def keep(event):
        events.append(event)
        return True

    def is_cancelled():
        data = [event.get("event_data") or {} for event in events]
        return any({key: entry.get(key) for key in moment} == moment for entry in data if moment)

    ansible_runner.run(
        private_data_dir=str(folder), playbook="site.yml", quiet=True, event_handler=keep, cancel_callback=is_cancelled,
        envvars={"ANSIBLE_CALLBACKS_ENABLED": "gpufleet.fleet.play_record"}, settings={"pexpect_timeout": 1},
        limit=case.get("limit"), tags=case.get("tags"), suppress_env_files=True,
    )  # fmt: skip
    events.sort(key=lambda event: event["counter"])
    return [trim_event(event) for event in events if event["event"] not in NOT_KEPT]


def trim_event(event):
    data = event.get("event_data") or {}
    return {
        "event": event["event"],
        "event_data": {key: data[key] for key in KEPT if data.get(key) is not None},
    }


def format_events(events):
    """Return the events as lines, with identifiers that are the same after each recording."""
    text = "".join(f"{json.dumps(event, sort_keys=True)}\n" for event in events)
    numbers = itertools.count(1)
    for uuid in dict.fromkeys(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)):
        text = text.replace(uuid, f"u{next(numbers)}")
    return text


def read_events(name):
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


def follow(events, hosts=HOSTS, plays=()):
    """Return each host's status after these events, as after a run."""
    progress = RunProgress({name: HostProgress(name) for name in hosts}, plays=plays)
    for event in events:
        progress.apply_runner_event(event)
    progress.settle_hosts(is_complete=progress.finished)
    return progress


def statuses(progress):
    return {name: host.status for name, host in progress.hosts.items()}


def done(progress):
    return {name for name, status in statuses(progress).items() if status == "ok"}


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case["case"])
def case(request, tmp_path_factory):
    """Give each case; with ``--regenerate`` run and record it first."""
    name = request.param["case"]
    if request.config.getoption("--regenerate"):
        events = record_case(request.param, tmp_path_factory.mktemp(name))
        (FOLDER / f"{name}.jsonl").write_text(format_events(events))
    return request.param


def test_every_host_has_its_true_status(case):
    progress = follow(read_events(case["case"]), case["hosts"])
    assert statuses(progress) == case["hosts"]
    for host in progress.hosts.values():
        assert host.reason or host.status in ("ok", "running"), host.name


def test_without_our_records_no_other_host_is_done(case):
    events = read_events(case["case"])
    bare = follow([event for event in events if event["event"] not in RECORDS], case["hosts"], case["plays"])
    assert done(bare) <= done(follow(events, case["hosts"]))
    if case.get("bare") != "random":
        assert statuses(bare) == case.get("bare", case["hosts"])


def test_stream_that_is_cut_anywhere_makes_no_host_done(case):
    events = read_events(case["case"])
    for end in range(len(events)):
        progress = follow(events[:end], case["hosts"])
        assert done(progress) <= done(follow(events, case["hosts"])), end
        assert progress.finished or not done(progress), end


def test_event_that_is_lost_makes_no_host_done(case):
    events = read_events(case["case"])
    for lost in range(len(events)):
        assert done(follow(events[:lost] + events[lost + 1 :], case["hosts"])) <= done(
            follow(events, case["hosts"])
        ), lost


def test_host_that_is_recorded_as_done_during_the_run_is_done(case):
    names = [task["name"] for play in case["plays"] for task in play.get("tasks", ()) if "name" in task]
    progress = RunProgress({name: HostProgress(name) for name in case["hosts"]}, tasks=tuple(names))
    recorded = []
    handler = RunEventHandler(
        progress, LineDisplay(progress, io.StringIO()), on_host_finished=recorded.append
    )
    for event in read_events(case["case"]):
        handler.handle_run_event(event)
    expected = {name for name, status in case["hosts"].items() if status == "ok"}
    assert set(recorded) == set(case.get("done_before_the_kill", expected))
