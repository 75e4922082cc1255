"""A preview of thousands of resources, made of the public programs over and over."""

from __future__ import annotations

import json
from typing import Any

from programs.case import Program, build_preview, load_programs

CONFIG = {
    "aws:region": "us-east-1",
    "azure-native:location": "eastus",
    "azure:location": "eastus",
    "gcp:project": "demo",
    "gcp:region": "us-central1",
    "gcp:zone": "us-central1-a",
}


def build_large_preview(count: int) -> dict[str, Any]:
    """Return a preview of ``count`` created resources, each with a URN of its own."""
    programs, steps = load_programs(), []
    copy = 0
    while len(steps) < count:
        for program in programs:
            steps += rename(program, copy)
        copy += 1
    return {"config": CONFIG, "steps": steps[:count], "diagnostics": [], "changeSummary": {}}


def rename(program: Program, copy: int) -> list[dict[str, Any]]:
    """Return the steps of a program's copy: each name, also in a reference, ends with the copy."""
    document = build_preview(program)
    text = json.dumps(document["steps"])
    for step in sorted(document["steps"], key=lambda each: -len(each["urn"])):
        text = text.replace(f'"{step["urn"]}"', f'"{step["urn"]}-{program.name}-{copy}"')
    steps: list[dict[str, Any]] = json.loads(text.replace(f"::{program.name}::", "::large::"))
    return steps
