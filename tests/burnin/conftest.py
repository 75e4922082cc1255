"""Recorded and hand-made cases of burn-in, and one built agent for all tests."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet import burnin

CASES = Path(__file__).resolve().parents[1] / "cases" / "burnin"


def read_tool_output(name):
    """Return a tool's output by file name."""
    return (CASES / "outputs" / name).read_text()


def load_base_records(kind):
    """Return the records of a node of a kind on which everything is well."""
    return json.loads((CASES / "bases" / f"{kind}.json").read_text())["records"]


def set_record_value(record, path, value):
    """Set one value in a record by its dotted path."""
    *parents, last = path.split(".")
    for name in parents:
        record = record[int(name)] if isinstance(record, list) else record[name]
    record[last] = value


def record_name(record):
    """Return what a case calls a record: its check, or start or end."""
    return record.get("name", record["type"])


def case_records(case):
    """Return a case's records: its base, changed as it says, with tool outputs read from their files."""
    records = [
        record
        for record in copy.deepcopy(load_base_records(case["base"]))
        if record_name(record) not in case.get("drop", [])
    ]
    for record in records:
        for path, value in case.get("change", {}).get(record_name(record), {}).items():
            set_record_value(record, path, value)
        raw = record.get("raw", {})
        if record_name(record) == "gpu_nvidia" and isinstance(raw.get("xml"), dict) and "file" in raw["xml"]:
            raw["xml"] = {"text": read_tool_output(raw["xml"]["file"])}
    at = len(records) - 1
    return [*records[:at], *case.get("append", []), *records[at:]]


def judge(case):
    """Judge a case as it says."""
    return burnin.judge_attempt(
        case_records(case),
        case["kind"],
        "quick",
        case.get("rehearsal", False),
        is_configured=case.get("configured"),
        node="node-1",
    )


@pytest.fixture(scope="session")
def judge_case():
    """Give the function that judges a case."""
    return judge


@pytest.fixture(scope="session")
def records_of():
    """Give the function that makes a case's records."""
    return case_records


@pytest.fixture(scope="session")
def tool_output():
    """Give the function that reads a tool's output by file name."""
    return read_tool_output


@pytest.fixture(scope="session")
def agent(tmp_path_factory):
    """Build the agent once."""
    return burnin.build_agent_zipapp(tmp_path_factory.mktemp("agent") / "agent.pyz")


@pytest.fixture
def ansible(tmp_path):
    """Give a function that runs one module on this machine through Ansible itself."""

    def run(module, arguments, *options):
        argv = [
            str(Path(sys.executable).with_name("ansible")),
            "localhost",
            "-m",
            module,
            "-a",
            json.dumps(arguments),
        ]
        argv += [
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            f"ansible_python_interpreter={sys.executable}",
            *options,
        ]
        env = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path), "ANSIBLE_REMOTE_TEMP": str(tmp_path)}
        env |= {
            "ANSIBLE_STDOUT_CALLBACK": "oneline",
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_NOCOLOR": "1",
        }
        result = subprocess.run(
            argv, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=120, check=False
        )
        return json.loads(result.stdout.partition("=> ")[2])

    return run
