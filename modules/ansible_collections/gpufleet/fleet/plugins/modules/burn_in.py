# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run the burn-in agent on the node, and hand its records to the registry."""

from __future__ import annotations

DOCUMENTATION = """
module: burn_in
short_description: Run the burn-in agent on a node
description:
  - Runs the agent (one file, built by C(gpufleet.burnin.build_agent_zipapp)) and returns the JSON lines that it
    streams. It neither judges nor changes anything. An interrupted attempt is continued.
  - The result's C(gpufleet) key reports the measurements to the registry. If the agent ends early, the result has
    its records so far and one that gives the reason; such an attempt is never healthy.
options:
  node: {description: The node's name in the inventory., type: str, required: true}
  agent: {description: Path of the agent on the node., type: path, required: true}
  attempt: {description: Identifier of this attempt., type: str, required: true}
  profile: {description: Which checks to run., type: str, default: quick}
  params: {description: Parameters of the checks by name., type: dict, default: {}}
  only: {description: Run only these checks; empty runs all of the profile., type: list, elements: str, default: []}
  out: {description: Path of the record on the node; by default next to the agent., type: path}
  timeout: {description: Seconds after which the agent is stopped., type: int, default: 900}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Measure
  gpufleet.fleet.burn_in:
    node: "{{ inventory_hostname }}"
    agent: /run/gpufleet-agent.pyz
    attempt: "{{ burn_in_attempt }}"
    params: {expect_cores: 4, expect_memory_gib: 8}
"""

RETURN = """
gpufleet: {description: "Event for the registry, with the agent's records.", returned: when it ran, type: dict}
"""

import json  # noqa: E402 - Ansible wants its documentation above the imports
import os  # noqa: E402
import re  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from subprocess import PIPE, Popen, TimeoutExpired  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

# What one host may add to Ansible's result and event files: eight GPUs' records with short series are some 60 kB.
MAX_RESULT_BYTES = 100_000
# Below this a series shows no course any more.
MIN_SAMPLES = 4
RECORD_TYPES = ("start", "check", "end")


def find_ssh_session_pid() -> int:
    """Return the process id of this run's SSH session, or 0; the agent itself might look for it too late."""
    pid = os.getpid()
    while pid > 1:
        try:
            head, __, tail = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
        except OSError:
            return 0
        if head.partition("(")[2].startswith("sshd"):
            return pid
        pid = int(tail.split()[1])
    return 0


def build_agent_command(params: dict[str, Any]) -> list[str]:
    """Return the agent's command line; the node's record is named by the attempt."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", params["attempt"])
    out = params["out"] or str(Path(params["agent"]).with_name(f"burn-in-{name}.jsonl"))
    argv = [sys.executable, params["agent"], "run", "--attached", "--attempt", params["attempt"]]
    argv += ["--profile", params["profile"], "--out", out, "--session", str(find_ssh_session_pid())]
    for check in params["only"]:
        argv += ["--only", check]
    for key, value in sorted(params["params"].items()):
        argv += ["--param", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return argv


def run_agent(argv: list[str], timeout: int) -> tuple[bytes, bytes, str]:
    """Run the agent in a session of its own; return output, errors and why it ended early (empty: it did not)."""
    process = Popen(argv, stdout=PIPE, stderr=PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return out, err, f"the agent was stopped after {timeout} s"
    early_end = "" if process.returncode == 0 else f"the agent exited with status {process.returncode}"
    return out, err, early_end


def parse_agent_records(agent_output: bytes) -> list[dict[str, Any]]:
    """Return the records in the agent's output, without incomplete lines."""
    records = []
    for line in agent_output.decode("utf-8", "replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("type") in RECORD_TYPES:
            records.append(record)
    return records


def build_error_record(reason: str) -> dict[str, Any]:
    """Return the record with the reason why there are no more."""
    return {"type": "check", "name": "agent", "status": "error", "reason": reason, "raw": {}}


def count_json_characters(value: Any) -> int:
    """Return how long a value is as JSON."""
    return len(json.dumps(value))


def list_long_samples(value: Any) -> list[list[Any]]:
    """Return the sample lists in a record that can lose every second sample."""
    if isinstance(value, list):
        return [samples for item in value for samples in list_long_samples(item)]
    if not isinstance(value, dict):
        return []
    nested = [
        samples for key, item in value.items() if key != "samples" for samples in list_long_samples(item)
    ]
    samples = value.get("samples")
    return [*nested, samples] if isinstance(samples, list) and len(samples) > MIN_SAMPLES else nested


def shorten_agent_records(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Shorten a result until it is small enough: time series first, which the node's own file keeps in full.

    Extremes are counted apart from the samples. Then raw outputs are removed, the largest first; their checks
    become errors.
    """
    while count_json_characters(records) > MAX_RESULT_BYTES and (long := list_long_samples(records)):
        for samples in long:
            del samples[1::2]
    while count_json_characters(records) > MAX_RESULT_BYTES:
        largest = max(records, key=lambda record: count_json_characters(record.get("raw") or {}))
        if not largest.get("raw"):
            break
        largest.update(
            raw={}, status="error", reason=f"its output is too long for one result ({MAX_RESULT_BYTES} bytes)"
        )
    return records


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "agent": {"type": "path", "required": True},
            "attempt": {"type": "str", "required": True},
            "profile": {"type": "str", "default": "quick"},
            "params": {"type": "dict", "default": {}},
            "only": {"type": "list", "elements": "str", "default": []},
            "out": {"type": "path"},
            "timeout": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, msg="check mode: the burn-in agent was not run")
    if not Path(module.params["agent"]).exists():
        module.fail_json(
            msg=f"there is no burn-in agent at {module.params['agent']}: copy it to the node first"
        )
    out, err, early_end = run_agent(build_agent_command(module.params), module.params["timeout"])
    records = parse_agent_records(out)
    if early_end:
        message = err.decode("utf-8", "replace").strip()[-500:]
        records.append(build_error_record(f"{early_end}: {message}" if message else early_end))
    start = next((record for record in records if record["type"] == "start"), {})
    event = {
        "node": module.params["node"],
        "event": "burn_in",
        "attempt": module.params["attempt"],
        "facts": start.get("host", {}),
        "records": shorten_agent_records(records),
    }
    module.exit_json(changed=False, gpufleet=event)


if __name__ == "__main__":
    main()
