"""Test the progress of a recorded run of site.yml on four blades, three of them faulty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.remote.plan import parse_listed_tasks
from gpufleet.remote.progress import RunProgress, find_failure_reason, format_task_label

CASES = Path(__file__).resolve().parents[1] / "cases/remote"
SOUND, NO_SSHD, FULL, UNDERVOLTED = (f"poc-blade0{slot}" for slot in range(1, 5))


def events():
    return [json.loads(line) for line in (CASES / "site-run.jsonl").read_text().splitlines()]


@pytest.fixture
def run():
    progress = RunProgress(tasks=tuple(parse_listed_tasks((CASES / "site-list.txt").read_text())))
    progress.updates = [update for event in events() if (update := progress.apply_runner_event(event))]
    return progress


def test_status_of_every_host_is_known_after_the_run(run):
    statuses = {name: host.status for name, host in run.hosts.items()}
    assert statuses == {SOUND: "ok", NO_SSHD: "unreachable", FULL: "rescued", UNDERVOLTED: "ok"}
    assert run.finished


def test_reason_is_the_error_without_ansibles_wrapper(run):
    assert run.hosts[NO_SSHD].reason == "ssh: connect to host 198.18.16.12 port 22: Connection refused"
    full_reason = run.hosts[FULL].reason
    assert full_reason.startswith("users_and_access : Create or remove operators: useradd: /etc/passwd.")
    assert "No space left on device" in full_reason


def test_done_counts_tasks_of_the_plan(run):
    assert run.hosts[SOUND].done == len(run.tasks) == 23
    assert run.hosts[NO_SSHD].done == 1
    steps = [update.done for update in run.updates if update.host == SOUND]
    assert steps == sorted(steps), "handlers do not move a host back"


def test_changes_are_counted(run):
    assert (run.hosts[SOUND].changed, run.hosts[FULL].changed) == (9, 3)


def test_registry_reports_of_tasks_are_collected(run):
    reported = {(report["node"], report["event"]) for report in run.reports}
    assert {(SOUND, "commissioned"), (SOUND, "configured"), (SOUND, "burn_in")} <= reported
    assert {(FULL, "configure_failed"), (FULL, "burn_in")} <= reported


def test_attempt_has_one_id_per_host(run):
    ids = {report["attempt"] for report in run.reports if report["node"] == SOUND}
    assert len(ids) == 1
    assert len({report["attempt"] for report in run.reports}) == 3


def test_killed_run_is_not_finished():
    progress = RunProgress()
    for event in events()[:40]:
        progress.apply_runner_event(event)
    assert not progress.finished
    assert progress.hosts[SOUND].status == "running"


def test_ignored_failure_counts_as_ok():
    data = {"host": "a", "task": "t", "ignore_errors": True, "res": {"msg": "x"}}
    assert RunProgress().apply_runner_event({"event": "runner_on_failed", "event_data": data}).step == "ok"


@pytest.mark.parametrize("event", [{}, {"event": "runner_on_ok"}, {"event": "verbose", "event_data": None}])
def test_events_without_information_are_skipped(event):
    assert RunProgress().apply_runner_event(event) is None


def test_errors_outside_tasks_are_collected():
    progress = RunProgress()
    progress.apply_runner_event({"event": "error", "stdout": "\x1b[0;31m[ERROR]: no\n such play\x1b[0m"})
    assert progress.errors == ["[ERROR]: no such play"]


def test_reason_is_one_bounded_line():
    assert len(find_failure_reason({"msg": "a\nb " * 500})) == 300
    assert find_failure_reason({}) == "no reason given"


def test_reason_of_a_role_that_was_not_included_is_that_of_the_include():
    result = {"msg": "All items completed", "results": [{"item": "x"}], "failed": True}
    assert (
        find_failure_reason({**result, "reason": "the role 'x' was not found"})
        == "the role 'x' was not found"
    )
    assert find_failure_reason(result) == "All items completed"


def test_reason_names_the_type_that_a_setting_has():
    tagged = "<class 'ansible.module_utils._internal._datatag._AnsibleTaggedInt'>"
    reason = find_failure_reason(
        {"msg": f"network_mtu is of type {tagged}: {tagged} cannot be converted to a dict"}
    )
    assert reason == "network_mtu is of type int: int cannot be converted to a dict"


@pytest.mark.parametrize("name", ["common : Write", "Write"])
def test_role_name_precedes_the_task_name_once(name):
    assert format_task_label({"task": name, "role": "common"}) == "common : Write"


def play_progress(*plays, last, failed=()):
    """Return the progress of a run over one host whose last play to begin is ``last``; every begun play is recorded."""
    progress = RunProgress(plays=plays)

    def apply(kind, **data):
        progress.apply_runner_event({"event": kind, "event_data": {"playbook_uuid": "p", **data}})

    for number, name in enumerate(plays[: plays.index(last) + 1], start=1):
        apply("playbook_on_play_start", name=name, uuid=f"u{number}")
        selection = {"play_count": len(plays), "selected": [SOUND], "has_handlers": True}
        apply("gpufleet_play_selected", play_id=f"u{number}", **selection)
        apply("gpufleet_batch_ended", play_id=f"u{number}", finished=[SOUND], stopped=[])
    apply("playbook_on_stats", processed={SOUND: 1}, failures=dict.fromkeys(failed, 1))
    progress.settle_hosts(is_complete=True)
    return progress.hosts[SOUND]


def test_host_that_misses_plays_is_stopped():
    host = play_progress("Commission", "Configure", "Burn in", last="Configure")
    assert (host.status, host.reason) == ("stopped", "not done: Ansible ended the run in the play: Configure")


def test_host_that_reached_the_last_play_or_failed_is_not_stopped():
    assert play_progress("Commission", "Burn in", last="Burn in").status == "ok"
    assert play_progress("Commission", "Burn in", last="Commission", failed=[SOUND]).status == "failed"
