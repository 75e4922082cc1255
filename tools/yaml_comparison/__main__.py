"""Build pulumi-yaml 1.25 in a temporary folder, evaluate expressions with it and with our interpreter, and compare.

It needs Go and the Go module proxy, and takes minutes the first time. The exit code is 1 if an expression differs.
Not compared: numbers that YAML 1.1 writes with a leading zero (``0777`` is 511 there and 777 here), and a key that is
missing in a map which a resource sets (null there, unknown here, because a provider may add it).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from gpufleet.boundary import decode_json, decode_yaml
from gpufleet.cost.inputs.program.language import LanguageProgram, yaml_program
from gpufleet.cost.inputs.program.monitor import RecordingMonitor

VERSION = "v1.25.0"
HERE = Path(__file__).parent
SETTINGS = {
    "aws:region": "us-west-2", "web:size": "c5.xlarge", "web:zones": '["a","b"]', "web:flag": "true",
    "web:float": "2.50", "web:num": "5",
}  # fmt: skip
PROGRAM = """name: web
runtime: yaml
configuration:
  size: {type: string}
  default: {type: integer, default: 7}
  flag: {type: boolean}
  float: {type: number}
variables:
  map: {ab: {c: 3}}
  list: [a, b]
  hidden: {fn::secret: x}
  zone: {fn::invoke: {function: 'aws:getAvailabilityZones'}}
resources:
  other: {type: 'aws:ec2:Vpc', properties: {tags: {Name: o}}}
  net: {type: 'pulumi:pulumi:StackReference', properties: {name: org/net/dev}}
  read: {type: 'aws:ec2:Vpc', get: {id: vpc-1}}
"""


def main() -> int:
    """Compare, print what differs, and return the exit code."""
    expressions = (HERE / "expressions.txt").read_text(encoding="utf-8").splitlines()
    resources = (
        f"  it{index}: {{type: 'aws:ec2:Instance', properties: {{value: {text}}}}}\n"
        for index, text in enumerate(expressions)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "program"
        folder.mkdir()
        (folder / "Pulumi.yaml").write_text(PROGRAM + "".join(resources), encoding="utf-8")
        (folder / "note.txt").write_text("note", encoding="utf-8")
        theirs, ours = evaluate_with_host(Path(name), folder), evaluate_here(folder)
    different = 0
    for index, text in enumerate(expressions):
        host, own = (side.get(f"it{index}", {}).get("value", "UNKNOWN") for side in (theirs, ours))
        if host != own:
            different += 1
            sys.stdout.write(f"{text}\n  pulumi-yaml: {host!r}\n  here:        {own!r}\n")
    sys.stdout.write(f"{len(expressions) - different} of {len(expressions)} expressions are equal\n")
    return 1 if different else 0


def evaluate_with_host(folder: Path, program: Path) -> dict[str, Any]:
    """Return the inputs of each resource as pulumi-yaml gives them; an input that is unknown is left out."""
    module = f"module comparison\n\ngo 1.24\n\nrequire github.com/pulumi/pulumi-yaml {VERSION}\n"
    (folder / "go.mod").write_text(module, encoding="utf-8")
    (folder / "main.go").write_text((HERE / "host.go").read_text(encoding="utf-8"), encoding="utf-8")
    for arguments in (["mod", "tidy"], ["build", "-o", "host", "main.go"]):
        subprocess.run(["go", *arguments], cwd=folder, check=True)
    command = [str(folder / "host"), "."]
    environment = {**os.environ, "CONF": json.dumps(SETTINGS)}
    printed = subprocess.run(command, cwd=program, env=environment, check=True, capture_output=True).stdout
    inputs: dict[str, Any] = decode_json(printed, "pulumi-yaml")
    return inputs


def evaluate_here(folder: Path) -> dict[str, Any]:
    """Return the inputs of each resource as our interpreter gives them."""
    recorder = RecordingMonitor("web", "dev", {"aws": {"region": "us-west-2"}})
    program = LanguageProgram(folder, "web", "dev", ".", {}, SETTINGS, (), {})
    yaml_program.evaluate(
        program, recorder, lambda path: decode_yaml(path.read_text(encoding="utf-8"), str(path))
    )
    return {urn.rpartition("::")[2]: make_plain(record["inputs"]) for urn, record in recorder.records.items()}


def make_plain(value: Any) -> Any:
    """Return a value of the engine's protocol with the host's words for what is unknown or secret."""
    if value == UNKNOWN:
        return "UNKNOWN"
    if isinstance(value, dict):
        if value.get(yaml_program.SIGNATURE) == yaml_program.SECRET_MARK:
            return "SECRET"
        return {key: make_plain(item) for key, item in value.items()}
    return [make_plain(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
