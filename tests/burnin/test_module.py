"""Test the Ansible module that runs the agent: what it returns and how it bounds its result."""

from __future__ import annotations

import json
import sys

import pytest

from ansible_collections.gpufleet.fleet.plugins.modules import burn_in


@pytest.fixture
def module_parameters(agent, tmp_path):
    """Return a module's parameters for a short real run."""
    return {
        "agent": str(agent),
        "attempt": "a/1",
        "profile": "quick",
        "only": ["pi_throttled"],
        "params": {"rehearsal": True},
        "out": str(tmp_path / "record.jsonl"),
    }


def script(text):
    """Return a command line that behaves like a broken agent."""
    return [sys.executable, "-c", text]


def test_module_runs_the_agent_and_returns_its_records(module_parameters):
    out, _, early = burn_in.run_agent(burn_in.build_agent_command(module_parameters), 60)
    kinds = [record["type"] for record in burn_in.parse_agent_records(out)]
    assert (early, kinds) == ("", ["start", "check", "end"])


def test_record_file_is_named_after_the_attempt(module_parameters):
    argv = burn_in.build_agent_command(module_parameters | {"out": None})
    assert argv[argv.index("--out") + 1].endswith("/burn-in-a_1.jsonl")
    assert "rehearsal=true" in argv


def test_agent_that_exits_early_is_reported():
    out, err, early = burn_in.run_agent(
        script("import sys; print('{\"type\": \"start\"}'); sys.exit('boom')"), 60
    )
    assert (burn_in.parse_agent_records(out), err.strip()) == ([{"type": "start"}], b"boom")
    assert early == "the agent exited with status 1"


def test_hanging_agent_is_stopped_and_its_records_are_returned():
    text = 'import time; print(\'{"type": "start"}\\n{"torn\', flush=True); time.sleep(60)'
    out, _, early = burn_in.run_agent(script(text), 1)
    assert burn_in.parse_agent_records(out) == [{"type": "start"}]
    assert early == "the agent was stopped after 1 s"


def test_eight_gpus_fit_one_result_by_shorter_series():
    def series(count):
        return {"columns": ["seconds", "watts"], "samples": [[at * 0.25, 700123] for at in range(count)]}

    devices = [{"bus_id": f"0000:{at:02x}:00.0", "series": series(900)} for at in range(8)]
    record = {"type": "check", "name": "gpu_compute", "status": "ran", "raw": {"devices": devices}}
    (shortened,) = burn_in.shorten_agent_records([record])
    assert len(json.dumps(shortened)) <= burn_in.MAX_RESULT_BYTES
    assert shortened["status"] == "ran"
    assert {len(device["series"]["samples"]) for device in shortened["raw"]["devices"]} == {450}
    assert shortened["raw"]["devices"][0]["series"]["samples"][1][0] == 0.5


def test_too_long_output_is_omitted_and_its_check_does_not_pass():
    small = {"type": "check", "name": "cpu", "status": "ran", "raw": {"rounds": 1}}
    long = {"type": "check", "name": "gpu_nvidia", "status": "ran", "raw": {"xml": {"text": "x" * 150_000}}}
    records = burn_in.shorten_agent_records([small, long])
    assert len(json.dumps(records)) <= burn_in.MAX_RESULT_BYTES
    assert [record["status"] for record in records] == ["ran", "error"]


def test_ansible_result_contains_one_event(agent, tmp_path, ansible):
    arguments = {"node": "n1", "agent": str(agent), "attempt": "a1", "only": ["blade"]}
    result = ansible("gpufleet.fleet.burn_in", arguments | {"out": str(tmp_path / "r.jsonl")})
    event = result["gpufleet"]
    assert (result["changed"], event["node"], event["event"], event["attempt"]) == (
        False,
        "n1",
        "burn_in",
        "a1",
    )
    assert event["facts"]["arch"]
    assert [record["type"] for record in event["records"]] == ["start", "check", "end"]


def test_check_mode_skips_the_run(agent, tmp_path, ansible):
    out = tmp_path / "r.jsonl"
    arguments = {"node": "n1", "agent": str(agent), "attempt": "a1", "out": str(out)}
    result = ansible("gpufleet.fleet.burn_in", arguments, "--check")
    assert "check mode" in result["msg"]
    assert not out.exists()
    assert "gpufleet" not in result


def test_missing_agent_fails_with_a_remedy(tmp_path, ansible):
    arguments = {"node": "n1", "agent": str(tmp_path / "absent.pyz"), "attempt": "a1"}
    assert "copy it to the node first" in ansible("gpufleet.fleet.burn_in", arguments)["msg"]
