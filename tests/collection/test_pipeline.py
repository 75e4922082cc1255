"""Test the documented pipeline, ``ansible-runner transmit | worker | process``: its last command knows how it went."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

PLAY = [{
    "name": "Roll", "hosts": "all", "gather_facts": False, "connection": "local", "serial": 1, "max_fail_percentage": 0,
    "vars": {"ansible_python_interpreter": sys.executable},
    "tasks": [{"name": "Restart", "ansible.builtin.command": "{{ command }}", "changed_when": False}],
}]  # fmt: skip
CUT_OFF = "run r1 is not done: its events were cut off: the end of the run is missing"


@pytest.fixture
def send(rack_project, clean_env):
    """Send a run through the pipeline; return the exit code of ``ansible-runner process``."""
    packed = rack_project / "packed"
    for part, name, text in (
        ("project", "play.yml", json.dumps(PLAY)),
        ("inventory", "hosts", "blade01\nblade02\n"),
        ("env", "envvars", json.dumps({"ANSIBLE_CALLBACKS_ENABLED": "gpufleet.fleet.play_record"})),
    ):
        (packed / part).mkdir(parents=True, exist_ok=True)
        (packed / part / name).write_text(text)

    def run(command, between="cat"):
        (packed / "env" / "extravars").write_text(json.dumps({"command": command}))
        line = (
            f"ansible-runner transmit packed -p play.yml | ansible-runner worker 2>/dev/null | {between}"
            " | ansible-runner process results --ident r1 >/dev/null"
        )
        path = f"{shlex.quote(str(sys.prefix))}/bin:$PATH"
        return subprocess.run(
            ["bash", "-c", f"PATH={path}; {line}"], cwd=rack_project, env=clean_env, timeout=300, check=False
        ).returncode

    return run


@pytest.fixture
def ingest(gpufleet, rack_project):
    return lambda: gpufleet("nodes", "ingest", "results/artifacts/r1", cwd=rack_project)


@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [
        (("true", "cat"), 0, ""),
        (
            ("false", "cat"),
            1,
            "run r1 is not done: it ended as failed; not done: failed blade01, not reached blade02",
        ),
        (("true", "head -n 9"), 1, CUT_OFF),
        (("true", "head -c 0"), 1, CUT_OFF),
    ],
    ids=["done", "failed", "cut", "empty"],
)
def test_ingest_ends_the_pipeline_with_a_verdict(send, ingest, sent, code, message):
    assert send(*sent) == 0, "process of ansible-runner 2.4 always ends so"
    result = ingest()
    assert result.returncode == code, result.stdout + result.stderr
    assert message in result.stderr
    assert bool(result.stderr) == bool(message)
