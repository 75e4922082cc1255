"""Test burn-in with the registry and the command line: reports, new judgements, thresholds."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

import simulated_nodes
from gpufleet import burnin
from gpufleet.burnin import verdict
from gpufleet.cli.burnin import burnin_command
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import burnin as operation
from gpufleet.operations import configure
from gpufleet.operations.moment import parse_since
from gpufleet.operations.text import burnin as text_burnin
from gpufleet.operations.text import configure as text_configure

BASE = Path(__file__).resolve().parents[1] / "cases/burnin/bases/compute_blade.json"
UNDERVOLTED = "throttled=0x50005\n"


def healthy_records(**texts):
    """Return a healthy blade's records, with other answers of its tools."""
    case_records = json.loads(BASE.read_text())["records"]
    for record in case_records:
        if record.get("name") in texts:
            record["raw"]["text"] = texts[record["name"]]
    return case_records


def register_blade(registry, name, slot, agent_records, rack="blades-1"):
    """Register a blade and store what its burn-in found, as a playbook run does."""
    place = NodeIdentity(rack=rack, slot=str(slot))
    registry.apply_observation(
        NodeObservation(f"rack:{rack}", name, place, declared={"kind": "compute_blade", "machine": "cm4"})
    )
    attempt = registry.start_attempt(name, "burn_in", f"attempt-{name}")
    report = replace(
        burnin.judge_attempt(agent_records, "compute_blade", "quick", node=name), attempt=attempt
    )
    registry.record_burn_in_result(name, attempt, report.as_json(), agent_records, reason="test")


@pytest.fixture
def burn_in_registry(tmp_path, monkeypatch):
    """Give a registry with one healthy and one undervolted blade."""
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)
    with Registry(url) as opened:
        register_blade(opened, "blade01", 1, healthy_records())
        register_blade(opened, "blade02", 2, healthy_records(pi_throttled=UNDERVOLTED))
        yield opened


def run_command(*arguments):
    return CliRunner().invoke(burnin_command, list(arguments))


def test_report_of_one_node_matches_the_schema(burn_in_registry):
    result = run_command("report", "blade01", "--json")
    jsonschema.validate(json.loads(result.stdout), burnin.load_burnin_report_schema())
    assert (result.exception, json.loads(result.stdout)["verdict"]) == (None, "healthy")


def test_report_of_all_nodes_exits_with_1_if_any_is_degraded(burn_in_registry):
    result = run_command("report", "--json")
    assert {r["node"]: r["verdict"] for r in json.loads(result.stdout)} == {
        "blade01": "healthy",
        "blade02": "degraded",
    }
    assert isinstance(result.exception, CheckFailed)
    assert "blade02" in str(result.exception)


def test_report_is_readable_without_colour(burn_in_registry):
    text = run_command("report", "--attempt", "attempt-blade02").stdout
    assert text.startswith("blade02  degraded  quick  attempt attempt-blade02")
    assert "warn     pi_throttled" in text


def test_unknown_attempt_is_refused(burn_in_registry):
    with pytest.raises(InputError, match="no burn-in result of attempt gone"):
        operation.load_newest_reports(attempt="gone")


def test_no_report_is_not_a_success():
    with pytest.raises(CheckFailed, match="no node was measured yet"):
        operation.require_healthy_reports([])


def test_missing_registry_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(
        EnvironmentFault, match="the node registry, which stores burn-in results, does not exist yet"
    ):
        operation.load_newest_reports()


def test_rejudging_with_the_same_thresholds_changes_nothing(burn_in_registry):
    assert operation.rejudge_results() == []
    assert run_command("rejudge").stdout == "today's thresholds change nothing\n"


@pytest.fixture
def stricter_thresholds(monkeypatch):
    """Let under-voltage fail a node, and nothing else change."""
    rows = tuple(
        replace(row, on_miss="fail") if row.metric == "undervoltage_now" else row
        for row in burnin.select_thresholds("compute_blade")
    )
    monkeypatch.setattr(verdict, "select_thresholds", lambda node_kind, *, rehearsal: rows)


def test_new_thresholds_rejudge_stored_records(burn_in_registry, stricter_thresholds):
    (change,) = operation.rejudge_results()
    assert (change["node"], change["before"], change["after"], change["applied"]) == (
        "blade02",
        "degraded",
        "faulty",
        "no",
    )
    assert [check["name"] for check in change["checks"]] == ["pi_throttled"]
    assert burn_in_registry.get_node("blade02").state == "ready"


def test_applied_new_thresholds_move_the_node(burn_in_registry, stricter_thresholds):
    (change,) = operation.rejudge_results("blade02", apply_changes=True)
    assert change["applied"] == "applied"
    assert burn_in_registry.get_node("blade02").state == "quarantined"
    assert [result.verdict for result in burn_in_registry.list_burn_in_results("blade02")] == [
        "degraded",
        "faulty",
    ]


def test_relaxed_thresholds_release_only_a_quarantine_of_burn_in(
    burn_in_registry, stricter_thresholds, monkeypatch
):
    operation.rejudge_results("blade02", apply_changes=True)
    monkeypatch.undo()
    monkeypatch.setattr(
        operation.paths, "registry_database_url", lambda: str(burn_in_registry._database.engine.url)
    )
    operation.rejudge_results("blade02", apply_changes=True)
    assert burn_in_registry.get_node("blade02").state == "ready"
    assert [hold.kind for hold in burn_in_registry.get_node("blade02").holds] == ["operator"]


@pytest.mark.parametrize("relaxed", [False, True])
def test_old_record_moves_no_node_that_a_person_let_measure_again(
    burn_in_registry, stricter_thresholds, monkeypatch, relaxed
):
    operation.rejudge_results("blade02", apply_changes=True)
    burn_in_registry.move_node("blade02", "burn_in", "new power supply")
    if relaxed:  # the old record would make it ready
        monkeypatch.undo()
        monkeypatch.setattr(
            operation.paths, "registry_database_url", lambda: str(burn_in_registry._database.engine.url)
        )
    else:  # the old record would put it back into quarantine
        monkeypatch.setattr(verdict, "explain_missed_threshold", lambda *_: "in other words")
    (change,) = operation.rejudge_results("blade02", apply_changes=True)
    assert change["applied"].startswith("no, it became burn_in after this measurement; measure it again")
    assert burn_in_registry.get_node("blade02").state == "burn_in"
    assert len(burn_in_registry.list_burn_in_results("blade02")) == 2


def test_history_since_a_moment_is_rejudged(burn_in_registry, stricter_thresholds):
    operation.rejudge_results("blade02", apply_changes=True)
    first, second = burn_in_registry.list_burn_in_results("blade02")
    # The newest judgement of these records is the stricter one already.
    assert operation.rejudge_results(since=datetime(2020, 1, 1, tzinfo=UTC)) == []
    attempt = burn_in_registry.start_attempt("blade02", "burn_in", "later")
    report = replace(
        burnin.judge_attempt(healthy_records(), "compute_blade", "quick", node="blade02"), attempt=attempt
    )
    older = {**report.as_json(), "verdict": "faulty"}
    burn_in_registry.record_burn_in_result("blade02", attempt, older, healthy_records(), reason="test")
    changes = operation.rejudge_results(since=datetime(2020, 1, 1, tzinfo=UTC))
    assert [(change["node"], change["attempt"], change["before"], change["after"]) for change in changes] == [
        ("blade02", "later", "faulty", "healthy")
    ]
    assert operation.rejudge_results(since=datetime.now(UTC) + timedelta(days=1)) == []
    assert first.records == second.records


def test_history_keeps_every_raw_record_of_a_node(burn_in_registry, stricter_thresholds):
    burn_in_registry.start_attempt("blade01", "burn_in", "second")
    undervolted = healthy_records(pi_throttled=UNDERVOLTED)
    report = burnin.judge_attempt(undervolted, "compute_blade", "quick", node="blade01")
    weak = replace(report, attempt="second", verdict="degraded").as_json()
    burn_in_registry.record_burn_in_result("blade01", "second", weak, undervolted, reason="test")
    burn_in_registry.start_attempt("blade01", "burn_in", "third")
    good = burnin.judge_attempt(healthy_records(), "compute_blade", "quick", node="blade01")
    records = [*healthy_records(), {"type": "note"}]
    burn_in_registry.record_burn_in_result(
        "blade01", "third", replace(good, attempt="third").as_json(), records, reason="test"
    )
    newest = {change["attempt"] for change in operation.rejudge_results()}
    history = {change["attempt"] for change in operation.rejudge_results(since=parse_since("2020-01-01"))}
    assert newest == {"attempt-blade02"}
    assert history == {"second", "attempt-blade02"}
    assert len(burn_in_registry.list_burn_in_results("blade01")) == 3


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21", "2026-11-21T00:00:00+00:00"),
        ("2026-11-21T10:00", "2026-11-21T10:00:00+00:00"),
        ("2026-11-21T10:00:00+02:00", "2026-11-21T10:00:00+02:00"),
        ("20261121T103839Z-a1b2c3", "2026-11-21T10:38:39+00:00"),
        ("20261121T103839Z", "2026-11-21T10:38:39+00:00"),
    ],
)
def test_since_is_a_date_a_time_or_an_attempt(text, moment):
    assert parse_since(text).isoformat() == moment


@pytest.mark.parametrize("text", ["soon", "20261399T103839Z-a1b2c3", "", "2026-13-01", "\x1b[2J"])
def test_other_texts_are_no_moment(text):
    with pytest.raises(InputError, match=r"--since: .* is not a time; give 24h, 7d, 2026-11-21"):
        parse_since(text)


def test_since_and_apply_cannot_be_combined(burn_in_registry):
    result = run_command("rejudge", "--since", "2026-11-21", "--apply")
    assert str(result.exception).startswith("--since cannot be combined with --apply")


def test_site_overrides_are_applied_when_judging_again(burn_in_registry, override_file, override_text):
    assert operation.rejudge_results() == []
    override_file.write_text(override_text)
    changes = operation.rejudge_results()
    assert {change["node"]: change["after"] for change in changes} == {
        "blade01": "degraded",
        "blade02": "degraded",
    }
    text = run_command("rejudge").stdout
    assert "pi_temperature: pass -> warn" in text
    assert "site override (stricter): celsius below 10" in text
    shown = run_command("thresholds", "--explain", "pi_temperature").stdout
    assert (
        "site override (stricter): celsius below 10 °C instead of below 80 °C (Ada, 2026-11-20: a test of overrides)"
        in shown
    )
    assert "site override (stricter): celsius below 10" in run_command("thresholds").stdout


@pytest.mark.parametrize(
    "arguments", [("rejudge",), ("thresholds",), ("thresholds", "--explain", "cpu"), ("run",)]
)
def test_wrong_override_file_stops_every_command_that_judges(
    burn_in_registry, override_file, override_text, arguments
):
    override_file.write_text(override_text.replace("80", "81"))
    result = run_command(*arguments)
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith(
        "burn-in-thresholds.yaml: overrides.0: pi_temperature.celsius has no bound"
    )


def test_override_file_that_is_a_folder_is_refused(burn_in_registry, override_file):
    override_file.mkdir()
    with pytest.raises(InputError, match="Is a directory"):
        operation.rejudge_results()


def test_explanation_is_printed_as_text_and_json():
    shown = json.loads(
        run_command("thresholds", "--explain", "memory", "--kind", "compute_blade", "--json").stdout
    )
    peaks = {bound["metric"]: bound["peak_source"] for bound in shown["bounds"]}
    assert peaks["copy_mb_per_s"] == "500 x bandwidth_gb_s of Compute Module 4 / Pi 4"
    assert "a miss means:" in run_command("thresholds", "--explain", "memory").stdout
    assert isinstance(run_command("thresholds", "--explain", "memory", "--measure").exception, InputError)


@pytest.mark.parametrize(
    ("arguments", "request_fields"),
    [
        (("blade01", "blade02"), ("burn_in", "blade01,blade02", "always")),
        ((), ("burn_in", "new_nodes", "auto")),
    ],
)
def test_run_requests_the_burn_in_play(project, monkeypatch, arguments, request_fields):
    seen = []
    monkeypatch.chdir(project)
    monkeypatch.setattr(
        configure,
        "configure_hosts",
        lambda _root, request, _stream: configure.ConfigureResult(seen.append(request)),
    )
    monkeypatch.setattr(text_configure, "format_configure_result", lambda _done: "done")
    assert run_command("run", *arguments).exit_code == 0
    assert (seen[0].play, seen[0].limit, seen[0].burn_in) == request_fields
    assert (project / "playbooks" / f"{seen[0].play}.yml").is_file()


def test_thresholds_are_printed_with_their_sources():
    rows = json.loads(run_command("thresholds", "--json").stdout)
    assert all(row["source"] and row["date"] and row["lint"] == [] for row in rows)
    assert "sbc-bench/issues/32" in run_command("thresholds", "--kind", "compute_blade").stdout


def test_thresholds_of_an_unknown_kind_are_refused():
    with pytest.raises(InputError, match="unknown node kind 'toaster'"):
        operation.list_threshold_rows("toaster")


def test_implausible_threshold_is_reported(monkeypatch):
    bad = replace(burnin.load_thresholds()[0], source="")
    monkeypatch.setattr("gpufleet.burnin.threshold_lint.load_thresholds", lambda: (bad,))
    with pytest.raises(CheckFailed, match="no source"):
        operation.require_plausible_thresholds()


def test_local_run_measures_this_machine():
    rows = operation.measure_rehearsal_floors()
    assert {row["metric"] for row in rows} == {"copy_mb_per_s", "write_mb_per_s"}
    assert all(0 < row["floor"] < row["slowest"] <= row["fastest"] for row in rows)
    assert "rehearsal floor" in text_burnin.format_rehearsal_floors(rows)


def register_rack(registry, copies, rack="blades-1"):
    """Register a rack of blades with these memory copy rates, from its lowest slot up."""
    for slot, rate in enumerate(copies, 1):
        case_records = healthy_records()
        memory = next(record for record in case_records if record.get("name") == "memory")
        memory["raw"]["copy_mb_per_s"] = rate
        register_blade(registry, f"{rack}-{slot:02}", slot, case_records, rack)


@pytest.fixture
def rack_registry(tmp_path, monkeypatch):
    """Give a registry with a rack of 20 blades, of which slot 7 copies slowly but over the floor."""
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)
    with Registry(url) as opened:
        register_rack(opened, [2100.0 if slot == 7 else 2700.0 + slot for slot in range(1, 21)])
        yield opened


def test_straggler_is_named_with_evidence_and_keeps_its_verdict(rack_registry):
    text = run_command("compare").stdout
    assert text.startswith(
        "20 nodes compared; groups of at least 5\nwarn  blades-1-07  memory copy (memory): 2100 MB/s"
    )
    assert "of 20 nodes of the same machine type (cm4, quick)" in text
    assert (
        "of 6 nodes in the same thermal zone (cm4, quick, blades-1, lower third)" in text
        or "of 7 nodes" in text
    )
    rows = json.loads(run_command("compare", "--json").stdout)["stragglers"]
    assert {(row["node"], row["check"]) for row in rows} == {("blades-1-07", "memory")}
    assert {row["group_kind"] for row in rows} == {"machine", "zone"}
    assert rows[0]["deviation_percent"] == pytest.approx(-22.5, abs=0.5)
    assert rack_registry.get_node("blades-1-07").verdict == "healthy"


def test_same_slot_of_other_racks_is_compared(rack_registry):
    for number in range(2, 8):
        register_rack(rack_registry, [2700.0 + number] * 8, f"blades-{number}")
    rows = json.loads(run_command("compare", "--json").stdout)["stragglers"]
    (row,) = (row for row in rows if row["group_kind"] == "slot")
    assert (row["node"], row["group"], row["group_size"]) == ("blades-1-07", "cm4, quick, slot 7", 7)


def test_fleet_without_stragglers_or_with_few_nodes(burn_in_registry):
    assert run_command("compare").stdout == "2 nodes compared; groups of at least 5: no node stands out\n"
    assert run_command("compare", "--min-group", "2").exit_code == 2


def test_report_is_written_as_junit_and_as_pages(burn_in_registry, tmp_path):
    result = run_command("report", "--junit", str(tmp_path / "r.xml"), "--html", str(tmp_path))
    assert isinstance(result.exception, CheckFailed)  # blade02 is degraded
    assert (tmp_path / "r.xml").read_text().count("<testsuite ") == 2
    names = {path.name for path in tmp_path.glob("*.html")}
    assert names == {"rack-blades-1.html", "node-blade01.html", "node-blade02.html"}
    assert isinstance(run_command("report", "--junit", str(tmp_path / "none/r.xml")).exception, InputError)
    assert isinstance(run_command("report", "--html", str(tmp_path / "none")).exception, InputError)


def test_checks_that_keep_their_outcome_are_only_counted():
    checks = [
        {"name": "cpu", "before": "pass", "after": "pass", "reason": ""},
        {"name": "memory", "before": "pass", "after": "fail", "reason": "memory copies slowly"},
    ]
    head = {"node": "blade01", "recorded_at": "2026-11-21T10:00:00Z", "applied": "no"}
    text = text_burnin.format_verdict_changes(
        [{**head, "before": "healthy", "after": "faulty", "checks": checks}]
    )
    assert text.splitlines() == [
        "blade01  2026-11-21T10:00:00Z  healthy -> faulty  applied: no",
        "  memory: pass -> fail  memory copies slowly",
        "  same outcome by another threshold or reason: 1",
    ]


def test_slow_gpu_of_a_server_is_named_among_all_gpus_of_its_model(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    with Registry(url) as opened:
        for number in (1, 2):
            case_records = json.loads(simulated_nodes.TEMPLATES["h100_server"])
            memory = next(record for record in case_records if record.get("name") == "gpu_memory")
            if number == 2:
                memory["raw"]["devices"][5]["copy_gb_per_s"] *= 0.93
            place = NodeIdentity(rack="gpus", slot=str(number))
            opened.apply_observation(
                NodeObservation("rack:gpus", f"server{number}", place, declared={"kind": "gpu_server"})
            )
            attempt = opened.start_attempt(f"server{number}", "burn_in")
            report = burnin.judge_attempt(case_records, "gpu_server", "quick", node=f"server{number}")
            opened.record_burn_in_result(
                f"server{number}",
                attempt,
                {**report.as_json(), "attempt": attempt},
                case_records,
                reason="test",
            )
        # Two nodes are no group, their sixteen GPUs are one.
        (row,) = json.loads(run_command("compare", "--json").stdout)["stragglers"]
    assert (row["node"], row["device"], row["measurement"]) == ("server2", "0000:68:00.0", "GPU memory copy")
    assert (row["group_kind"], row["group"], row["group_size"]) == (
        "part",
        "NVIDIA H100 80GB HBM3, quick",
        16,
    )
    text = run_command("compare").stdout
    assert "warn  server2 GPU 0000:68:00.0  GPU memory copy (gpu_memory)" in text
    assert "of 16 GPUs of the same model (NVIDIA H100 80GB HBM3, quick)" in text


@pytest.mark.parametrize(
    ("nodes", "limit", "burn_in"),
    [
        ([], "new_nodes", "auto"),
        (["blade[01-03]:!blade02"], "blade[01-03]:!blade02", "always"),
        (["blade[01-03]", "new_blades:!blade02"], "blade[01-03],new_blades,!blade02", "always"),
    ],
)
def test_burn_in_runs_on_the_named_nodes(monkeypatch, nodes, limit, burn_in):
    requests = []

    def keep_request(_root, request, _stream):
        requests.append(request)
        return configure.ConfigureResult(request)

    monkeypatch.setattr(configure, "configure_hosts", keep_request)
    assert run_command("run", *nodes).exit_code == 0
    assert [(request.play, request.limit, request.burn_in) for request in requests] == [
        ("burn_in", limit, burn_in)
    ]


def test_burn_in_of_an_unset_variable_measures_no_node(monkeypatch):
    monkeypatch.setattr(configure, "configure_hosts", None)
    assert str(run_command("run", "").exception).startswith("NODE: names no host")
