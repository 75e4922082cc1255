from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gpufleet.errors import CheckFailed, InputError, ProjectFileError
from gpufleet.operations.ingest import EventIngester, ingest_events
from gpufleet.operations.task_events import read_artifact_events

BASE = Path(__file__).resolve().parents[1] / "cases/burnin/bases/compute_blade.json"
RECORDS = json.loads(BASE.read_text())["records"]
PROBE = "gpufleet.fleet.probe"


def ingest_folder(registry, folder):
    return ingest_events(registry, read_artifact_events(folder))


def test_results_of_a_run_are_read_without_the_declared_fleet():
    """Every ansible-playbook loads what writes them to the registry; the fleet's models would double that."""
    code = "import sys; from gpufleet import nodes; from gpufleet.operations import ingest, task_events;"
    code += (
        "print([name for name in sys.modules if name in ('gpufleet.fleet', 'pydantic', 'gpufleet.catalog')])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


@pytest.fixture
def complete_run(artifacts, report):
    """Return the artifacts of a run: blade01 is commissioned, configured, measured; blade02 does not answer."""
    return artifacts(
        (
            "ok",
            "blade01",
            1,
            PROBE,
            report("commissioned", facts={"serial": "10000000a1b2c3d4", "arch": "aarch64"}),
        ),
        ("unreachable", "blade02", 1, PROBE, {"msg": "connection timed out", "unreachable": True}),
        ("ok", "blade01", 2, "gpufleet.fleet.report", report("configured")),
        ("ok", "blade01", 3, "gpufleet.fleet.burn_in", report("burn_in", records=RECORDS)),
    )


def test_complete_run_ends_in_ready_and_unreachable(registry, complete_run):
    applied = ingest_folder(registry, complete_run)
    first_node, second_node = registry.get_node("blade01"), registry.get_node("blade02")
    assert (first_node.state, first_node.reachable, first_node.serial) == ("ready", True, "10000000a1b2c3d4")
    assert (second_node.state, second_node.reachable) == ("expected", False)
    assert second_node.reachable_detail.startswith("connection timed out; next: check whether it has power")
    assert second_node.reachable_detail.endswith(f"then gpufleet configure --limit {second_node.name}")
    assert (applied.verdicts, list(applied.unreachable)) == ({"blade01": "healthy"}, ["blade02"])


def test_second_ingestion_of_a_run_changes_nothing(registry, complete_run):
    ingest_folder(registry, complete_run)
    before = [registry.list_node_history(name) for name in ("blade01", "blade02")], registry.list_nodes()
    ingest_folder(registry, complete_run)
    assert (
        [registry.list_node_history(name) for name in ("blade01", "blade02")],
        registry.list_nodes(),
    ) == before


def test_steps_of_a_node_are_in_its_history(registry, complete_run):
    ingest_folder(registry, complete_run)
    moves = [change.new_state for change in registry.list_node_history("blade01") if change.new_state]
    assert moves == ["expected", "discovered", "commissioning", "burn_in", "ready"]


def test_truncated_events_are_skipped(registry, complete_run):
    (complete_run / "job_events" / "5-killed.json").write_text('{"event": "runner_on_ok", "event_da')
    (complete_run / "job_events" / "6-abc-partial.json").write_text("{}")
    assert ingest_folder(registry, complete_run).events == 4


def test_node_with_a_failed_configuration_cannot_be_healthy(registry, artifacts, report):
    facts = {"task": "Set the hostname", "reason": "read-only file system"}
    ingest_folder(registry, artifacts(
        ("ok", "blade01", 1, PROBE, report("commissioned")),
        ("ok", "blade01", 2, "gpufleet.fleet.report", report("configure_failed", facts=facts)),
        ("ok", "blade01", 3, "gpufleet.fleet.burn_in", report("burn_in", records=_without_configuration())),
    ))  # fmt: skip
    assert registry.get_node("blade01").state != "ready"
    reasons = [
        change.reason
        for change in registry.list_node_history("blade01")
        if change.event == "configure_failed"
    ]
    assert reasons == ["Set the hostname: read-only file system"]


def _without_configuration():
    return [record for record in RECORDS if record.get("name") != "configuration"]


def test_node_with_an_interrupted_agent_stays_in_burn_in(registry, artifacts, report):
    cut = [record for record in RECORDS if record["type"] != "end"]
    ingest_folder(
        registry, artifacts(("ok", "blade01", 3, "gpufleet.fleet.burn_in", report("burn_in", records=cut)))
    )
    assert registry.get_node("blade01").state == "burn_in"


def test_ready_node_is_not_commissioned_again(registry, complete_run, artifacts, report):
    ingest_folder(registry, complete_run)
    ingest_folder(registry, artifacts(("ok", "blade01", 9, PROBE, report("commissioned", attempt="later"))))
    node = registry.get_node("blade01")
    assert (node.state, node.attempt) == ("ready", "a1")


def test_burn_in_result_of_another_board_is_not_applied(registry, complete_run, artifacts, report):
    ingest_folder(registry, complete_run)
    host = {"host": {"serial": "20000000deadbeef"}}
    other = [record | host if record["type"] == "start" else record for record in RECORDS]
    late = report("burn_in", attempt="a2", records=other)
    applied = ingest_folder(registry, artifacts(("ok", "blade01", 9, "gpufleet.fleet.burn_in", late)))
    assert applied.conflicts
    assert [hold.kind for hold in registry.get_node("blade01").holds] == ["drift"]
    assert registry.list_burn_in_results("blade01", "a2") == []


@pytest.mark.parametrize("action", ["ansible.builtin.debug", "set_fact", "gpufleet.fleet.report"])
def test_task_run_on_the_controller_does_not_make_a_host_reachable(registry, artifacts, action):
    ingest_folder(registry, artifacts(("ok", "blade01", 1, action, {})))
    assert registry.get_node("blade01").reachable is None


def test_delegated_task_does_not_make_a_host_reachable(registry, artifacts):
    ingest_folder(registry, artifacts(("ok", "blade01", 1, "command", {"_ansible_delegated_vars": {}})))
    assert registry.get_node("blade01").reachable is None


def test_failed_task_makes_the_host_reachable(registry, artifacts):
    ingest_folder(registry, artifacts(("failed", "blade01", 1, "command", {"msg": "rc 1"})))
    assert registry.get_node("blade01").reachable is True


def test_unknown_hosts_are_reported(registry, artifacts):
    applied = ingest_folder(registry, artifacts(("ok", "stranger", 1, "ping", {})))
    with pytest.raises(CheckFailed, match="stranger"):
        applied.raise_if_incomplete()


def test_racks_are_declared_once_for_an_unknown_host(registry):
    requested = []
    ingest = EventIngester(registry, declare=requested.append)
    from gpufleet.operations.task_events import build_task_event

    for host in ("stranger", "stranger", "other"):
        ingest.ingest_event(build_task_event(host, "ok", {}, action="ping"))
    assert len(requested) == 1


def test_reachability_of_a_responding_host_is_stored_at_intervals(registry, monkeypatch):
    from gpufleet.operations.task_events import build_task_event

    start, noted = datetime.fromisoformat("2026-11-21T11:00:00+00:00"), []
    monkeypatch.setattr(registry, "record_reachability", lambda *what: noted.append(what))
    ingest = EventIngester(registry)
    for second in range(40):
        ingest.ingest_event(
            build_task_event("blade01", "ok", {}, action="ping", at=start + timedelta(seconds=second))
        )
    assert len(noted) == 3


def test_artifacts_folder_with_many_runs_must_be_narrowed_to_one(tmp_path):
    for name in ("run1", "run2"):
        (tmp_path / name / "job_events").mkdir(parents=True)
    with pytest.raises(InputError, match="run1, run2"):
        list(read_artifact_events(tmp_path))


def test_folder_without_events_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(InputError, match="the folder has no job_events"):
        list(read_artifact_events(tmp_path))


def observed_values(registry, name):
    return {value.key.removeprefix("observed."): value.value for value in registry.list_node_values(name)}


@pytest.mark.parametrize("part", ["drivers", "containers", "application"])
def test_failed_part_stays_recorded_when_another_part_succeeds(registry, artifacts, report, part):
    other = "fabric"
    failed = report("configure_failed", part=part, facts={"task": "Install", "reason": "no space left"})
    ingest_folder(registry, artifacts(
        ("ok", "blade01", 1, PROBE, report("commissioned")),
        ("ok", "blade01", 2, "gpufleet.fleet.report", report("configured", facts={"not_applied": {"time": 1}})),
        ("ok", "blade01", 3, "gpufleet.fleet.report", failed),
        ("ok", "blade01", 4, "gpufleet.fleet.report", report("configured", part=other, facts={"ports": []})),
        ("ok", "blade01", 5, "gpufleet.fleet.burn_in", report("burn_in", records=_without_configuration())),
    ))  # fmt: skip
    observed = observed_values(registry, "blade01")
    assert observed["configured_parts"] == {"base": True, part: False, other: True}
    assert (observed["configured"], observed["configuration"]) == (False, {"not_applied": {"time": 1}})
    assert observed["configuration_fabric"] == {"ports": []}
    assert registry.get_node("blade01").state != "ready"


def test_node_without_its_base_part_does_not_count_as_configured(registry, artifacts, report):
    ingest_folder(registry, artifacts(
        ("ok", "blade01", 1, "gpufleet.fleet.report", report("configured", part="kernel")),
    ))  # fmt: skip
    observed = observed_values(registry, "blade01")
    assert observed["configured_parts"] == {"kernel": True}
    assert "configured" not in observed
    ingest_folder(registry, artifacts(
        ("ok", "blade01", 2, "gpufleet.fleet.report", report("configure_failed", part="roles_after")),
    ))  # fmt: skip
    assert observed_values(registry, "blade01")["configured"] is False


def test_plan_of_a_run_in_check_mode_is_not_stored(registry, artifacts, report):
    planned = report("planned", part="kernel", facts={"summary": "would get kernel 6.1"})
    ingest_folder(registry, artifacts(("ok", "blade01", 1, "gpufleet.fleet.report", planned)))
    assert not {"configured_parts", "kernel_upgrade"} & observed_values(registry, "blade01").keys()


@pytest.mark.parametrize(("attempt", "configured"), [("a2", True), ("", False)])
def test_complete_run_resets_the_list_of_configured_parts(registry, artifacts, report, attempt, configured):
    ingest_folder(registry, artifacts(
        ("ok", "blade01", 1, "gpufleet.fleet.report", report("drivers_failed", facts={"reason": "no card"})),
        ("ok", "blade01", 2, "gpufleet.fleet.report", report("configured", attempt=attempt)),
    ))  # fmt: skip
    assert observed_values(registry, "blade01")["configured"] is configured


@pytest.mark.parametrize("second", ["roles_before", "base"])
def test_first_part_of_a_complete_run_resets_the_list_and_its_other_parts_do_not(
    registry, artifacts, report, second
):
    failed = {"task": "Install", "reason": "no space left"}
    ingest_folder(registry, artifacts(
        ("ok", "blade01", 1, "gpufleet.fleet.report", report("configure_failed", attempt="a1", part="fabric")),
        ("ok", "blade01", 2, "gpufleet.fleet.report",
         report("configure_failed", attempt="a2", part="roles_before", facts=failed)),
        ("ok", "blade01", 3, "gpufleet.fleet.report", report("configured", attempt="a2")),
    ))  # fmt: skip
    observed = observed_values(registry, "blade01")
    assert observed["configured_parts"] == {"roles_before": False, "base": True}
    assert observed["configured"] is False
    ingest_folder(
        registry,
        artifacts(
            ("ok", "blade01", 4, "gpufleet.fleet.report", report("configured", attempt="a3", part=second))
        ),
    )
    assert observed_values(registry, "blade01")["configured_parts"] == {second: True}


def test_second_ingestion_of_a_run_still_reports_unreachable_hosts(registry, artifacts, report):
    folder = artifacts(
        ("unreachable", "blade02", 1, PROBE, {"msg": "connection timed out", "unreachable": True}),
        ("ok", "blade01", 2, PROBE, report("commissioned", facts={"arch": "aarch64"})),
    )
    ingest_folder(registry, folder)
    second_summary = ingest_folder(registry, folder)
    assert second_summary.repeated == 2
    assert second_summary.unreachable == {"blade02": "connection timed out"}


def test_malformed_fact_is_reported_and_recorded(registry, artifacts, report):
    facts = {"serial": "10000000\u001b[31m", "arch": "aarch64"}
    applied = ingest_folder(
        registry, artifacts(("ok", "blade01", 1, PROBE, report("commissioned", facts=facts)))
    )
    (line,) = applied.bad
    assert "serial" in line
    assert "\u001b" not in line
    assert [change.event for change in registry.list_node_history("blade01")].count("bad_report") == 1


@pytest.mark.parametrize(("digits", "events"), [(19, 1), (20, 0)])
def test_event_files_are_numbered_by_a_64_bit_counter(tmp_path, digits, events):
    folder = tmp_path / "job_events"
    folder.mkdir()
    data = {"host": "blade01", "task_action": PROBE, "res": {}, "start": "2026-11-21T10:00:00+00:00"}
    event = {"event": "runner_on_ok", "created": data["start"], "event_data": data | {"end": data["start"]}}
    (folder / f"{'1' * digits}-abc.json").write_text(json.dumps(event))
    assert len(list(read_artifact_events(tmp_path))) == events


def test_results_are_judged_by_the_site_overrides(registry, complete_run, override_file, override_text):
    override_file.write_text(override_text)
    assert ingest_folder(registry, complete_run).verdicts == {"blade01": "degraded"}
    (result,) = registry.list_burn_in_results("blade01")
    shown = {check["name"] for check in result.report["checks"] if "site override" in check["reason"]}
    assert shown == {"pi_temperature"}


def test_result_is_not_lost_while_the_override_file_is_wrong(
    registry, complete_run, override_file, override_text
):
    override_file.write_text(override_text.replace("80", "81"))
    with pytest.raises(ProjectFileError, match="has no bound of 81"):
        ingest_folder(registry, complete_run)
    assert registry.list_burn_in_results("blade01") == []
    override_file.write_text(override_text)
    assert ingest_folder(registry, complete_run).verdicts == {"blade01": "degraded"}


def report_mesh(artifacts, report, outcome, reasons, moment=1):
    """Return the artifacts of a run in which the network mesh reports a host."""
    facts = {"facts": {"outcome": outcome, "reasons": reasons}, "reasons": reasons}
    event = report("network_mesh", facts=facts)
    return artifacts(("ok", "blade01", moment, "gpufleet.fleet.report", event))


def test_node_that_the_mesh_names_is_held_until_it_passes(registry, artifacts, report):
    ingest_folder(registry, report_mesh(artifacts, report, "fail", ["sends 30 of 60"]))
    assert [(hold.kind, hold.reason) for hold in registry.get_node("blade01").holds] == [
        ("operator", "network_mesh: sends 30 of 60")
    ]
    ingest_folder(registry, report_mesh(artifacts, report, "pass", [], moment=9))
    assert registry.get_node("blade01").holds == ()


@pytest.mark.parametrize("outcome", ["pass", "warn", "not_run"])
def test_mesh_holds_no_cleared_node_and_keeps_a_persons_hold(registry, artifacts, report, outcome):
    ingest_folder(registry, report_mesh(artifacts, report, outcome, []))
    assert registry.get_node("blade01").holds == ()
    registry.set_node_hold("blade01", "operator", "waits for a cable")
    for at, later in enumerate((outcome, "fail"), start=3):
        ingest_folder(registry, report_mesh(artifacts, report, later, ["slow"], moment=at))
    assert [hold.reason for hold in registry.get_node("blade01").holds] == ["waits for a cable"]


def test_hold_that_a_person_released_does_not_come_back_with_the_same_run(registry, artifacts, report):
    run = report_mesh(artifacts, report, "fail", ["slow"])
    ingest_folder(registry, run)
    registry.release_node_hold("blade01", "operator", "new cable")
    ingest_folder(registry, run)
    assert registry.get_node("blade01").holds == ()
