"""Test the rules over time across a node's burn-ins: live, in new judgements, in the ledger, and a site's switch."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpufleet.burnin.agent.kernel_log import group_hardware_errors
from gpufleet.cli.burnin import burnin_command
from gpufleet.cli.repairs import repairs_command
from gpufleet.errors import ProjectFileError
from gpufleet.nodes import (
    NodeIdentity,
    NodeObservation,
    ObservedFault,
    ObservedPart,
    PartObservation,
    Registry,
)
from gpufleet.operations import ingest, repair
from gpufleet.operations.task_events import read_artifact_events

CASES = Path(__file__).resolve().parents[1] / "cases/burnin"
START = datetime(2026, 11, 21, 10, tzinfo=UTC)
GPU = "GPU-00000000-0000-0000-0000-00000000000b"
HOUR = 60  # minutes


def xid_31(seconds, address="18:00", pid=7):
    return f"[{seconds}.0] NVRM: Xid (PCI:0000:{address}): 31, pid={pid}, name=python3, MMU Fault"


def server_records(attempt, minute, boot, uptime, *lines):
    """Return a GPU server's records: at a minute after START, so many seconds after a boot."""
    records = json.loads((CASES / "bases/gpu_server.json").read_text())["records"]
    at = f"{START + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}"
    for record in records:
        if record.get("name") == "gpu_nvidia":
            text = (CASES / "outputs/nvidia-smi-h100-healthy.xml").read_text()
            record["raw"]["xml"] = {"text": text.replace("GPU-00000000-0000-0000-0000-000000000000", GPU)}
        if record.get("name") == "gpu_xid":
            record["raw"] = {**group_hardware_errors("\n".join(lines)), "uptime_s": uptime}
            record |= {"started_at": at, "ended_at": at}
        if record["type"] == "start":
            record |= {"attempt": attempt, "boot_id": boot, "started_at": at}
            record["host"]["serial"] = "SERVER0001"
    return records


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Give a registry of one GPU server, which the command line uses too."""
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)
    monkeypatch.setenv("LOGNAME", "ann")
    with Registry(url) as opened:
        place = NodeIdentity("SERVER0001", rack="r1", slot="1")
        declared = {"kind": "gpu_server", "machine": "dgx"}
        opened.apply_observation(
            NodeObservation("rack:r1", "gpu01", place, declared=declared, observed_at=START)
        )
        yield opened


@pytest.fixture
def burn_in(server, artifacts, report):
    """Ingest a burn-in, as a playbook run reports it; return its verdict and what was wrong."""

    def run(attempt, minute, boot, uptime, *lines):
        records = server_records(attempt, minute, boot, uptime, *lines)
        result = report("burn_in", attempt, records=records)
        events = read_artifact_events(artifacts(("ok", "gpu01", minute, "gpufleet.fleet.burn_in", result)))
        ingest.EventIngester(server, live=False).ingest_stream(events)
        stored = server.list_burn_in_results("gpu01", attempt)[-1].report
        return stored["verdict"], " ".join(check["reason"] for check in stored["checks"])

    return run


def list_steps(server):
    return [
        (fault.fault, fault.step)
        for status in repair.list_part_statuses(server)
        for fault in status.faults
        if status.part.uuid == GPU
    ]


def test_xid_31_of_two_burn_ins_leads_to_diagnostics(burn_in, server):
    assert burn_in("a1", 1, "boot-1", 5000, xid_31(4000))[0] == "degraded"
    verdict, reason = burn_in("a2", 3 * HOUR, "boot-2", 900, xid_31(800))
    assert verdict == "faulty"
    assert "XID 31 twice in 24 h on GPU 0000:18:00.0" in reason
    assert list_steps(server) == [("xid_31_repeated", "diagnose")]
    assert server.get_node("gpu01").state == "quarantined"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1, "boot-1", 5000, xid_31(4000)), (2 * HOUR, "boot-1", 12140, xid_31(4000))),  # one log, read twice
        ((1, "boot-1", 5000, xid_31(4000)), (2 * HOUR, "boot-1", 12140, xid_31(4000), xid_31(4100))),
        ((1, "boot-1", 5000, xid_31(4000)), (30 * HOUR, "boot-2", 900, xid_31(800))),  # more than a day later
        ((1, "boot-1", 100_000, xid_31(4000)), (2 * HOUR, "boot-2", 900, xid_31(800))),  # read late
        ((1, "boot-1", 5000, xid_31(4000, "2a:00")), (2 * HOUR, "boot-2", 900, xid_31(800))),
        ((1, "boot-1", 5000, xid_31(4000), xid_31(4001, "2a:00")), (2 * HOUR, "boot-2", 900)),
    ],
)
def test_events_that_are_no_repetition(burn_in, first, second, server):
    burn_in("a1", *first)
    assert burn_in("a2", *second)[0] in ("healthy", "degraded")
    assert list_steps(server) == []


def test_old_events_alone_make_no_new_fault(burn_in):
    assert burn_in("a1", 1, "boot-1", 9000, xid_31(400), xid_31(4000))[0] == "faulty"
    assert burn_in("a2", 2 * HOUR, "boot-2", 900)[0] == "healthy"


def test_records_without_times_count_a_line_once(burn_in):
    bare = xid_31(1).partition("] ")[2]
    other = xid_31(1, pid=8).partition("] ")[2]
    assert burn_in("a1", 1, "boot-1", None, bare)[0] == "degraded"
    assert burn_in("a2", 2 * HOUR, "boot-1", None, bare)[0] == "degraded"
    assert burn_in("a3", 4 * HOUR, "boot-2", None, other)[0] == "faulty"


def test_new_judgement_of_history_equals_the_judgement_then(burn_in, server):
    for number, minute in enumerate((1, 3 * HOUR, 5 * HOUR, 40 * HOUR)):
        burn_in(f"a{number}", minute, f"boot-{number}", 900, xid_31(800))
    verdicts = [result.verdict for result in server.list_burn_in_results("gpu01")]
    assert verdicts == ["degraded", "faulty", "faulty", "degraded"]
    since = CliRunner().invoke(burnin_command, ["rejudge", "gpu01", "--since", "2026-11-01", "--json"])
    assert json.loads(since.stdout) == []
    newest = CliRunner().invoke(burnin_command, ["rejudge", "--json"])
    assert json.loads(newest.stdout) == []


def test_rules_are_found_in_history_that_was_judged_without_them(burn_in, server, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("gpufleet.burnin.xid_rule.load_event_rules", tuple)
        burn_in("a1", 1, "boot-1", 5000, xid_31(4000))
        assert burn_in("a2", 3 * HOUR, "boot-2", 900, xid_31(800))[0] == "degraded"
    answer = CliRunner().invoke(burnin_command, ["rejudge", "--apply", "--json"])
    (change,) = json.loads(answer.stdout)
    assert (change["before"], change["after"]) == ("degraded", "faulty")
    assert list_steps(server) == [("xid_31_repeated", "diagnose")]
    again = CliRunner().invoke(burnin_command, ["rejudge", "--json"])
    assert json.loads(again.stdout) == []


def test_only_diagnostics_close_the_fault(burn_in, server):
    burn_in("a1", 1, "boot-1", 9000, xid_31(400), xid_31(4000))
    burn_in("a2", 2 * HOUR, "boot-2", 900)
    assert list_steps(server) == [("xid_31_repeated", "diagnose")]
    CliRunner().invoke(repairs_command, ["record", GPU, "reset", "--reason", "nvidia-smi -r"])
    assert list_steps(server) == [("xid_31_repeated", "diagnose")]
    CliRunner().invoke(repairs_command, ["record", GPU, "diagnose", "--reason", "dcgmi diag -r 4 passed"])
    assert list_steps(server) == []


def test_older_healthy_result_clears_no_newer_fault(burn_in, server):
    burn_in("a2", 2 * HOUR, "boot-1", 9000, xid_31(400), xid_31(4000))
    with pytest.raises(IndexError):  # it was measured before, arrives now, and is not stored
        burn_in("a1", 1, "boot-0", 900)
    assert list_steps(server) == [("xid_31_repeated", "diagnose")]
    assert server.get_node("gpu01").state == "quarantined"


def test_site_records_a_rule_without_judging_by_it(burn_in, override_file, server):
    rules = override_file.with_name("burn-in-rules.yaml")
    entry = "{rule: xid_31_repeated, reason: jobs fault on purpose, by: Ada, date: 2026-11-20}"
    rules.write_text(f"record_only:\n  - {entry}\n")
    assert burn_in("a1", 1, "boot-1", 9000, xid_31(400), xid_31(4000))[0] == "degraded"
    assert list_steps(server) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "must be a mapping with the key record_only"),
        ("record_only: [{rule: xid_31_repeat, reason: jobs fault often, by: A, date: 2026-11-20}]", "is not a rule"),
        ("record_only: [{rule: xid_31_repeated, reason: short, by: A, date: 2026-11-20}]", "at least 10"),
        ("record_only: [{rule: xid_31_repeated, reason: jobs fault often, by: A, date: '20'}]", "past date"),
        ("record_only: [{rule: xid_31_repeated, reason: jobs fault often, by: A}]", "date"),
    ],
)  # fmt: skip
def test_wrong_file_of_rules_is_refused(burn_in, override_file, text, problem):
    override_file.with_name("burn-in-rules.yaml").write_text(text)
    with pytest.raises(ProjectFileError) as raised:
        burn_in("a1", 1, "boot-1", 900)
    assert problem in str(raised.value)
    assert "burn-in-rules.yaml" in str(raised.value)


def test_fifth_repair_of_a_node_is_the_vendors(server, override_file):
    gpu = ObservedPart("gpu", "1650321001234", GPU, None, "0000:18:00.0")
    faulty = PartObservation(
        (gpu,), (ObservedFault("gpu_compute.wrong_results", "gpu_compute", "wrong", "gpu", gpu.position),)
    )
    for number in range(6):
        attempt = server.start_attempt("gpu01", "burn_in", f"a{number}")
        server.record_burn_in_result(
            "gpu01", attempt, {"verdict": "faulty", "checks": []}, [{"n": number}], reason="r", seen=faulty
        )
        if number < 5:
            assert list_steps(server)[0][1] in ("reset", "reboot")
            CliRunner().invoke(repairs_command, ["record", GPU, "reset", "--reason", "nvidia-smi -r"])
    assert list_steps(server) == [("gpu_compute.wrong_results", "rma")]
    shown = CliRunner().invoke(repairs_command, ["show", GPU]).stdout
    assert "rule        5 repairs of the node in 7 days: contact the vendor" in shown
    entry = "{rule: repairs_repeated, reason: we repair them often, by: Ada, date: 2026-11-20}"
    override_file.with_name("burn-in-rules.yaml").write_text(f"record_only: [{entry}]\n")
    assert list_steps(server) == [("gpu_compute.wrong_results", "reboot")]
