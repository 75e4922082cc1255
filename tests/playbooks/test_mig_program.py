"""Test the program that splits GPUs with a fake nvidia-smi that prints NVIDIA's documented output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.drivers import mig

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "modules/ansible_collections/gpufleet/fleet/roles/nvidia_mig/files/gpufleet_mig.py"


@pytest.fixture
def gpus(tmp_path):
    """Run the program on a number of GPUs in some state; returns (status, answer, state afterwards)."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvidia-smi").symlink_to(ROOT / "tests/roles/files/nvidia_smi.py")
    file = tmp_path / "state.json"

    def run(geometry, *, mode="Disabled", instances=(), count=1, verb="apply", options=(), **state):
        if not file.exists():
            rows = [{"mode": mode, "instances": list(instances)} for _ in range(count)]
            file.write_text(json.dumps({"gpus": rows, **state}))
        config = tmp_path / "mig.json"
        config.write_text(
            json.dumps(mig.build_mig_parted_config(mig.resolve_mig_geometry(geometry, ["2330"] * count)))
        )
        env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "NVIDIA_SMI_STATE": str(file)}
        result = subprocess.run(
            [sys.executable, PROGRAM, verb, *options, config],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return result.returncode, json.loads(result.stdout), json.loads(file.read_text())

    return run


def test_gpus_are_split_and_the_second_run_changes_nothing(gpus):
    status, report, state = gpus({"3g.40gb": 1, "1g.10gb": 2}, count=2)
    assert (status, report["changed"], report["left"]) == (0, True, [])
    assert [gpu["instances"] for gpu in state["gpus"]] == [["3g.40gb", "1g.10gb", "1g.10gb"]] * 2
    call_count = len(state["calls"])
    status, report, state = gpus({"3g.40gb": 1, "1g.10gb": 2}, count=2)
    assert (status, report["changed"]) == (0, False)
    assert not [
        call for call in state["calls"][call_count:] if "-mig" in call or "-cgi" in call or "-dgi" in call
    ]


def test_compute_instances_are_destroyed_before_other_instances(gpus):
    _, report, state = gpus({"1g.10gb": 7}, mode="Enabled", instances=["3g.40gb", "3g.40gb"])
    assert report["changed"]
    acted = [call.split()[1] for call in state["calls"] if call.startswith("mig -") and "-lgi" not in call]
    assert acted == ["-dci", "-dgi", "-cgi"]
    assert state["gpus"][0]["instances"] == ["1g.10gb"] * 7


def test_disabled_geometry_switches_mig_off(gpus):
    _, report, state = gpus("disabled", mode="Enabled", instances=["7g.80gb"])
    assert report["changed"]
    assert state["gpus"][0]["mode"] == "Disabled"


def test_check_mode_reports_changes_without_making_them(gpus):
    status, report, state = gpus({"3g.40gb": 2}, options=["--check"])
    assert (status, report["changed"]) == (0, True)
    assert state["gpus"][0]["mode"] == "Disabled"


def test_mode_change_that_needs_a_reset_is_reported_as_a_restart(gpus):
    status, report, state = gpus({"3g.40gb": 2}, no_reset=True)
    assert status == 0
    assert "restart the host" in report["needs"][0]
    assert report["left"]
    assert state["gpus"][0]["instances"] == []


def test_busy_gpu_is_not_split(gpus):
    status, report, state = gpus({"3g.40gb": 2}, apps=["GPU-fake-0, 4711, python3"])
    assert status == 1
    assert "in use by python3 (4711): drain the node first" in report["problem"]
    assert state["gpus"][0]["mode"] == "Disabled"


def test_missing_nvidia_smi_is_reported(gpus, tmp_path):
    (tmp_path / "bin/nvidia-smi").unlink()
    status, report, _ = gpus({"3g.40gb": 2})
    assert status == 1
    assert "nvidia-smi" in report["problem"]
