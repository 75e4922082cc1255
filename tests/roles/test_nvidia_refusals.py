"""Test refusals of the NVIDIA roles before any change, with fakes of nvidia-smi and mokutil."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HOST = "nv01"
# FAKE mokutil: the words of mokutil 0.6.0's binary (Debian 12), the state in a file.
MOKUTIL = """#!/bin/sh
# FAKE
file=/etc/gpufleet-rehearsal/mok-requested
case $1 in
  --sb-state) echo "SecureBoot enabled" ;;
  --test-key)
    if [ -e $file ]; then echo "$2 is already in the enrollment request"; exit 1; fi
    echo "$2 is not enrolled" ;;
  --import) read -r one; read -r two; [ "$one" = "$two" ] && echo "$#" >$file ;;
esac
"""


@pytest.fixture(scope="module")
def runs(lab):
    """Put the fakes on the host, run the play twice, and take them away again."""
    lab.add({HOST: {"kind": "servers", "accelerators": [{"model": "H100 SXM5 80GB", "count": 8}]}})
    host = lab.host(HOST)
    state = json.dumps({"gpus": [{"mode": "Disabled", "instances": []}] * 2})
    files = {
        "/usr/local/bin/nvidia-smi": (HERE / "files/nvidia_smi.py").read_text(),
        "/usr/local/bin/mokutil": MOKUTIL,
        "/etc/gpufleet-rehearsal/mig.json": state,
        "/etc/gpufleet-rehearsal/mok.pub": "DER",
    }
    for path, text in files.items():
        quoted = text.replace("'", "'\\''")
        host.check_output(f"printf '%s' '{quoted}' > {path}; chmod 755 {path}")
    yield [lab.run(HERE / "plays/nvidia_refusals.yml") for _ in range(2)]
    host.check_output(f"rm -f {' '.join(files)} /etc/gpufleet-rehearsal/mok-requested")


def task_output(run, task):
    return next(result.output for result in run.results_of(HOST) if task in result.task)


def test_fabric_manager_of_another_version_is_refused(runs):
    message = task_output(runs[0], "Show the fabric manager's refusal")["msg"]
    assert "fabric manager 580.95.05 does not fit driver 580.126.20" in message


def test_mig_geometry_that_does_not_fit_is_refused_before_any_change(runs):
    assert (
        "2 x 3g.40gb, 1 x 1g.10gb has no placement"
        in task_output(runs[0], "Show the geometry's refusal")["msg"]
    )


def test_mig_geometry_that_fits_is_applied_once(lab, runs):
    assert [run.rc for run in runs] == [0, 0]  # both refusals were rescued
    first, second = (task_output(run, "Create the declared MIG geometry") for run in runs)
    assert (first["changed"], second["changed"]) == (True, False)
    gpus = json.loads(lab.host(HOST).check_output("cat /etc/gpufleet-rehearsal/mig.json"))["gpus"]
    assert [gpu["instances"] for gpu in gpus] == [["3g.40gb", "1g.10gb", "1g.10gb", "1g.10gb"]] * 2


def test_power_limit_that_no_card_has_is_refused_in_one_line(runs):
    message = task_output(runs[0], "Show the power limit's refusal")["msg"]
    assert message == "GPU 0, 1 (NVIDIA H100 80GB HBM3): power_limit 900 W must be within 200-700 W"


def test_gpu_settings_are_applied_once_and_by_the_unit_at_each_boot(lab, runs):
    task = "Check the declared GPU settings"
    answers = [
        [result for result in run.results_of(HOST) if task in result.task][-1].output["changed"]
        for run in runs
    ]
    assert answers == [True, False]
    host = lab.host(HOST)
    lost = json.dumps({"gpus": [{"mode": "Disabled", "instances": []}] * 2})
    host.check_output(
        f"rm /run/gpufleet/gpu_settings.json; printf '%s' '{lost}' > /etc/gpufleet-rehearsal/mig.json"
    )
    host.check_output("systemctl start gpufleet-gpu-settings")
    gpus = json.loads(host.check_output("cat /etc/gpufleet-rehearsal/mig.json"))["gpus"]
    assert [(gpu["power_limit"], gpu["locked_graphics"]) for gpu in gpus] == [(300.0, [345, 1410])] * 2
    assert host.service("gpufleet-gpu-settings").is_enabled
    host.check_output(
        "systemctl disable --now gpufleet-gpu-settings && rm -rf /etc/gpufleet/gpu_settings.json"
    )


def test_machine_owner_key_is_requested_once_under_secure_boot(lab, runs):
    first, second = (task_output(run, "Ask for the key") for run in runs)
    assert (first["state"], first["changed"]) == ("pending", True)
    assert (second["state"], second["changed"]) == ("pending", False)
    assert "only-once-12" not in runs[0].stdout
    # Two words: the verb and the certificate. The password was not among them.
    assert lab.host(HOST).check_output("cat /etc/gpufleet-rehearsal/mok-requested") == "2"
