"""How long `ansible-inventory --list` takes on rack files, on a bare JSON script and on static YAML of the same hosts.

    python tests/benchmarks/bench_inventory.py [RACKS] [ROUNDS]

Prints processor and wall time of each, and the ratios; judges nothing. Budget with 500 racks (10,000 nodes): rack files
take at most 1.3 times as long as the script, and static YAML at least 5 times as long as rack files.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NODES = 20  # in a rack


def write_racks(project: Path, count: int) -> Path:
    """Write rack files like the shipped one, each with its own network and names."""
    folder = project / "inventory"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "Pulumi.yaml", project)
    shutil.copy(ROOT / "inventory/gpufleet.yaml", folder)
    shipped = (ROOT / "inventory/blades-1.yaml").read_text()
    for number in range(count):
        network = f"10.{20 + number // 200}.{number % 200}"
        text = shipped.replace("10.20.1.", f"{network}.").replace("name: blades-1", f"name: rack-{number:04}")
        text = text.replace("blade[01-20]", f"r{number:04}-blade[01-{NODES}]")
        (folder / f"rack-{number:04}.yaml").write_text(text)
    return folder


def write_script(folder: Path, inventory: dict) -> Path:
    """Write an inventory script that prints what was listed."""
    (folder / "hosts.json").write_text(json.dumps(inventory))
    script = folder / "hosts.sh"
    script.write_text(f"#!/bin/sh\nexec cat '{folder}/hosts.json'\n")
    script.chmod(0o755)
    return script


def write_static_inventory(folder: Path, inventory: dict) -> Path:
    """Write static YAML with what was listed, as people write it."""
    lines = ["all:", "  hosts:"]
    for host, values in inventory["_meta"]["hostvars"].items():
        lines += [f"    {host}:", *(f"      {key}: {json.dumps(value)}" for key, value in values.items())]
    lines.append("  children:")
    for name, group in inventory.items():
        if name not in ("_meta", "all"):
            lines += [
                f"    {name}:",
                "      hosts:",
                *(f"        {host}:" for host in group.get("hosts", ())),
            ]
    file = folder / "hosts.yaml"
    file.write_text("\n".join(lines) + "\n")
    return file


def list_hosts(source: Path, environment: dict[str, str]) -> tuple[str, float, float]:
    """Return what Ansible lists, with the processor seconds and wall seconds that it took."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [Path(sys.executable).with_name("ansible-inventory"), "-i", source, "--list"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return result.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Measure the three forms in turn, so that all see the same machine."""
    racks = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as text:
        home = Path(text)
        environment = {**os.environ, "GPUFLEET_HOME": f"{home}/state", "ANSIBLE_LOCALHOST_WARNING": "False"}
        sources = {"rack files": write_racks(home / "project", racks)}
        first, _, _ = list_hosts(sources["rack files"], environment)
        sources["script"] = write_script(home, json.loads(first))
        sources["static YAML"] = write_static_inventory(home, json.loads(first))
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
        for _ in range(rounds):
            for name, source in sources.items():
                out, processor, wall = list_hosts(source, environment)
                assert json.loads(out)["_meta"]["hostvars"] == json.loads(first)["_meta"]["hostvars"], name
                took[name].append((processor, wall))
    print(f"{racks * NODES} nodes in {racks} rack files, best of {rounds}")
    best = {name: (min(p for p, _ in times), min(w for _, w in times)) for name, times in took.items()}
    for name, (processor, wall) in best.items():
        print(f"{name:<14}{processor:7.2f} s processor {wall:7.2f} s wall")
    for index, what in enumerate(("processor", "wall")):
        rack_seconds, script, static = (best[name][index] for name in ("rack files", "script", "static YAML"))
        print(
            f"{what}: {rack_seconds / script:.2f} times the script, "
            f"static YAML {static / rack_seconds:.1f} times the rack files"
        )


if __name__ == "__main__":
    main()
