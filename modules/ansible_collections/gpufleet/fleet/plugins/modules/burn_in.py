# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
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
  - With O(detached=true), the first call starts the agent as a unit of systemd and returns C(finished=false). Later
    calls return the same until the agent has ended. So a lost connection does not end a long run.
options:
  node: {description: The node's name in the inventory., type: str, required: true}
  agent: {description: Path of the agent on the node., type: path, required: true}
  attempt: {description: Identifier of this attempt., type: str, required: true}
  profile: {description: Which checks to run., type: str, default: quick}
  params: {description: Parameters of the checks by name., type: dict, default: {}}
  only: {description: Run only these checks; empty runs all of the profile., type: list, elements: str, default: []}
  out: {description: Path of the record on the node; by default next to the agent., type: path}
  timeout: {description: Seconds after which the agent is stopped., type: int, default: 900}
  state:
    description: >-
      Folder on the node's disk where the agent keeps raw outputs, and remembers under which check the node went down.
    type: path
  detached: {description: Run the agent as a unit that outlives the connection., type: bool, default: false}
  resume:
    description: >-
      With O(detached=true), resume an unfinished attempt of the same profile, parameters and machine, also one that
      a restart of the node interrupted.
    type: bool
    default: true
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
gpufleet: {description: "Event for the registry, with the agent's records.", returned: when it ended, type: dict}
finished: {description: False while a detached agent runs., returned: always, type: bool}
progress: {description: What a detached agent does now., returned: when finished is false, type: str}
"""

import json  # noqa: E402 - Ansible wants its documentation above the imports
import os  # noqa: E402
import re  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from subprocess import DEVNULL, PIPE, CompletedProcess, Popen, TimeoutExpired, run  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

# What one host may add to Ansible's result and event files: eight GPUs' records with short series are some 60 kB.
MAX_RESULT_BYTES = 100_000
# Profiles with many rounds have that many records of each check.
MAX_LONG_RESULT_BYTES = 4_000_000
# Below this a series shows no course any more.
MIN_SAMPLES = 4
RECORD_TYPES = ("start", "check", "end")
# The node is busy: its records give the reason.
BUSY_NODE = 5
# What a person asked for cannot be, such as an unknown parameter.
WRONG_ARGUMENTS, REFUSAL = "the agent exited with status 2", "agent: "
UNIT = "gpufleet-burn-in.service"
SYSTEMD_RUNS = Path("/run/systemd/system")
COMMAND_SECONDS = 60


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
    """Return the agent's command line; the node's record is named by the attempt, of a detached run by the profile."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", params["attempt"])
    argv = [
        sys.executable,
        params["agent"],
        "run",
        "--attempt",
        params["attempt"],
        "--profile",
        params["profile"],
    ]
    if params.get("state"):
        argv += ["--state", params["state"]]
    if params.get("detached"):
        out = Path(params["state"]) / f"{params['profile']}.jsonl"
        argv += ["--resume"] if params["resume"] else []
    else:
        out = Path(params["agent"]).with_name(f"burn-in-{name}.jsonl")
        argv += ["--attached", "--session", str(find_ssh_session_pid())]
    argv += ["--out", params["out"] or str(out)]
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
    is_well = process.returncode in (0, BUSY_NODE)
    return out, err, "" if is_well else f"the agent exited with status {process.returncode}"


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


def remove_control_characters(text: str) -> str:
    """Return a text that changes no terminal."""
    return "".join(character if character.isprintable() else " " for character in text).strip()


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


def shorten_agent_records(
    records: list[dict[str, Any]], max_bytes: int = MAX_RESULT_BYTES
) -> list[dict[str, Any]]:
    """Shorten a result until it is small enough: time series first, which the node's own file keeps in full.

    Extremes are counted apart from the samples. Then raw outputs are removed, the largest first; their checks
    become errors.
    """
    while count_json_characters(records) > max_bytes and (long := list_long_samples(records)):
        for samples in long:
            del samples[1::2]
    while count_json_characters(records) > max_bytes:
        largest = max(records, key=lambda record: count_json_characters(record.get("raw") or {}))
        if not largest.get("raw"):
            break
        largest.update(
            raw={}, status="error", reason=f"its output is too long for one result ({max_bytes} bytes)"
        )
    return records


class DetachedRun:
    """The agent as a transient unit: systemd ends everything in it, and it needs no connection.

    Its output is in memory, next to the agent; its record is on disk, so that a run that a restart of the node
    interrupted is resumed. A marker names the attempt that started the unit.
    """

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params
        folder = Path(params["agent"]).parent
        self.output, self.errors = folder / "burn-in.out", folder / "burn-in.err"
        self.marker = folder / "burn-in.attempt"

    def is_active(self) -> bool:
        """Return whether the unit runs."""
        state = run_systemd("systemctl", "is-active", UNIT).stdout.decode().strip()
        return state in ("active", "activating", "deactivating", "reloading")

    def is_started(self) -> bool:
        """Return whether this attempt has started the unit."""
        return self.marker.is_file() and self.marker.read_text() == self.params["attempt"]

    def start(self) -> str:
        """Start the unit; return why it cannot be started, or nothing."""
        for path in (self.output, self.errors):
            path.unlink(missing_ok=True)
        self.marker.write_text(self.params["attempt"])
        properties = {
            "KillMode": "control-group", "RuntimeMaxSec": self.params["timeout"], "TimeoutStopSec": 30,
            "StandardInput": "null", "StandardOutput": f"file:{self.output}", "StandardError": f"file:{self.errors}",
        }  # fmt: skip
        options = [f"--property={name}={value}" for name, value in properties.items()]
        # By this the network check finds its peer, the controller.
        options += (
            [f"--setenv=SSH_CONNECTION={os.environ['SSH_CONNECTION']}"]
            if "SSH_CONNECTION" in os.environ
            else []
        )
        result = run_systemd(
            "systemd-run", f"--unit={UNIT}", "--collect", *options, "--", *build_agent_command(self.params)
        )
        return "" if result.returncode == 0 else result.stderr.decode("utf-8", "replace")

    def describe_progress(self) -> str:
        """Return the check that runs now."""
        lines = read_bytes_or_nothing(self.output).splitlines()
        begins = [line for line in lines if line.startswith(b'{"type": "begin"')]
        try:
            last = json.loads(begins[-1])
        except (IndexError, ValueError):
            return "the agent starts"
        rounds = f" (round {last['round']})" if "round" in last else ""
        return f"{last.get('name')}{rounds} since {last.get('started_at')}"

    def collect(self) -> list[dict[str, Any]]:
        """Return the records of the ended unit; a finished record is put aside, so that no later run reports it."""
        records = parse_agent_records(read_bytes_or_nothing(self.output))
        if not any(record["type"] == "end" for record in records):
            error = read_bytes_or_nothing(self.errors).decode("utf-8", "replace")[-500:]
            reason = remove_control_characters(error) or "it was stopped, or ran past its time"
            if not records and error.startswith(REFUSAL):
                raise ValueError(f"the agent measured nothing: {reason}")
            return [*records, build_error_record(f"the agent ended early: {reason}")]
        record = Path(self.params["state"]) / f"{self.params['profile']}.jsonl"
        if record.is_file() and not any(record.get("busy") for record in records):
            record.replace(record.with_suffix(".collected"))
        return records


def run_systemd(*argv: str) -> CompletedProcess[bytes]:
    """Run one of systemd's programs."""
    return run(argv, stdin=DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False)


def read_bytes_or_nothing(path: Path) -> bytes:
    """Return a file's content, or nothing without the file."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def measure_detached(module: AnsibleModule) -> list[dict[str, Any]]:
    """Start the detached agent or look after it; return its records when it has ended."""
    if not module.params["state"]:
        module.fail_json(msg="a detached run needs a folder on the node's disk: set the option state")
    if not SYSTEMD_RUNS.is_dir():
        module.fail_json(msg="a detached run needs systemd: run this profile with detached=false")
    detached = DetachedRun(module.params)
    if detached.is_active():
        module.exit_json(changed=False, finished=False, progress=detached.describe_progress())
    if detached.is_started():
        try:
            return detached.collect()
        except ValueError as error:
            module.fail_json(msg=str(error))
    reason = detached.start()
    if reason:
        module.fail_json(msg=f"the agent cannot be started: {remove_control_characters(reason)}")
    module.exit_json(changed=False, finished=False, progress="the agent starts")
    return []


def measure_attached(module: AnsibleModule) -> list[dict[str, Any]]:
    """Run the agent to its end; return its records."""
    out, err, early_end = run_agent(build_agent_command(module.params), module.params["timeout"])
    records = parse_agent_records(out)
    if early_end:
        message = remove_control_characters(err.decode("utf-8", "replace")[-500:])
        if early_end == WRONG_ARGUMENTS and not records:  # nothing was measured: no verdict on the node
            module.fail_json(msg=f"the agent measured nothing: {message}")
        records.append(build_error_record(f"{early_end}: {message}" if message else early_end))
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
            "state": {"type": "path"},
            "detached": {"type": "bool", "default": False},
            "resume": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, finished=True, msg="check mode: the burn-in agent was not run")
    if not Path(module.params["agent"]).exists():
        module.fail_json(
            msg=f"there is no burn-in agent at {module.params['agent']}: copy it to the node first"
        )
    records = measure_detached(module) if module.params["detached"] else measure_attached(module)
    start = next((record for record in records if record["type"] == "start"), {})
    limit = MAX_LONG_RESULT_BYTES if module.params["detached"] else MAX_RESULT_BYTES
    event = {
        "node": module.params["node"],
        "event": "burn_in",
        "attempt": module.params["attempt"],
        "facts": start.get("host", {}),
        "records": shorten_agent_records(records, limit),
    }
    module.exit_json(changed=False, finished=True, gpufleet=event)


if __name__ == "__main__":
    main()
