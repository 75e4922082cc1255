"""The demo is a list of commands, and it fails unless its faults are found."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from ruamel.yaml import YAML

from gpufleet.burnin.agent import supervisor
from gpufleet.errors import CheckFailed, EnvironmentFault
from gpufleet.rehearsal import demo


def blade(name, state="ready", node_holds=(), reachable=True):
    return {
        "name": name,
        "kind": "compute_blade",
        "state": state,
        "holds": list(node_holds),
        "reachable": reachable,
    }


FINAL_NODES = [
    blade("blade01"),
    blade("blade04", "discovered", reachable=False),
    blade("blade09", "quarantined"),
    blade("blade13", node_holds=["operator"]),
]


def test_demo_summary_lists_each_fault():
    summary = demo.check_and_summarize_blades(FINAL_NODES)
    assert summary == "1 of 4 blades are ready; degraded: blade13; faulty: blade09; unreachable: blade04"


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_undetected_fault_fails_the_demo(missing):
    nodes = [node if i != missing else blade(node["name"]) for i, node in enumerate(FINAL_NODES)]
    with pytest.raises(CheckFailed, match="three faults"):
        demo.check_and_summarize_blades(nodes)


def test_what_if_adds_one_machine_and_leaves_the_stack_file_alone(tmp_path):
    source, target = tmp_path / "Pulumi.x.yaml", tmp_path / "what-if.yaml"
    source.write_text(
        "config:\n  gpufleet:fleet:\n    pools:\n      - {name: a, count: {min: 1}}\n      - {count: 2}\n"
    )
    before = source.read_text()
    demo.write_spec_with_extra_node(source, target)
    pools = YAML().load(target.read_text())["config"]["gpufleet:fleet"]["pools"]
    assert [pool["count"] for pool in pools] == [{"min": 1}, 3]
    assert source.read_text() == before


def test_failing_step_stops_the_demo_and_names_its_command(tmp_path):
    with pytest.raises(EnvironmentFault, match="exit 3"):
        demo.run_demo_step(
            demo.DemoStep("t", "exit 3", allows_failure=True), tmp_path, {"PATH": "/usr/bin:/bin"}
        )


def test_demo_step_may_be_allowed_to_exit_with_1(tmp_path):
    demo.run_demo_step(demo.DemoStep("t", "exit 1", allows_failure=True), tmp_path, {"PATH": "/usr/bin:/bin"})
    with pytest.raises(EnvironmentFault):
        demo.run_demo_step(demo.DemoStep("t", "exit 1"), tmp_path, {"PATH": "/usr/bin:/bin"})


def test_unhealthy_nodes_are_listed_with_their_failed_checks():
    bad = {"name": "storage", "outcome": "fail", "reason": "disk is full"}
    fine = {"name": "cpu", "outcome": "pass", "reason": ""}
    reports = [
        {"node": "blade09", "verdict": "faulty", "checks": [fine, bad]},
        {"node": "blade01", "verdict": "healthy", "checks": [fine]},
    ]
    assert demo.describe_unhealthy_nodes(reports) == ["blade09 faulty: disk is full"]


def test_cost_summary_has_the_monthly_cost_before_and_after():
    change = {"before": {"usd_per_month": 1000.4}, "after": {"usd_per_month": 2000.0}}
    assert "1,000 USD a month" in demo.describe_cost_change(change)
    assert demo.describe_cost_change(change).endswith("2,000")


def test_invalid_json_output_is_reported_with_its_error(tmp_path):
    with pytest.raises(EnvironmentFault, match="did not print JSON but: broken"):
        demo.run_json_command(["sh", "-c", "echo broken >&2; exit 3"], tmp_path, {"PATH": "/usr/bin:/bin"})
    assert demo.run_json_command(["sh", "-c", "echo [1]; exit 1"], tmp_path, {"PATH": "/usr/bin:/bin"}) == [1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_demo_stops_its_running_step(tmp_path, number):
    """Test that a step gets its signal, time to stop by itself, and that nothing of it is left."""
    program = tmp_path / "step.py"
    program.write_text(
        "import signal, subprocess, sys, time\n"
        f"here = {str(tmp_path)!r}\n"
        "def stop(*_):\n"
        "    time.sleep(0.5)\n"
        "    open(here + '/tidy', 'w').close()\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "open(here + '/child.new', 'w').write(str(child.pid))\n"
        "import os; os.rename(here + '/child.new', here + '/child')\n"
        "time.sleep(600)\n"
    )
    run = (
        "import os, sys\nfrom pathlib import Path\nfrom gpufleet.rehearsal import demo\n"
        f"step = demo.DemoStep('t', {f'true | {sys.executable} {program}'!r})\n"
        f"demo.run_demo_step(step, Path({str(tmp_path)!r}), os.environ)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", run], start_new_session=True, stderr=subprocess.DEVNULL)
    wait_until((tmp_path / "child").exists)
    child = int((tmp_path / "child").read_text())
    started = supervisor.read_process_start_time(child)
    process.send_signal(number)
    process.wait(120)
    wait_until((tmp_path / "tidy").exists)
    wait_until(lambda: supervisor.read_process_start_time(child) != started)


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
