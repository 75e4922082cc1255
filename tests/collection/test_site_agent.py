"""Test that the role builds the agent with the site's rules, wherever the playbook is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import yaml

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.variable_names import COLLECTION

RULE = """\
rules:
  - id: fan_board
    words: ["acme-fan:"]
    pattern: 'acme-fan: (?P<at>fan[0-9]{1,2}) stalled'
    part: power
    outcome: review
    steps: [inspect]
    meaning: a fan of the chassis does not turn
    source: Ada Lovelace, ticket 4711
    date: 2026-11-20
    example: "acme-fan: fan3 stalled"
"""


def test_agent_has_the_rules_next_to_the_inventorys_project(tmp_path):
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project / "inventory", project / ".gpufleet", elsewhere):
        folder.mkdir(parents=True)
    (project / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    (project / "burn-in-kernel-log.yaml").write_text(RULE)
    (project / "inventory/hosts.ini").write_text(
        f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n"
    )
    task = {"ansible.builtin.import_role": {"name": "gpufleet.fleet.burn_in", "tasks_from": "agent.yml"}}
    play = {
        "hosts": "here",
        "gather_facts": False,
        "vars": {"burn_in_folder": str(elsewhere)},
        "tasks": [task],
    }
    (elsewhere / "play.yml").write_text(yaml.safe_dump([play]))
    modules = COLLECTION.parents[2]
    environment = os.environ | {
        "ANSIBLE_CONFIG": str(COLLECTION / "playbooks/ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(modules),
        "PYTHONPATH": str(modules),
    }
    environment.pop("GPUFLEET_HOME", None)
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "-i", project / "inventory/hosts.ini", "play.yml"],
        cwd=elsewhere, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(elsewhere / "agent.pyz") as agent:
        assert "acme-fan" in agent.read("burnin_agent/agent/kernel_words.py").decode()
