"""Test the verdict on a run's artifacts, as ansible-runner leaves them on this machine or ``process`` writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.errors import CheckFailed
from gpufleet.operations.artifact_ingest import CUT, RunJudge
from gpufleet.operations.ingest_summary import IngestSummary
from gpufleet.operations.task_events import read_artifact_events

STOPS = Path(__file__).resolve().parents[1] / "cases/remote/stops"


def write_run(folder, name, status, events=slice(None), first=1):
    """Write the events of a recorded run and the status with which it ended; return the run's folder."""
    jobs = folder / "run1" / "job_events"
    jobs.mkdir(parents=True, exist_ok=True)
    lines = (STOPS / f"{name}.jsonl").read_text().splitlines()[events]
    for number, line in enumerate(lines, first):
        (jobs / f"{number}-x.json").write_text(line)
    if status:
        (folder / "run1" / "status").write_text(status)
    return folder / "run1"


def judge(folder):
    followed = RunJudge()
    list(read_artifact_events(folder, followed.observe_event))
    return followed.judge_run(folder)


@pytest.mark.parametrize(
    "name", ["end_host", "ignore_errors", "run_once", "no_hosts_matched", "unreachable_ignored"]
)
def test_run_of_which_every_host_is_done_has_no_problem(tmp_path, name):
    verdict = judge(write_run(tmp_path, name, "successful"))
    assert (verdict.problem, verdict.undone) == ("", {})
    IngestSummary(run=verdict).raise_if_incomplete()


@pytest.mark.parametrize(
    ("name", "status", "line"),
    [
        ("batch_failed", "failed", "it ended as failed; not done: failed h1, stopped h2, not reached h[3-4]"),
        (
            "batch_unreachable",
            "failed",
            "it ended as failed; not done: unreachable h[1-2], not reached h[3-4]",
        ),
        ("end_play", "successful", "some hosts are not done; not done: stopped h[1-2], not reached h[3-4]"),
        ("rescue", "successful", "some hosts are not done; not done: rescued h1"),
        ("ignore_errors", "timeout", "it ended as timeout"),
        ("ignore_errors", "", CUT),
        ("killed", "canceled", f"{CUT}; not done: unfinished h[1-4]"),
    ],
)
def test_line_names_the_run_the_problem_and_the_hosts(tmp_path, name, status, line):
    with pytest.raises(CheckFailed) as failure:
        IngestSummary(run=judge(write_run(tmp_path, name, status))).raise_if_incomplete()
    assert str(failure.value) == f"run run1 is not done: {line}"
    assert failure.value.exit_code == 1


def test_stream_that_is_cut_anywhere_is_a_problem(tmp_path):
    count = len((STOPS / "run_once.jsonl").read_text().splitlines())
    for end in range(count):
        folder = write_run(tmp_path / str(end), "run_once", "successful", slice(end))
        assert judge(folder).problem, end
    assert not judge(write_run(tmp_path / "whole", "run_once", "successful")).problem


def test_older_run_in_the_same_folder_does_not_complete_a_cut_one(tmp_path):
    write_run(tmp_path, "run_once", "successful")
    later = write_run(tmp_path, "ignore_errors", "successful", slice(6), first=1000)
    for path in (later / "job_events").glob("1???-x.json"):
        path.write_text(path.read_text().replace('"u1"', '"later"'))
    assert judge(later).problem == CUT


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"event": "runner_on_ok", "event_data": [1]}',
        '{"event": "playbook_on_stats", "event_data": 3}',
    ],
)
def test_damaged_event_is_a_problem(tmp_path, text):
    folder = write_run(tmp_path, "run_once", "successful")
    (folder / "job_events" / "3-x.json").write_text(text)
    assert judge(folder).problem == "1 of its events are damaged"


def test_verdict_is_part_of_the_json(tmp_path):
    run = IngestSummary(run=judge(write_run(tmp_path, "rescue", "successful"))).as_json()["run"]
    assert json.loads(json.dumps(run)) == {
        "name": "run1", "problem": "some hosts are not done", "undone": {"rescued": ["h1"]},
    }  # fmt: skip
