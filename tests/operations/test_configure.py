"""Test the joined result of a run and the registry. Runs are constructed; real ones are in tests/hosts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpufleet.burnin.report import BurninReport, CheckResult
from gpufleet.errors import InputError
from gpufleet.nodes import Node, NodeHold
from gpufleet.operations.configure import (
    ConfigureResult,
    HostOutcome,
    collect_host_outcomes,
    find_newer_attempt,
    read_extra_vars,
    registry_has_results,
)
from gpufleet.operations.playbook_run import PlaybookRequest
from gpufleet.operations.site_thresholds import describe_verdict
from gpufleet.operations.text.configure import (
    describe_host_outcome,
    format_configure_result,
    format_differences,
)
from gpufleet.remote import HostProgress, RunOutcome, TaskDifference, append_next_step

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def node(name, state="ready", verdict="healthy", holds=(), **more):
    return Node(f"n-{name}", name, "compute_blade", state, NOW, "", verdict=verdict, holds=holds, **more)


def held_node(name):
    return node(
        name, verdict="degraded", holds=(NodeHold("operator", "burn-in: degraded: under-voltage now", NOW),)
    )


def run(tmp_path, *hosts, interrupted=False):
    return RunOutcome(
        "r1", "site", tmp_path, hosts, (), (), interrupted=interrupted, completed=not interrupted
    )


def build_result(tmp_path, *outcomes, **more):
    hosts = (HostProgress(end.name, end.status) for end in outcomes)
    return ConfigureResult(PlaybookRequest(), outcomes, run(tmp_path, *hosts, **more))


WELL = HostOutcome("b1", "ok", "", 9, node("b1"), measured=True)
ALSO_WELL = HostOutcome("b2", "ok", "", 0, node("b2"))
HELD = HostOutcome(
    "b3", "ok", "", 9, held_node("b3"), measured=True, verdict_reason="degraded: under-voltage now"
)
FAULTY = HostOutcome("b4", "rescued", "t: No space", 1, node("b4", "quarantined", "faulty"), measured=True)
INCOMPLETE = HostOutcome("b5", "ok", "", 9, node("b5", "burn_in", "incomplete"), measured=True)
GONE = HostOutcome("b6", "unreachable", "ssh: refused", 0, node("b6", "expected", None))
FULL = HostOutcome("b10", "rescued", "t: No space left on device", 1, node("b10", "commissioning", None))
UNTIL_HEALTHY = (
    "until a healthy run (gpufleet burnin run {0}) or: gpufleet nodes release {0} operator --reason ..."
)
NOT_MEASURED = (
    "not measured, because it is in quarantined; after its repair: "
    "gpufleet nodes state NODE burn_in --reason ..., then gpufleet configure --limit NODE"
)
LEFT = HostOutcome(
    "b11", "stopped", "not done: Ansible ended the run with a play: x", 1, node("b11", "burn_in", None)
)
OVERTAKEN = HostOutcome(
    "b12", "ok", "", 9, node("b12", "commissioning", None, attempt="a2"), measured=True, newer_attempt="a2"
)
BUSY = HostOutcome("b9", "ok", "", 0, node("b9", "assigned"))
UNKNOWN = HostOutcome("b7", "failed", "t: no", 0)


@pytest.mark.parametrize(
    ("outcome", "is_healthy"),
    [
        (WELL, True),
        (ALSO_WELL, True),
        (HELD, False),
        (FAULTY, False),
        (INCOMPLETE, False),
        (GONE, False),
        (LEFT, False),
        (UNKNOWN, False),
    ],
)
def test_unhealthy_outcomes_need_attention(outcome, is_healthy):
    assert outcome.is_healthy is is_healthy


def test_node_that_was_not_measured_in_this_run_is_healthy():
    assert HostOutcome("b5", "ok", "", 0, INCOMPLETE.node).is_healthy


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([WELL, ALSO_WELL], 0),
        ([WELL, HELD], 1),
        ([WELL, FAULTY], 1),
        ([WELL, GONE], 1),
        ([GONE], 1),
        ([GONE, GONE], 3),
    ],
)
def test_exit_code_follows_the_outcomes(tmp_path, outcomes, code):
    assert build_result(tmp_path, *outcomes).exit_code == code


def test_run_without_hosts_exits_with_0():
    empty = ConfigureResult(PlaybookRequest(limit="new_blades"))
    assert (empty.exit_code, format_configure_result(empty)) == (0, "new_blades has no hosts: nothing to do")
    assert empty.as_json()["hosts"] == []


def test_hosts_with_the_same_difference_share_one_block():
    hosts = [
        HostOutcome(name, "ok", "", 1, differences=(TaskDifference("base : Write", ("-old", "+new")),))
        for name in ("b1", "b2")
    ]
    other = HostOutcome("b3", "ok", "", 1, differences=(TaskDifference("base : Write", ("+other",)),))
    assert format_differences([*hosts, other, ALSO_WELL]) == [
        "b[1-2]  base : Write", "    -old", "    +new", "", "b3  base : Write", "    +other", "",
    ]  # fmt: skip
    assert hosts[0].as_json()["differences"] == [{"task": "base : Write", "lines": ("-old", "+new")}]


def test_request_becomes_options_of_ansible():
    request = PlaybookRequest(check=True, tags=("sshd,audit",), skip_tags=("sysctl",))
    assert request.ansible_options == "--check --diff --tags sshd,audit --skip-tags sysctl"
    assert PlaybookRequest(diff=True).ansible_options == "--diff"
    assert PlaybookRequest().ansible_options == ""


def test_interrupted_run_is_reported(tmp_path):
    stopped = build_result(tmp_path, WELL, interrupted=True)
    assert stopped.exit_code == 130
    assert "resume with gpufleet configure --resume r1" in format_configure_result(stopped)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (WELL, "ready"),
        (HELD, f"ready; degraded: under-voltage now; held by burn-in {UNTIL_HEALTHY.format('NODE')}"),
        (FAULTY, f"quarantined; t: No space; {NOT_MEASURED.partition('; ')[2]}"),
        (BUSY, "assigned; not burned in: a job may run on it"),
        (
            OVERTAKEN,
            "commissioning; another run started on this host meanwhile (attempt a2) and decides the state",
        ),
        (GONE, "unreachable: ssh: refused"),
        (UNKNOWN, "failed: t: no"),
        (replace(WELL, summary="would get kernel 2; runs 1"), "ready; would get kernel 2; runs 1"),
        (HostOutcome("b7", "ok", "", 0, summary="keeps kernel 1: why"), "ok; keeps kernel 1: why"),
        (FULL, f"commissioning; {append_next_step(FULL.reason)}"),
        (
            LEFT,
            "burn_in; not done: Ansible ended the run with a play: x; next: gpufleet configure --resume",
        ),
    ],
)
def test_outcome_of_a_host_is_described(outcome, text):
    assert describe_host_outcome(outcome) == text


@pytest.mark.parametrize("state", ["quarantined", "repair"])
def test_repaired_node_is_described_with_the_command_to_leave_its_state(state):
    description = describe_host_outcome(HostOutcome("b8", "ok", "", 0, node("b8", state), measured=True))
    assert description.startswith(
        f"{state}; measured healthy now; to use it again: gpufleet nodes state NODE burn_in "
    )
    assert description.endswith("gpufleet configure --limit NODE")


def test_quarantined_node_is_not_sent_into_a_resumed_run_that_would_not_measure_it():
    unmeasured = HostOutcome("b8", "ok", "", 0, node("b8", "quarantined"))
    assert describe_host_outcome(unmeasured) == f"quarantined; {NOT_MEASURED}"
    full = replace(FAULTY, status="failed", reason="t: No space left")
    assert describe_host_outcome(full) == (
        "quarantined; t: No space left; next: free space on the host (df -h; du -xhd1 /); "
        "after its repair: gpufleet nodes state NODE burn_in --reason ..., then gpufleet configure --limit NODE"
    )


def test_healthy_hosts_share_a_line(tmp_path):
    lines = format_configure_result(build_result(tmp_path, WELL, replace(WELL, name="b2"), GONE)).splitlines()
    assert lines[0] == "  2  b[1-2]  ready"
    assert lines[1] == "  1  b6  unreachable: ssh: refused"


def run_play(tmp_path, play, *outcomes):
    return replace(build_result(tmp_path, *outcomes), request=PlaybookRequest(play))


SILENT = HostOutcome("b6", "unreachable", "Connection timed out", 0, node("b6"))


@pytest.mark.parametrize(
    ("play", "command"),
    [
        ("burn_in", "gpufleet burnin run b[6-7]"),
        ("site", "gpufleet configure --resume r1"),
        ("hardening", "gpufleet configure --resume r1"),
    ],
)
def test_unreachable_node_is_told_what_reaches_it_again_after_other_runs(tmp_path, play, command):
    text = format_configure_result(run_play(tmp_path, play, SILENT, replace(SILENT, name="b7")))
    assert f"check whether it has power and a network cable, then {command}\n" in text


def test_verdict_of_an_earlier_run_is_told_as_such(tmp_path):
    text = format_configure_result(run_play(tmp_path, "site", WELL, ALSO_WELL, BUSY))
    assert [line[5:] for line in text.splitlines()[:3]] == [
        "b1  ready",
        "b2  ready; healthy since 2026-11-21, not measured in this run",
        "b9  assigned; not burned in: a job may run on it",
    ]
    assert "not measured" not in format_configure_result(run_play(tmp_path, "kernel", ALSO_WELL))


def test_commands_name_the_nodes_of_the_line(tmp_path):
    gone = HostOutcome("b8", "ok", "", 0, node("b8", "quarantined"))
    text = format_configure_result(
        run_play(tmp_path, "burn_in", HELD, replace(HELD, name="b4"), INCOMPLETE, gone)
    )
    assert UNTIL_HEALTHY.format("b[3-4]") in text
    assert "then gpufleet burnin run b5\n" in text
    assert "gpufleet nodes state b8 burn_in --reason ..., then gpufleet configure --limit b8" in text


def test_hold_of_a_person_names_person_and_reason(registry, tmp_path):
    registry.record_reachability("blade01", True, NOW)
    with registry.acting_as("kim"):
        registry.set_node_hold("blade01", "operator", "new cable on Monday")
    (end,) = collect_host_outcomes(run(tmp_path, HostProgress("blade01", "ok")), registry)
    assert describe_host_outcome(end).endswith("held (operator) by kim: new cable on Monday")


def test_json_has_state_verdict_and_holds(tmp_path):
    told_json = build_result(tmp_path, HELD).as_json()
    assert told_json["hosts"] == [
        {
            "name": "b3", "status": "ok", "reason": "", "summary": "", "changed": 9,
            "state": "ready", "verdict": "degraded", "holds": ["operator"], "differences": [],
        }
    ]  # fmt: skip


def test_summary_of_a_report_reaches_its_host(registry, tmp_path):
    def report(node, event, **facts):
        return {"event": event, "node": node, "facts": facts}

    reports = (
        report("b1", "planned", summary="keeps kernel 1: why"),
        report("b1", "configured", summary="not applied: x: y"),
        report("b2", "configured", summary=""),
        report("b2", "blade", summary="not printed"),
        report("b3", "network_mesh", summary="network pass (2 of 2 pairs)"),
    )
    hosts = (HostProgress("b1", "ok"), HostProgress("b2", "ok"), HostProgress("b3", "ok"))
    outcomes = collect_host_outcomes(replace(run(tmp_path, *hosts), reports=reports), registry)
    texts = ["keeps kernel 1: why; not applied: x: y", "", "network pass (2 of 2 pairs)"]
    assert [outcome.summary for outcome in outcomes] == texts
    assert [outcome.as_json()["summary"] for outcome in outcomes][1] == ""


@pytest.mark.parametrize(("late", "heard"), [(timedelta(seconds=1), True), (timedelta(seconds=-1), False)])
def test_registry_has_results_if_every_host_was_seen_after_the_start(tmp_path, late, heard):
    outcome = run(tmp_path, HostProgress("b1", "ok", done=3))
    assert registry_has_results([node("b1", reachable_at=NOW + late)], outcome, NOW) is heard


def test_hosts_unknown_to_the_registry_are_not_awaited(tmp_path):
    assert registry_has_results([], run(tmp_path, HostProgress("b1", "ok", done=3)), NOW)


def test_extra_variables_are_parsed_as_json_where_possible():
    pairs = ["a=1", "b=text", 'c={"d": [1]}', "e=x=y", "f="]
    assert read_extra_vars(pairs) == {"a": 1, "b": "text", "c": {"d": [1]}, "e": "x=y", "f": ""}


@pytest.mark.parametrize("pair", ["a", "=1", ""])
def test_extra_variable_without_a_value_is_refused(pair):
    with pytest.raises(InputError, match="is neither KEY=VALUE nor @FILE"):
        read_extra_vars([pair])


def test_reason_of_the_newest_verdict_is_found(registry, tmp_path):
    registry.record_reachability("blade01", True, NOW)
    registry.advance_node("blade01", "burn_in", "burn-in ran", NOW)
    report = {"verdict": "faulty", "attempt": "a1", "checks": []}
    registry.record_burn_in_result(
        "blade01", "a1", report, [], reason="storage: full", started_at=NOW, when=NOW
    )
    (end,) = collect_host_outcomes(run(tmp_path, HostProgress("blade01", "ok")), registry)
    assert describe_host_outcome(end) == f"quarantined; faulty: storage: full; {NOT_MEASURED}"


@pytest.mark.parametrize(
    ("current", "measured", "newer"),
    [("a2", "a1", "a2"), ("a1", "a1", ""), ("a2", None, ""), (None, "a1", "")],
)
def test_other_concurrent_run_is_named(current, measured, newer):
    assert find_newer_attempt(node("b1", attempt=current), measured) == newer
    assert find_newer_attempt(None, measured) == ""


def gpu_report(name, reason):
    check = CheckResult(name, "not_run", reason=reason)
    return BurninReport("a1", "gpu01", "quick", "incomplete", "s", "e", (check,), (name,))


@pytest.mark.parametrize(
    ("name", "rehearsal", "said"),
    [
        ("gpu_compute", True, "a rehearsed host has no GPU; gpu_compute: no CUDA driver"),
        ("gpu_compute", False, "gpu_compute: no CUDA driver"),
        ("clock", True, "clock: no CUDA driver"),
    ],
)
def test_reason_of_an_incomplete_verdict_names_the_rehearsal(name, rehearsal, said):
    assert describe_verdict(gpu_report(name, "no CUDA driver"), rehearsal=rehearsal) == said


def test_incomplete_burn_in_tells_why_in_the_list(registry):
    registry.record_reachability("blade01", True, NOW)
    report = {"verdict": "incomplete", "attempt": "a1", "checks": []}
    registry.record_burn_in_result(
        "blade01", "a1", report, [], reason="gpu_compute: no CUDA", started_at=NOW, when=NOW
    )
    node = registry.get_node("blade01")
    assert (node.state, node.as_json()["why"]) == ("burn_in", "incomplete: gpu_compute: no CUDA")
