"""Test the Ansible module that runs the agent: what it returns and how it bounds its result."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

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


class ModuleFailureError(Exception):
    """Raised by the module's fail_json."""


class FakeModule:
    """An AnsibleModule as far as the measurement uses it."""

    def __init__(self, params):
        self.params = {"timeout": 60, "state": None, "resume": False, **params}

    def fail_json(self, msg):
        raise ModuleFailureError(msg)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"expect_gpu": 7}, "'expect_gpu' is not a parameter; did you mean expect_gpus?"),
        ({"expect_gpus": "many"}, "expect_gpus must be a whole number from 0 to 100000, got 'many'"),
    ],
)
def test_wrong_parameter_fails_the_task_and_is_no_measurement(module_parameters, params, message):
    module = FakeModule(module_parameters | {"params": params})
    with pytest.raises(ModuleFailureError, match=re.escape(f"the agent measured nothing: agent: {message}")):
        burn_in.measure_attached(module)


def test_wrong_parameter_of_a_detached_run_fails_the_task(module_parameters, tmp_path, monkeypatch):
    agent = tmp_path / "agent.pyz"
    module = FakeModule(module_parameters | {"agent": str(agent), "state": str(tmp_path)})
    monkeypatch.setattr(burn_in, "SYSTEMD_RUNS", tmp_path)
    monkeypatch.setattr(burn_in.DetachedRun, "is_active", lambda _self: False)
    (tmp_path / "burn-in.attempt").write_text(module.params["attempt"])
    (tmp_path / "burn-in.err").write_text(
        "agent: 'expect_gpu' is not a parameter; did you mean expect_gpus?\n"
    )
    with pytest.raises(ModuleFailureError, match="did you mean expect_gpus"):
        burn_in.measure_detached(module)
    (tmp_path / "burn-in.err").write_text("Killed\n")
    (record,) = burn_in.measure_detached(module)
    assert record["reason"] == "the agent ended early: Killed"


def test_hanging_agent_is_stopped_and_its_records_are_returned():
    text = 'import time; print(\'{"type": "start"}\\n{"torn\', flush=True); time.sleep(60)'
    out, _, early = burn_in.run_agent(script(text), 10)
    assert burn_in.parse_agent_records(out) == [{"type": "start"}]
    assert early == "the agent was stopped after 10 s"


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


def test_busy_node_is_no_failure_of_the_agent():
    busy = '{"type": "end", "busy": "a job"}'
    out, _, early = burn_in.run_agent(script(f"import sys; print('{busy}'); sys.exit(5)"), 60)
    assert (burn_in.parse_agent_records(out), early) == ([json.loads(busy)], "")


@pytest.fixture
def detached(module_parameters, tmp_path, monkeypatch):
    """Give a detached run whose systemd runs the unit at once, to its end, and keeps what it was told."""
    agent = tmp_path / "run" / "agent.pyz"
    agent.parent.mkdir()
    shutil.copy(module_parameters["agent"], agent)
    state = {
        "agent": str(agent),
        "state": str(tmp_path / "state"),
        "detached": True,
        "resume": True,
        "out": None,
    }
    run = burn_in.DetachedRun(module_parameters | state | {"timeout": 60, "attempt": "a1"})
    run.commands = []

    def run_systemd(*argv):
        run.commands.append(argv)
        if argv[0] == "systemctl":
            return subprocess.CompletedProcess(argv, 3, b"inactive\n", b"")
        with run.output.open("wb") as out, run.errors.open("wb") as err:
            subprocess.run(argv[argv.index("--") + 1 :], stdout=out, stderr=err, check=False)
        return subprocess.CompletedProcess(argv, 0, b"", b"")

    monkeypatch.setattr(burn_in, "run_systemd", run_systemd)
    return run


def test_detached_run_is_started_once_and_collected_at_its_end(detached):
    assert not detached.is_started()
    assert detached.start() == ""
    assert (detached.is_active(), detached.is_started()) == (False, True)
    assert detached.describe_progress().startswith("pi_throttled since 20")
    assert [record["type"] for record in detached.collect()] == ["start", "check", "end"]
    state = Path(detached.params["state"])
    assert [path.name for path in state.glob("quick.*")] == ["quick.collected"]
    options = detached.commands[0]
    assert {"--property=KillMode=control-group", "--property=RuntimeMaxSec=60", "--collect"} <= set(options)


def test_run_that_ended_while_nobody_was_connected_is_reported(detached):
    detached.start()
    later = burn_in.DetachedRun(detached.params | {"attempt": "a2"})
    assert not later.is_started()
    later.start()
    records = later.collect()
    assert (records[0]["attempt"], records[-1]["type"]) == ("a1", "end")


def test_detached_agent_that_ends_early_has_its_reason(detached):
    detached.params["params"] = {"cpu_seconds": "\x1b[31mlong"}
    detached.start()
    with pytest.raises(ValueError, match="agent: cpu_seconds must be a number from 0 to 86400") as error:
        detached.collect()
    assert str(error.value).isprintable()


def test_record_of_a_busy_node_is_not_put_aside(detached):
    detached.start()
    text = detached.output.read_text().replace('"type": "end"', '"type": "end", "busy": "a job"')
    detached.output.write_text(text)
    detached.collect()
    assert (Path(detached.params["state"]) / "quick.jsonl").is_file()


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
