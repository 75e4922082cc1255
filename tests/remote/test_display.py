"""Test the displayed progress of a run: lines in a log, a table on a terminal."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.remote.display import (
    LineDisplay,
    RunEventHandler,
    TableDisplay,
    open_run_display,
)
from gpufleet.remote.plan import parse_listed_tasks
from gpufleet.remote.progress import HostProgress, RunProgress

CASES = Path(__file__).resolve().parents[1] / "cases/remote"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def replay(make):
    """Show the recorded run on a display; return what was written."""
    stream = io.StringIO()
    progress = RunProgress(tasks=tuple(parse_listed_tasks((CASES / "site-list.txt").read_text())))
    display = make(progress, stream)
    for line in (CASES / "site-run.jsonl").read_text().splitlines():
        display.show_update(progress.apply_runner_event(json.loads(line)))
    display.close_display()
    return stream.getvalue()


@pytest.fixture(scope="module")
def lines():
    return replay(lambda progress, stream: LineDisplay(progress, stream, clock=lambda: 0.0)).splitlines()


def test_hosts_with_the_same_result_share_a_line(lines):
    assert "poc-blade[01,04]        changed      7/23  common : Write timezone and time servers" not in lines
    assert any(
        line.startswith("poc-blade[01,03-04]") and line.endswith("Write the hostname") for line in lines
    )


def test_failed_host_has_its_own_line_with_the_reason(lines):
    unreachable_lines = [line for line in lines if " unreachable " in line]
    assert unreachable_lines == [
        "poc-blade02             unreachable   1/23  ssh: connect to host 198.18.16.12 port 22: Connection refused"
    ]
    assert sum(" failed " in line for line in lines) == 1


def test_routine_events_are_not_printed(lines):
    assert not any("Validating arguments" in line or " skipped " in line for line in lines)


def test_hosts_are_finished_when_their_playbook_ends_even_without_the_last_task():
    """A shard's playbook ends before the others': its hosts are done, also if the run is killed later."""
    stats = {
        "processed": {"b1": 1, "b2": 1, "b3": 1},
        "failures": {"b2": 1},
        "dark": {"b3": 1},
    }
    finished = []
    progress = RunProgress(
        {name: HostProgress(name) for name in ("b1", "b2", "b3", "b4")}, tasks=("One", "Last")
    )
    handler = RunEventHandler(
        progress, LineDisplay(progress, io.StringIO()), on_host_finished=finished.append
    )

    def handle(kind, **data):
        handler.handle_run_event({"event": kind, "event_data": {"playbook_uuid": "p", **data}})

    selected = ["b1", "b2", "b3", "b4"]
    handle("playbook_on_play_start", uuid="u")
    handle("gpufleet_play_selected", play_id="u", play_count=1, selected=selected, has_handlers=False)
    handle("runner_on_ok", host="b1", task="One", res={})
    handle("playbook_on_stats", **stats)
    assert finished == []
    handle("gpufleet_batch_ended", play_id="u", finished=["b1"], stopped=["b2", "b3", "b4"])
    assert finished == ["b1"]


def test_long_task_is_reported_before_it_ends():
    ticks = iter(range(0, 10_000, 3))
    text = replay(lambda progress, stream: LineDisplay(progress, stream, clock=lambda: float(next(ticks))))
    assert sum(line.endswith("burn_in : Measure") for line in text.splitlines()) > 1


def test_table_shows_each_host_with_a_mark_and_its_status():
    text = replay(TableDisplay)
    assert "? poc-blade02 unreachable 1/23" in " ".join(text.split())
    assert "! poc-blade03 rescued 23/23" in " ".join(text.split())


def test_table_is_redrawn_in_its_place_and_fits_the_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "6")
    hosts = {f"b{n}": HostProgress(f"b{n}", "running", task="a long task " * 9) for n in range(9)}
    stream = io.StringIO()
    display = TableDisplay(RunProgress(hosts, ("a",)), stream, clock=lambda: 0.0)
    first = stream.getvalue()
    display.show_update(None)  # too soon
    assert stream.getvalue() == first
    display.close_display()
    assert stream.getvalue() == f"{first}\x1b[5F{first}"
    lines = first.replace("\x1b[K", "").splitlines()
    assert re.fullmatch("…  b0    running +0/1 +a long.*…", lines[1])
    assert max(map(len, lines)) == 39
    assert lines[4:] == ["and 6 more"]


def test_finished_host_shows_no_skipped_task():
    skipped = "wipe : Wipe the drives and read them back"
    display = TableDisplay(RunProgress(tasks=(skipped,)), io.StringIO())
    assert display.build_host_row(HostProgress("b1", "ok", task=skipped, done=1))[-1] == ""
    assert display.build_host_row(HostProgress("b1", "running", task=skipped, done=1))[-1] == skipped
    assert (
        display.build_host_row(HostProgress("b1", "failed", task=skipped, reason="no space"))[-1]
        == "no space"
    )
    display.close_display()


@pytest.mark.parametrize(("stream", "kind"), [(io.StringIO(), LineDisplay), (Terminal(), TableDisplay)])
def test_display_kind_depends_on_the_stream(stream, kind):
    display = open_run_display(RunProgress(), stream)
    display.close_display()
    assert isinstance(display, kind)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["b2", "b1", "b3"], "b[1-3]"),
        (["x"], "x"),
        (["a[", "b"], "b,a["),
        (["b2", "x!", "b1", "@a"], "b[1-2],@a,x!"),
        ([], ""),
    ],
)
def test_names_are_folded_into_ranges(names, text):
    assert fold_names_to_ranges(names) == text
