"""Declare every golden program in one stack: each in a component of its own, before or after its change."""

import json
import re
from pathlib import Path

import pulumi

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
REFERENCE = re.compile(r"^\$\{([\w-]+)\.(\w+)\}$")
SIDE = pulumi.Config().require("side")


def resolved(value, made):
    if isinstance(value, dict):
        return {key: resolved(each, made) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, made) for each in value]
    found = REFERENCE.match(value) if isinstance(value, str) else None
    return made[found[1]].id if found else value


for component, sides in CASES.items():
    holder, made = pulumi.ComponentResource(component, "case"), {}
    for name, told in sides[SIDE].items():
        options = pulumi.ResourceOptions(parent=holder)
        kind = pulumi.ComponentResource if told.get("custom") is False else pulumi.CustomResource
        made[name] = kind(told["type"], name, resolved(told["inputs"], made), options)
