"""Bring the GPUs of this host to the MIG geometry that is declared, or say why not.

Usage: gpufleet-mig apply|show [--check] [--drain UNIT]... CONFIG

CONFIG is a configuration of NVIDIA's mig-parted in JSON, with one entry named `gpufleet`. The present state is read
through nvidia-smi; nothing is touched where it is as declared. Prints one JSON object; status 0, also where a reset or
restart is still needed (`needs`); 1 where something failed. Standard library only: systemd runs it at every start.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROW = re.compile(r"^\|\s+(\d+)\s+MIG\s+(\S+)\s+\d+\s+(\d+)\s+\d+:\d+\s+\|", re.MULTILINE)
NONE_FOUND = ("No MIG-enabled devices found", "No GPU instances found", "Not Supported")
SECONDS = 120


class CannotError(Exception):
    """A problem that needs a person."""


def smi(*arguments: str, tolerate: tuple[str, ...] = ()) -> str:
    """Return the output of nvidia-smi."""
    done = subprocess.run(
        ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    output = (done.stdout + done.stderr).strip()
    if done.returncode and not any(text in output for text in tolerate):
        message = " ".join(output.split())[:300]
        raise CannotError(f"nvidia-smi {' '.join(arguments)}: {message}")
    return output


def present() -> dict[int, dict[str, Any]]:
    """Return each GPU's mode (now and pending) and its instances."""
    fields = "index,mig.mode.current,mig.mode.pending"
    gpus: dict[int, dict[str, Any]] = {}
    for line in smi(f"--query-gpu={fields}", "--format=csv,noheader").splitlines():
        index, current, pending = (part.strip() for part in line.split(","))
        gpus[int(index)] = {"current": current, "pending": pending, "instances": Counter()}
    if any(gpu["current"] == "Enabled" for gpu in gpus.values()):
        for index, profile, __ in ROW.findall(smi("mig", "-lgi", tolerate=NONE_FOUND)):
            gpus[int(index)]["instances"][profile] += 1
    return gpus


def target_profiles(path: str) -> dict[int, dict[str, Any]]:
    """Return the declared mode and profiles of each GPU."""
    rows = json.loads(Path(path).read_text(encoding="utf-8"))["mig-configs"]["gpufleet"]
    return {
        i: {"enabled": row["mig-enabled"], "profiles": row.get("mig-devices", {})}
        for row in rows
        for i in row["devices"]
    }


def differences(now: dict[int, dict[str, Any]], targets: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the GPUs that are not as declared: mode first, then instances."""
    changes = []
    for index, goal in sorted(targets.items()):
        if index not in now:
            raise CannotError(f"GPU {index} is declared, the host has {len(now)}")
        gpu = now[index]
        if gpu["current"] not in ("Enabled", "Disabled"):
            if goal["enabled"]:
                raise CannotError(f"GPU {index} does not support MIG (nvidia-smi: {gpu['current']})")
            continue
        mode = (gpu["current"] == "Enabled") != goal["enabled"]
        instances = goal["enabled"] and dict(gpu["instances"]) != goal["profiles"]
        if mode or instances:
            changes.append({"gpu": index, "mode": mode, **goal, "had": dict(gpu["instances"])})
    return changes


def users(indexes: set[int]) -> list[str]:
    """Return the processes that compute on these GPUs: MIG must not pull the ground from under them."""
    lines = smi("--query-gpu=index,uuid", "--format=csv,noheader").splitlines()
    uuids = {uuid.strip(): index for index, uuid in (line.split(",") for line in lines)}
    rows = smi("--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader").splitlines()
    parted = [[part.strip() for part in row.split(",", 2)] for row in rows if row.count(",") > 1]
    return [f"{name} ({pid})" for uuid, pid, name in parted if int(uuids.get(uuid, -1)) in indexes]


def systemctl(verb: str, units: list[str]) -> None:
    if units and shutil.which("systemctl"):
        subprocess.run(["systemctl", verb, *units], capture_output=True, timeout=SECONDS, check=False)


def running(units: list[str]) -> list[str]:
    """Return those of the units that run, to be started again and no others."""
    states = [
        subprocess.run(["systemctl", "-q", "is-active", unit], check=False, timeout=SECONDS) for unit in units
    ]
    return [unit for unit, state in zip(units, states, strict=True) if state.returncode == 0]


def set_mode(index: int, on: bool) -> str | None:
    """Switch a GPU's mode; return why that waits for a reset or restart, where it does."""
    output = smi("-i", str(index), "-mig", "1" if on else "0")
    if "pending" not in output:
        return None
    smi("--gpu-reset", "-i", str(index), tolerate=("not supported", "Not Supported", "In use", "in use"))
    gpu = present()[index]
    if (gpu["current"] == "Enabled") == on:
        return None
    return f"GPU {index}: MIG mode is pending; the GPU could not be reset, so restart the host and run this again"


def split(change: dict[str, Any]) -> None:
    """Replace a GPU's instances. Compute instances go first, and the largest new one comes first."""
    index = str(change["gpu"])
    if change["had"]:
        smi("mig", "-dci", "-i", index, tolerate=NONE_FOUND)
        smi("mig", "-dgi", "-i", index, tolerate=NONE_FOUND)
    names = [name for name, count in change["profiles"].items() for __ in range(count)]
    if names:
        smi("mig", "-cgi", ",".join(names), "-C", "-i", index)


def apply(changes: list[dict[str, Any]], drained: list[str]) -> list[str]:
    """Make the changes; return what still needs a restart. Units that were stopped are started again either way."""
    busy = users({change["gpu"] for change in changes})
    if busy:
        raise CannotError(f"in use by {', '.join(busy[:5])}: drain the node first")
    stopped = running(drained)
    systemctl("stop", stopped)
    try:
        needs = []
        for change in changes:
            waits = set_mode(change["gpu"], change["enabled"]) if change["mode"] else None
            if waits:
                needs.append(waits)
            elif change["enabled"]:
                split(change)
        return needs
    finally:
        systemctl("start", stopped)


def main() -> int:
    """Apply or show the geometry and print a report as JSON."""
    parser = argparse.ArgumentParser(description="Bring this host's GPUs to the declared MIG geometry.")
    parser.add_argument("verb", choices=["apply", "show"])
    parser.add_argument("config")
    parser.add_argument("--check", action="store_true", help="print what would change")
    parser.add_argument("--drain", action="append", default=[], help="a unit to stop meanwhile")
    options = parser.parse_args()
    try:
        changes = differences(present(), target_profiles(options.config))
        acts = options.verb == "apply" and not options.check and bool(changes)
        needs = apply(changes, options.drain) if acts else []
        left = differences(present(), target_profiles(options.config)) if acts else changes
        report = {"changed": bool(changes), "changes": changes, "needs": needs, "left": left, "problem": ""}
        if acts and left and not needs:
            report["problem"] = f"GPU {left[0]['gpu']} has {left[0]['had']} afterwards"
    except (CannotError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as trouble:
        report = {"changed": False, "changes": [], "needs": [], "left": [], "problem": str(trouble)}
    print(json.dumps(report))
    return 1 if report["problem"] else 0


if __name__ == "__main__":
    sys.exit(main())
