"""Test the acceptance of a fleet: its verdict by the stated rule, its signed files, and what is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpufleet import burnin
from gpufleet.burnin import acceptance as pure
from gpufleet.burnin.report import is_rehearsed
from gpufleet.cli.burnin import burnin_command
from gpufleet.cli.passport import passport_command
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import acceptance

CASES = Path(__file__).resolve().parents[1] / "cases/burnin"
BLADE = json.loads((CASES / "bases/compute_blade.json").read_text())["records"]
EVIL = "<script>alert(1)</script>\x1b[2J\u202e"


def register(registry, name, slot, rack="r1"):
    registry.apply_observation(
        NodeObservation(
            f"rack:{rack}",
            name,
            NodeIdentity(f"SERIAL{slot:04}", rack=rack, slot=str(slot)),
            declared={"kind": "compute_blade", "machine": "cm4"},
        )
    )


def measure(registry, name, records=BLADE):
    registry.advance_node(name, "commissioning", "answered")
    registry.advance_node(name, "burn_in", "configured")
    attempt = registry.start_attempt(name, "burn_in")
    report = replace(burnin.judge_attempt(records, "compute_blade", "quick", node=name), attempt=attempt)
    registry.record_burn_in_result(name, attempt, report.as_json(), records, reason="test")


def build_slow_records():
    records = json.loads(json.dumps(BLADE))
    memory = next(record for record in records if record.get("name") == "memory")
    memory["raw"]["copy_mb_per_s"] = 100.0
    return records


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Give a registry of three healthy nodes."""
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    monkeypatch.setenv("LOGNAME", "ann")
    monkeypatch.chdir(tmp_path)
    with Registry(url) as registry:
        for slot in (1, 2, 3):
            register(registry, f"blade0{slot}", slot)
            measure(registry, f"blade0{slot}")
        yield registry


def run(*arguments, command=burnin_command):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def accept(*arguments):
    """Return the document and the exception of a run."""
    result = run("accept", "--json", *arguments)
    return json.loads(result.stdout), result.exception


def find_row(document, name):
    return next(node for node in document["nodes"] if node["name"] == name)


def test_healthy_fleet_is_accepted_with_its_results_beside_their_bounds(registry):
    document, problem = accept()
    assert (document["verdict"], problem) == ("accepted", None)
    assert document["statement"] == "accepted: 3 nodes, 3 accepted"
    jsonschema.Draft202012Validator(pure.load_acceptance_schema()).validate(document)
    memory = next(row for row in document["checks"] if row["name"] == "memory")
    assert (memory["pass"], memory["threshold"] <= memory["lowest"]) == (3, True)
    assert memory["threshold_source"]
    row = find_row(document, "blade01")
    assert (row["serial"], len(row["records_sha256"]), row["profile"]) == ("SERIAL0001", 64, "quick")
    assert document["runs"][0]["nodes"] == 3


def reject_slow(registry):
    measure(registry, "blade02", build_slow_records())


def reject_unmeasured(registry):
    register(registry, "blade02b", 9)


def reject_stale(registry):
    registry.move_node("blade02", "burn_in", "a board was replaced")


def reject_mesh(registry):
    facts = {"outcome": "fail", "reasons": ["sends 90 Mbit/s, the rack's median is 940"]}
    registry.apply_observation(
        NodeObservation(
            "ansible", "blade02", NodeIdentity(rack="r1", slot="2"), observed={"network_mesh": facts}
        )
    )


def reject_quarantined(registry):
    registry.move_node("blade02", "quarantined", "smells of smoke")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (reject_slow, "memory (fail): "),
        (reject_unmeasured, "no result: it was never measured, and is expected"),
        (reject_stale, "no current result: it became burn_in after the measurement of "),
        (reject_mesh, "network: sends 90 Mbit/s, the rack's median is 940"),
        (reject_quarantined, "quarantined: smells of smoke"),
    ],
)
def test_one_rejected_node_rejects_the_fleet_with_its_reason(registry, spoil, reason):
    spoil(registry)
    document, problem = accept()
    assert (document["verdict"], document["counts"]["rejected"]) == ("not_accepted", 1)
    rejected = next(node for node in document["nodes"] if node["status"] == "rejected")
    assert rejected["name"].startswith("blade02")
    assert any(each.startswith(reason) for each in rejected["rejections"])
    assert "not accepted: " in str(problem)
    jsonschema.Draft202012Validator(pure.load_acceptance_schema()).validate(document)
    assert reason in run("accept").stdout


def test_network_test_of_long_ago_is_a_reservation(registry, monkeypatch):
    old = datetime.now(UTC) - timedelta(days=40)
    place, facts = NodeIdentity(rack="r1", slot="2"), {"outcome": "pass", "reasons": []}
    registry.apply_observation(
        NodeObservation("ansible", "blade02", place, observed={"network_mesh": facts}, observed_at=old)
    )
    document, _ = accept()
    assert (document["verdict"], document["mesh"]) == ("accepted_with_reservations", None)
    assert "network: it was measured on " in find_row(document, "blade02")["reservations"][0]
    registry.apply_observation(NodeObservation("ansible", "blade02", place, observed={"network_mesh": facts}))
    document, _ = accept()
    assert (document["verdict"], document["mesh"]["pass"]) == ("accepted", 1)


def test_versions_are_counted(registry):
    versions = {
        "type": "check",
        "name": "versions",
        "status": "ran",
        "raw": {"parts": {"kernel": ["6.8.0-49-generic"]}},
    }
    measure(registry, "blade01", [*BLADE[:-1], versions, BLADE[-1]])
    assert {"part": "kernel", "version": "6.8.0-49-generic", "nodes": 1} in accept()[0]["versions"]


def test_hold_warning_and_looser_bound_are_reservations(registry, tmp_path):
    registry.set_node_hold("blade01", "operator", "its fan is loud")
    text = "site override (looser): copy_mb_per_s at least 100 instead of at least 1000 (ann, 2026-11-20: old memory)"
    report = registry.list_burn_in_results("blade03")[-1].report
    evidence = pure.NodeEvidence({"name": "x"}, "ready", "", is_out_of_use=False, report=report)
    checks = [dict(check) for check in report["checks"]]
    checks[0] |= {"reason": text}
    row = pure.build_node_row(replace(evidence, report={**report, "checks": checks}))
    assert (row["status"], row["reservations"]) == ("reservation", [f"{checks[0]['name']}: {text}"])
    warned = replace(
        evidence, report={**report, "verdict": "degraded", "checks": [{**checks[1], "outcome": "warn"}]}
    )
    assert pure.build_node_row(warned)["status"] == "reservation"
    document, problem = accept()
    assert (document["verdict"], problem) == ("accepted_with_reservations", None)
    assert find_row(document, "blade01")["reservations"] == ["hold operator: its fan is loud"]


def test_old_and_short_results_do_not_count(registry, monkeypatch):
    document, _ = accept("--limit", "blade01", "--profile", "standard")
    assert document["nodes"][0]["rejections"] == [
        "no current result: it was measured by the profile quick, not standard"
    ]
    later = datetime.now(UTC) + timedelta(days=40)
    monkeypatch.setattr(acceptance, "utc_now", lambda: later)
    document, _ = accept("--limit", "blade01")
    assert "over 30 days ago" in document["nodes"][0]["rejections"][0]
    assert accept("--limit", "blade01", "--max-age", 60)[0]["verdict"] == "accepted"


def test_limit_selects_nodes_by_names_ranges_and_groups(registry):
    register(registry, "other01", 21, "r2")
    assert [node["name"] for node in accept("--limit", "blade[01-02]")[0]["nodes"]] == ["blade01", "blade02"]
    assert [node["name"] for node in accept("--limit", "rack_r1,!blade02")[0]["nodes"]] == [
        "blade01",
        "blade03",
    ]
    problem = str(run("accept", "--limit", "blade99").exception)
    assert problem.startswith("--limit: no node or group blade99")


@pytest.fixture
def files(registry, tmp_path):
    assert run("keygen", "key", command=passport_command).exception is None
    registry.set_node_hold("blade01", "operator", EVIL)
    result = run("accept", "--key", "key", "--output", "a.json", "--output", "a.html")
    assert result.exception is None, result.exception
    return tmp_path


def verify(file, *arguments):
    return run("verify", file, "--key", "key.pub", *arguments, command=passport_command)


@pytest.mark.parametrize("name", ["a.json", "a.html"])
def test_signed_files_are_verified_and_every_change_is_found(files, name):
    assert verify(name).stdout.startswith("valid: acceptance of all, issued 20")
    assert "accepted with reservations" in verify(name).stdout
    assert "but the fleet is accepted with reservations" in str(verify(name, "--require-healthy").exception)
    content = (files / name).read_bytes()
    for place in range(0, len(content), max(1, len(content) // 40)):
        changed = bytearray(content)
        changed[place] ^= 1
        (files / name).write_bytes(bytes(changed))
        assert verify(name).exit_code == 1, place
    for changed in (content[:-30], content + b" ", content.replace(b"SERIAL0002", b"SERIAL0009")):
        (files / name).write_bytes(changed)
        assert verify(name).exit_code == 1


def test_signature_of_one_form_is_none_of_another(files):
    page = (files / "a.html").read_text()
    inner = base64.b64decode(page.rsplit(" ", 2)[1])
    (files / "b.json").write_bytes(inner)
    assert verify("b.json").exit_code == 1
    run("keygen", "other", command=passport_command)
    other = run("verify", "a.html", "--key", "other.pub", command=passport_command)
    assert "was signed by the key" in str(other.exception)


def test_page_has_the_reasons_and_no_markup_of_nodes(files):
    page = (files / "a.html").read_text()
    assert "hold operator: &lt;script&gt;" in page
    assert "<script" not in page
    assert "\x1b" not in page
    for text in ("Acceptance of a fleet", "SERIAL0001", "Results and bounds", "was not tested"):
        assert text in page


def test_file_without_a_key_is_refused_in_one_line(registry):
    problem = run("accept", "--output", "a.json").exception
    assert str(problem) == "--output: a file must be signed; give --key (see gpufleet passport keygen)"
    assert not Path("a.json").exists()


def test_large_fleet_is_signed_and_verified_within_the_limits(registry):
    report = registry.list_burn_in_results("blade01")[-1].report
    evidence = [
        pure.NodeEvidence(
            {"name": f"n{number}"}, "ready", "", is_out_of_use=False, report=report, recorded_at="x"
        )
        for number in range(500)
    ]
    head = {"issued_at": "", "issued_by": "", "pattern": "all"}
    document = pure.build_acceptance(evidence, [], head)
    key = Ed25519PrivateKey.generate()
    content = pure.sign_acceptance(document, key).encode()
    assert pure.verify_acceptance(content, key.public_key(), "x")["counts"]["accepted"] == 500
    assert len(content) / 500 * pure.MAX_NODES < pure.FILE_LIMITS.bytes / 2


def test_reasons_and_nodes_are_bounded():
    reasons = pure.limit_reasons([f"reason {number} {'x' * 900}" for number in range(50)])
    assert (len(reasons), reasons[-1]) == (pure.MAX_REASONS + 1, "and 30 more")
    assert all(len(reason) <= pure.LONGEST_REASON + 1 for reason in reasons)
    assert pure.build_acceptance([], [], {})["verdict"] == "not_accepted"


PASSED = {"name": "memory", "outcome": "pass", "measured": 9.0, "unit": "GB/s", "reason": ""}
FAILED = {"name": "gpu_xid", "outcome": "fail", "reason": "XID 79"}
HEAD = {"issued_at": "2026-11-29T00:00:00Z", "issued_by": "ann", "pattern": "all"}


def build_evidence(verdict="healthy", checks=(PASSED,), mesh=None):
    return pure.NodeEvidence(
        identity={"name": "node01"},
        state="healthy",
        state_reason="",
        is_out_of_use=False,
        report={"verdict": verdict, "profile": "quick", "checks": list(checks)},
        recorded_at="2026-11-28T00:00:00Z",
        mesh=mesh,
    )


@pytest.mark.parametrize(
    ("evidence", "status", "reason"),
    [
        (build_evidence(), "accepted", ""),
        (build_evidence(checks=[]), "rejected", "the result is healthy, but has no checks"),
        (build_evidence(checks=[PASSED, FAILED]), "rejected", "gpu_xid (fail): XID 79"),
        (build_evidence(verdict="HEALTHY"), "rejected", "burn-in: HEALTHY"),
        (build_evidence(verdict="degraded"), "reservation", "burn-in: degraded"),
        (build_evidence(mesh={"outcome": "passed"}), "rejected", "the test ended in passed"),
        (build_evidence(mesh={"reasons": []}), "rejected", "the test ended in None"),
        (build_evidence(mesh={"outcome": "pass"}), "accepted", ""),
    ],
)
def test_result_that_contradicts_itself_is_not_accepted(evidence, status, reason):
    row = pure.build_acceptance([evidence], [], HEAD)["nodes"][0]
    assert row["status"] == status
    assert reason in " ".join([*row["rejections"], *row["reservations"]])


def test_number_that_json_does_not_have_is_signed_as_text():
    key = Ed25519PrivateKey.generate()
    odd = PASSED | {"measured": float("nan")}
    signed = pure.sign_acceptance(pure.build_acceptance([build_evidence(checks=[odd])], [], HEAD), key)
    document = pure.verify_acceptance(signed.encode(), key.public_key(), "fleet.json")
    assert document["nodes"][0]["checks"][0]["measured"] == "nan"


def test_acceptance_of_rehearsed_hosts_says_so():
    checks = [
        {"name": "cpu", "outcome": "pass", "threshold_source": "rehearsed hosts share the machine's cores"}
    ]
    assert is_rehearsed({"checks": checks})
    assert not is_rehearsed({"checks": [{"name": "cpu", "threshold_source": "measured"}, None]})
    assert not is_rehearsed({})
    document = pure.build_acceptance([build_evidence()], [], HEAD | {"rehearsal": True}, ["rule x"])
    assert document["statement"].endswith("; a rehearsal: these are simulated hosts, not hardware")
    assert document["site_rules"] == ["rule x"]


def test_rules_that_the_site_set_are_in_the_acceptance(tmp_path, monkeypatch):
    (tmp_path / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    (tmp_path / "burn-in-rules.yaml").write_text(
        "record_only:\n- {rule: xid_31_repeated, reason: our jobs cause them, by: Ada, date: 2026-11-20}\n"
    )
    (tmp_path / "burn-in-kernel-log.yaml").write_text(
        "rules:\n- {id: nvme_lost, words: ['nvme lost'], pattern: nvme lost, part: drive, outcome: record,"
        " steps: [inspect], meaning: known noise of these drives, source: 'Ada Lovelace, ticket 4711',"
        " date: 2026-11-20, example: nvme lost}\n"
    )
    monkeypatch.chdir(tmp_path)
    switch, rule = acceptance.list_site_rules()
    assert switch == "rule over time xid_31_repeated: only recorded"
    assert rule.startswith("rule of the kernel log nvme_lost: record, replaces the shipped rule: known noise")
