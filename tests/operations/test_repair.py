"""Test the repairs command: from a run's records to the next step, across nodes, with who and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpufleet.cli.nodes import nodes_command
from gpufleet.cli.repairs import repairs_command
from gpufleet.errors import InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import ingest, repair
from gpufleet.operations.task_events import read_artifact_events

CASES = Path(__file__).resolve().parents[1] / "cases/burnin"
XID_95 = "NVRM: Xid (PCI:0000:18:00): 95, pid=17, name=train, Uncontained: FBHUB. RST: Yes, D-RST: No"
GPU = "GPU-00000000-0000-0000-0000-00000000000b"


def gpu_records(attempt, *lines, serial="SERVER0001"):
    """Return a GPU server's records with these kernel lines; its first GPU is ``GPU``."""
    records = json.loads((CASES / "bases/gpu_server.json").read_text())["records"]
    for record in records:
        if record.get("name") == "gpu_nvidia":
            text = (CASES / "outputs/nvidia-smi-h100-healthy.xml").read_text()
            record["raw"]["xml"] = {"text": text.replace("GPU-00000000-0000-0000-0000-000000000000", GPU)}
        if record.get("name") == "gpu_xid":
            record["raw"]["lines"] = list(lines)
        if record["type"] == "start":
            record |= {"attempt": attempt}
            record["host"]["serial"] = serial
    return records


@pytest.fixture
def servers(tmp_path, monkeypatch):
    """Give a registry of two GPU servers, which the command line uses too."""
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)
    monkeypatch.setenv("LOGNAME", "ann")
    with Registry(url) as opened:
        for number in (1, 2):
            place = NodeIdentity(f"SERVER000{number}", rack="r1", slot=str(number))
            declared = {"kind": "gpu_server", "machine": "dgx"}
            opened.apply_observation(NodeObservation("rack:r1", f"gpu0{number}", place, declared=declared))
        yield opened


@pytest.fixture
def burn_in(servers, artifacts, report):
    """Ingest a burn-in of a node, as a playbook run reports it."""

    def run(node, attempt, minute, *lines, live=True):
        records = gpu_records(attempt, *lines, serial=f"SERVER000{node[-1]}")
        result = report("burn_in", attempt, records=records)
        events = read_artifact_events(artifacts(("ok", node, minute, "gpufleet.fleet.burn_in", result)))
        return ingest.EventIngester(servers, live=live).ingest_stream(events)

    return run


def run_command(*arguments):
    return CliRunner().invoke(repairs_command, list(arguments), catch_exceptions=True)


def list_steps():
    listed = json.loads(run_command("list", "--json").stdout)
    return [
        (row["uuid"], row["node"], fault["fault"], fault["next_step"])
        for row in listed
        for fault in row["faults"]
    ]


def test_fault_leads_from_reset_to_reboot_to_rma_across_nodes(burn_in, servers):
    burn_in("gpu01", "a1", 1, XID_95)
    assert servers.get_node("gpu01").state == "quarantined"
    assert list_steps() == [(GPU, "gpu01", "xid_95", "reset")]
    run_command("record", GPU, "reset", "--reason", "nvidia-smi -r")
    assert list_steps() == [(GPU, "gpu01", "xid_95", "burn_in")]
    burn_in("gpu02", "b1", 2, XID_95)  # the card was moved to the other server, and fails there too
    assert list_steps() == [(GPU, "gpu02", "xid_95", "reboot")]
    run_command("record", "gpu02", "reboot", "--reason", "power cycle", "--by", "bob")
    burn_in("gpu02", "b2", 3, XID_95)
    assert list_steps() == [(GPU, "gpu02", "xid_95", "rma")]
    shown = run_command("show", GPU).stdout
    assert "placed  gpu01 (r1/1) 0000:18:00.0" in shown
    assert "action  reboot  power cycle  by bob" in shown
    assert "action  reset  nvidia-smi -r  by ann" in shown


def test_late_result_changes_no_ledger(burn_in, servers):
    burn_in("gpu01", "a2", 5)
    burn_in("gpu01", "a1", 1, XID_95, live=False)
    assert list_steps() == []


def test_healthy_measurement_closes_the_fault(burn_in):
    burn_in("gpu01", "a1", 1, XID_95)
    burn_in("gpu01", "a2", 2)
    assert list_steps() == []
    assert "passed  xid_95" in run_command("show", GPU).stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("record", GPU, "reset", "--reason", " "), "--reason: is empty"),
        (("record", GPU, "reset", "--reason", "x", "--by", ""), "--by: is empty or too long"),
        (("record", GPU, "polish", "--reason", "x"), "unknown action 'polish'"),
        (("record", "gpu02", "reset", "--reason", "x"), "gpu02 has no part with an open fault"),
        (("show", "nothing"), "no part or node 'nothing'"),
    ],
)
def test_bad_input_is_one_line(burn_in, arguments, problem):
    burn_in("gpu01", "a1", 1, XID_95)
    burn_in("gpu02", "b1", 1)
    burn_in("gpu01", "a3", 2, XID_95)
    result = run_command(*arguments)
    assert isinstance(result.exception, InputError)
    assert problem in str(result.exception)


def test_list_is_readable_and_names_the_step(burn_in):
    burn_in("gpu01", "a1", 1, XID_95)
    (line,) = run_command("list").stdout.splitlines()
    assert line.split() == ["gpu", GPU, "gpu01", "0000:18:00.0", "xid_95", "1x", "next:", "reset"]
    assert "-> " in run_command("steps").stdout


def test_actor_is_the_login(monkeypatch):
    monkeypatch.setenv("LOGNAME", "ann")
    assert (repair.find_actor(), repair.find_actor("bob")) == ("ann", "bob")


def run_nodes(*arguments):
    return CliRunner().invoke(nodes_command, list(arguments))


def test_quarantine_shows_check_reading_threshold_and_record(burn_in, servers):
    burn_in("gpu01", "a1", 1, XID_95)
    (evidence,) = json.loads(run_nodes("show", "gpu01", "--json").stdout)["evidence"]
    (result,) = servers.list_burn_in_results("gpu01")
    assert (evidence["name"], evidence["measured"], evidence["threshold"]) == ("gpu_xid", 1.0, 0.0)
    assert (evidence["attempt"], evidence["record"], evidence["sha256"]) == (
        "a1",
        result.number,
        result.digest,
    )
    text = run_nodes("show", "gpu01").stdout
    assert f"record {result.number}, sha256 {result.digest[:12]}, attempt a1]" in text
    assert f"next step         reset (gpu {GPU}: xid_95)" in text


def test_faulty_part_shows_what_measures_its_node_again(burn_in, servers):
    burn_in("gpu01", "a1", 1, XID_95)
    move = "gpufleet nodes state gpu01 burn_in --reason ..., then gpufleet configure --limit gpu01"
    assert f"afterwards  {move}\n" in run_command("show", "gpu01").stdout
    servers.move_node("gpu01", "burn_in", "card was reset")
    assert "afterwards  gpufleet burnin run gpu01\n" in run_command("show", "gpu01").stdout
    run_command("record", "gpu01", "reset", "--reason", "nvidia-smi -r")
    assert "measure the node again: gpufleet burnin run gpu01\n" in run_command("show", "gpu01").stdout


def test_quarantine_by_a_person_shows_who_and_why(burn_in):
    burn_in("gpu01", "a1", 1)
    run_nodes("state", "gpu01", "quarantined", "--reason", "smells burnt", "--by", "bob")
    assert "evidence          smells burnt (by bob, " in run_nodes("show", "gpu01").stdout


def test_release_is_recorded_with_who_and_why_and_never_leads_straight_to_ready(burn_in, servers):
    burn_in("gpu01", "a1", 1, XID_95)
    refused = run_nodes("state", "gpu01", "ready", "--reason", "looks fine")
    assert "quarantined cannot become ready" in str(refused.exception)
    refused = run_nodes("state", "gpu01", "burn_in", "--reason", " ")
    assert "--reason: is empty" in str(refused.exception)
    assert servers.get_node("gpu01").state == "quarantined"
    run_nodes("state", "gpu01", "burn_in", "--reason", "card was reset")
    history = json.loads(run_nodes("history", "gpu01", "--json").stdout)
    assert {key: history[-1][key] for key in ("to", "reason", "by")} == {
        "to": "burn_in", "reason": "card was reset", "by": "ann",
    }  # fmt: skip
    assert run_nodes("history", "gpu01").stdout.rstrip().endswith("card was reset  by ann")
    assert all(row["by"] is None for row in history[:-1])


@pytest.mark.parametrize("verb", ["hold", "release"])
def test_holds_are_recorded_with_who(burn_in, servers, verb):
    run_nodes("hold", "gpu01", "operator", "--reason", "mine", "--by", "bob")
    if verb == "release":
        run_nodes("release", "gpu01", "operator", "--reason", "done")
    last = servers.list_node_history("gpu01")[-1]
    assert (last.event, last.actor) == (verb, {"hold": "bob", "release": "ann"}[verb])
